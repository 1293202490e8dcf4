/* A library that calls the program's allocation from static functions, on three ways; it is linked without a symbol
   table. */
#include "stripped_library.h"

#define NOINLINE __attribute__((noinline))

static volatile unsigned done; /* a store behind a call makes it no jump */

NOINLINE static void *first_way(void *(*allocate)(size_t), size_t size) {
    void *object = allocate(size);
    done += 1;
    return object;
}

NOINLINE static void *second_way(void *(*allocate)(size_t), size_t size) {
    void *object = allocate(size);
    done += 2;
    return object;
}

NOINLINE static void *third_way(void *(*allocate)(size_t), size_t size) {
    void *object = first_way(allocate, size);
    done += 3;
    return object;
}

void *library_take(unsigned way, void *(*allocate)(size_t), size_t size) {
    void *object = way == 0   ? first_way(allocate, size)
                   : way == 1 ? second_way(allocate, size)
                              : third_way(allocate, size);
    done += 4;
    return object;
}
