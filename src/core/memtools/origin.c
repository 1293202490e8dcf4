#include "memtools/origin.h"

#include "base/base.h"
#include "os/os.h"
#include "region/region.h"
#include "slab/slab.h"

#include <errno.h>
#include <string.h>

bool ts_origin_is_kept;

/* A call: [19:0] stack  [41:20] thread. Linux counts threads by 22 bits. */
#define STACK_BITS 20u
#define THREAD_BITS 22u
#define CALL_BITS (STACK_BITS + THREAD_BITS)
#define CALL_MASK (((uint64_t)1 << CALL_BITS) - 1)

/*
 * A note, two words. The thread that owns the object at that moment writes it. A report may read one half that is old.
 *     born    [41:0] call  [61:42] upper bits of the size  [62] ended  [63] there is one
 *     ended   [41:0] call  [63:42] lower bits of the size
 */
typedef struct note {
    _Atomic uint64_t born, ended;
} note;
#define NOTE_THERE ((uint64_t)1 << 63)
#define NOTE_ENDED ((uint64_t)1 << 62)
#define SIZE_LOW_BITS (64u - CALL_BITS)
#define SIZE_HIGH_MASK (((uint64_t)1 << (62u - CALL_BITS)) - 1)

/*
 * Stacks: records in steps of 8 words, named by the number of the first step; 0 is none. A record is whole before a
 * list leads to it (release), and is never changed or taken back. A call that finds no room keeps no stack.
 *     [0]  hash [63:32], next in the list [31:0]      [1]  frames there are      then the frames
 */
#define STEP_WORDS 8u
#define STEPS ((uint32_t)1 << STACK_BITS)
#define LISTS ((uint32_t)1 << 16)

typedef struct end {
    _Atomic uint64_t epoch, call;
} end;

static note *notes; /* all of these constant after ts_origin_start */
static _Atomic uint64_t *steps;
static _Atomic uint32_t *lists;
static end *ends; /* [place of an epoch in its table] */
static uint64_t places;
static _Atomic uint32_t steps_used;
static _Thread_local uint64_t present; /* call */

static size_t align_page(size_t bytes) { return ts_align_up(bytes, TS_PAGE_BYTES_MAX); }

void ts_origin_start(void) {
    places = (uint64_t)ts_region.part[TS_NORMAL].units * TS_UNIT_ENTRIES;
    size_t for_notes = align_page(places * sizeof(note)), for_steps = align_page(STEPS * (STEP_WORDS * 8u));
    size_t for_lists = align_page(LISTS * sizeof *lists);
    size_t for_ends = align_page(ts_region.table_capacity[TS_TABLE_EPOCH] * sizeof(end));
    size_t bytes = for_notes + for_steps + for_lists + for_ends;
    char *at = ts_os_map(bytes);
    if (!at) return;
    notes = (note *)(void *)at;
    steps = (_Atomic uint64_t *)(void *)(at + for_notes);
    lists = (_Atomic uint32_t *)(void *)(at + for_notes + for_steps);
    ends = (end *)(void *)(at + for_notes + for_steps + for_lists);
    ts_store_relaxed(&steps_used, 1);
    ts_origin_is_kept = true;
}

/* ---- stacks ----------------------------------------------------------------------------------------------------- */

static bool is_same(uint32_t at, uint32_t hash, void *const *frame, unsigned count) {
    const _Atomic uint64_t *record = steps + (size_t)at * STEP_WORDS;
    if (ts_load_relaxed(&record[0]) >> 32 != hash || ts_load_relaxed(&record[1]) != count) return false;
    for (unsigned i = 0; i < count; i++)
        if (ts_load_relaxed(&record[2 + i]) != (uintptr_t)frame[i]) return false;
    return true;
}

static uint32_t find_stack(uint32_t first, uint32_t last, uint32_t hash, void *const *frame, unsigned count) {
    for (uint32_t at = first; at != last; at = (uint32_t)ts_load_relaxed(&steps[(size_t)at * STEP_WORDS]))
        if (is_same(at, hash, frame, count)) return at;
    return 0;
}

/* The name of the stack, which is kept from then on. 0: there is no room. */
static uint32_t keep_stack(void *const *frame, unsigned count) {
    uint64_t all = ts_hash(0, frame, count * sizeof *frame);
    uint32_t hash = (uint32_t)(all >> 32), needed = (2 + count + STEP_WORDS - 1) / STEP_WORDS;
    _Atomic uint32_t *list = &lists[all % LISTS];
    uint32_t head = ts_load_acquire(list); /* acquire: the records are whole */
    uint32_t at = find_stack(head, 0, hash, frame, count);
    if (at || ts_load_relaxed(&steps_used) > STEPS - needed) return at;
    at = atomic_fetch_add_explicit(&steps_used, needed, memory_order_relaxed);
    if (at > STEPS - needed) return 0;
    _Atomic uint64_t *record = steps + (size_t)at * STEP_WORDS;
    ts_store_relaxed(&record[1], count);
    for (unsigned i = 0; i < count; i++) ts_store_relaxed(&record[2 + i], (uintptr_t)frame[i]);
    do {
        ts_store_relaxed(&record[0], (uint64_t)hash << 32 | head);
    } while (!atomic_compare_exchange_weak_explicit(list, &head, at, memory_order_release, memory_order_acquire));
    return at;
}

/* The frames between here and the function that the program has called are the library's own. They are left out. */
TS_NOINLINE static void take(const void *caller) {
    /* The first stack loads the unwinder, which allocates: here again, where this library is the process's malloc. */
    static _Thread_local bool taking;
    void *frame[TS_ORIGIN_FRAMES + 4];
    int error = errno;
    if (taking) return;
    taking = true;
    unsigned count = ts_os_stack(frame, TS_ORIGIN_FRAMES + 4), first = 0;
    /* But for the lowest bit, which says of a return address on ARM which instructions come there, and is not in a
       frame. */
    while (first < count && ((uintptr_t)frame[first] | 1) != ((uintptr_t)caller | 1)) first++;
    if (first == count) first = 0;
    count -= first;
    if (count > TS_ORIGIN_FRAMES) count = TS_ORIGIN_FRAMES;
    uint64_t thread = ts_os_thread_number() & (((uint64_t)1 << THREAD_BITS) - 1);
    present = (count ? keep_stack(frame + first, count) : 0) | thread << STACK_BITS;
    taking = false;
    errno = error;
}

TS_NOINLINE void ts_origin_record(void) {
    if (ts_origin_is_kept) take(__builtin_return_address(0));
}

TS_NOINLINE void ts_origin_record_end(EpochId epoch) {
    if (!ts_origin_is_kept) return;
    take(__builtin_return_address(0));
    end *e = &ends[epoch % ts_region.table_capacity[TS_TABLE_EPOCH]];
    ts_store_relaxed(&e->call, present);
    ts_store_release(&e->epoch, epoch);
}

static uint64_t end_of(EpochId epoch) {
    const end *e = &ends[epoch % ts_region.table_capacity[TS_TABLE_EPOCH]];
    return ts_load_acquire(&e->epoch) == epoch ? ts_load_relaxed(&e->call) : present;
}

uint32_t ts_origin_stack_of(uint64_t call) { return (uint32_t)(call & (STEPS - 1)); }

bool ts_origin_call_of(uint64_t call, ts_origin_call *out) {
    uint32_t at = ts_origin_stack_of(call);
    out->thread = (uint32_t)(call >> STACK_BITS);
    out->frame_count = 0;
    if (at == 0) return false;
    const _Atomic uint64_t *record = steps + (size_t)at * STEP_WORDS;
    out->frame_count = (unsigned)ts_load_relaxed(&record[1]);
    for (unsigned i = 0; i < out->frame_count; i++)
        out->frame[i] = (const void *)(uintptr_t)ts_load_relaxed(&record[2 + i]);
    return true;
}

/* ---- notes ------------------------------------------------------------------------------------------------------ */

static uint64_t place_of(const void *p) {
    return (uint64_t)((uintptr_t)p - (uintptr_t)ts_region.part[TS_NORMAL].base) / 16u;
}
static const char *address_of(uint64_t place) { return ts_region.part[TS_NORMAL].base + place * 16u; }

/* Forgets all that began in the range before. The pages of a long range go back: most of them were never touched. */
static void forget(uint64_t first, uint64_t count) {
    size_t page = ts_os_page_bytes();
    uintptr_t from = ts_align_up((uintptr_t)&notes[first], page),
              to = ts_align_down((uintptr_t)&notes[first + count], page);
    bool purged = to > from + 16 * page && ts_os->purge((void *)from, to - from);
    for (uint64_t i = first; i < first + count; i++) {
        if (purged && (uintptr_t)&notes[i] == from) i += (to - from) / sizeof(note);
        if (i >= first + count || ts_load_relaxed(&notes[i].born) == 0) continue;
        ts_store_relaxed(&notes[i].born, 0);
        ts_store_relaxed(&notes[i].ended, 0);
    }
}

static void write_note(uint64_t place, uint64_t born_in, uint64_t size) {
    uint64_t low = size << CALL_BITS, high = (size >> SIZE_LOW_BITS) & SIZE_HIGH_MASK;
    ts_store_relaxed(&notes[place].ended, low);
    ts_store_relaxed(&notes[place].born, NOTE_THERE | high << CALL_BITS | (born_in & CALL_MASK));
}

void ts_origin_born(const char *p, uint64_t size, uint64_t usable) {
    if (!ts_origin_is_kept) return;
    uint64_t place = place_of(p);
    forget(place + 1, usable / 16 - 1);
    write_note(place, present, size);
}

void ts_origin_resized(const char *p, uint64_t size) {
    if (ts_origin_is_kept) write_note(place_of(p), ts_load_relaxed(&notes[place_of(p)].born), size);
}

static void end_note(uint64_t place, uint64_t call) {
    uint64_t born = ts_load_relaxed(&notes[place].born);
    if (!(born & NOTE_THERE) || (born & NOTE_ENDED)) return;
    uint64_t size = ts_load_relaxed(&notes[place].ended) & ~CALL_MASK;
    ts_store_relaxed(&notes[place].ended, size | (call & CALL_MASK));
    ts_store_relaxed(&notes[place].born, born | NOTE_ENDED);
}

void ts_origin_ended(const char *p) {
    if (ts_origin_is_kept) end_note(place_of(p), present);
}

void ts_origin_ended_with(const char *at, uint64_t bytes, EpochId epoch) {
    if (!ts_origin_is_kept) return;
    uint64_t first = place_of(at), call = end_of(epoch);
    for (uint64_t i = first; i < first + bytes / 16; i++) end_note(i, call);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static bool read_note(uint64_t place, ts_origin *origin) {
    uint64_t born = ts_load_relaxed(&notes[place].born), ended = ts_load_relaxed(&notes[place].ended);
    if (!(born & NOTE_THERE)) return false;
    origin->start = address_of(place);
    origin->size = ((born >> CALL_BITS & SIZE_HIGH_MASK) << SIZE_LOW_BITS) | ended >> CALL_BITS;
    origin->ended = (born & NOTE_ENDED) != 0;
    origin->born_in = born & CALL_MASK;
    origin->ended_in = origin->ended ? ended & CALL_MASK : 0;
    return true;
}

bool ts_origin_find(const void *at, ts_origin *origin) {
    uint64_t place = place_of(at);
    if (!ts_origin_is_kept || place >= places) return false;
    uint64_t unit = ts_align_down(place, TS_UNIT_ENTRIES);
    for (uint64_t i = place + 1; i-- > unit;)
        if (read_note(i, origin)) return true;
    /* An object that begins with a unit, and reaches up to here. */
    for (uint64_t i = unit; i >= TS_UNIT_ENTRIES; i -= TS_UNIT_ENTRIES)
        if (read_note(i - TS_UNIT_ENTRIES, origin))
            return origin->size > (uint64_t)((const char *)at - origin->start) - TS_UNIT_BYTES;
    return false;
}

bool ts_origin_find_behind(const void *at, uint64_t within, ts_origin *origin) {
    uint64_t place = place_of(at);
    if (!ts_origin_is_kept) return false;
    for (uint64_t i = place + 1; i < places && i <= place + within / 16; i++)
        if (read_note(i, origin)) return true;
    return false;
}

void ts_origin_walk(void (*fn)(void *arg, const ts_origin *origin), void *arg) {
    ts_origin origin;
    for (uint64_t i = 0; i < (uint64_t)ts_pool_highest(TS_NORMAL) * TS_UNIT_ENTRIES; i++)
        if (read_note(i, &origin) && !origin.ended) fn(arg, &origin);
}
