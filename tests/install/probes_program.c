/* Fires every probe of the library again and again until its input ends. */
#include <tslab/tslab.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static void fail(const char *what) {
    fprintf(stderr, "probes_program: %s\n", what);
    exit(1);
}

static void run_once(SlabAllocator *allocator) {
    EpochId epoch = epoch_open(allocator, "handler:/probe", EPOCH_CHURN);
    char *object = slab_malloc_epoch(allocator, 100, epoch);
    if (!object || !slab_malloc_epoch(allocator, 5000000, epoch)) fail("no memory");
    if (!slab_free(allocator, object) || slab_free(allocator, object)) fail("slab_free");
    if (!epoch_close(allocator, epoch) || !epoch_destroy(allocator, epoch)) fail("the epoch");
    (void)slab_trim(allocator);
}

int main(void) {
    SlabOptions options = {.size = sizeof options, .on_misuse = SLAB_MISUSE_IGNORE};
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    if (!allocator) fail("no allocator");
    puts("ready");
    fflush(stdout);
    for (struct pollfd in = {0, POLLIN, 0}; poll(&in, 1, 20) == 0;) run_once(allocator);
    return 0;
}
