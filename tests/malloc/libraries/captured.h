/*
 * A program that serves requests by a library that knows nothing of temporal-slab. Each request is a domain that
 * captures. Each library has a file that defines a request; captured.c has the rest.
 */
#ifndef MALLOC_CAPTURED_H
#define MALLOC_CAPTURED_H

#include "../malloc_test.h"

#include <stddef.h>

typedef struct library {
    void (*begin)(void); /* once, outside of all requests */
    /* Serves a request, and frees its objects. Memory that the library keeps for itself lives on. */
    void (*serve)(unsigned request);
    /* Serves a request, and frees nothing. NULL: the library has lists of its allocations, and would meet them
       again. */
    void (*drop)(unsigned request);
    void (*end)(void); /* the library frees its own memory */
} library;

#ifdef __cplusplus
extern "C" {
#endif
extern const library tested;
#ifdef __cplusplus
}
#endif

#endif
