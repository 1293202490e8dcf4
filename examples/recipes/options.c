/* An allocator of one's own, with its own options and budget. */
#include <errno.h>
#include <stdio.h>

#include <tslab/tslab.h>

int main(void) {
    SlabOptions options = {
        .size = sizeof options,
        .retain_bytes = (size_t)4 << 20,  /* keep 4 MiB retained, give back the rest */
        .budget_bytes = (size_t)64 << 20, /* never more than 64 MiB */
        .on_misuse = SLAB_MISUSE_REPORT,  /* one line for each wrong free */
    };
    SlabAllocator *allocator = slab_allocator_create_ex(&options);
    if (!allocator) return 1;
    void *object = slab_malloc(allocator, 1000);
    if (!object || slab_usable_size(allocator, object) < 1000 || !slab_free(allocator, object)) return 1;
    if (slab_malloc(allocator, (size_t)100 << 20) || errno != ENOMEM) return 1; /* over the budget */
    puts("100 MiB are more than the budget");
    slab_allocator_free(allocator);
    return 0;
}
