/* cmocka with the headers that it wants first, and the beginning of most unit tests of the public API. */
#ifndef SUP_UNIT_H
#define SUP_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <tslab/stats.h>

/* A fixture: *state is a new allocator, and freed again. */
static inline int sup_allocator_setup(void **state) {
    *state = slab_allocator_create();
    return *state == NULL;
}

static inline int sup_allocator_teardown(void **state) {
    slab_allocator_free(*state);
    return 0;
}

#define SUP_WITH_ALLOCATOR(test) cmocka_unit_test_setup_teardown(test, sup_allocator_setup, sup_allocator_teardown)

#endif
