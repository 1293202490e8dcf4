/* Modelled in tests/model: hold, epoch, enter, orders. */
#ifndef TS_OWNERSHIP_OWNERSHIP_H
#define TS_OWNERSHIP_OWNERSHIP_H

#include "os/os.h"
#include "ownership/thread.h"

/* ---- records ---------------------------------------------------------------------------------- */

#define TS_SPARE_RECORDS 8u /* records that a thread keeps for its next epochs and domains */
#define TS_RECENT_SHARES 8u
/* After so many calls for other allocators the fast paths are for the last of these. */
#define TS_OTHERS_MOST 256u
#define TS_HEAP_MAP 64u /* blocks found without a search, by epoch index */
/* A thread retains spans of up to 256 KiB, by length, as long as it has no more than 1 MiB of them. */
#define TS_LOCAL_SPAN_UNITS 16u
#define TS_LOCAL_SPANS_UNITS 64u

/* The figures of timed operations: six of allocations, six of frees. */
enum { TS_SAMPLE_ALLOC = 0, TS_SAMPLE_FREE = 8, TS_SAMPLE_FIGURES = 16 };
enum {
    TS_SAMPLE_SLOW, /* longer on the clock than TS_SLOW_NS */
    TS_SAMPLE_VERY_SLOW,
    TS_SAMPLE_COUNT, /* from here on in the order of SlabThreadStats */
    TS_SAMPLE_WALL,
    TS_SAMPLE_CPU,
    TS_SAMPLE_WAIT,
    TS_SAMPLE_WALL_MAX,
    TS_SAMPLE_CPU_MAX
};
#define TS_SLOW_NS 200u
#define TS_VERY_SLOW_NS 10000u
static inline bool ts_sample_is_max(unsigned figure) { return figure % TS_SAMPLE_FREE >= TS_SAMPLE_WALL_MAX; }

/* Retained units: committed, in no slab, linked through `next` of their records (supply/retained.h). */
typedef struct ts_retained {
    uint32_t head, tail;
    _Atomic uint32_t count; /* written with the list; read by anyone */
} ts_retained;

/* Counters per kind. (h) or owner; read by anyone. */
/* clang-format off */
#define TS_SHARE_COUNTERS(X)                                                                                  \
    X(slow_path_hits) X(new_slab_count) X(slow_path_cache_miss) X(list_move_partial_to_full)                  \
    X(current_partial_null) X(current_partial_full) X(foreign_frees) X(ended)
/* clang-format on */

typedef struct ts_counters {
#define X(name) _Atomic uint64_t name;
    TS_SHARE_COUNTERS(X)
#undef X
} ts_counters;

/* Counters of large objects (epoch/span.c). A free counts with a release, and readers read frees first: so they never
   see more frees than allocations. */
typedef struct ts_span_counts {
    _Atomic uint64_t allocated, bytes_allocated, units_taken;
    _Atomic uint64_t freed, bytes_freed, units_given;
} ts_span_counts;

/* Notes of a thread that looks whether another rests (cache/maintain.c). Any of those threads writes them. */
typedef struct ts_seen {
    _Atomic uint64_t work, ns; /* the counters at the last look that found them changed, and when that was */
    _Atomic uint32_t sheds;    /* looks at its empty slabs since */
} ts_seen;

/* All that a heap has of one allocator: its blocks, the units that it retains, and the counters of its thread. */
typedef struct ts_share {
    struct ts_allocator *allocator; /* constant during a use of the share, as are the next two */
    uintptr_t token;                /* the use of the allocator that this belongs to */
    struct ts_heap *heap;
    uint64_t open_key;          /* the key of an open block of it without the era. 0 with care, because such a block is
                                        never open to fast frees */
    int64_t stack_left;         /* bytes to the next sampled stack; 0: none is drawn (observe/stacks.h). Owner only */
    uint8_t slow[2];            /* `slow` of its churn and of its scope blocks; owner only */
    uint8_t care;               /* the allocator has care, or a tool listens; owner only */
    uint8_t looks;              /* a retained unit is looked at before it becomes a slab: for care, or for its home;
                                        owner only */
    uint8_t home;               /* the home of the memory that its thread wanted last (nodes.h); owner only */
    uint16_t index;             /* of the allocator, as records of slabs have it; owner only */
    struct ts_share *heap_next; /* (h) */
    ts_block *blocks;           /* (h) in use, newest first */
    struct ts_share *allocator_next; /* constant once in the allocator's list */
    ts_retained retained;            /* (h) */
    /* (h) retained spans by length, linked by next, their UNIT words 0; and the units in them, read by anyone */
    uint32_t spans[TS_LOCAL_SPAN_UNITS + 1];
    _Atomic uint32_t span_units;
    uint32_t pieces[2], piece_count; /* (h) free ones, short and long, linked by next (piece.h) */
    /* The last scope that ended was SMALL (piece.h). Written with the heap held. The owner reads it inside its
       operations, while another thread may end a scope: with either value the next slab is a right one. */
    _Atomic bool small;
    uint32_t firsts;                     /* owner only: how often a scope's first slab was no retained unit */
    ts_span_counts span_counts;          /* by this thread; owner only, read by anyone */
    _Atomic uint64_t refused_closed;     /* allocations in an epoch that was not active */
    _Atomic(struct ts_past_ring *) past; /* epoch/past.h; NULL: none */
    _Atomic(struct ts_brief_ring *) brief;
    ts_seen seen;
    ts_counters count[TS_COUNT_KINDS]; /* `ended`: objects of blocks that have ended, all of them freed */
} ts_share;

/* Bits of a heap's `revoked`. */
#define TS_REVOKED 1u
#define TS_UNHOLDABLE 2u
#define TS_CALLED 4u

/* LOST: its thread vanished in a fork, and was in the middle of an operation. The heap stays as it is. */
typedef enum ts_heap_state { TS_HEAP_STARTING, TS_HEAP_LIVE, TS_HEAP_ABANDONED, TS_HEAP_LOST } ts_heap_state;

typedef struct ts_heap {
    ts_lock lock;             /* taken by a thread that holds another's heap */
    _Atomic uint32_t revoked; /* [0] another thread holds it, or is about to; guarded by lock, read by the owner
                                  [1] fork has done that, and it cannot be held
                                  [31:2] jobs left to its thread since the last answer; added to by anyone */
    _Atomic uint32_t state;   /* ts_heap_state; guarded by lock */
    uint32_t id;              /* constant */
    _Atomic uint32_t answers; /* (h) how often jobs were answered; read by callers */
    bool rebuild;             /* (h) its thread vanished in a fork: only live words can be trusted */
    bool keeps_nothing;       /* (h) its thread ends, or has ended: no bin keeps an empty slab */
    bool is_threadless;       /* constant: it never has a thread, and keeps blocks that theirs gave up (orphan.c) */
    _Atomic uint32_t
        unflushed;          /* (h) in a child of fork: a vanished thread may have shut a block of it without a flush, so
                                   the next holder looks; a hint to others */
    ts_tls *tls;            /* written with lock (or in a child of fork); NULL when abandoned */
    _Atomic uint64_t queue; /* newest slab with cross-thread frees, 0: none; pushed by any thread */
    _Atomic uint32_t
        backlog; /* (h) slabs taken off the queue, not worked on yet; a hint to its owner, as is `ending` */
    _Atomic(ts_block *) inbox;                    /* blocks with jobs; pushed by any thread */
    _Atomic(ts_block *) ending;                   /* (h) taken off that list, not worked on yet */
    ts_block *free_churn, *free_scope;            /* (h) ended ones, for its next epochs */
    _Atomic uint32_t free_blocks[2];              /* (h) how many, of churn and of scope; a hint to its owner */
    ts_share *shares;                             /* (h) */
    _Atomic(ts_share *) recent[TS_RECENT_SHARES]; /* some of them, by token; written by the owner, read by check.c */
    struct ts_heap *next;                         /* list of all heaps; constant after it is published */
    struct ts_heap *free_next;                    /* guarded by the registry's lock, as is the next */
    bool listed_free;
    ts_table_record *spare[2][TS_SPARE_RECORDS]; /* owner only: free table records, TS_TABLE_EPOCH and _DOMAIN */
    unsigned spares[2];
    /* Newest record, by index, of a domain that was this thread's and that another thread ended; 0: none. Pushed by any
       thread, taken by this one or the heap's next (ts_domain_collect_returned). */
    _Atomic uint32_t returned;
    ts_churn_block *map[TS_HEAP_MAP]; /* owner only; checked by open_id */
    ts_scope_block *scope_map[TS_HEAP_MAP];
    uint64_t serial; /* (h) of its thread, and of no other: [62:28] how many threads the heap has had
                                            [27:0] line of the heap */
    struct ts_domain_scope *spare_scope; /* owner only */
    uint32_t lent;                       /* (h) slab that its thread has lent, 0: none (hollow.c) */
    uint8_t flags_met; /* owner only: its frees in slabs with cross-thread frees since it took those in */
    /* Sampling; written by the owner only. */
    uint32_t sample_rate, sample_left[2];       /* to the next one of allocations, of frees */
    _Atomic uint64_t sample[TS_SAMPLE_FIGURES]; /* of all threads that had this heap; read by anyone */
    uint64_t sample_start[TS_SAMPLE_FIGURES];   /* sums: when this thread began; maxima: of this thread */
    /* Sampling of stacks; owner only. */
    uint64_t stack_random;          /* of observe/stacks.h; 0: not begun */
    bool stack_busy;                /* the sampling itself allocates */
    uint64_t shed_ns;               /* owner only: when it looks at its bins next (epoch/decay.c) */
    uint32_t shed_unit;             /* (h) where ts_heap_shed goes on, 0: at the beginning */
    _Atomic uint32_t asked_to_shed; /* (h) its next slow call looks at its bins; read by its thread */
    uint32_t stack_turn;            /* ts_stacks_turn as its blocks know it */
    /* Its thread for people (thread_name.c); read by any, the name also written by any. */
    _Atomic uint32_t thread_number;  /* 0: not asked for, or the thread has ended */
    _Atomic uint64_t thread_serial;  /* as `serial` */
    _Atomic uint64_t thread_name[2]; /* of thread_number */
} ts_heap;

/* Heaps of ended threads that still have blocks. A hint: whether it is worth to look for one to adopt. */
extern TS_HIDDEN _Atomic uint32_t ts_heaps_abandoned;
/* Whether a heap may have been called that has not answered. A hint: whether it is worth to look for one. */
extern TS_HIDDEN _Atomic uint32_t ts_heaps_notified;
/* The heap of no thread, abandoned from the beginning and never handed out. Any heap may take ended scope blocks from
   its list, as it may take churn blocks from ts_churn_pool. */
extern TS_HIDDEN ts_heap *ts_heap_nobody;

/* The key of an open block of the share, without the era. */
static inline uint64_t ts_share_key(const ts_share *share) { return (uint64_t)ts_line_of(share) << TS_KEY_SHARE_SHIFT; }

/* ---- hold, call, drop ------------------------------------------------------------------------- */

/* Work of the floor above on a heap that the caller holds. */
typedef struct ts_heap_op_table {
    /* Answers all jobs of the heap. */
    void (*work_off)(ts_heap *heap);
    /* Makes the bins right from the live words alone: the thread vanished in a fork. */
    void (*rebuild)(ts_heap *heap);
    /* Queues the slab that the vanished thread had lent. In a child of fork. */
    void (*give_lent_back)(ts_heap *heap);
    /* Memory is short: all retained memory of the allocator goes back; bins: with the empty slabs of this thread's
       bins, too. Holds nothing. false: there was none. */
    bool (*scrape)(struct ts_allocator *allocator, bool bins);
} ts_heap_op_table;
/* Constant after ts_heap_init. */
extern TS_HIDDEN const ts_heap_op_table *ts_heap_ops;

/* The rest of ts_heap_enter: another thread holds the heap, or is about to. Ends the operation and waits for it. */
void ts_heap_enter_revoked(ts_heap *heap);
/* The owner begins and ends work on its own heap. Not nested. Inside, no lock of rank below HEAP may be waited for. */
static inline void ts_heap_enter(ts_heap *heap) {
    ts_assert(2, !ts_is_in_op(&ts_thread) && heap == ts_thread.heap);
    ts_op_begin(&ts_thread);
    /* acquire: partner of the release in ts_heap_drop */
    if (TS_UNLIKELY(ts_load_acquire(&heap->revoked) != 0)) ts_heap_enter_revoked(heap);
}
/* As ts_heap_enter, but waits for nobody. false: another thread holds the heap, and the operation has not begun. */
static inline bool ts_heap_try_enter(ts_heap *heap) {
    ts_assert(2, !ts_is_in_op(&ts_thread) && heap == ts_thread.heap);
    ts_op_begin(&ts_thread);
    if (TS_LIKELY((ts_load_acquire(&heap->revoked) & TS_REVOKED) == 0)) return true; /* acquire: as in ts_heap_enter */
    ts_op_end(&ts_thread);
    return false;
}
static inline void ts_heap_leave(ts_heap *heap) {
    (void)heap;
    ts_op_end(&ts_thread);
}
/* Any thread, but not the owner inside an operation. Waits for nobody. false: another thread holds the heap, or its
   own is in the middle of an operation. */
bool ts_heap_hold(ts_heap *heap);
/* Holds, or enters, the heap of a block, and waits where its thread is in the middle of an operation. *held NULL: it
   can never be held, as there is no barrier, or its thread vanished in a fork. false: the block has ended, and has no
   memory (block_pool.c). The caller drops it. */
bool ts_heap_hold_of(const ts_block *block, ts_heap **held);
/* As ts_heap_hold, by a thread that has left a job. false: the heap's thread, or its holder, works it off. */
bool ts_heap_notify(ts_heap *heap);
void ts_heap_drop(ts_heap *heap);
/* Whether jobs are left to its thread. A hint: others may be about to leave some. */
static inline bool ts_heap_is_notified(const ts_heap *heap) { return ts_load_relaxed(&heap->revoked) >= TS_CALLED; }
/* Whether others have left anything on its lists. A hint, too. */
static inline bool ts_heap_is_waited_for(const ts_heap *heap) {
    uintptr_t blocks = (uintptr_t)ts_load_relaxed(&heap->inbox) | (uintptr_t)ts_load_relaxed(&heap->ending);
    return (ts_load_relaxed(&heap->queue) | ts_load_relaxed(&heap->backlog) | blocks) != 0;
}

/* For the answer (cache/life.c). */

/* Whether the thread was once seen outside of an operation that it began before the caller's barrier_all. Without a
   barrier a hint. */
bool ts_heap_is_quiet(const ts_tls *tls);
/* Overwrites the token of the heap's thread, so that its next call answers. Caller has the heap's lock, has written
   `revoked`, and has then run a barrier_all. Either the thread wrote its token before that, and this is written over
   it, or it reads `revoked` afterwards (ts_heap_bind). */
static inline void ts_heap_notify_thread(ts_heap *heap) {
    ts_store_relaxed(&heap->tls->token, TS_TOKEN_CALLED);
    ts_forget_private(heap->tls);
}

/* ---- barriers of all threads (barrier.c) ------------------------------------------------------ */

/* Whether the system has a barrier of all threads: one side of a protocol pays for both, and the usual path of the
   other side needs no fence. Constant after init. */
extern TS_HIDDEN bool ts_barriers;
void ts_barrier_init(void);
/* When it returns, every other thread has passed a full memory barrier since the call began. If the system refuses, the
   call waits until all that other threads had stored before is seen: some 20 ms. */
void ts_barrier_or_wait(void);

/* ---- life ------------------------------------------------------------------------------------- */

bool ts_heap_init(const ts_heap_op_table *ops);
/* Makes or reuses the heap of this thread, which has none. NULL: no memory. */
ts_heap *ts_heap_make(void);
/* The heap of this thread, made if it has none. NULL: no memory. */
static inline ts_heap *ts_heap_mine(void) {
    ts_heap *heap = ts_thread.heap;
    return TS_LIKELY(heap != NULL) ? heap : ts_heap_make();
}
/* A heap that never has a thread, in *at, if there is none yet. NULL: no memory. */
ts_heap *ts_heap_make_threadless(_Atomic(ts_heap *) *at);
/* First of the list of all heaps. */
ts_heap *ts_heaps(void);
/* Whether another thread has, or had, a heap. A thread that gets one later sees what the caller has written. */
bool ts_heap_any_other(void);
/* The fast paths of this thread are for this share's allocator, or for none. Not while timing is on, nor with care. */
void ts_heap_bind(ts_heap *heap, const ts_share *share);
void ts_heap_unbind(void);
/* The thread's block in the epoch of the process's malloc, which is open, and to whose allocator it is bound: its next
   frees by that are fast; allocates: so are its next allocations. */
void ts_heap_bind_private(ts_heap *heap, ts_churn_block *block, bool allocates);
/* fork: prepare holds every heap, so that no list is half changed. Operations of fast paths go on, so the child
   trusts only the live words of other threads' blocks. */
void ts_heap_fork_prepare(void);
void ts_heap_fork_parent(void);
void ts_heap_fork_child(void);

/* ---- shares and their blocks ------------------------------------------------------------------ */

/* The heap's share of the allocator with that token. NULL: none. Only the heap's thread adds or drops shares. */
static inline ts_share *ts_heap_find_share(const ts_heap *heap, uintptr_t token) {
    ts_share *share = heap->shares;
    while (share && share->token != token) share = share->heap_next;
    return share;
}
/* Puts a block into the list of its share, and takes it out. */
static inline void ts_heap_link(ts_block *block) {
    ts_block *next = block->heap_next = block->share->blocks;
    if (next) next->heap_prev = block;
    block->share->blocks = block;
}
static inline void ts_heap_unlink(ts_block *block) {
    ts_block *next = block->heap_next;
    if (block->share->blocks == block) {
        block->share->blocks = next;
        return;
    }
    block->heap_prev->heap_next = next;
    if (next) next->heap_prev = block->heap_prev;
}
/* All blocks in use of a heap, share by share. Ask for a block's successor before the block is ended. */
static inline ts_block *ts_share_first_block(const ts_share *share) {
    while (share && !share->blocks) share = share->heap_next;
    return share ? share->blocks : NULL;
}
static inline ts_block *ts_heap_first_block(const ts_heap *heap) { return ts_share_first_block(heap->shares); }
static inline ts_block *ts_heap_next_block(const ts_block *block) {
    return block->heap_next ? block->heap_next : ts_share_first_block(block->share->heap_next);
}

/* ---- records of tables ------------------------------------------------------------------------ */

/* As ts_table_take and ts_table_give, but a thread keeps a few records. which: TS_TABLE_EPOCH, _DOMAIN. */
static inline void *ts_heap_take_record(ts_table *table, unsigned which) {
    ts_heap *heap = ts_thread.heap;
    if (heap && heap->spares[which] > 0) return heap->spare[which][--heap->spares[which]];
    return ts_table_take(table);
}
/* Keeps a record whose use has ended for this thread's next. */
TS_ALWAYS_INLINE void ts_heap_keep_record(ts_table *table, unsigned which, void *record) {
    ts_heap *heap = ts_thread.heap;
    unsigned n = heap ? heap->spares[which] : TS_SPARE_RECORDS;
    if (TS_LIKELY(n < TS_SPARE_RECORDS)) {
        heap->spares[which] = n + 1;
        ts_store_if_changed(&heap->spare[which][n], (ts_table_record *)record);
    } else {
        ts_table_free(table, record);
    }
}
/* Ends the use, too. */
TS_ALWAYS_INLINE void ts_heap_give_record(ts_table *table, unsigned which, void *record) {
    if (TS_LIKELY(ts_table_end(table, record))) ts_heap_keep_record(table, which, record);
}
/* Serials of threads: a heap that has used up its own gets no other thread. The highest bit is never set. */
#define TS_SERIAL_NEXT ((uint64_t)1 << 28)
#define TS_SERIAL_LAST (((uint64_t)1 << 63) - TS_SERIAL_NEXT)
/* Returns a record to the thread with that serial, for another thread ended its use. false: that thread has ended,
   and all that it wrote is seen. If it ends meanwhile, the next thread of its heap gets the record. */
static inline bool ts_heap_return_record(uint64_t serial, ts_table_record *record) {
    ts_heap *heap = ts_line_address(serial % TS_SERIAL_NEXT);
    if (ts_load_acquire(&heap->state) != TS_HEAP_LIVE) return false; /* acquire: partner of the store in ts_heap_exit */
    uint32_t newest = ts_load_relaxed(&heap->returned);
    do record->next_free = newest;
    while (!atomic_compare_exchange_weak_explicit(&heap->returned, &newest, record->index, memory_order_release,
                                                  memory_order_relaxed));
    return true;
}

#if TSLAB_ASSERT >= 3
/* The deep walk of all that a thread owns, which aborts with a text: tests/walk, linked into such a library. */
void ts_check_heap_now(const ts_heap *heap);
#else
#define ts_check_heap_now(heap) ((void)(heap))
#endif

/* ---- ended blocks ----------------------------------------------------------------------------------------------- */

/* Blocks that have ended, and wait for their next epoch. The argument is in block_pool.c. */

/* Ended blocks that a thread keeps for its next epochs: at most 800 KiB of churn blocks, if each has had objects of
   every class (4 KiB and 40 magazines each), and 58 KiB of scope blocks. All threads may take the others, so that
   there are never many more blocks than were in use at once. */
#define TS_FREE_CHURN_BLOCKS 32u
#define TS_FREE_SCOPE_BLOCKS 256u
#define TS_FREE_BLOCKS_MOVED 16u /* at a time */
/* The free churn blocks that keep their memory (8 MiB), and the free chunks of magazines that do (2 MiB). */
#define TS_POOL_CHURN_BLOCKS 2048u
#define TS_POOL_MAGAZINE_CHUNKS 512u

void ts_block_pool_init(void);
/* Gives ended blocks to all threads until the heap has `churn` churn blocks and `scope` scope blocks at most. It
   gives `most` blocks at most. Caller holds the heap: its owner, which has no pointer to an ended block; or a thread
   that holds an ended thread's heap. */
void ts_heap_give_blocks(ts_heap *heap, uint32_t churn, uint32_t scope, uint32_t most);
/* Gives some of those that are too many. The owner, not inside. */
void ts_heap_give_surplus(ts_heap *heap);
TS_ALWAYS_INLINE bool ts_heap_has_surplus(const ts_heap *heap) {
    return TS_UNLIKELY(ts_load_relaxed(&heap->free_blocks[0]) > TS_FREE_CHURN_BLOCKS) ||
           TS_UNLIKELY(ts_load_relaxed(&heap->free_blocks[1]) > TS_FREE_SCOPE_BLOCKS);
}
/* The thread drops its hints that lead to the block; NULL: to all blocks that are open to nothing. */
void ts_heap_drop_hints(ts_heap *heap, const ts_block *block);
static inline void ts_heap_limit_blocks(ts_heap *heap) {
    if (ts_heap_has_surplus(heap)) ts_heap_give_surplus(heap);
}
/* Puts a block onto the heap's empty list: some that others gave, or a new one. false: no memory. Caller holds the
   heap. */
bool ts_heap_fetch_blocks(ts_heap *heap, bool scope);

/* Churn blocks that nobody has, in their chunks. */
extern TS_HIDDEN ts_chunk_pool ts_churn_pool;
/* Gives back the memory of free churn blocks and of free chunks of magazines: of all, or except of those that may keep
   it. Caller holds nothing. */
void ts_records_purge(bool all);
/* As ts_records_purge, but bounded: at the end of an epoch, which adds a block, and two chunks of magazines if it has
   used 18 classes. */
static inline void ts_records_run_deferred(void) {
    if (TS_UNLIKELY(ts_load_relaxed(&ts_churn_pool.count) > TS_POOL_CHURN_BLOCKS))
        ts_chunk_purge(&ts_churn_pool, TS_POOL_CHURN_BLOCKS, 2);
    if (TS_UNLIKELY(ts_load_relaxed(&ts_magazine_pool.count) > TS_POOL_MAGAZINE_CHUNKS))
        ts_chunk_purge(&ts_magazine_pool, TS_POOL_MAGAZINE_CHUNKS, 2);
}
void ts_block_pool_fork_prepare(void);
void ts_block_pool_fork_done(void);

/* The first of the heap's free blocks begins its use. It is not in the epoch's list yet, nor open. Its last use left
   it in no epoch, and shut. */
TS_ALWAYS_INLINE void ts_block_begin(ts_heap *heap, ts_share *share, struct ts_epoch *epoch, ts_block *block,
                                     const bool scope) {
    *(scope ? &heap->free_scope : &heap->free_churn) = block->heap_next;
    ts_add_owned(&heap->free_blocks[scope], (uint32_t)-1);
    /* A cached pointer to the block's last use must not be taken for the new one. */
    if (scope) {
        if (TS_UNLIKELY((void *)ts_load_relaxed(&ts_thread.scope) == (void *)block))
            ts_set_scope(&ts_thread, &ts_no_scope);
        if (TS_UNLIKELY((void *)ts_thread.last == (void *)block)) ts_thread.last = &ts_no_scope;
    } else {
        if ((void *)ts_thread.rolling == (void *)block) ts_thread.rolling = &ts_no_block;
        /* It may be another allocator's now, and one with care does not change the token (ts_heap_bind). */
        if ((void *)ts_thread.block == (void *)block) ts_thread.block = &ts_no_block;
        ts_store_relaxed_if_changed(&block->rolling, 0); /* in a child of fork: its thread vanished in make_rolling */
    }
    ts_assert(2, ts_load_relaxed(&block->open_id) == TS_ID_NEVER && ts_load_relaxed(&block->heap) == heap &&
                     ts_load_relaxed(&block->key) == (ts_era(block)));
    ts_store_relaxed_if_changed(&block->allocator, share->token);
    ts_store_if_changed(&block->closing, TS_OPEN);
    ts_store_relaxed_if_changed(&block->flushed, 0);
    ts_store_if_changed(&block->share, share);
    ts_store_if_changed(&block->slow, share->slow[scope]);
    ts_store_relaxed(&block->era, (uint32_t)ts_era(block));
    ts_store_relaxed_if_changed(&block->resets, 0);
    ts_store_release(&block->epoch, epoch); /* after the last use: object.c, snapshot.c (epoch_of) */
    ts_heap_link(block);
}

/* A block for an epoch, begun. NULL: no memory. */
static inline ts_block *ts_block_take(ts_heap *heap, ts_share *share, struct ts_epoch *epoch, bool scope) {
    ts_block **list = scope ? &heap->free_scope : &heap->free_churn;
    if (TS_UNLIKELY(*list == NULL) && !ts_heap_fetch_blocks(heap, scope)) return NULL;
    ts_block *block = *list;
    ts_block_begin(heap, share, epoch, block, scope);
    return block;
}

/* ---- names of threads ------------------------------------------------------------------------------------------- */

typedef struct ts_thread_name {
    uint64_t serial; /* of the thread's heap while it had that; 0: unknown */
    uint64_t word[2];
} ts_thread_name;
_Static_assert(sizeof(((ts_thread_name *)0)->word) == TS_OS_THREAD_NAME_BYTES, "a name is two words");

/* From now on; once. A thread that has begun before asks for its name when it is first sampled. */
void ts_thread_names_want(void);
/* The calling thread has this heap now; has it no more. */
void ts_thread_name_begin(ts_heap *heap);
void ts_thread_name_end(ts_heap *heap);
/* As the calling thread, which has that heap, knows its name. */
ts_thread_name ts_thread_name_own(ts_heap *heap);
/* The name that the thread has now. If it has ended: the name that it had when this one was taken. */
void ts_thread_name_now(const ts_thread_name *name, char out[TS_OS_THREAD_NAME_BYTES]);
/* Looks up the names of all threads. Any thread, holding nothing. */
void ts_thread_names_look(void);
void ts_thread_names_fork_child(void);

#endif
