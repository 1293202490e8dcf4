/*
 * The soak: every feature at once on all threads, for as long as one likes. Threads live for a moment and end, with
 * objects that others free; all of them stop at a gate once a second, and the main thread looks at every structure.
 */
#ifndef SOAK_H
#define SOAK_H

#include "stress.h"

#include <stdatomic.h>

#define SOAK_BOXES 8u
#define SOAK_KEPT 96u   /* objects that a thread keeps */
#define SOAK_STALE 64u  /* handles that must never be accepted again */
#define SOAK_PARKED 16u /* domains handed over */

/* The work of all threads. */
#define SOAK_COUNTS(X) \
    X(operations)      \
    X(objects) X(foreign) X(handles) X(epochs) X(domains) X(threads) X(forks) X(allocators) X(refused) X(trims) X(large)

struct soak_counts {
#define X(name) uint64_t name;
    SOAK_COUNTS(X)
#undef X
};

/* An object on its way from one thread to another. */
struct soak_object {
    struct stress_object object;
    SlabAllocator *allocator;
};

struct soak {
    struct sup_args args;
    SlabAllocator *plain; /* default options */
    SlabAllocator *tight; /* gives back at once, poisons, has a budget that changes: may refuse */
    EpochId churn, scope; /* of plain; for the whole run, and until the main thread renews it at the gate */
    EpochId tight_churn;
    _Atomic EpochId chaos;               /* of plain; any thread may end it under the others */
    EpochDomain *shared;                 /* renewed by the main thread at the gate */
    struct stress_box boxes[SOAK_BOXES]; /* objects of plain, in churn and the rolling epoch */
    struct stress_box large;             /* likewise, of 256 KiB and more; the main thread empties it at the gate */
    pthread_mutex_t parked_mutex;
    EpochDomain *parked[SOAK_PARKED];
    unsigned parked_count;
    atomic_bool stop;
    atomic_uint_fast64_t count[sizeof(struct soak_counts) / sizeof(uint64_t)];
};

/* The gate. A life is a thread between enter and leave; wait is where it stops when the gate is shut. */
void soak_gate_enter(void);
void soak_gate_leave(void);
void soak_gate_wait(void);
extern atomic_bool soak_gate_shut;

/* One life: allocates, frees and so on until its time is up. */
void soak_live(struct soak *soak, uint64_t seed);
/* Frees objects on their way between threads, and destroys the domains that nobody has. */
void soak_drain(struct soak *soak);
/* Frees the large objects among them. */
void soak_drain_large(struct soak *soak);

#endif
