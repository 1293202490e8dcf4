/*
 * Common to the stress tests: objects that carry their owner's pattern, mailboxes between threads, threads that are
 * started and joined together.
 */
#ifndef SUP_STRESS_H
#define SUP_STRESS_H

#include "check.h"
#include "rng.h"

#include <pthread.h>
#include <stdatomic.h>
#include <tslab/stats.h>

struct stress_object {
    unsigned char *address;
    size_t size;
    uint64_t key;
};

/* A new object in the epoch, filled with its pattern. address is NULL if the epoch takes none (ESTALE): any
   other failure ends the test. */
struct stress_object stress_make(SlabAllocator *allocator, EpochId epoch, struct sup_rng *rng);
/* The pattern must be there: otherwise somebody else owns the same bytes. */
void stress_check(const struct stress_object *object);
/* stress_check, then slab_realloc by up to three units more. Whether it has moved. */
bool stress_grow(SlabAllocator *allocator, struct stress_object *object, struct sup_rng *rng);
/* stress_check, then slab_free, which must be true. */
void stress_free(SlabAllocator *allocator, struct stress_object *object);

#define STRESS_BOX_ROOM 256u

struct stress_box {
    pthread_mutex_t mutex;
    unsigned count;
    struct stress_object objects[STRESS_BOX_ROOM];
};

void stress_box_init(struct stress_box *box);
bool stress_put(struct stress_box *box, const struct stress_object *object); /* false: full */
bool stress_take(struct stress_box *box, struct stress_object *object);      /* false: empty */
void stress_box_drain(SlabAllocator *allocator, struct stress_box *box);     /* frees its objects, and ends it */

/* Runs fn(argument, number) in threads numbered from 0, until all have returned. */
struct stress_crew {
    unsigned count;
    pthread_t threads[64];
    struct stress_job {
        void (*fn)(void *argument, unsigned number);
        void *argument;
        unsigned number;
    } jobs[64];
};

void stress_start(struct stress_crew *crew, unsigned count, void (*fn)(void *, unsigned), void *argument);
void stress_join(struct stress_crew *crew);

#endif
