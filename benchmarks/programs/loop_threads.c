/* Objects that change their thread. */
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

/* ---- cross: batches go from who allocates to who frees ---------------------------------------------------------------- */

#define BATCH 128u
#define QUEUE 64u

typedef struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned char **batch[QUEUE];
    unsigned head, tail;
    unsigned batches; /* that will come */
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
        unsigned char **batch = (unsigned char **)(void *)loop_take(BATCH * sizeof *batch, 0);
        for (unsigned i = 0; i < BATCH; i++) batch[i] = loop_take(8 + loop_random(&q->seed) % 15993, (unsigned char)i);
        put(q, batch);
    }
    return NULL;
}

static void *consume(void *arg) {
    queue *q = arg;
    for (unsigned n = 0; n < q->batches; n++) {
        unsigned char **batch = take(q);
        for (unsigned i = 0; i < BATCH; i++) {
            q->sum += batch[i][0];
            free(batch[i]);
        }
        free(batch);
    }
    return NULL;
}

uint64_t loop_cross(unsigned amount) {
    static queue queues[THREADS / 2];
    pthread_t thread[THREADS];
    uint64_t sum = 0;
    for (unsigned k = 0; k < THREADS / 2; k++) {
        queue *q = &queues[k];
        loop_need(pthread_mutex_init(&q->lock, NULL) == 0 && pthread_cond_init(&q->changed, NULL) == 0);
        q->seed = k + 1;
        q->batches = amount * 20;
        create(&thread[2 * k], produce, q);
        create(&thread[2 * k + 1], consume, q);
    }
    for (unsigned k = 0; k < THREADS; k++) join(thread[k]);
    for (unsigned k = 0; k < THREADS / 2; k++) sum += queues[k].sum;
    return sum;
}
