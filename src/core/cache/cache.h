/* What a thread has in one epoch: its bins and scope slabs, cross-thread frees, and the end of a thread. The hits are
   in allocate.h and free.h, which other floors include where they are inlined. */
#ifndef TS_CACHE_CACHE_H
#define TS_CACHE_CACHE_H

#include "ownership/ownership.h"
#include "supply/supply.h"

/* ---- bins ------------------------------------------------------------------------------------------------------- */

/* Bins. A bin has the slabs of a size class, a word of free slots claimed from one of them, and a magazine of free
   objects. */

/* Orders the bin's list after the free counts of its slabs were set anew: slabs with free slots first. */
void ts_bin_list_by_free(ts_bin *bin);
/* Counts and marks the slabs of the bin that have no slot in use. Caller holds the heap. */
void ts_bin_count_empty(ts_churn_block *block, unsigned cls);
/* Gives the bin its magazine, on its first use. false: no memory. */
bool ts_bin_ready(ts_churn_block *block, unsigned cls);
/* Objects in the magazine. Caller: the owner, or the holder of the heap. */
static inline uint64_t ts_bin_depth(const ts_bin *bin) { return ts_load_relaxed(&bin->top) & TS_TOP_DEPTH; }
/* Adds a reset slab and publishes its UNIT word. Caller holds the heap. */
void ts_bin_add(ts_churn_block *block, unsigned cls, uint32_t unit);
/* Objects allocated from the magazine, and objects freed in the bin, both of one moment. Any thread. */
typedef struct ts_magazine_counts {
    uint64_t pops, frees;
} ts_magazine_counts;
ts_magazine_counts ts_bin_magazine_counts(const ts_bin *bin);
/* Empties the magazine, whose objects the caller has put elsewhere. Caller holds the heap. */
void ts_bin_forget_magazine(ts_bin *bin);
/* Objects allocated from claimed words. Any thread. */
uint64_t ts_bin_word_allocs(const ts_bin *bin);
/* Takes the claimed word away, for the caller to put its bits elsewhere. Caller holds the heap. */
uint64_t ts_bin_take_word(ts_bin *bin);
/* Claims the next word of the bin's slabs. false: none has a free slot, or the first one that has is OUTER. Caller
   holds the heap. */
bool ts_bin_claim(ts_churn_block *block, unsigned cls);
/* The next object of the bin's first slab, made live, if the slab is OUTER: no word of such a slab is claimed. NULL: it
   is not, or has no free slot. Caller holds the heap, and the magazine and the word are used up. */
void *ts_bin_take_outer(ts_churn_block *block, unsigned cls);
/* Puts the slot of an object that was freed past a full magazine back into its slab, where ts_fast_give has not done
   so. The owner calls it inside the operation that freed the object, and does not hold the heap. It ends that
   operation. */
void ts_bin_give_freed(ts_churn_block *block, ts_bin *bin, uint64_t entry);
/* Puts the slots of the claimed word back into their slab. Caller holds the heap. */
void ts_bin_give_word(ts_churn_block *block, ts_bin *bin);
/* Puts a free slot back into its slab. */
void ts_bin_give_slot(ts_churn_block *block, ts_bin *bin, uint64_t entry);
/* Takes an empty slab that is lent (slab/lent.h) out of the bin. Caller holds the heap, and has the slab. */
void ts_bin_remove(ts_churn_block *block, ts_bin *bin, uint32_t unit);
/* Gives a slab of the bin to the share if it is empty. The first function also asks whether it is worth keeping.
   Caller holds the heap. */
void ts_bin_release_if_empty(ts_churn_block *block, ts_bin *bin, uint32_t unit);
void ts_bin_release_empty(ts_churn_block *block, ts_bin *bin, uint32_t unit);
/* Frees one object into its slab; its live bit is on. The slab stays in the bin, empty or not. Caller holds the
   heap. */
void ts_bin_free_direct(ts_churn_block *block, ts_bin *bin, uint64_t entry);
/* Frees the objects of 32 granules of a slab whose bits are on, as ts_bin_free_direct. granule: the first one, a
   multiple of 32. keeps: into the magazine as long as it has room; the caller is the thread that uses it. Objects that
   are not live are left out. Returns how many were freed. */
unsigned ts_bin_free_bits(ts_churn_block *block, ts_bin *bin, uint32_t unit, unsigned granule, uint32_t bits,
                          bool keeps);

/* ---- scope slabs ------------------------------------------------------------------------------------------------ */

/* Scope slabs: objects lie one behind the other. Each is freed by its bit, or dies with the scope. */

/* Adds a reset slab as the current one. Caller holds the heap. */
void ts_scope_add(ts_scope_block *block, uint32_t unit);
/* Makes a retained unit of the share the current slab, in place of the one that may be there. If the block gets
   pieces for an object of `bytes`, it takes one of the share's free pieces instead, where there is no unit or a piece
   comes first (piece.h). false: there is none that can be used, and the current slab stays. Caller holds the heap. */
bool ts_scope_renew(ts_scope_block *block, size_t bytes, size_t align);
/* ts_scope_renew, and the first object of the new slab. NULL: there is no slab. Caller holds the heap. */
void *ts_scope_renew_for(ts_scope_block *block, size_t bytes);
/* An object of a piece of the share's, if that is the block's next slab. NULL: it is not, or there is none. Caller
   holds the heap. */
void *ts_scope_next_piece(ts_scope_block *block, size_t bytes);
/* ts_fast_bump at a multiple of align, which is a quarter of a unit at most. */
void *ts_scope_bump_aligned(ts_scope_block *block, size_t align, size_t bytes);
/* Whether objects of `bytes` bytes, a multiple of 16, can lie in a scope slab at multiples of align, a power of two
   or 0. */
TS_ALWAYS_INLINE bool ts_scope_may_align(size_t align, size_t bytes) {
    return align - 32 <= TS_QUARTER_BYTES - 32 && bytes - 16 <= TS_QUARTER_BYTES - 16;
}
/* Ends adding to the current slab, which stays. Caller holds the heap. */
void ts_scope_seal_current(ts_scope_block *block);
/* Ends adding to the current slab; if all of it is free it goes to the share. Caller holds the heap. */
void ts_scope_retire_current(ts_scope_block *block);
/* Objects begun in the current slab. A gap for an alignment counts as an object that was freed
   (ts_scope_bump_aligned). */
TS_ALWAYS_INLINE uint16_t ts_scope_current_allocs(const ts_scope_block *block) {
    return (uint16_t)(ts_bump_count(ts_load_relaxed(&block->bump)) + block->skipped);
}

/* Whether there is a current slab, and all of its objects are freed. Caller holds the heap. */
TS_ALWAYS_INLINE bool ts_scope_is_current_empty(const ts_scope_block *block) {
    uint32_t unit = ts_load_relaxed(&block->current);
    return unit && ts_slab_at(unit)->free_count == ts_scope_current_allocs(block);
}
/* Frees one object of the block's own slabs. false: the entry is not the start of a live object. The slab stays.
   Caller holds the heap. */
bool ts_scope_free(ts_scope_block *block, uint32_t unit, uint32_t entry_in_unit);
/* Takes an empty slab that is lent (slab/lent.h) out of the block. Caller holds the heap, and has the slab. */
void ts_scope_remove(ts_scope_block *block, uint32_t unit);
/* Gives a slab to the share if all of its objects are freed, unless it is the current one. Caller holds the heap. */
void ts_scope_release_if_empty(ts_scope_block *block, uint32_t unit);
/* Objects ever allocated in this use of the block. Any thread. */
uint64_t ts_scope_allocs(const ts_scope_block *block);
/* ts_scope_allocs for the holder of the heap: no slab is being sealed. */
TS_ALWAYS_INLINE uint64_t ts_scope_allocs_held(const ts_scope_block *block) {
    return (ts_load_relaxed(&block->allocs) >> TS_ALLOCS_SHIFT) + ts_bump_count(ts_load_relaxed(&block->bump));
}
/* Bytes of the object at an entry; any thread. */
size_t ts_scope_object_bytes(const ts_scope_block *block, uint32_t unit, uint32_t entry_in_unit);

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

/* The work on a thread's block in an epoch: its end, its flush, its sums. */

struct ts_allocator;

/* ---- one block; the caller holds the heap ------------------------------------------------------- */

/* Ends a block, killed or not. Its slabs are retained by the share, which adds its counters, too. Live objects die. */
void ts_block_end(ts_heap *heap, ts_block *block);
/* Gives magazines and claimed words back to the slabs, and empty slabs to the share. Returns the slabs it looked at;
   adds those given to *recycled. */
uint32_t ts_block_flush(ts_heap *heap, ts_block *block, uint64_t *recycled);
/* Flushes the block if another thread has closed it and could not hold this heap then. Caller: the owner, or the
   holder of an ended thread's heap. */
void ts_block_flush_if_shut(ts_heap *heap, ts_block *block);
/* Makes the bins right from the live words alone. The block's thread vanished in a fork. */
void ts_block_rebuild(ts_heap *heap, ts_block *block);

/* ---- blocks with jobs ------------------------------------------------------------------------ */

/* Leaves a block to its heap: to be ended, in which case the caller has pinned its allocator; to be flushed; or to be
   counted, in which case the caller has its epoch. Followed by ts_heap_notify. */
void ts_heap_post_end(ts_heap *heap, ts_block *block);
void ts_heap_post_flush(ts_heap *heap, ts_block *block);
void ts_heap_post_count(ts_heap *heap, ts_block *block);
/* Does the jobs of the blocks on the heap's list. Caller: the owner, or the holder of an ended thread's heap. */
void ts_heap_end_posted(ts_heap *heap);
/* Does the work of `most` blocks at most: for one allocation. */
void ts_heap_end_posted_some(ts_heap *heap, unsigned most);
#define TS_CONDEMNED_WORK 8u
/* Does the work of blocks that are off that list, linked by `left`. Caller holds the heap since after they were left.
   */
void ts_heap_end_list(ts_heap *heap, ts_block *block);
/* Puts such blocks back onto the list. */
void ts_heap_post_list(ts_heap *heap, ts_block *block);

/* ---- empty slabs -------------------------------------------------------------------------------- */

/* Looks at the open churn blocks of a heap that the caller holds, of one allocator, or of all (NULL). Bins in which
   the thread has allocated nothing since the last look let go of their empty slabs; if the caller is the thread, of
   magazine and claimed word first. true: that was enough for one call, and there is more. */
bool ts_heap_shed(ts_heap *heap, const struct ts_allocator *allocator);

/* ---- sums --------------------------------------------------------------------------------------- */

typedef struct ts_tally {
    uint64_t allocated, freed, bytes_allocated, bytes_freed, slabs;
    uint64_t pieces; /* how many of the slabs are pieces */
} ts_tally;
/* Units of the slabs that are no pieces; and the memory of all. */
static inline uint64_t ts_tally_units(const ts_tally *t) {
    return t->slabs - (t->pieces < t->slabs ? t->pieces : t->slabs);
}
static inline uint64_t ts_tally_bytes(const ts_tally *t) {
    uint64_t units = ts_tally_units(t);
    return units * TS_UNIT_BYTES + (t->slabs - units) * TS_PIECE_BYTES;
}
/* Memory of a block's slabs. Any thread asks; exact while the block's thread is in no operation. */
static inline uint32_t ts_block_pieces(const ts_block *b) {
    return b->scope ? ts_load_relaxed(&((const ts_scope_block *)(const void *)b)->pieces) : 0;
}
static inline uint64_t ts_block_held_bytes(const ts_block *b) {
    return ts_tally_bytes(&(ts_tally){.slabs = ts_load_relaxed(&b->slabs), .pieces = ts_block_pieces(b)});
}
/* Sums of a block. cls: a class, TS_COUNT_SCOPE, or UINT32_MAX for all. Any thread; exact at a quiet point. */
ts_tally ts_block_tally(const ts_block *block, uint32_t cls);

/* ---- cross-thread frees ----------------------------------------------------------------------------------------- */

/* Cross-thread frees: frees by threads that do not own the block. The protocol is in foreign.c. */

#define TS_ANY_GENERATION UINT32_MAX

/* TS_FOREIGN_FREED_SHUT: freed while the block was shut; the caller goes on with ts_foreign_give_closed.
   TS_FOREIGN_MET: another writer was met, and nothing was done. TS_FOREIGN_QUEUE: only ts_foreign_open returns it. */
typedef enum ts_foreign_result {
    TS_FOREIGN_NOT_LIVE,
    TS_FOREIGN_FREED,
    TS_FOREIGN_FREED_SHUT,
    TS_FOREIGN_MET,
    TS_FOREIGN_QUEUE
} ts_foreign_result;
/* Frees an object of a block that this thread does not own. Not inside an operation. generation: the object's, or
   TS_ANY_GENERATION. *retries rises with each retry. */
ts_foreign_result ts_foreign_free(uint32_t unit, uint64_t entry, uintptr_t allocator, uint32_t generation,
                                  uint64_t *retries);
/* Steps 6 and 7 after ts_foreign_open (free.h), when that returned TS_FOREIGN_QUEUE. */
ts_foreign_result ts_foreign_queue(uint64_t entry, uint64_t seen);
/* After a cross-thread free. If the block is closed and this was the last live object of its slab, takes the slab in
   for the owner, which may sleep. So the memory goes back at once. Caller holds nothing. */
void ts_foreign_give_closed(uint32_t unit, uint64_t entry);
/* Drains the queue of a heap that has no thread, or whose thread does not know of it; or all such heaps. Caller holds
   nothing. */
void ts_foreign_drain_for(ts_heap *heap);
void ts_foreign_drain_for_all(void);
/* Takes in all cross-thread frees of the heap's queue. Caller holds the heap. */
void ts_foreign_drain(ts_heap *heap);
/* ts_foreign_drain after a flush of a closing block. */
void ts_foreign_drain_flushed(ts_heap *heap);
/* Takes some in: stops after the slab with which the work reaches `most`. A slab counts TS_FOREIGN_SLAB_WORK, each of
   its objects one. Returns the bytes of churn objects, which can be allocated again. Caller holds the heap. */
size_t ts_foreign_drain_some(ts_heap *heap, unsigned most);
#define TS_FOREIGN_SLAB_WORK 16u
/* The work for one allocation or free: some microseconds. For each slab that an owner fills it takes in as much as a
   slab. Rounds are put off only while none has left anything. So cross-thread frees do not pile up. */
#define TS_FOREIGN_WORK 512u
_Static_assert(TS_DRAINED > TS_FOREIGN_WORK / TS_FOREIGN_SLAB_WORK, "one round does not look at all epochs");
/* Takes in one slab of a closing block, from any place of the queue. Caller holds the heap. */
void ts_foreign_drain_closing(ts_heap *heap, uint32_t unit);
#define TS_FOREIGN_FLAGS_MET 16u             /* measured beside 8 and 32: docs/decisions.md */
#define TS_FOREIGN_WORTH (2 * TS_UNIT_BYTES) /* bytes that make a round worth its while: churn_try in object/refill.c */
/* Lends a slab to the calling thread, which is in its own heap. No thread hands the slab on until this thread gives
   it back, in its heap again. The slab may belong to any block. word: its UNIT word, without flags. false: the word
   is another one. A thread lends one slab at a time. */
bool ts_foreign_lend(ts_heap *heap, uint32_t unit, uint64_t word);
void ts_foreign_lent_back(ts_heap *heap);
/* For a slab that is lent to a spill (slab/lent.h): whether other threads have freed everything that is live in it. */
bool ts_foreign_all_freed(uint32_t unit, uint64_t word);
/* Takes in the cross-thread frees of one slab. FOREIGN stays on, so the slab stays in its block. Caller holds the
   block's heap. */
void ts_foreign_drain_slab(ts_block *block, uint32_t unit, uint64_t word);
/* Pushes a slab that has FOREIGN on and is on no queue on the queue of the block's heap, as ts_foreign_lent_back
   does. */
void ts_foreign_return(uint32_t unit);
/* Whether a cross-thread free of the object is under way. word: the UNIT word of its slab. */
bool ts_foreign_pending(uint32_t unit, uint64_t word, uint64_t entry);

/* ---- jobs, and what is due ----------------------------------------------------------------------------------- */

/* Jobs that are left to a heap, what a thread settles when it holds nothing, and the end of a thread. */

/* For ts_heap_init. */
extern TS_HIDDEN const ts_heap_op_table ts_cache_ops;

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Whether jobs wait for the heap's thread. A hint: others may be about to leave some. */
static inline bool ts_heap_has_posted(const ts_heap *heap) {
    return ts_heap_is_waited_for(heap) || ts_heap_is_notified(heap) || ts_load_relaxed(&heap->unflushed) != 0;
}
/* Answers all jobs of a heap that the caller holds: flushes and ends blocks, drains the queue. */
void ts_heap_run_posted(ts_heap *heap);
/* Calls a heap to which a job was left, and works it off. false: its thread, or its holder, does. */
bool ts_heap_notify_for(ts_heap *heap);
/* Answers those of the calling thread's own heap, at the end of a call, in part; or of another heap that can be held
   at once. Holds nothing. */
void ts_heap_drain_inbox(ts_heap *heap);
/* Answers those of any heap, and takes its retained units of that allocator. Holds nothing. */
void ts_heap_visit(ts_heap *heap, ts_allocator *allocator);
/* As ts_heap_visit, of a thread that rests. Its bins let go of empty slabs, too (ts_heap_shed). asks: its next call
   is to look at its magazines itself. false: the heap could not be held, or there is more. */
bool ts_heap_visit_resting(ts_heap *heap, ts_allocator *allocator, bool asks);
/* Purges down to `keep_units` retained units, those of all threads included. Holds nothing. */
void ts_allocator_purge_to(ts_allocator *allocator, uint64_t keep_units);
/* Purges all retained units, and sets the adaptive budget back to the usual one (retain.h). Holds nothing. */
void ts_allocator_trim(ts_allocator *allocator);
/* Maintenance (maintain.c): works until `until` on the clock. Caller holds nothing, and has the record pinned. */
void ts_allocator_maintain(ts_allocator *allocator, uint64_t until);

/* ---- a thread that rests or ends ---------------------------------------------------------------- */

/* Empties magazines and claimed words of all blocks, drains, gives retained units away. Caller: the owner, not
   inside. */
void ts_heap_idle(ts_heap *heap);
/* ts_heap_idle for one allocator; free records keep their memory. Caller holds nothing. */
void ts_heap_let_go(ts_heap *heap, const ts_allocator *allocator);
/* Exit callback of the os layer. */
void ts_heap_exit(void *heap);

/* ---- notes for later ---------------------------------------------------------------------------- */

/* A closing block of this thread holds nothing any more, perhaps: ts_epoch_run_deferred looks at its epoch. */
void ts_note_drained(ts_block *block);
/* Drains the heaps that this thread noted, and pays what it owes (purge.h). Holds nothing, in no operation. */
void ts_run_deferred(uint64_t purge_units);
static inline bool ts_deferred_is_due(void) { return ts_thread.settle != NULL || ts_thread.drain != NULL; }
/* After an operation on objects: pays a bounded part. */
static inline void ts_run_deferred_pending(void) {
    if (TS_UNLIKELY(ts_deferred_is_due())) ts_run_deferred(TS_PURGE_STEP);
}
/* Called at the end of a phase that released `units` units. Pays in proportion to them, or to the units that frees
   released before. */
static inline void ts_run_deferred_phase(uint64_t units) {
    if (TS_LIKELY(!ts_deferred_is_due())) return;
    uint64_t released = ts_thread.released - ts_thread.phase_released;
    if (released < TS_PURGE_PHASE_UNITS) released = 0; /* so few by frees make no phase */
    ts_thread.phase_released = ts_thread.released;
    if (units > released) released = units;
    ts_run_deferred(released < 2 * TS_PURGE_LEAST_UNITS ? TS_PURGE_STEP : 2 * released);
}
/* When the thread stops or rests: pays all. */
static inline void ts_run_deferred_all(void) {
    if (TS_UNLIKELY(ts_deferred_is_due())) ts_run_deferred(UINT64_MAX);
}

/* ---- blocks without a thread ------------------------------------------------------------------------------------ */

/*
 * Orphans: blocks that a thread gives up while it lives, with a domain that it hands over. The argument is in orphan.c.
 */

typedef enum ts_disowned { TS_GIVEN_UP, TS_GIVEN_UP_NOT, TS_GIVEN_UP_NO_SHARE } ts_disowned;
/* Moves the block to a heap without a thread. The next thread that needs a block in its epoch takes it over.
   TS_GIVEN_UP_NOT: the block stays, because another thread holds one of the heaps. TS_GIVEN_UP_NO_SHARE: it stays,
   because that heap has no share of the allocator (ts_orphans_make_share). Caller: the block's thread, not inside its
   heap, with the epoch's lock, which keeps the epoch ACTIVE. */
ts_disowned ts_block_disown(ts_heap *heap, ts_block *block);
/* After blocks were given up: takes in the cross-thread frees of before. Caller holds nothing. */
void ts_orphans_pass_on(ts_heap *heap);
/* Makes the share that TS_GIVEN_UP_NO_SHARE asks for, if there is none. false: no memory, or the allocator has ended.
   Caller holds nothing. */
bool ts_orphans_make_share(const ts_heap *heap, ts_allocator *allocator);

/* ---- hollow pages ----------------------------------------------------------------------------------------------- */

/* HOLLOW pages: slab pages without an object, in slabs that are in use. They can go back by themselves; other memory
   of a slab goes back with the whole slab. */

/* Gives the hollow pages of the calling thread's COARSE churn slabs back to the system. The caller holds nothing, and
   has just emptied its magazines; it settles afterwards. Does nothing where pages have more than 4 KiB, and under
   care, which looks at free memory. */
void ts_hollow_purge(ts_heap *heap, ts_allocator *allocator);

/* The hollow pages of a slab of a closed and flushed block. word: its UNIT word, without flags. Any thread, holding
   nothing. The answer stays right until the word changes. */
unsigned ts_hollow_closed_pages(uint32_t unit, uint64_t word);
/* Gives these pages back, if the word has not changed. false: the system refuses. Caller is the thread of the heap,
   and holds nothing; it settles afterwards. */
bool ts_hollow_purge_closed(ts_heap *heap, ts_allocator *allocator, uint32_t unit, uint64_t word, unsigned pages);

/* ---- marks ------------------------------------------------------------------------------------------------------ */

typedef struct ts_place {
    uint32_t unit, tag; /* the slab, and its tag in this use */
    uint16_t entry;     /* the first one behind the anchor */
    uint16_t count;     /* objects begun in the slab before the anchor */
} ts_place;

/* Makes an anchor of the last object of the current slab: 16 bytes that were just allocated there. false: it is not
   the last object. Caller holds the heap. */
bool ts_scope_anchor(ts_scope_block *block, const void *object, ts_place *out);
/* Whether the place still exists. Caller holds the heap. */
bool ts_scope_is_there(const ts_scope_block *block, const ts_place *place);
/* Kills all objects that began behind the place. anchors: the number of anchors in its slab behind it, which go, too.
   false: the place does not exist. Caller is the owner, holds the heap, and has taken in the cross-thread frees. */
bool ts_scope_rewind(ts_scope_block *block, const ts_place *place, uint32_t anchors);
/* Gives the place up; all objects stay. Caller is the owner and holds the heap. */
void ts_scope_forget(ts_scope_block *block, const ts_place *place);

/* Gives all places up. The block is closed, so no rewind comes any more, and slabs that are empty except for anchors
   can go. Caller holds the heap; there is no current slab. */
void ts_scope_forget_all(ts_scope_block *block);

#endif
