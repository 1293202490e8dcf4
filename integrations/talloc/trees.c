/* What objects of talloc cost, in trees of several sizes: nanoseconds an object, made and freed with its tree. For bench.py. */
#include <stdio.h>
#include <talloc.h>
#include <time.h>

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void one_by_one(int rounds, void *top) {
    double begin = now_ns();
    for (int i = 0; i < rounds; i++) {
        void *object = talloc_size(top, 0);
        (void)talloc_strdup(object, "foo bar");
        (void)talloc_size(object, 300);
        talloc_free(object);
    }
    printf("%.1f\n", (now_ns() - begin) / rounds / 3);
    talloc_free(top);
}

static void contexts(int rounds, int objects) {
    double begin = now_ns();
    for (int i = 0; i < rounds; i++) {
        void *top = talloc_new(NULL);
        for (int k = 0; k < objects; k++) (void)talloc_size(top, (size_t)k * 37 % 200);
        talloc_free(top);
    }
    printf("%.1f\n", (now_ns() - begin) / rounds / (objects + 1));
}

int main(void) {
    one_by_one(500000, talloc_new(NULL));
    one_by_one(500000, talloc_pool(NULL, 1024));
    contexts(200000, 4);
    contexts(1000, 1000);
    contexts(20, 100000);
    return 0;
}
