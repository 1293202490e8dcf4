/*
 * A pool of APR as a domain of temporal-slab. The record of a pool lies in an epoch of its own, so that it outlives a
 * clear; all that the pool hands out lies in the domain.
 *
 * The domain is made by the first allocation, and belongs to the thread that makes it. That is the cheapest kind, and
 * APR's pools go from thread to thread: another thread allocates by the epoch's id, and ends the domain by
 * epoch_domain_end(), both of which any thread may do. A pool that another thread clears gets a new domain.
 *
 * What the pool hands out is cut from chunks, which are the objects that temporal-slab counts: APR never frees a part
 * of a pool, so a check of each part would find nothing. (An object for each apr_palloc() cost httpd 17 % more
 * instructions a request; chunks cost 6 %.)
 *
 * As in APR, one thread at a time uses a pool. The lists of children have the lock of the parent's apr_allocator_t.
 */
#ifndef TSLAB_APR_POOL_H
#define TSLAB_APR_POOL_H

#include <apr_allocator.h>
#include <apr_hash.h>
#include <apr_pools.h>
#include <apr_thread_proc.h>
#include <stdbool.h>
#include <stdint.h>
#include <tslab/tslab.h>

typedef struct ta_cleanup {
    struct ta_cleanup *next;
    const void *data;
    apr_status_t (*plain)(void *);
    apr_status_t (*child)(void *); /* before an exec; NULL: a cleanup that comes before the children */
} ta_cleanup;

typedef struct ta_process {
    struct ta_process *next;
    apr_proc_t *process;
    apr_kill_conditions_e how;
} ta_process;

struct apr_pool_t {
    apr_pool_t *self;    /* this pool, until it is destroyed */
    char *at, *end;      /* of the current chunk: the next free byte, and the end */
    size_t chunk;        /* bytes of the next one */
    EpochId epoch;       /* of the domain; EPOCH_NONE: nothing is allocated */
    EpochDomain *domain; /* NULL: the same */
    uint64_t thread;     /* that made the domain */
    apr_pool_t *parent, *child, *sibling;
    apr_pool_t **link; /* that names this pool: parent->child, or the elder one's sibling */
    ta_cleanup *cleanups, *pre_cleanups, *unused; /* newest first */
    ta_process *processes;
    apr_hash_t *user_data;
    apr_abortfunc_t abort_fn;
    apr_allocator_t *allocator; /* for those that ask for one, and for its lock: no memory of the pool is from it */
    const char *tag;
    const void *creator; /* the address behind the call; NULL: the tag is what the creator said */
};

/* Set by ta_start(), by one thread before there are others, as APR asks of apr_initialize(). */
extern SlabAllocator *ta_allocator;
extern EpochId ta_records; /* a churn epoch: records of pools and allocators, and blocks of allocators */
bool ta_start(void);       /* false: no memory */
apr_pool_t *ta_root(void); /* APR's global pool; NULL: APR is not initialized */

/* An object of temporal-slab in the pool's domain; NULL after the pool's abort function. */
void *ta_alloc_alone(apr_pool_t *pool, apr_size_t size);
/* What an out-of-memory ends with. Returns NULL. */
void *ta_no_memory(const apr_pool_t *pool);

/* cleanup.c */
void ta_run_cleanups(ta_cleanup **list);
void ta_end_processes(ta_process *processes);

/* label.c: `function` or `file+offset` of a call, kept for ever; NULL: too many, or nothing is known of it. */
const char *ta_label_of(const void *address);

#endif
