/* A cache with expiry: entries live for some thousand requests, buffers of a request die with it. */
#include "common.h"

enum { ENTRIES = 3000 };
static struct {
    void *data;
    unsigned expires;
} cache[ENTRIES];

FUNCTION static void store_entry(unsigned now) {
    unsigned i = random_below(ENTRIES);
    free(cache[i].data);
    cache[i].data = get(300 + random_below(300));
    cache[i].expires = now + 5000;
}

FUNCTION static void expire(unsigned now) {
    for (unsigned i = 0; i < ENTRIES; i++) {
        if (cache[i].data && cache[i].expires < now) {
            free(cache[i].data);
            cache[i].data = NULL;
        }
    }
}

FUNCTION static void serve(unsigned now) {
    void *buffers[24];
    for (unsigned i = 0; i < 24; i++) {
        buffers[i] = get(100 + random_below(400));
    }
    if (random_below(4) == 0) {
        store_entry(now);
    }
    for (unsigned i = 0; i < 24; i++) {
        free(buffers[i]);
    }
}

int main(void) {
    for (unsigned now = 0; now < 15000; now++) {
        serve(now);
        if (now % 1000 == 0) {
            expire(now);
        }
    }
    puts("15000");
    return 0;
}
