#ifndef TS_DIAGNOSE_DIAGNOSE_H
#define TS_DIAGNOSE_DIAGNOSE_H

#include "epoch/epoch.h"
#include "os/os.h"

/* ---- objects ---------------------------------------------------------------------------------------------------- */

/* Looking at objects (object.c). */

typedef struct ts_object {
    char *address;
    size_t bytes; /* usable */
    EpochId epoch;
    uint32_t unit; /* its slab's number */
    uint32_t entry_in_unit;
    uint32_t generation;         /* 24 bits */
    uint32_t kind;               /* class, TS_COUNT_SCOPE or TS_COUNT_SPAN */
    uint64_t word;               /* UNIT word, FOREIGN cleared */
    ts_block *block;             /* NULL: span */
    const ts_allocator *care_of; /* its allocator */
} ts_object;
/* Finds the slab number (slab/slab.h) and the entry of an address. false: it is not in the region, or off the 16-byte
   grid. */
static inline bool ts_locate(const void *p, uint32_t *unit, uint64_t *entry) {
    const ts_part *r = &ts_region.part[TS_NORMAL];
    uint64_t e = ts_entry_of(r, p);
    if (TS_UNLIKELY(!ts_is_in_part(r, e))) return ts_locate_far(p, unit, entry);
    *unit = ts_slab_of_entry(e);
    *entry = e;
    return true;
}

/* The token of the allocator in whose slab or span p lies, whether an object starts there or not. 0: there is none.
   Takes no lock. */
uintptr_t ts_object_owner(const void *p);
/* The token of the allocator of the span at this unit, if there is one; a hint. */
uintptr_t ts_span_owner(uint32_t unit);
/* Looks at an object. false: p is not the start of a live object of the allocator. */
bool ts_object_at(uintptr_t allocator, const void *p, ts_object *out);
/* ts_object_at for a caller that holds a heap. false also for a span, because a span is looked at under its epoch's
   lock. */
bool ts_object_at_in_slab(uintptr_t allocator, const void *p, ts_object *out);
/* The bytes of an object that the program may use: `bytes`, or those asked for where a memory tool watches. */
size_t ts_object_usable(const ts_object *object);
/* ts_object_at for a handle. A handle with generation 0 never matches. */
bool ts_object_of_handle(uintptr_t allocator, SlabHandle handle, ts_object *out);
/* The object's handle; SLAB_HANDLE_NONE if it stopped living meanwhile. */
SlabHandle ts_object_handle(uintptr_t allocator, const ts_object *object);

/* A watch names one object, and no other that has or had its address. It tells later whether the object still lives.
   A handle would make its slab HANDLED; a watch gives the object's place a NAME (named.c). */
typedef struct ts_watch {
    uint64_t word; /* UNIT word, FOREIGN and HANDLED cleared */
    uint32_t tag;  /* of its slab's use; 0: span, the word has it */
    uint32_t generation;
    uint16_t name; /* of its place; 0: the rest tells */
} ts_watch;
/* Makes a watch. *bytes: usable; 0: a span. false: p is not the start of a live object, and *bytes stays. Takes no
   lock, and neither does ts_object_watched. */
bool ts_object_watch(uintptr_t allocator, const void *p, ts_watch *out, size_t *bytes);
/* Whether the object that was at p is still live. *bytes: as for ts_object_watch. */
bool ts_object_watched(uintptr_t allocator, const void *p, const ts_watch *watch, size_t *bytes);

_Static_assert(TS_SCOPE_BITS_BYTES == TS_UNIT_BYTES / 64 * sizeof(uint16_t), "a word for each 64 bytes");
/* The bitmaps of scope slabs lie there, too. */
typedef _Atomic uint16_t TS_MAY_ALIAS ts_name_word_t;
/* The word with the name of a place's 64 bytes; 0: there is none. */
TS_ALWAYS_INLINE ts_name_word_t *ts_name_word(uint64_t entry) {
    return (ts_name_word_t *)(void *)ts_region.part[TS_NORMAL].scope_bits + (entry >> 2);
}
TS_ALWAYS_INLINE ts_name_word_t *ts_name_word_at(const char *object) {
    const ts_part *n = &ts_region.part[TS_NORMAL];
    return (ts_name_word_t *)(void *)n->scope_bits + ((uint64_t)(object - n->base) >> 6);
}
#define TS_NAMES ((1u << 14) - 1)
/* Makes the watch of an object that this thread has just allocated exact: by a name of that number, 1 to TS_NAMES, if
   it needs one. false: it is not; mostly the object is gone. Not in an operation, no lock held. */
bool ts_name_give(ts_heap *heap, uintptr_t allocator, const void *p, uint32_t number, ts_watch *watch);
/* Takes the name of a place that is about to be an object's. Caller: the slab's owner, in an operation or its heap. */
void ts_name_take(uint64_t entry);
/* Takes that of the next object on the bin's magazine, and those of its claimed word. */
void ts_name_take_top(const ts_bin *bin);
void ts_name_take_word(const ts_bin *bin);
/* Lets hits use the place at p, if it lies in a block of this thread that they are to use again. */
void ts_name_settle(ts_heap *heap, const void *p);

/* ---- misuse ----------------------------------------------------------------------------------------------------- */

/* Telling of misuse, by the on_misuse of the allocator that it concerns: nothing, a line on standard error, or
   a line and abort(). The line is written without allocating and without stdio. */

/* The mode of the environment, for calls that concern no known allocator. */
extern _Atomic int ts_misuse_default;

/* Finds words for what was refused. src/observe sets it when there is a region. */
typedef struct ts_misuse_words {
    void (*pointer)(ts_text *line, uintptr_t allocator, const void *p);
    void (*handle)(ts_text *line, uintptr_t allocator, SlabHandle handle);
    void (*origin)(const void *p); /* writes the stacks that are kept of the pointer's object, in lines of their own */
} ts_misuse_words;
extern TS_HIDDEN _Atomic(const ts_misuse_words *) ts_misuse_finder;

/* In place of a token: any allocator might have had the pointer. */
#define TS_ANY_ALLOCATOR UINTPTR_MAX

/* A handle, or if that is NULL a pointer. why: the reason; NULL: it is no live object of the allocator. */
void ts_misuse(uintptr_t allocator, const char *call, const void *p, const SlabHandle *handle, const char *why);
/* A call that frees and was refused: it is counted, too. */
void ts_misuse_free(uintptr_t allocator, const char *call, const void *p, const SlabHandle *handle, const char *why);
/* ts_misuse of a pointer, without an abort. */
void ts_misuse_mention(uintptr_t allocator, const char *call, const void *p, const char *why);
/* The SlabOnMisuse of an allocator. One that has ended keeps its mode until its record has another use. In that moment
   it may be the mode of that use. */
int ts_misuse_mode(uintptr_t allocator);
/* A call that is refused for its arguments, or where it is made. With the option `hints` it is a hint where misuse is
   ignored. caller: where the program goes on. asks: it may be a question, as for what the process does not have, and
   ends no program. */
void ts_misuse_call(uintptr_t allocator, const char *call, const char *why, bool asks, const void *caller);
/* A domain that the call may not have; a hint as above, once a domain. token: its allocator; 0: not known. epoch: its
   own; NULL: not known. */
void ts_misuse_domain(const char *call, uint64_t domain, const char *why, uintptr_t token, const EpochId *epoch);
/* Memory that is given out and was written while it was free, which is no call's fault: seen by an allocation. */
void ts_misuse_written(uintptr_t allocator, const void *p, uint64_t at, uint32_t kind, uint64_t bytes, EpochId epoch,
                       bool freed);
/* A byte of a slab that is taken again was written: the slab was free or dead when it went back. */
void ts_misuse_written_free(uintptr_t allocator, const void *at);

/* Adds "class N" and the like. bytes: of an object of a scope slab or of a span. */
void ts_misuse_put_kind(ts_text *line, uint32_t kind, uint64_t bytes);

/* Hints: mistakes of new users that are no errors, told once a call site, by the option `hints`. Never an abort. */
static inline bool ts_hints(const ts_allocator *allocator) { return TS_UNLIKELY(allocator->settings.hints != 0); }
/* Tells that the call did something, unless it was told of that place already. caller: where the program goes on. */
void ts_hint(const char *call, const char *what, const void *caller);

/* ---- samples ---------------------------------------------------------------------------------------------------- */

/* Process-wide; 0: off. Threads notice at their next slow path. */
extern TS_HIDDEN _Atomic uint32_t ts_sample_rate;

typedef struct ts_timing {
    bool on;
    uint64_t wall, cpu;
} ts_timing;

void ts_sample_follow(ts_heap *heap, uint32_t rate);
/* How often an allocator began to sample stacks, or ended it, or changed its rate. */
extern TS_HIDDEN _Atomic uint32_t ts_stacks_turn;
/* The calling thread's blocks learn whether their allocators sample stacks now. Holds nothing. */
void ts_sample_follow_stacks(ts_heap *heap, uint32_t turn);
static inline bool ts_sample_is_news(const ts_heap *heap) {
    return heap->stack_turn != ts_load_relaxed(&ts_stacks_turn);
}
static inline void ts_sample_look(ts_heap *heap) {
    uint32_t turn = ts_load_acquire(&ts_stacks_turn); /* partner: ts_stacks_set_rate */
    if (TS_UNLIKELY(heap->stack_turn != turn)) ts_sample_follow_stacks(heap, turn);
}

/* what: TS_SAMPLE_ALLOC or TS_SAMPLE_FREE; each is counted by itself, so that a program that does one after the other
   has both timed. */
static inline ts_timing ts_sample_begin(ts_heap *heap, unsigned what) {
    ts_timing t = {0};
    uint32_t rate = ts_load_relaxed(&ts_sample_rate);
    if (TS_UNLIKELY(heap->sample_rate != rate)) ts_sample_follow(heap, rate);
    ts_sample_look(heap);
    if (TS_LIKELY(rate == 0)) return t;
    uint32_t *left = &heap->sample_left[what / TS_SAMPLE_FREE];
    if (*left > 1) {
        --*left;
        return t;
    }
    *left = rate;
    t.on = true;
    t.cpu = ts_os->cpu_ns();
    t.wall = ts_os->wall_ns();
    return t;
}

void ts_sample_add(ts_heap *heap, const ts_timing *timing, unsigned what);

static inline void ts_sample_end(ts_heap *heap, const ts_timing *timing, unsigned what) {
    if (TS_UNLIKELY(timing->on)) ts_sample_add(heap, timing, what);
}

/* ---- stacks ---------------------------------------------------------------------------------------------------- */

/* Where the calling function returns to, for systems that cannot walk a stack. */
#define TS_CALLER() __builtin_return_address(0)

/* The allocator samples one in `bytes` bytes from this call on; 0: none. */
void ts_stacks_set_rate(ts_allocator *allocator, size_t bytes);

/* Counts an allocation that the calling thread has just made, and samples it if its turn has come. share: the thread's,
   of the allocator. errno is kept. Not in an operation, no lock held. */
static inline void ts_stacks_count(ts_heap *heap, ts_share *share, EpochId epoch, void *p, size_t size, void *caller);
/* begins: the distance to the next sample was not drawn before that object. */
void ts_stacks_sample(ts_heap *heap, ts_share *share, bool begins, EpochId epoch, void *p, size_t bytes, void *caller);
/* Keeps the sample of an object. Set by src/observe before an allocator samples. */
typedef void ts_stacks_sample_fn(ts_heap *heap, ts_allocator *allocator, EpochId epoch, const void *p, size_t bytes,
                                 void *caller);
extern TS_HIDDEN _Atomic(ts_stacks_sample_fn *) ts_stacks_keep;
/* Calls ts_name_settle for each place that a sample has a name at. Set before ts_stacks_keep. */
typedef void ts_stacks_settle_fn(ts_heap *heap);
extern TS_HIDDEN _Atomic(ts_stacks_settle_fn *) ts_stacks_settle;
/* From the next thread on, the same numbers at every run; 0: not. For tests. */
extern TS_HIDDEN _Atomic uint64_t ts_stacks_seed;

/* Bytes that an allocation counts as. */
static inline size_t ts_stacks_bytes(size_t size) { return size <= 16 ? 16 : (size + 15) & ~(size_t)15; }

static inline void ts_stacks_count(ts_heap *heap, ts_share *share, EpochId epoch, void *p, size_t size, void *caller) {
    size_t bytes = ts_stacks_bytes(size);
    int64_t left = share->stack_left;
    share->stack_left = left - (int64_t)bytes;
    if (TS_UNLIKELY(share->stack_left <= 0)) ts_stacks_sample(heap, share, left == 0, epoch, p, bytes, caller);
}

#endif
