/* No page faults in a part that must not wait: memory is reserved ahead. Vectors: objects with an alignment of their own. */
#include <stdint.h>
#include <stdio.h>

#include <tslab/tslab.h>

int main(void) {
    SlabAllocator *allocator = slab_allocator_create();
    if (!allocator || !slab_reserve(allocator, (size_t)8 << 20)) return 1; /* 8 MiB are in memory from here on */
    EpochDomain *domain = epoch_domain_create_ex(allocator, "audio", 0);
    if (!domain || !epoch_domain_enter(domain)) return 1;
    float *samples = slab_alloc_aligned(64, 512 * sizeof *samples);
    if (!samples || (uintptr_t)samples % 64 != 0) return 1;
    for (int i = 0; i < 512; i++) samples[i] = 0.5f;
    printf("samples at %p\n", (void *)samples);
    epoch_domain_exit(domain);
    epoch_domain_destroy(domain);
    slab_allocator_free(allocator);
    return 0;
}
