/* The code that is mapped in this process: programs and libraries, each executable segment by itself. */
#ifndef TSLAB_HTTP_LOADED_H
#define TSLAB_HTTP_LOADED_H

#include "elf/elf.h"

#include <stddef.h>
#include <stdint.h>

typedef struct http_segment {
    uint64_t start, end;
    uint64_t file_offset; /* of start */
    uint64_t base;        /* an address less this is the address in its file */
    char *path;           /* of malloc, as the others */
    char build_id[65];    /* hexadecimal; "" : it has none */
} http_segment;

typedef struct http_segments {
    http_segment *at; /* the program's own come first */
    size_t count;
} http_segments;

/* Under the loader's lock. A segment for which there is no memory is left out. */
void http_segments_read(http_segments *out);
void http_segments_free(http_segments *segments);
/* Names the functions of places whose addresses are those of the process, in order. */
void http_segments_name(const http_segments *segments, elf_place *place, size_t count);
/* The segment that an address lies in; NULL: none. */
const http_segment *http_segment_of(const http_segments *segments, uint64_t address);

#endif
