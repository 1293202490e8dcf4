/* Stops in stop_here() with one pointer of every kind in global variables, for gdb_test.py. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <tslab/tslab.h>

SlabAllocator *allocator;
EpochId request, scratch, ended;
void *live, *freed, *never, *interior, *span, *in_span, *stale, *small, *by_other, *in_scope, *freed_in_scope,
    *inside_scope, *largest, *burst, *huge, *in_huge, *in_piece, *in_odd_piece, *freed_in_piece;
SlabHandle handle, old_handle, span_handle, scope_handle, huge_handle, piece_handle;
int not_ours;

void stop_here(void);
__attribute__((noinline)) void stop_here(void) { __asm__ volatile("" ::: "memory"); }

static void *other_thread(void *argument) {
    (void)slab_malloc_epoch(allocator, 200, request);
    (void)slab_free(allocator, by_other);
    return argument;
}

/* 100 MB that are gone. burst: somewhere in it. */
static bool bursts(void) {
    EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
    for (int i = 0; i < 800000; i++) {
        char *p = slab_malloc_epoch(allocator, 128, epoch);
        if (!p) return false;
        *p = 1;
        if (i == 600000) burst = p;
    }
    return epoch_destroy(allocator, epoch) && slab_trim(allocator) > 0;
}

/* Scopes with an object each: where many are open they are in pieces of units, these two in neighbours of one. */
static bool small_scopes(void) {
    for (int i = 0; i < 40; i++) {
        EpochId epoch = epoch_open(allocator, "small", EPOCH_SCOPE);
        in_piece = in_odd_piece;
        in_odd_piece = slab_malloc_epoch(allocator, 100, epoch);
        freed_in_piece = slab_malloc_epoch(allocator, 30, epoch);
        if (!in_odd_piece || !freed_in_piece) return false;
    }
    piece_handle = slab_handle_of(allocator, in_piece);
    return slab_free(allocator, freed_in_piece);
}

int main(int argc, char **argv) {
    (void)argv;
    pthread_t thread;
    allocator = slab_allocator_create();
    if (!bursts()) return 1;
    request = epoch_open(allocator, "request 42", EPOCH_CHURN);
    scratch = epoch_open(allocator, "scratch", EPOCH_SCOPE);
    ended = epoch_open(allocator, "gone", EPOCH_CHURN);
    live = slab_malloc_epoch(allocator, 768, request);
    freed = slab_malloc_epoch(allocator, 768, request);
    interior = (char *)live + 100;
    never = (char *)live + 16384 - 256; /* behind the last slot: 21 of 768 bytes in 16384 */
    small = slab_malloc_epoch(allocator, 20, request);
    by_other = slab_malloc_epoch(allocator, 90, request);
    span = slab_malloc_epoch(allocator, 100000, request);
    in_span = (char *)span + 50000;
    stale = slab_malloc_epoch(allocator, 100, ended);
    in_scope = slab_malloc_epoch(allocator, 100, scratch);
    inside_scope = (char *)in_scope + 20;
    freed_in_scope = slab_malloc_epoch(allocator, 30, scratch);
    largest = slab_malloc_epoch(allocator, 4096, request);
    huge = slab_malloc_epoch(allocator, (size_t)40 << 20, epoch_open(allocator, "large", EPOCH_CHURN));
    in_huge = (char *)huge + (3 << 20) + 7;
    huge_handle = slab_handle_of(allocator, huge);
    if (!small_scopes()) return 1;
    handle = slab_handle_of(allocator, live);
    span_handle = slab_handle_of(allocator, span);
    scope_handle = slab_handle_of(allocator, in_scope);
    old_handle = slab_handle_of(allocator, freed);
    if (!stale || !freed_in_scope || !huge || !slab_free(allocator, freed) || !slab_free(allocator, freed_in_scope) ||
        !epoch_destroy(allocator, ended))
        return 1;
    if (pthread_create(&thread, NULL, other_thread, NULL) != 0 || pthread_join(thread, NULL) != 0) return 1;
    stop_here();
    if (argc > 1) abort(); /* for a core file */
    return 0;
}
