#include "stress.h"

#include "pattern.h"

#include <errno.h>
#include <string.h>

static size_t pick_size(struct sup_rng *rng) {
    uint64_t number = sup_rng_next(rng);
    unsigned choice = (unsigned)(number % 100);
    number >>= 8;
    return (size_t)(choice < 70   ? number % 256
                    : choice < 92 ? number % 1100
                    : choice < 99 ? number % 8200
                                  : number % 70000);
}

struct stress_object stress_make(SlabAllocator *allocator, EpochId epoch, struct sup_rng *rng) {
    struct stress_object object = {NULL, pick_size(rng), sup_rng_next(rng)};
    errno = 0;
    object.address = slab_malloc_epoch(allocator, object.size, epoch);
    if (object.address == NULL) {
        SUP_CHECK(errno == ESTALE, "slab_malloc_epoch of %zu bytes: %s", object.size, strerror(errno));
        return object;
    }
    sup_pattern_fill(object.address, object.size, object.key);
    return object;
}

void stress_check(const struct stress_object *object) {
    SUP_CHECK(sup_pattern_check(object->address, object->size, object->key), "%p of %zu bytes has a second owner",
              (void *)object->address, object->size);
}

bool stress_grow(SlabAllocator *allocator, struct stress_object *object, struct sup_rng *rng) {
    size_t size = object->size + (size_t)sup_rng_below(rng, 3 * 16384);
    unsigned char *address = slab_realloc(allocator, object->address, size);
    SUP_CHECK(address != NULL, "slab_realloc of %zu bytes to %zu: %s", object->size, size, strerror(errno));
    bool moved = address != object->address;
    object->address = address;
    stress_check(object);
    object->size = size;
    sup_pattern_fill(address, size, object->key);
    return moved;
}

void stress_free(SlabAllocator *allocator, struct stress_object *object) {
    stress_check(object);
    SUP_CHECK(slab_free(allocator, object->address), "slab_free of the live %p of %zu bytes", (void *)object->address,
              object->size);
    object->address = NULL;
}

void stress_box_init(struct stress_box *box) {
    (void)pthread_mutex_init(&box->mutex, NULL);
    box->count = 0;
}

bool stress_put(struct stress_box *box, const struct stress_object *object) {
    (void)pthread_mutex_lock(&box->mutex);
    bool room = box->count < STRESS_BOX_ROOM;
    if (room) {
        box->objects[box->count++] = *object;
    }
    (void)pthread_mutex_unlock(&box->mutex);
    return room;
}

bool stress_take(struct stress_box *box, struct stress_object *object) {
    (void)pthread_mutex_lock(&box->mutex);
    bool some = box->count > 0;
    if (some) {
        *object = box->objects[--box->count];
    }
    (void)pthread_mutex_unlock(&box->mutex);
    return some;
}

void stress_box_drain(SlabAllocator *allocator, struct stress_box *box) {
    struct stress_object object;
    while (stress_take(box, &object)) {
        stress_free(allocator, &object);
    }
    (void)pthread_mutex_destroy(&box->mutex);
}

static void *run_job(void *argument) {
    struct stress_job *job = argument;
    job->fn(job->argument, job->number);
    return NULL;
}

void stress_start(struct stress_crew *crew, unsigned count, void (*fn)(void *, unsigned), void *argument) {
    SUP_CHECK(count <= sizeof crew->threads / sizeof crew->threads[0], "%u threads", count);
    crew->count = count;
    for (unsigned i = 0; i < count; i++) {
        crew->jobs[i] = (struct stress_job){fn, argument, i};
        SUP_CHECK(pthread_create(&crew->threads[i], NULL, run_job, &crew->jobs[i]) == 0, "pthread_create");
    }
}

void stress_join(struct stress_crew *crew) {
    for (unsigned i = 0; i < crew->count; i++) {
        (void)pthread_join(crew->threads[i], NULL);
    }
}
