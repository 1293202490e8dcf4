/* Whether a pointer is a live object of malloc's: in the hard mode the core knows only the larger object around it. */
#ifndef MALLOC_LIVE_H
#define MALLOC_LIVE_H

#include <tslab/malloc.h>

#include <malloc.h>
#include <stdlib.h>

static inline bool is_hard(void) {
    const char *text = getenv("TSLAB_HARDEN");
    return text && text[0] && text[0] != '0';
}

/* Not of 0 bytes. */
static inline bool is_live(void *p) {
    return is_hard() ? malloc_usable_size(p) != 0 : slab_owns(slab_malloc_allocator(), p);
}

#endif
