/*
 * A program that leaks through a library: slab_alloc is called by static functions of it on three ways, but from one
 * line of the program. Prints "ready", then waits for the end of its input.
 */
#include "stripped_library.h"

#include <tslab/tslab.h>

#include <stdio.h>

#define NOINLINE __attribute__((noinline))

static volatile unsigned done;

NOINLINE static void remember(unsigned way) {
    char *object = library_take(way, slab_alloc, 1000); /* the leaking line */
    if (object) object[0] = 1;
    done++;
}

NOINLINE static void work(void) {
    char *object = library_take(0, slab_alloc, 1000);
    if (object) object[0] = 2;
    done++;
}

int main(void) {
    EpochDomain *domain = epoch_domain_create_ex(NULL, "session", EPOCH_CHURN | EPOCH_DOMAIN_DRAIN);
    if (!domain || !epoch_domain_enter(domain)) return 1;
    for (volatile unsigned i = 0; i < 300; i++) remember(i % 3);
    for (volatile unsigned i = 0; i < 20; i++) work();
    if (!epoch_domain_exit(domain)) return 1;
    epoch_domain_destroy(domain);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
