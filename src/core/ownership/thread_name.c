/*
 * Names of threads, for the sampled stacks. Once names are wanted, a thread asks the system for its own name when it
 * begins, and never again: a sandbox that it enters later may forbid the question. A reader of the samples looks
 * later names up in /proc.
 *
 * The fields are a hint: a name that is read while it changes may be half of each.
 */
#include "ownership/ownership.h"

#include "base/base.h"

#include <string.h>

static _Atomic uint32_t wanted;

void ts_thread_names_want(void) { ts_store_relaxed(&wanted, 1); }

static void set_name(ts_heap *heap, const char name[TS_OS_THREAD_NAME_BYTES]) {
    uint64_t word[2];
    memcpy(word, name, sizeof word);
    for (unsigned i = 0; i < 2; i++) ts_store_relaxed(&heap->thread_name[i], word[i]);
}

TS_COLD static void ask_system(ts_heap *heap) {
    char name[TS_OS_THREAD_NAME_BYTES];
    ts_os_thread_name(name);
    set_name(heap, name);
    ts_store_relaxed(&heap->thread_number, ts_os_thread_number());
}

void ts_thread_name_begin(ts_heap *heap) {
    ts_store_relaxed(&heap->thread_number, 0);
    ts_store_relaxed(&heap->thread_serial, heap->serial);
    if (TS_UNLIKELY(ts_load_relaxed(&wanted))) ask_system(heap);
}

void ts_thread_name_end(ts_heap *heap) { ts_store_relaxed(&heap->thread_number, 0); }

ts_thread_name ts_thread_name_own(ts_heap *heap) {
    if (TS_UNLIKELY(ts_load_relaxed(&heap->thread_number) == 0)) ask_system(heap);
    return (ts_thread_name){heap->serial,
                            {ts_load_relaxed(&heap->thread_name[0]), ts_load_relaxed(&heap->thread_name[1])}};
}

void ts_thread_name_now(const ts_thread_name *name, char out[TS_OS_THREAD_NAME_BYTES]) {
    uint64_t word[2] = {name->word[0], name->word[1]};
    const ts_heap *h = name->serial ? ts_line_address(name->serial % TS_SERIAL_NEXT) : NULL;
    if (h && ts_load_relaxed(&h->thread_serial) == name->serial && ts_load_relaxed(&h->thread_number) != 0)
        for (unsigned i = 0; i < 2; i++) word[i] = ts_load_relaxed(&h->thread_name[i]);
    memcpy(out, word, sizeof word);
    out[TS_OS_THREAD_NAME_BYTES - 1] = 0;
}

void ts_thread_names_look(void) {
    for (ts_heap *h = ts_heaps(); h; h = h->next) {
        char name[TS_OS_THREAD_NAME_BYTES];
        uint32_t number = ts_load_relaxed(&h->thread_number);
        if (number != 0 && ts_os_name_of_thread(number, name) && ts_load_relaxed(&h->thread_number) == number)
            set_name(h, name);
    }
}

/* The thread that forked has another number; the others are not here. */
void ts_thread_names_fork_child(void) {
    for (ts_heap *h = ts_heaps(); h; h = h->next)
        if (ts_load_relaxed(&h->thread_number) != 0)
            ts_store_relaxed(&h->thread_number, h == ts_thread.heap ? ts_os_thread_number() : 0);
}
