#include "observe/stacks.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"

#include "base/base.h"
#include "observe/observe.h"
#include "observe/stack_totals.h"
#include "os/os.h"
#include "ownership/ownership.h"

#include <errno.h>
#include <string.h>

#define PROBES 64u     /* places looked at for one whose object has died */
#define OWN_FRAMES 12u /* of the library, at the inner end of a stack; so many at most */

typedef struct place {
    ts_stack_record record;
    _Atomic uint64_t address;
    _Atomic uint64_t word, use; /* ts_watch: use is tag and generation */
    _Atomic uint16_t name;
    _Atomic uint64_t epoch;
    _Atomic uint64_t objects; /* that it stands for: the bits of a double */
    _Atomic uint64_t usable;  /* bytes, when it was sampled */
    _Atomic uint64_t serial;  /* of the thread that allocated it, and its name then: ts_thread_name */
    _Atomic uint64_t thread[2];
} place;

_Static_assert(TS_STACK_SAMPLES <= TS_NAMES, "the name of a sample is the number of its place, from 1");

static _Atomic(place *) table;  /* constant once it is not NULL */
static _Atomic uint64_t cursor; /* places handed out to look at; the table is used up to it */

/* The bounds of the functions with TS_ENTRY, by the linker. */
extern TS_HIDDEN const char __start_tslab_entry[], __stop_tslab_entry[];
static bool is_own(const void *frame) {
    return (uintptr_t)frame > (uintptr_t)__start_tslab_entry && (uintptr_t)frame <= (uintptr_t)__stop_tslab_entry;
}

static ts_stacks_sample_fn keep;
static ts_stacks_settle_fn settle;

bool ts_stacks_start(void) {
    static _Atomic uint32_t prepared;
    /* The unwinder may allocate now, but not later: from an allocator that samples too, perhaps, which then finds it
       so. */
    if (!atomic_exchange(&prepared, 1)) {
        ts_os_stack_prepare();
        ts_thread_names_want();
    }
    /* Before the table: a thread that finds it there may sample at once. */
    ts_store_release(&ts_stacks_settle, settle); /* partner: ts_sample_follow_stacks */
    ts_store_release(&ts_stacks_keep, keep);     /* partner: ts_stacks_sample */
    const size_t bytes = (size_t)TS_STACK_SAMPLES * sizeof(place), all = bytes + ts_stack_totals_bytes();
    place *there = ts_load_acquire(&table);
    if (!there) {
        char *at = ts_os_map(all);
        if (!at) return false;
        /* acq_rel: its zeros are there before it is */
        if (atomic_compare_exchange_strong_explicit(&table, &there, (place *)(void *)at, memory_order_acq_rel,
                                                    memory_order_acquire))
            there = (place *)(void *)at;
        else
            ts_os_unmap(at, all);
    }
    /* Each time: the thread that made the table may be lost in a fork. */
    ts_stack_totals_start((char *)there + bytes);
    return true;
}

/* ---- records -------------------------------------------------------------------------------------------------- */

bool ts_stack_record_take(ts_stack_record *record, uint32_t turn) {
    if (!atomic_compare_exchange_strong_explicit(&record->turn, &turn, turn + 1, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    /* release fence: a reader that sees a word written next sees the odd turn, too; partner: ts_stack_record_read */
    atomic_thread_fence(memory_order_release);
    return true;
}

void ts_stack_record_give(ts_stack_record *record, uintptr_t token, const uint64_t *frame, unsigned frame_count) {
    ts_store_relaxed(&record->token, token);
    ts_store_relaxed(&record->frame_count, frame_count);
    for (unsigned i = 0; i < frame_count; i++) ts_store_relaxed(&record->frame[i], frame[i]);
    ts_store_release(&record->turn, ts_load_relaxed(&record->turn) + 1);
}

bool ts_stack_record_read(const ts_stack_record *record, uint32_t turn, uint64_t *frame, unsigned *frame_count) {
    *frame_count = ts_load_relaxed(&record->frame_count);
    if (*frame_count > TS_STACK_FRAMES) return false;
    for (unsigned i = 0; i < *frame_count; i++) frame[i] = ts_load_relaxed(&record->frame[i]);
    atomic_thread_fence(memory_order_acquire); /* partner: ts_stack_record_take */
    return ts_load_relaxed(&record->turn) == turn;
}

void ts_stack_record_fork_child(ts_stack_record *record) {
    uint32_t turn = ts_load_relaxed(&record->turn);
    if (turn % 2 == 0) return;
    ts_store_relaxed(&record->token, 0);
    ts_store_relaxed(&record->turn, turn + 1);
}

/* ---- places -------------------------------------------------------------------------------------------------- */

/* Whether the object of a place is live; *bytes: usable, 0: a span. The caller makes sure that the place did not change
   meanwhile. */
static bool is_live(const place *s, uintptr_t token, size_t *bytes) {
    uint64_t use = ts_load_relaxed(&s->use);
    const ts_watch watch = {ts_load_relaxed(&s->word), (uint32_t)(use >> 32), (uint32_t)use, ts_load_relaxed(&s->name)};
    return ts_object_watched(token, (const void *)(uintptr_t)ts_load_relaxed(&s->address), &watch, bytes);
}

/* A place to write, its turn odd; NULL: all that were looked at have live objects. */
static place *claim(void) {
    place *places = ts_load_acquire(&table);
    for (unsigned i = 0; i < PROBES; i++) {
        place *s = &places[ts_fetch_add_relaxed(&cursor, 1) % TS_STACK_SAMPLES];
        uint32_t turn = ts_load_acquire(&s->record.turn); /* partner: the release in ts_stack_record_give */
        uintptr_t token = (uintptr_t)ts_load_relaxed(&s->record.token);
        size_t bytes;
        if (turn % 2 != 0 || (token != 0 && is_live(s, token, &bytes))) continue;
        if (ts_stack_record_take(&s->record, turn)) return s;
    }
    return NULL;
}

/* The code of a library above the core: its frames are not the program's, either. 0: there is none. Set before it
   calls. */
static _Atomic uintptr_t caller_start, caller_bytes;

void ts_stacks_leave_out(const void *start, size_t bytes) {
    ts_store_relaxed(&caller_start, (uintptr_t)start);
    ts_store_relaxed(&caller_bytes, bytes);
}

static bool is_left_out(const void *frame) {
    return is_own(frame) || (uintptr_t)frame - ts_load_relaxed(&caller_start) < ts_load_relaxed(&caller_bytes);
}

/* The frames of the program, innermost first. */
static unsigned capture(uint64_t *frame, void *caller) {
    void *all[TS_STACK_FRAMES + OWN_FRAMES];
    unsigned n = ts_os_stack(all, TS_STACK_FRAMES + OWN_FRAMES), first = 0, count = 0;
    for (unsigned i = 0; i < n && i < OWN_FRAMES; i++)
        if (is_left_out(all[i])) first = i + 1;
    for (unsigned i = first; i < n && count < TS_STACK_FRAMES; i++) frame[count++] = (uintptr_t)all[i];
    if (count == 0 && caller && !is_left_out(caller)) frame[count++] = (uintptr_t)caller;
    return count;
}

/* Samples a byte. */
static double rate_of(const ts_allocator *allocator) {
    uint64_t mean = ts_load_relaxed(&allocator->stack_mean_bytes);
    return mean ? 1.0 / (double)mean : 0;
}

static size_t span_bytes(const ts_allocator *allocator, size_t size) {
    size_t unit = allocator->settings.guard_spans ? ts_os_page_bytes() : TS_UNIT_BYTES;
    return (size + unit - 1) & ~(unit - 1);
}

/* Counts it among the stacks of all that was ever allocated. */
static void add_to_totals(ts_allocator *allocator, EpochId id, size_t usable, const uint64_t *frame, unsigned count,
                          double objects) {
    char label[SLAB_LABEL_BYTES] = "";
    const ts_epoch *epoch = ts_epoch_find(allocator, id);
    if (epoch) ts_epoch_read_label(epoch, label);
    ts_stack_totals_add(allocator, label, frame, count, objects, usable);
}

TS_COLD static void keep(ts_heap *heap, ts_allocator *allocator, EpochId epoch, const void *p, size_t bytes,
                         void *caller) {
    ts_watch watch;
    uint64_t frame[TS_STACK_FRAMES];
    size_t usable = bytes;
    ts_fetch_add_relaxed(&allocator->stack_samples, 1);
    /* Another thread may have ended its epoch already. */
    bool watched = ts_object_watch(ts_load_relaxed(&allocator->token), p, &watch, &usable);
    if (watched && usable == 0) usable = span_bytes(allocator, bytes);
    unsigned count = capture(frame, caller);
    double objects = 1 / ts_exponential_cdf((double)bytes * rate_of(allocator));
    add_to_totals(allocator, epoch, usable, frame, count, objects);
    if (!watched) return;
    place *s = claim();
    if (!s) {
        ts_fetch_add_relaxed(&allocator->stack_drops, 1);
        return;
    }
    uintptr_t token = ts_load_relaxed(&allocator->token);
    if (!ts_name_give(heap, token, p, (uint32_t)(s - ts_load_relaxed(&table)) + 1, &watch)) {
        if (ts_object_watched(token, p, &watch, &usable)) ts_fetch_add_relaxed(&allocator->stack_drops, 1);
        ts_stack_record_give(&s->record, 0, frame, 0);
        return;
    }
    ts_store_relaxed(&s->address, (uintptr_t)p);
    ts_store_relaxed(&s->name, watch.name);
    ts_store_relaxed(&s->word, watch.word);
    ts_store_relaxed(&s->use, (uint64_t)watch.tag << 32 | watch.generation);
    ts_store_relaxed(&s->epoch, epoch);
    uint64_t bits;
    memcpy(&bits, &objects, sizeof bits);
    ts_store_relaxed(&s->objects, bits);
    ts_store_relaxed(&s->usable, usable);
    const ts_thread_name thread = ts_thread_name_own(heap);
    ts_store_relaxed(&s->serial, thread.serial);
    for (unsigned i = 0; i < 2; i++) ts_store_relaxed(&s->thread[i], thread.word[i]);
    ts_stack_record_give(&s->record, token, frame, count);
}

/* Its own names stand at places that it has written itself, if no other thread has taken them since. */
static void settle(ts_heap *heap) {
    const place *places = ts_load_acquire(&table);
    uint64_t used = ts_load_relaxed(&cursor);
    for (uint64_t i = 0; i < used && i < TS_STACK_SAMPLES; i++)
        if (ts_load_relaxed(&places[i].name) != 0)
            ts_name_settle(heap, (const void *)(uintptr_t)ts_load_relaxed(&places[i].address));
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

void ts_stacks_walk(const ts_allocator *allocator, uintptr_t token, void (*fn)(void *, const ts_stack *), void *arg) {
    const place *places = ts_load_acquire(&table);
    uint64_t used = ts_load_relaxed(&cursor);
    if (!places || ts_load_relaxed(&allocator->stack_samples) == 0) return;
    ts_thread_names_look();
    for (uint64_t i = 0; i < used && i < TS_STACK_SAMPLES; i++) {
        const place *s = &places[i];
        ts_stack stack;
        size_t bytes;
        uint32_t turn = ts_load_acquire(&s->record.turn); /* partner: the release in ts_stack_record_give */
        if (turn % 2 != 0 || ts_load_relaxed(&s->record.token) != token || !is_live(s, token, &bytes)) continue;
        stack.epoch = ts_load_relaxed(&s->epoch);
        uint64_t bits = ts_load_relaxed(&s->objects);
        memcpy(&stack.objects, &bits, sizeof bits);
        stack.bytes = bytes ? bytes : ts_load_relaxed(&s->usable);
        const ts_thread_name thread = {ts_load_relaxed(&s->serial),
                                       {ts_load_relaxed(&s->thread[0]), ts_load_relaxed(&s->thread[1])}};
        if (!ts_stack_record_read(&s->record, turn, stack.frame, &stack.frame_count)) continue;
        ts_thread_name_now(&thread, stack.thread);
        fn(arg, &stack);
    }
}

void ts_stacks_fork_child(void) {
    ts_stack_totals_fork_child();
    ts_thread_names_fork_child();
    place *places = ts_load_relaxed(&table);
    for (uint32_t i = 0; places && i < TS_STACK_SAMPLES; i++) ts_stack_record_fork_child(&places[i].record);
}
