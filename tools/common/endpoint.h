/* The endpoint of libtslab-http, by its URL. */
#ifndef ENDPOINT_H
#define ENDPOINT_H

#include "common/target.h"

/* text begins with http://. Returns as target_open does. */
int endpoint_open(target *t, const char *text);
/* The body of a GET, with a terminating zero; NULL, and said: no answer, or none with status 200. The caller frees it.
   accept may be NULL. */
char *endpoint_get(const target *t, const char *path, const char *accept, size_t *length);

#endif
