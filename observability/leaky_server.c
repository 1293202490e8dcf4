/*
 * A server of ten handlers, of which one forgets something now and then.
 *
 *     leaky_server SECONDS [LEAKING_HANDLER [open]]     0 to 9; none: -1
 *
 * Each request is an epoch labelled with its handler, which is closed, and the leaking handler forgets to free an
 * object. With
 * "open" nothing is ever closed: each request is a domain, created, entered, exited and destroyed. The leaking handler
 * leaves early now and then, without destroying its domain, and an epoch labelled `cache` that stays open gets an
 * object each time and loses none. Says "leaks from now on" when the first object is forgotten. What it shows comes
 * from TSLAB_HTTP and TSLAB_SHM.
 */
#include <tslab/stats.h>
#include <tslab/tslab.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OBJECTS 60u

static unsigned long forgotten;

static void forget(void) {
    if (forgotten++ > 0) return;
    puts("leaks from now on");
    fflush(stdout);
}

/* The line that the tools name. */
static void remember(SlabAllocator *allocator, EpochId cache) {
    char *object = slab_malloc_epoch(allocator, 128, cache);
    if (!object) exit(1);
    object[0] = 1;
    forget();
}

static void request_in_domain(SlabAllocator *allocator, unsigned handler, bool leaves_early) {
    char label[32];
    snprintf(label, sizeof label, "handler:/api/%u", handler);
    EpochDomain *domain = epoch_domain_create_ex(allocator, label, 0);
    if (!domain || !epoch_domain_enter(domain)) exit(1);
    for (unsigned i = 0; i < OBJECTS; i++)
        if (!slab_alloc(i % 3 ? 128 : 48 + 16 * handler)) exit(1);
    if (!epoch_domain_exit(domain)) exit(1);
    if (leaves_early)
        forget();
    else
        epoch_domain_destroy(domain);
}

static void request(SlabAllocator *allocator, unsigned handler, bool leaks) {
    void *objects[OBJECTS];
    char label[32];
    snprintf(label, sizeof label, "handler:/api/%u", handler);
    EpochId epoch = epoch_open(allocator, label, EPOCH_CHURN);
    for (unsigned i = 0; i < OBJECTS; i++) {
        objects[i] = slab_malloc_epoch(allocator, i % 3 ? 128 : 48 + 16 * handler, epoch);
        if (!objects[i]) exit(1);
    }
    for (unsigned i = 0; i < OBJECTS; i++) {
        if (leaks && i == 1) {
            forget();
            continue;
        }
        if (!slab_free(allocator, objects[i])) exit(1);
    }
    if (!epoch_close(allocator, epoch)) exit(1);
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    int leaking = argc > 2 ? atoi(argv[2]) : -1;
    SlabAllocator *allocator = slab_allocator_default();
    bool open = argc > 3 && strcmp(argv[3], "open") == 0;
    if (seconds <= 0 || leaking > 9 || !allocator || (argc > 3 && !open)) {
        fputs("usage: leaky_server SECONDS [LEAKING_HANDLER [open]]\n", stderr);
        return 2;
    }
    EpochId cache = open ? epoch_open(allocator, "cache", EPOCH_CHURN) : EPOCH_NONE;
    time_t end = time(NULL) + (time_t)seconds;
    for (unsigned n = 0; time(NULL) < end; n++) {
        if (open && leaking >= 0) remember(allocator, cache);
        for (unsigned handler = 0; open && handler < 10; handler++)
            request_in_domain(allocator, handler, (int)handler == leaking && n % 10 == 9);
        for (unsigned handler = 0; !open && handler < 10; handler++)
            request(allocator, handler, (int)handler == leaking && n % 10 == 9);
        (void)nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    printf("%lu objects forgotten\n", forgotten);
    return 0;
}
