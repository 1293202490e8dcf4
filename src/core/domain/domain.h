/*
 * A domain is an epoch with a place in the program: threads enter and leave it. Its public value is its id in the
 * table of domains, never an address. So a stale value is recognised for ever, and can be passed anywhere.
 */
#ifndef TS_DOMAIN_DOMAIN_H
#define TS_DOMAIN_DOMAIN_H

#include "epoch/epoch.h"

struct ts_cleanup;
struct ts_kin;

/* A domain's end leaves its epoch alone, ends it too, or lets it drain. */
enum { TS_EPOCH_STAYS, TS_EPOCH_ENDS, TS_EPOCH_DRAINS };
/* The owner while another thread finds out whether it can end the domain (ts_tree_owner), and after the id is over.
   No thread has it as its serial, and no domain as its ts_domain_nobody. */
#define TS_OWNER_ENDING (UINT64_MAX - 1)
/* The states of a domain.
       TS_QUIET              no end or reset is under way
       TS_ENDS               it ends; its cleanups run
       TS_RESETS             it is being emptied; its cleanups run
       TS_RESETS_THEN_ENDS   it is being emptied, and ends afterwards
       TS_TRIED              it ends if no thread is inside. The thread that finds that out has the lock of the tree
                             (tree.h). No call is refused: a thread that meets this state waits for the answer
       TS_MARKED             no thread was inside, and it ends when its turn comes
       TS_ENDS_ALONE         its turn has come, and only the thread that ends it comes in
       TS_RESETS_MARKED      it is marked, and one of its cleanups empties it. Afterwards it is TS_MARKED again */
enum { TS_QUIET, TS_ENDS, TS_RESETS, TS_RESETS_THEN_ENDS, TS_TRIED, TS_MARKED, TS_ENDS_ALONE, TS_RESETS_MARKED };

typedef struct ts_domain {
    ts_table_record record;
    /* Constant during a use. Atomic, because a stale id may be looked up while the record gets its next use. */
    _Atomic(ts_allocator *) allocator;
    _Atomic uintptr_t token;
    _Atomic uint64_t epoch; /* EpochId */
    _Atomic uint64_t owner; /* serial of the thread that owns it; ts_domain_nobody: handed over; 0: shared */
    _Atomic bool shared;
    _Atomic uint8_t ends_epoch;            /* TS_EPOCH_STAYS, TS_EPOCH_ENDS or TS_EPOCH_DRAINS */
    _Atomic uint32_t busy;                 /* a state; set under the epoch's lock */
    uint64_t busy_by;                      /* guarded by that lock: serial of the thread that made it busy */
    _Atomic(struct ts_cleanup *) cleanups; /* newest first; changed under the epoch's lock */
    _Atomic(ts_scope_block *) block;       /* the creator's block in the epoch, if it had one: a hint */
    /* How often the owner is inside of a domain that is not shared. Only the owner writes it; a thread that is about
       to end the domain reads it. 0 while the record is free. */
    _Atomic uint32_t inside;
    uint32_t left_behind; /* owner only: the use has ended while the owner was inside */
    /* For a shared domain: [63:32] low bits of the era of the use  [31] LEFT: that use has ended, and no thread comes
       in any more  [30:0] how often threads are inside. Any thread adds to it. The last one out of an ended use gives
       the record back. */
    _Atomic uint64_t guests;
    _Atomic(struct ts_kin *) kin; /* parent and children, if it ever had any (tree.h); NULL in a free record */
    uint64_t owner_before; /* guarded by busy: the owner when it was TRIED, until it ends or is quiet again; else 0 */
    _Atomic bool captures; /* EPOCH_DOMAIN_CAPTURE; constant during a use once its maker has the id */
    uint32_t busy_level;   /* as busy_by: how many cleanups that thread was running, one in the other (cleanup.c) */
} ts_domain;
_Static_assert(sizeof(ts_domain) <= TS_DOMAIN_STRIDE, "one record of a table");

#define TS_GUESTS_LEFT ((uint64_t)1 << 31)
static inline uint32_t ts_guests_count(uint64_t guests) { return (uint32_t)(guests & (TS_GUESTS_LEFT - 1)); }
/* How often threads are inside of the domain, in any use of its record. */
static inline uint32_t ts_domain_inside(const ts_domain *d) {
    /* seq_cst: see count_in_shared, in enter.c */
    return ts_load_relaxed(&d->shared) ? ts_guests_count(ts_load_seq(&d->guests)) : ts_load_seq(&d->inside);
}

/* A function of the process's malloc, if there is one. It is told where the calling thread's malloc is to allocate,
   whenever that changes. token 0: in no domain that captures. Set once. */
typedef void ts_capture_fn(uintptr_t token, EpochId epoch);
extern TS_HIDDEN _Atomic(ts_capture_fn *) ts_capture;
/* Tells that function of the innermost domain of the calling thread that captures, or of none. Called where
   ts_capture is set. */
void ts_domain_follow_capture(void);

/* The owner of a domain that is handed over, until a thread takes it. No other use of the record has this word. So a
   thread that comes too late can take only that domain. No thread has it as its serial. */
static inline uint64_t ts_domain_nobody(uint64_t id) { return ~id; } /* the highest bit is set, because no id has it */

extern TS_HIDDEN ts_table ts_domains;
/* `guests` of the use with this id, with no thread inside. */
static inline uint64_t ts_guests_none(uint64_t id) { return id >> ts_domains.index_bits << 32; }

void ts_domain_init(void);
static inline ts_domain *ts_domain_find(uint64_t id) {
    return ts_table_find_strided(&ts_domains, id, TS_DOMAIN_STRIDE);
}
/* Makes the usual domain in the allocator with this token: the calling thread's own, without a label, in a scope
   epoch of its own that ends with it. 0: it takes more than the thread has at hand, or there is no such allocator.
   ts_domain_open then does it, or says why not. */
uint64_t ts_domain_make(uintptr_t token);
/* Makes a domain of an epoch that has none. token: the one by which the caller found the allocator. 0: errno is ENOMEM,
   EINVAL (there never was such an epoch), ESTALE (it is closed) or EBUSY (it has a domain). */
uint64_t ts_domain_wrap(ts_allocator *allocator, uintptr_t token, EpochId epoch, unsigned ends_epoch);
/* What a domain has for all of its use. All 0: there is no such domain, or it has ended. */
typedef struct ts_domain_fields {
    ts_allocator *allocator;
    uintptr_t token;
    EpochId epoch;
} ts_domain_fields;
ts_domain_fields ts_domain_read(uint64_t id);
bool ts_domain_enter(uint64_t id);
bool ts_domain_exit(uint64_t id);
void ts_domain_destroy(uint64_t id);
/* The kinds of epochs and domains, and the flags that only domains have. */
#define TS_EPOCH_KINDS (EPOCH_CHURN | EPOCH_SCOPE)
#define TS_DOMAIN_FLAGS (EPOCH_DOMAIN_SHARED | EPOCH_DOMAIN_DRAIN | EPOCH_DOMAIN_CAPTURE)
/* Makes a domain with an epoch of its own; flags as in epoch_domain_create_ex. 0: errno says why. */
uint64_t ts_domain_open(ts_allocator *allocator, uintptr_t token, const char *label, unsigned flags);
uint64_t ts_domain_create_child(uint64_t parent, const char *label, unsigned flags);
bool ts_domain_move(uint64_t child, uint64_t parent);
/* Ends a domain from any thread, with an answer. false: errno is EBUSY, EPERM or EINVAL. */
bool ts_domain_end(uint64_t id);
bool ts_domain_force_close(uint64_t id);
bool ts_domain_reset(uint64_t id, size_t keep_bytes);
bool ts_domain_on_destroy(uint64_t id, void (*fn)(void *), void *arg);
/* At the end of the calling thread: no cleanup that it ran will return. What it was ending can be ended. */
void ts_domain_thread_ends(void);
bool ts_domain_hand_over(uint64_t id);
/* Takes back the newest cleanup with this function and argument. */
bool ts_domain_off_destroy(uint64_t id, void (*fn)(void *), void *arg);
/* Moves an object into the domain. Returns its new place. */
void *ts_domain_promote(uint64_t id, void *p);
/* slab_alloc off its fast path, inside a domain. */
void *ts_domain_alloc(size_t size);
/* Takes back the records of this thread's domains that other threads have ended. */
void ts_domain_collect_returned(ts_heap *heap);
static inline void ts_domain_collect_any_returned(ts_heap *heap) {
    if (TS_UNLIKELY(ts_load_relaxed(&heap->returned) != 0)) ts_domain_collect_returned(heap); /* a hint */
}
void ts_domain_fork_child(void);
/* Shows the arguments of cleanups that have not run, under the lock of their epoch. It is for a tool that looks when
   the process ends: a cleanup that comes or runs meanwhile may be missed. */
void ts_domain_show_cleanups(void (*keep)(void *arg));
/* Ends all domains of an allocator without running their cleanups. */
void ts_domain_destroy_all(ts_allocator *allocator);

/* ---- trees, in tree.h ------------------------------------------------------------------------------------------- */

/* Guards the trees; the first of all ranks. */
extern TS_HIDDEN ts_lock ts_tree_lock;
/* The id of the parent. 0: there is none, or no such domain. */
uint64_t ts_tree_parent(uint64_t domain);

/* ---- mark ------------------------------------------------------------------------------------------------------- */

/* false: errno is EINVAL (the domain cannot have marks), EPERM, ESTALE (closed) or ENOMEM. */
bool ts_mark_make(uint64_t domain, SlabMark *out);
/* false: errno is EINVAL (no such mark) or EPERM. */
bool ts_mark_rewind(uint64_t domain, SlabMark mark);
/* Drops the marks of a domain. Caller: the thread that empties or ends it; anchored: or its owner, who gives it up,
   while its objects stay. */
void ts_mark_drop_all(const ts_domain *d, bool anchored);

#endif
