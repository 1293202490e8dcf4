/*
 * Pages whose use the kernel watches (kernel.numa_balancing, where there are several nodes) are on a node like all
 * others, though some kernels say that they are not. Skipped where the kernel watches nothing; where its own answer is
 * right, that is said.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "unit.h"

#include "os/os.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#endif

#if defined(SYS_move_pages)

#define PAGES 2048u
#define PATIENCE_S 10.0 /* the kernel begins with a process that has used a second of processor time */

static void *at[PAGES];
static int where[PAGES];

static unsigned hidden_pages(void) {
    unsigned hidden = 0;
    if (syscall(SYS_move_pages, 0, (unsigned long)PAGES, at, NULL, where, 0) != 0) return 0;
    for (unsigned i = 0; i < PAGES; i++) hidden += where[i] < 0;
    return hidden;
}

/* Of a process with one thread the kernel watches only the pages that are not on its node. */
static void *waits(void *mutex) {
    (void)pthread_mutex_lock(mutex);
    (void)pthread_mutex_unlock(mutex);
    return NULL;
}

static void watched(void **state) {
    (void)state;
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    (void)pthread_mutex_lock(&mutex);
    assert_int_equal(pthread_create(&thread, NULL, waits, &mutex), 0);
    size_t page = ts_os_page_bytes();
    char *memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    memset(memory, 1, PAGES / 2 * page); /* the others are not there, and stay so */
    for (unsigned i = 0; i < PAGES; i++) at[i] = memory + i * page;
    unsigned hidden = 0;
    for (double end = sup_now_s() + PATIENCE_S; sup_now_s() < end && hidden <= PAGES / 2;) hidden = hidden_pages();
    assert_true(ts_os_native.nodes_of(at, PAGES, where));
    for (unsigned i = 0; i < PAGES; i++) assert_true(i < PAGES / 2 ? where[i] >= 0 : where[i] == -1);
    unsigned char resident[PAGES];
    assert_int_equal(mincore(memory, PAGES * page, resident), 0);
    for (unsigned i = PAGES / 2; i < PAGES; i++) assert_int_equal(resident[i] & 1, 0);
    if (hidden > PAGES / 2)
        printf("watched: the kernel hid %u of %u pages\n", hidden - PAGES / 2, PAGES / 2);
    else
        printf("watched: the kernel hid no page in %.0f s\n", PATIENCE_S);
    (void)pthread_mutex_unlock(&mutex);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(munmap(memory, PAGES * page), 0);
}

/* Of /proc/sys/kernel/numa_balancing; 0: there is none. */
static int balancing(void) {
    int value = 0;
    FILE *f = fopen("/proc/sys/kernel/numa_balancing", "re");
    if (!f) return 0;
    if (fscanf(f, "%d", &value) != 1) value = 0;
    (void)fclose(f);
    return value;
}

int main(void) {
    int node[2];
    if (ts_os_native.nodes(node, 2) < 2 || balancing() == 0 || SUP_EMULATED) {
        printf("watched: skipped: one node, or numa_balancing is off\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(watched)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) { return 77; }

#endif
