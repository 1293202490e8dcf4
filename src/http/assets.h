/* The files of the dashboard, embedded by embed.c when the library is built. */
#ifndef TS_HTTP_ASSETS_H
#define TS_HTTP_ASSETS_H

#include <stddef.h>

typedef struct http_asset {
    const char *path, *type;
    const unsigned char *bytes;
    size_t length;
} http_asset;

/* Ends with a path of NULL. */
extern const http_asset http_assets[];

#endif
