/*
 * Domains: an epoch with a scope. A domain's public value is its id in the domain table, never an address, so a
 * stale one is recognised for ever and can be passed anywhere.
 */
#ifndef TS_DOMAIN_DOMAIN_H
#define TS_DOMAIN_DOMAIN_H

#include "epoch/entered.h"
#include "epoch/epoch.h"

struct ts_cleanup;
struct ts_kin;

/* What the end of a domain does to its epoch. */
enum { TS_EPOCH_STAYS, TS_EPOCH_ENDS, TS_EPOCH_DRAINS };
/* The owner while another thread finds out whether it can end the domain, see ts_tree_owner; and of one whose id is over. No thread's serial,
   and no domain's ts_domain_nobody. */
#define TS_OWNER_ENDING (UINT64_MAX - 1)
/* What is being done with a domain that is busy, and whether it ends afterwards.
   TRIED: it ends if nobody is inside; who finds that out has the lock of the tree (tree.h). It is refused to nobody: who meets it waits for that.
   MARKED: nobody was, and it ends when its turn comes. ENDS_ALONE: that has come, and nobody comes in but who ends it. RESETS_MARKED: a cleanup
   empties one that is MARKED, and then is again. */
enum { TS_QUIET, TS_ENDS, TS_RESETS, TS_RESETS_THEN_ENDS, TS_TRIED, TS_MARKED, TS_ENDS_ALONE, TS_RESETS_MARKED };

typedef struct ts_domain {
    ts_entry entry;
    /* Constant during a use; atomic, as a stale id may be looked up while the entry gets its next use. */
    _Atomic(ts_allocator *) allocator;
    _Atomic uintptr_t token;
    _Atomic uint64_t epoch; /* EpochId */
    _Atomic uint64_t owner; /* serial of the thread that owns it; ts_domain_nobody: handed over; 0: shared */
    _Atomic bool shared;
    _Atomic uint8_t ends_epoch;            /* TS_EPOCH_*: what its end does to the epoch */
    _Atomic uint32_t busy;                 /* TS_QUIET: nothing; else cleanups run; set under the epoch's lock */
    uint64_t busy_by;                      /* guarded by that: serial of the thread that runs them */
    _Atomic(struct ts_cleanup *) cleanups; /* newest first; changed under the epoch's lock */
    _Atomic(ts_scope_block *) block;       /* the creator's in the epoch, if it had one: a hint */
    /* How often the owner is inside of one that is not shared: written by him alone, read by who is about to end it. 0 while the entry is free. */
    _Atomic uint32_t inside;
    uint32_t left_behind; /* owner only: its use has ended while he was inside */
    /* Of a shared one: [63:32] of which use, the low bits of its era  [31] LEFT: that has ended, and nobody comes in any more  [30:0] how often
       threads are inside. Added to by any; the last one out of a use that has ended gives the entry back. */
    _Atomic uint64_t guests;
    _Atomic(struct ts_kin *)
        kin; /* parent and children, if it ever had any; NULL in an entry that is free; see tree.h */
    uint64_t
        owner_before; /* guarded by busy: whose it was when it was TRIED, until it ends or is not any more; else 0 */
    _Atomic bool captures; /* EPOCH_DOMAIN_CAPTURE; constant during a use once its maker has the id */
} ts_domain;
_Static_assert(sizeof(ts_domain) <= TS_DOMAIN_STRIDE, "one table entry");

#define TS_GUESTS_LEFT ((uint64_t)1 << 31)
static inline uint32_t ts_guests_count(uint64_t guests) { return (uint32_t)(guests & (TS_GUESTS_LEFT - 1)); }
/* How often threads are inside, in whatever use it is. */
static inline uint32_t ts_domain_inside(const ts_domain *d) {
    /* seq_cst: see count_in_shared, in enter.c */
    return ts_load_relaxed(&d->shared) ? ts_guests_count(ts_load_seq(&d->guests)) : ts_load_seq(&d->inside);
}

/* The process's malloc, if there is one: told of where the calling thread's is to allocate, whenever that changes. token 0: in no
   domain that captures. Set once. */
typedef void ts_capture_fn(uintptr_t token, EpochId epoch);
extern TS_HIDDEN _Atomic(ts_capture_fn *) ts_capture;
/* Tells of the innermost domain of the calling thread that captures, or of none. Where ts_capture is set. */
void ts_domain_follow_capture(void);

/* The owner of a domain that is handed over, until a thread takes it: by a word that no other use of the entry has, so that who comes too
   late takes none but that domain. No thread's serial. */
static inline uint64_t ts_domain_nobody(uint64_t id) { return ~id; } /* the highest bit is set, as no id has it */

extern TS_HIDDEN ts_table ts_domains;
/* `guests` of that use, with nobody inside. */
static inline uint64_t ts_guests_none(uint64_t id) { return id >> ts_domains.index_bits << 32; }

void ts_domain_init(void);
static inline ts_domain *ts_domain_find(uint64_t id) {
    return ts_table_find_strided(&ts_domains, id, TS_DOMAIN_STRIDE);
}
/* The usual domain of the allocator with that token: the calling thread's, without a label, in a scope epoch of its own that
   ends with it. 0: it takes more than what the thread has at hand, or there is no such allocator; ts_epoch_open and
   ts_domain_create then do it, or say why not. */
uint64_t ts_domain_make(uintptr_t token);
/* token: by which the caller found the allocator. 0 with errno: ENOMEM; EINVAL, that use of the record has ended. */
uint64_t ts_domain_create(ts_allocator *allocator, uintptr_t token, EpochId epoch, bool shared, unsigned ends_epoch);
/* Its allocator's token and its epoch. false: no such domain (any more). */
bool ts_domain_read(uint64_t id, uintptr_t *token, EpochId *epoch);
bool ts_domain_enter(uint64_t id);
bool ts_domain_exit(uint64_t id);
void ts_domain_destroy(uint64_t id);
/* A domain with an epoch of its own; flags as of epoch_domain_create_ex. 0 with errno. */
uint64_t ts_domain_open(ts_allocator *allocator, uintptr_t token, const char *label, unsigned flags);
uint64_t ts_domain_create_child(uint64_t parent, const char *label, unsigned flags);
bool ts_domain_move(uint64_t child, uint64_t parent);
/* destroy with an answer, from any thread: false with EBUSY, EPERM, EINVAL. */
bool ts_domain_end(uint64_t id);
bool ts_domain_force_close(uint64_t id);
bool ts_domain_reset(uint64_t id, size_t keep_bytes);
bool ts_domain_on_destroy(uint64_t id, void (*fn)(void *), void *arg);
bool ts_domain_hand_over(uint64_t id);
/* Takes back the newest cleanup with that function and argument. */
bool ts_domain_off_destroy(uint64_t id, void (*fn)(void *), void *arg);
/* The object moved into the domain. */
void *ts_domain_promote(uint64_t id, void *p);
/* slab_alloc off its fast path, inside a domain. */
void *ts_domain_alloc(size_t size);
/* Takes what others have given back to this thread: the entries of domains of its own that they have ended. */
void ts_domain_take_returned(ts_heap *heap);
static inline void ts_domain_take_any_returned(ts_heap *heap) {
    if (TS_UNLIKELY(ts_load_relaxed(&heap->returned) != 0)) ts_domain_take_returned(heap); /* a hint */
}
void ts_domain_fork_child(void);
/* Shows what cleanups that have not run are to get, with the lock of their epoch. For a tool that looks when the process ends: a cleanup
   that comes or runs meanwhile may be missed. */
void ts_domain_show_cleanups(void (*keep)(void *arg));
/* Ends all domains of an allocator without running their cleanups. */
void ts_domain_destroy_all(ts_allocator *allocator);

#endif
