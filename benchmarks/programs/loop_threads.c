/* Loops of several threads; in most of them objects change their thread. */
#include "loops.h"

#include <pthread.h>

#define THREADS 4u

static void create(pthread_t *thread, void *(*run)(void *), void *arg) {
    loop_need(pthread_create(thread, NULL, run, arg) == 0);
}
static void join(pthread_t thread) { loop_need(pthread_join(thread, NULL) == 0); }

/* ---- server: a thread has a table of objects, replaces some, and hands the table on to a thread that follows it -------- */

#define TABLE 1000u

typedef struct table {
    unsigned char *object[TABLE];
    uint64_t seed, sum;
} table;

static void *serve(void *arg) {
    table *t = arg;
    for (unsigned n = 0; n < 20 * TABLE; n++) {
        unsigned i = (unsigned)(loop_random(&t->seed) % TABLE);
        if (t->object[i]) t->sum += t->object[i][0];
        free(t->object[i]);
        t->object[i] = loop_take(16 + loop_random(&t->seed) % 1000, (unsigned char)n);
    }
    return NULL;
}

uint64_t loop_server(unsigned amount) {
    static table tables[THREADS];
    uint64_t sum = 0;
    for (unsigned k = 0; k < THREADS; k++) tables[k].seed = k + 1;
    for (unsigned round = 0; round < amount; round++) {
        pthread_t thread[THREADS];
        for (unsigned k = 0; k < THREADS; k++) create(&thread[k], serve, &tables[k]);
        for (unsigned k = 0; k < THREADS; k++) join(thread[k]);
    }
    for (unsigned k = 0; k < THREADS; k++) {
        for (unsigned i = 0; i < TABLE; i++) {
            free(tables[k].object[i]);
            tables[k].object[i] = NULL;
        }
        sum += tables[k].sum;
    }
    return sum;
}

/* ---- cross and produce: batches go from the allocating to the freeing thread ---------------------------------- */

#define QUEUE 64u

typedef struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned char **batch[QUEUE];
    unsigned head, tail;
    unsigned batches; /* that will come */
    unsigned objects; /* in a batch */
    size_t least, most;
    uint64_t seed, sum;
} queue;

static void put(queue *q, unsigned char **batch) {
    pthread_mutex_lock(&q->lock);
    while (q->head - q->tail == QUEUE) pthread_cond_wait(&q->changed, &q->lock);
    q->batch[q->head++ % QUEUE] = batch;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

static unsigned char **take(queue *q) {
    pthread_mutex_lock(&q->lock);
    while (q->head == q->tail) pthread_cond_wait(&q->changed, &q->lock);
    unsigned char **batch = q->batch[q->tail++ % QUEUE];
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return batch;
}

static void *produce(void *arg) {
    queue *q = arg;
    for (unsigned n = 0; n < q->batches; n++) {
        unsigned char **batch = (unsigned char **)(void *)loop_take(q->objects * sizeof *batch, 0);
        for (unsigned i = 0; i < q->objects; i++)
            batch[i] = loop_take(q->least + loop_random(&q->seed) % (q->most - q->least + 1), (unsigned char)i);
        put(q, batch);
    }
    return NULL;
}

static void *consume(void *arg) {
    queue *q = arg;
    for (unsigned n = 0; n < q->batches; n++) {
        unsigned char **batch = take(q);
        for (unsigned i = 0; i < q->objects; i++) {
            q->sum += batch[i][0];
            free(batch[i]);
        }
        free(batch);
    }
    return NULL;
}

static uint64_t pass_batches(unsigned batches, unsigned objects, size_t least, size_t most) {
    static queue queues[THREADS / 2];
    pthread_t thread[THREADS];
    uint64_t sum = 0;
    for (unsigned k = 0; k < THREADS / 2; k++) {
        queue *q = &queues[k];
        loop_need(pthread_mutex_init(&q->lock, NULL) == 0 && pthread_cond_init(&q->changed, NULL) == 0);
        q->seed = k + 1;
        q->batches = batches;
        q->objects = objects;
        q->least = least;
        q->most = most;
        create(&thread[2 * k], produce, q);
        create(&thread[2 * k + 1], consume, q);
    }
    for (unsigned k = 0; k < THREADS; k++) join(thread[k]);
    for (unsigned k = 0; k < THREADS / 2; k++) sum += queues[k].sum;
    return sum;
}

uint64_t loop_cross(unsigned amount) { return pass_batches(amount * 20, 128, 8, 16000); }
uint64_t loop_produce(unsigned amount) { return pass_batches(amount, 4096, 64, 64); }

/* ---- simple: one size ------------------------------------------------------------------------------------------------ */

typedef struct list {
    uint64_t seed, sum;
    unsigned rounds;
} list;

static void *allocate_lists(void *arg) {
    enum { LONGEST = 100, BYTES = 48 };
    list *l = arg;
    unsigned char *object[LONGEST];
    for (unsigned round = 0; round < l->rounds; round++) {
        unsigned length = 1 + (unsigned)(loop_random(&l->seed) % LONGEST);
        for (unsigned i = 0; i < length; i++) object[i] = loop_take(BYTES, (unsigned char)i);
        for (unsigned i = 0; i < length; i++) {
            l->sum += object[i][0];
            free(object[i]);
        }
    }
    return NULL;
}

uint64_t loop_simple(unsigned amount) {
    list l = {1, 0, amount * 10000};
    allocate_lists(&l);
    return l.sum;
}

uint64_t loop_threads(unsigned amount) {
    list lists[THREADS];
    pthread_t thread[THREADS];
    uint64_t sum = 0;
    for (unsigned k = 0; k < THREADS; k++) {
        lists[k] = (list){k + 1, 0, amount * 10000};
        create(&thread[k], allocate_lists, &lists[k]);
    }
    for (unsigned k = 0; k < THREADS; k++) {
        join(thread[k]);
        sum += lists[k].sum;
    }
    return sum;
}
