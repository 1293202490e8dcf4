/* A malloc that takes its time for one size: a recorder that stands before it lets no fork into the middle of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Atomic int slow_malloc_is_busy;

void *malloc(size_t size) {
    static void *(*next)(size_t);
    if (!next) {
        void *p = dlsym(RTLD_NEXT, "malloc");
        memcpy(&next, &p, sizeof next);
    }
    if (size != 31337) return next(size);
    slow_malloc_is_busy = 1;
    (void)usleep(300000);
    void *p = next(size);
    slow_malloc_is_busy = 0;
    return p;
}
