/* The hard mode from inside: TSLAB_HARDEN=1, with TSLAB_ON_MISUSE=ignore, so that the program goes on. */
#define _GNU_SOURCE
#include "live.h"
#include "malloc_test.h"

#include <tslab/stats.h>

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static uint64_t refused(void) {
    SlabGlobalStats stats;
    CHECK(slab_stats_global(slab_malloc_allocator(), &stats));
    return stats.rejected_frees_total;
}

/* Objects, the guards around them, and the quarantine. */
static size_t held(void) {
    SlabGlobalStats stats;
    CHECK(slab_stats_global(slab_malloc_allocator(), &stats));
    return stats.live_bytes;
}

/* ---- two threads free one object at the same instant, one of them its owner -------------------------------------- */

static pthread_barrier_t together;
static void *volatile shared;

static void *free_shared(void *rounds) {
    for (uintptr_t i = 0; i < (uintptr_t)rounds; i++) {
        pthread_barrier_wait(&together);
        free(shared);
        pthread_barrier_wait(&together);
    }
    return NULL;
}

static void test_at_once(size_t bytes, uintptr_t rounds) {
    pthread_t thread;
    uint64_t before = refused();
    size_t objects = held();
    CHECK(pthread_create(&thread, NULL, free_shared, (void *)rounds) == 0);
    for (uintptr_t i = 0; i < rounds; i++) {
        shared = malloc(bytes);
        CHECK(shared != NULL);
        memset(shared, 1, bytes);
        pthread_barrier_wait(&together);
        free(shared);
        pthread_barrier_wait(&together);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(refused() == before + rounds); /* one of each two */
    CHECK(held() < objects + 300 * MIB);
}

/* ---- the quarantine ---------------------------------------------------------------------------------------------- */

static void test_waits(void) {
    const size_t sizes[] = {1, 24, 1000, 9000, 100000, 131072, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *p = malloc(sizes[i]), *q[100];
        free(p);
        CHECK(malloc_usable_size(hidden(p)) == 0);
        for (int k = 0; k < 100; k++) CHECK((q[k] = malloc(sizes[i])) != NULL && q[k] != hidden(p));
        for (int k = 0; k < 100; k++) free(q[k]);
    }
}

static void test_bounded(void) {
    size_t before = held();
    for (int round = 0; round < 4; round++) {
        static void *p[20000];
        for (int i = 0; i < 20000; i++) CHECK((p[i] = malloc((size_t)(i % 50) * 100 + 1)) != NULL);
        for (int i = 0; i < 20000; i++) free(p[i]);
        CHECK(held() < before + 2 * MIB); /* one thread's, with the waste of its slots */
    }
    for (int i = 0; i < 2000; i++) free(malloc(MIB));
    CHECK(held() < before + 300 * MIB);
}

/* The quarantine is given up before an allocation fails. */
static void test_budget(void) {
    CHECK(slab_set_budget(slab_malloc_allocator(), 128 * MIB));
    for (int i = 0; i < 3000; i++) {
        void *p = malloc(MIB / 4 * (size_t)(i % 5 + 1)), *q = malloc(60000);
        CHECK(p && q);
        free(p);
        free(q);
    }
    CHECK(malloc(hidden_size(200 * MIB)) == NULL);
    CHECK(slab_set_budget(slab_malloc_allocator(), 0));
}

/* Memory in use is the sum of the program's requests: without guards, and without the quarantine. */
static void test_in_use(void) {
    static void *p[3000];
    size_t before = mallinfo2().uordblks, sum = 0;
    for (size_t i = 0; i < 3000; i++) {
        size_t n = i % 100 == 0 ? 100000 + i * 20 : i;
        CHECK((p[i] = memalign(i % 7 == 0 ? 64 : 16, n)) != NULL);
        if (i % 3 == 0) CHECK((p[i] = realloc(p[i], n = n * (i % 2 ? 2 : 1) / 2 + 1)) != NULL);
        sum += n;
    }
    CHECK(mallinfo2().uordblks == before + sum);
    for (size_t i = 0; i < 3000; i++) free(p[i]);
    CHECK(mallinfo2().uordblks == before);
}

/* ---- the bytes around an object ---------------------------------------------------------------------------------- */

static void test_exact(void) {
    for (size_t n = 0; n < 40000; n += n < 200 ? 1 : n / 7) {
        char *p = malloc(n);
        CHECK(malloc_usable_size(p) == n);
        memset(p, 0xff, n);
        p = realloc(p, n + 1);
        CHECK(p && malloc_usable_size(p) == n + 1);
        free(p);
    }
    CHECK(refused() == 0);
}

/* The bytes that it can hold without a move. */
static void test_usable(void) {
    for (size_t alignment = 16; alignment <= 65536; alignment *= 2)
        for (size_t n = 1; n < 2000000; n += n < 300 ? 7 : n / 5) {
            char *p = memalign(alignment, n), *q;
            CHECK(p && (q = realloc(p, malloc_usable_size(p))) == p);
            free(q);
        }
}

/* It grows where it is, a page or a byte at a time, and back. */
static void test_grows(void) {
    size_t n = 100000;
    char *p = malloc(n);
    memset(p, 'x', n);
    unsigned moves = 0;
    for (; n < 2000000; n += 4000 + n % 3) {
        char *q = realloc(p, n);
        moves += q != p;
        p = q;
        CHECK(p && p[0] == 'x' && malloc_usable_size(p) == n);
        memset(p, 'x', n);
    }
    CHECK(moves < 40); /* of 475 */
    for (n -= n / 9; n > 1000; n -= n / 9) {
        p = realloc(p, n);
        CHECK(p && p[0] == 'x' && p[n - 1] == 'x');
    }
    free(p);
    CHECK(refused() == 0);
}

static void test_none(void) {
    static char *p[5000];
    for (int i = 0; i < 5000; i++) CHECK((p[i] = malloc(hidden_size(0))) != NULL && (i == 0 || p[i] != p[i - 1]));
    for (int i = 0; i < 5000; i++) free(p[i]);
    uint64_t before = refused();
    free(hidden(p[7]));
    CHECK(refused() == before + 1);
    char *q = realloc(calloc(hidden_size(0), 8), 10);
    CHECK(q && malloc_usable_size(q) == 10);
    free(q);
    void *aligned = NULL;
    CHECK(posix_memalign(&aligned, 1024, hidden_size(0)) == 0 && (uintptr_t)aligned % 1024 == 0);
    free(aligned);
    CHECK(refused() == before + 1);
}

/* ---- its tables -------------------------------------------------------------------------------------------------- */

/* They are touched here and there: none may get huge pages, where the system gives them to all. Called before there are
   other threads, whose stacks are not the library's. */
static void test_no_huge_pages(void) {
    char line[512], name[256] = "";
    size_t from, to, large = 0;
    bool is_ours = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file)) {
        char access[5];
        name[0] = 0;
        if (sscanf(line, "%zx-%zx %4s %*s %*s %*s %255s", &from, &to, access, name) >= 3)
            is_ours = access[1] == 'w' && name[0] == 0 && to - from >= 2 * MIB;
        else if (is_ours && strncmp(line, "VmFlags:", 8) == 0) {
            CHECK(strstr(line, " nh") || strstr(line, " hg"));
            large++;
        }
    }
    (void)fclose(file);
    CHECK(large > 0);
}

static bool has_huge_pages(void) { return access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) == 0; }

int main(void) {
    CHECK(is_hard() && slab_malloc_active());
    if (has_huge_pages()) test_no_huge_pages();
    test_exact();
    test_usable();
    test_grows();
    test_in_use();
    test_waits();
    test_bounded();
    test_budget();
    test_none();
    CHECK(pthread_barrier_init(&together, NULL, 2) == 0);
    test_at_once(40, 20000);
    test_at_once(20000, 5000);
    test_at_once(200000, 2000);
    return 0;
}
