/*
 * A thread's variables, and the bracket in_op around each of its operations. heap.c says what the bracket is for.
 */
/* Modelled in tests/model: hold, bump, orders. */
#ifndef TS_OWNERSHIP_THREAD_H
#define TS_OWNERSHIP_THREAD_H

#include "ownership/block.h"

struct ts_allocator;

/* The epochs that one call of an owner can find drained, and some more: see TS_FOREIGN_WORK. */
#define TS_DRAINED 40u

#define TS_NO_SERIAL UINT64_MAX /* no thread's */
#define TS_WORD_NONE UINT64_MAX /* all flags at once: differs from each UNIT word in a flag */
/* The fast paths use these. They are static, and can be used before the thread has a heap. */
typedef struct ts_tls {
    _Atomic uintptr_t in_op; /* see the top of heap.c; read by others */
    /* Of the process's malloc (api/private_objects.c): this thread's block in the epoch of that, which never ends, so
       the block stays open while the thread lives. Allocations look at the first one. &ts_no_block: it is not known,
       or malloc allocates elsewhere. Frees look at the other two: the UNIT word of a slab in a bin at the block's very
       start, and the block. TS_WORD_NONE: it is not known. The thread writes these, and a caller takes back the first
       two (heap.c). */
    _Atomic(ts_churn_block *) private_block;
    _Atomic uint64_t private_word;
    ts_churn_block *private_bins;
    bool private_counted;    /* malloc allocates in that block, but no hit does, as samples are taken; owner only */
    ts_churn_block *block;   /* block of the epoch used last */
    ts_churn_block *rolling; /* block of the rolling epoch used last */
    _Atomic(ts_scope_block *) scope; /* block of the innermost domain, if that is a scope; read by others */
    ts_scope_block *last;            /* block of the scope epoch that was used last by its id, or by its domain */
    /* As `block` and `last`, of an allocator that samples stacks. No hit allocates there (ts_alloc_counted). */
    ts_churn_block *counted;
    ts_scope_block *counted_scope;
    _Atomic uintptr_t token; /* allocator used last. UINTPTR_MAX: none, so no fast paths (no heap, or timing is on).
                                TS_TOKEN_CALLED: none in this call (heap.c). Written by its thread, and by a caller */
    uint64_t share_key;      /* of this thread's share of that allocator, or TS_KEY_NO_SHARE */
    struct ts_heap *heap;
    uint64_t serial;                /* of the heap; TS_NO_SERIAL without one */
    struct ts_domain_scope *domain; /* innermost domain entered */
    const struct ts_domain *named;  /* record of the domain used last by its name, in whatever use it is; or NULL */
    struct ts_cleanup *cleaning;    /* innermost cleanup that it runs (domain/cleanup.c) */
    struct ts_allocator *settle;    /* retains too much: to be purged when nothing is held */
    uintptr_t settle_token;         /* the use of it that was meant */
    uint64_t settle_units;          /* that this thread owes, see TS_PURGE_LEAST_UNITS */
    uint64_t settle_own;            /* of them, those of the longest span that it has freed since it paid last */
    uint64_t released;              /* units of blocks that this thread has given up to be retained */
    uint64_t phase_released;        /* `released` at the last end of a phase at which something was owed */
    struct ts_heap *drain;          /* abandoned, with cross-thread frees: to be drained when nothing is held */
    bool drain_others;              /* other heaps have such frees, too */
    uint32_t drained[TS_DRAINED];   /* epochs by index: closing, and a block of theirs holds nothing any more */
    unsigned drained_count;
    bool drained_more;        /* there was no room for more of them: ts_epoch_run_deferred looks at all epochs */
    unsigned settled;         /* calls of ts_epoch_run_deferred */
    uint64_t opened_ns;       /* when it opened its newest epoch */
    unsigned others;          /* calls for other allocators than that of `token`, which found their way without it */
    uint64_t measured;        /* epoch that it ended, whose memory after the end is to be measured (epoch/past.h) */
    uintptr_t measured_in;    /* its allocator */
    uint32_t resident_kib;    /* before the end that it has begun (epoch/past.h) */
    bool span_fresh;          /* the memory of the span that it allocated last came from the pool */
    const ts_block *freed_in; /* of the ended thread an object of which it freed last; only compared */
} ts_tls;

extern TS_HIDDEN _Thread_local ts_tls ts_thread;

/* The token of a thread that is called. No allocator has it, and no program has seen it. It differs from the token of a
   thread without fast paths, because the other variables of the fast paths stay valid. */
#define TS_TOKEN_CALLED ((uintptr_t)&ts_no_block)

/* ---- brackets --------------------------------------------------------------------------------- */

#define TS_IN_OP 1u
TS_ALWAYS_INLINE void ts_op_begin(ts_tls *tls) {
    ts_store_relaxed(&tls->in_op, TS_IN_OP);
    ts_compiler_fence(); /* partner: barrier_all in ts_heap_hold */
}
/* The operation ends with a release store to the bump word of the thread's scope block, which is `bump`. 0: it has not
   begun. release: a thread that sees this store sees the end of the operation before. */
TS_ALWAYS_INLINE void ts_op_begin_bump(ts_tls *tls, uint64_t bump) {
    ts_store_release(&tls->in_op, ts_bump_name(bump));
    ts_compiler_fence(); /* partner: barrier_all in ts_heap_hold */
}
/* release: partner of the acquire in ts_is_in_op, hands over what the operation wrote */
TS_ALWAYS_INLINE void ts_op_end(ts_tls *tls) { ts_store_release(&tls->in_op, 0); }
/* Whether a thread may be inside an operation that it began before the caller's barrier_all. false: all that such
   operations wrote is seen. About an operation that began later the answer says nothing. */
static inline bool ts_is_in_op(const ts_tls *tls) {
    uintptr_t at = ts_load_acquire(&tls->in_op); /* partners: ts_op_end, ts_op_begin_bump */
    if (at <= TS_IN_OP) return at != 0;
    /* acquire: a thread that goes to another block has ended its operation in the last (ts_set_scope). A block record
       stays one for ever. */
    const ts_scope_block *block = ts_load_acquire(&tls->scope);
    return ts_bump_name(ts_load_acquire(&block->bump)) == at; /* partner: the end of the operation */
}
/* The next operations of the process's malloc take the slow path. */
static inline void ts_forget_private(ts_tls *tls) {
    ts_store_relaxed(&tls->private_block, &ts_no_block);
    ts_store_relaxed(&tls->private_word, TS_WORD_NONE);
}
/* The block in which slab_alloc looks first. Caller: the thread itself. */
TS_ALWAYS_INLINE void ts_set_scope(ts_tls *tls, ts_scope_block *block) {
    ts_store_release(&tls->scope, block); /* partner: ts_is_in_op */
}

#endif
