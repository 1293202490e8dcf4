/* Common to the tests of libtslab-malloc: checks that end the program with a line that says where. */
#ifndef MALLOC_TEST_H
#define MALLOC_TEST_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(x)                                                            \
    do {                                                                    \
        if (!(x)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
            _Exit(1);                                                       \
        }                                                                   \
    } while (0)

/* A value that the compiler does not know: it has opinions on calls of malloc. */
static inline size_t hidden_size(size_t n) {
    volatile size_t v = n;
    return v;
}
static inline void *hidden(void *p) {
    void *volatile v = p;
    return v;
}

#endif
