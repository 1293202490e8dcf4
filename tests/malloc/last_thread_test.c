/* Programs that have the library as their malloc, and whose last thread ends: tests/support/last_thread.h. */
#define _GNU_SOURCE
#include "../support/last_thread.h"

#include <tslab/malloc.h>

static void use_memory(void) {
    void *volatile p = malloc(1000);
    free(p);
}

static void begin(void) {
    if (!slab_malloc_active()) _exit(8);
}

int main(int argc, char **argv) { return last_thread_main(argc, argv, begin); }
