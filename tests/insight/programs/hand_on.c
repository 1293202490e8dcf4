/* Threads that hand on: one makes orders, the other frees them. No call of either thread has an order from beginning
   to end; the price list that a call makes for itself dies with it. */
#include "common.h"

#include <pthread.h>

enum { ORDERS = 40000, PLACES = 256 };
static void *queue[PLACES];
static unsigned written, read_up_to;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

FUNCTION static void make_order(void) {
    void *order = get(150);
    pthread_mutex_lock(&lock);
    while (written - read_up_to == PLACES) {
        pthread_cond_wait(&changed, &lock);
    }
    queue[written++ % PLACES] = order;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

FUNCTION static unsigned settle_order(void) {
    pthread_mutex_lock(&lock);
    while (written == read_up_to) {
        pthread_cond_wait(&changed, &lock);
    }
    unsigned char *order = queue[read_up_to++ % PLACES];
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    unsigned value = *order;
    free(order);
    return value;
}

static void *maker(void *unused) {
    for (unsigned i = 0; i < ORDERS; i++) {
        make_order();
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, maker, NULL)) {
        return 1;
    }
    unsigned sum = 0;
    for (unsigned i = 0; i < ORDERS; i++) {
        sum += settle_order();
    }
    pthread_join(thread, NULL);
    printf("%u\n", sum);
    return 0;
}
