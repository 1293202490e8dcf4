/*
 * Labels of pools that have no tag: the function that created them. The table is filled once for each place, under a
 * lock, and read without one: an entry's text is there before its address (release; partner: the acquire in look_up).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pool.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PLACES 512u /* a power of two */
#define TRIES 8u

static struct {
    _Atomic(const void *) address;
    char text[SLAB_LABEL_BYTES];
} table[PLACES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The entry of the address, or the first free one; NULL: neither is near. */
static unsigned look_up(const void *address, const void **found) {
    unsigned at = (unsigned)((uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15) >> 40) % PLACES;
    for (unsigned i = 0; i < TRIES; i++) {
        unsigned place = (at + i) % PLACES;
        *found = atomic_load_explicit(&table[place].address, memory_order_acquire);
        if (*found == address || !*found) return place;
    }
    return PLACES;
}

static void describe(char *text, const void *address) {
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname) {
        snprintf(text, SLAB_LABEL_BYTES, "%p", address);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    if (info.dli_sname)
        snprintf(text, SLAB_LABEL_BYTES, "%s", info.dli_sname);
    else
        snprintf(text, SLAB_LABEL_BYTES, "%.16s+0x%zx", slash ? slash + 1 : info.dli_fname,
                 (size_t)((const char *)address - (const char *)info.dli_fbase));
}

const char *ta_label_of(const void *address) {
    const void *found;
    if (!address) return NULL;
    unsigned place = look_up(address, &found);
    if (place == PLACES) return NULL;
    if (found) return table[place].text;
    pthread_mutex_lock(&lock);
    place = look_up(address, &found);
    if (place < PLACES && !found) {
        describe(table[place].text, address);
        atomic_store_explicit(&table[place].address, address, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return place < PLACES ? table[place].text : NULL;
}
