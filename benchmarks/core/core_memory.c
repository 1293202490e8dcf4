/*
 * Resident memory per live object: 100,000 objects of 128 bytes, every byte written. The kernel's own count
 * before and after, divided by the objects. Before: with the allocator opened and one object allocated and
 * freed, so that the cost of loading and set-up is not counted, and everything that grows with the objects is.
 * from_start_bytes_per_object counts the set-up too.
 */
#include "core_bench.h"

enum { OBJECT_BYTES = 128, LIVE = 100000, SMOKE_LIVE = 2000 };

void core_memory(const core_config *config) {
    size_t live = config->smoke ? SMOKE_LIVE : LIVE;
    void **objects = bench_map(live * sizeof *objects);

    (void)bench_rss_bytes(); /* its own code and stack are resident from now on */
    size_t start_bytes = bench_rss_bytes();
    if (start_bytes == 0) bench_die(BENCH_EXIT_UNAVAILABLE, "memory needs /proc/self/smaps_rollup");
    peer_ref peer = peer_open();
    void *first = core_alloc(peer, MODE_CHECK, OBJECT_BYTES, 0);
    core_free(peer, MODE_CHECK, first, 0);
    size_t before_bytes = bench_rss_bytes();
    for (size_t i = 0; i < live; i++) objects[i] = core_alloc(peer, MODE_CHECK, OBJECT_BYTES, (uint32_t)i);
    size_t after_bytes = bench_rss_bytes();
    if (!config->smoke && after_bytes < before_bytes + live * OBJECT_BYTES / 2)
        bench_die(BENCH_EXIT_FAILED, "memory: %zu objects of %d bytes made only %zd bytes resident", live, OBJECT_BYTES,
                  (ptrdiff_t)(after_bytes - before_bytes));
    core_emit("bytes_per_object", (double)(after_bytes - before_bytes) / (double)live, "bytes");
    core_emit("from_start_bytes_per_object", (double)(after_bytes - start_bytes) / (double)live, "bytes");
    for (size_t i = 0; i < live; i++) core_free(peer, MODE_CHECK, objects[i], (uint32_t)i);
    peer_close(peer);
    bench_unmap(objects, live * sizeof *objects);
}
