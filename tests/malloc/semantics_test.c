/* Each function's results, at the edges too: as glibc and POSIX have it (tslab/malloc.h). */
#define _GNU_SOURCE
#include "live.h"
#include "malloc_test.h"

#include <tslab/malloc.h>
#include <tslab/stats.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *reallocf(void *, size_t);
void free_sized(void *, size_t);
void free_aligned_sized(void *, size_t, size_t);
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void *__libc_valloc(size_t);
extern void *__libc_pvalloc(size_t);
extern void __libc_free(void *);

static const size_t sizes[] = {0,    1,    15,   16,   17,   48,    49,    64,     100,     1000,
                               4095, 4096, 4097, 8192, 8193, 16384, 65536, 100000, 1 << 20, 5 << 20};
#define SIZES (sizeof sizes / sizeof *sizes)
#define A_LOT ((size_t)PTRDIFF_MAX)

static uint64_t refused(void) {
    SlabGlobalStats stats;
    CHECK(slab_stats_global(slab_malloc_allocator(), &stats));
    return stats.rejected_frees_total;
}

#ifndef MALLOC_TEST_STATIC
static void look_up(const char *name, void *function) {
    void *symbol = dlsym(RTLD_DEFAULT, name);
    CHECK(symbol != NULL);
    memcpy(function, &symbol, sizeof symbol);
}
#endif

static void test_active(void) {
    CHECK(slab_malloc_active());
    CHECK(slab_malloc_allocator() != NULL);
    CHECK(slab_malloc_allocator() != slab_allocator_default());
    void *p = malloc(100);
    CHECK(is_live(p));
    slab_allocator_free(slab_malloc_allocator()); /* nothing happens */
    CHECK(is_live(p));
    free(p);
    CHECK(!is_live(hidden(p)));
}

static void test_sizes(void) {
    void *p[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        errno = 7;
        p[i] = malloc(sizes[i]);
        CHECK(p[i] && (uintptr_t)p[i] % 16 == 0 && malloc_usable_size(p[i]) >= sizes[i] && errno == 7);
        memset(p[i], (int)i, sizes[i]);
        for (size_t k = 0; k < i; k++) CHECK(p[k] != p[i]);
    }
    for (size_t i = 0; i < SIZES; i++) {
        errno = 7;
        free(p[i]);
        CHECK(errno == 7);
    }
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
    for (size_t i = 0; i < SIZES; i++) { /* memory that was used before, and that was not */
        unsigned char *z = calloc(1, sizes[i]);
        CHECK(z != NULL);
        for (size_t k = 0; k < sizes[i]; k++) CHECK(z[k] == 0);
        memset(z, 0xff, sizes[i]);
        free(z);
    }
}

static void test_too_large(void) {
    const size_t large[] = {A_LOT, A_LOT + 1, SIZE_MAX - 4096, SIZE_MAX - 15, SIZE_MAX};
    void *p = malloc(10), *out = &p;
    memcpy(p, "unchanged", 10);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        size_t n = hidden_size(large[i]);
#define NO_MEMORY(call) (errno = 0, (call) == NULL && errno == ENOMEM)
        CHECK(NO_MEMORY(malloc(n)));
        CHECK(NO_MEMORY(calloc(1, n)));
        CHECK(NO_MEMORY(calloc(n, 2)));
        CHECK(NO_MEMORY(realloc(NULL, n)));
        CHECK(NO_MEMORY(realloc(p, n)));
        CHECK(NO_MEMORY(reallocarray(p, n, 3)));
        CHECK(NO_MEMORY(aligned_alloc(64, n)));
        CHECK(NO_MEMORY(memalign(4096, n)));
        CHECK(NO_MEMORY(valloc(n)));
        CHECK(NO_MEMORY(pvalloc(n)));
        errno = 5;
        CHECK(posix_memalign(&out, 64, n) == ENOMEM && out == &p && errno == ENOMEM); /* programs return -errno */
    }
    CHECK(NO_MEMORY(calloc(hidden_size((size_t)1 << 33), (size_t)1 << 33)));
    CHECK(NO_MEMORY(reallocarray(NULL, hidden_size(SIZE_MAX / 2), 3)));
    CHECK(memcmp(p, "unchanged", 10) == 0);
    CHECK(NO_MEMORY(reallocf(p, hidden_size(A_LOT + 1)))); /* p is freed */
    CHECK(!is_live(hidden(p)));
}

static void test_realloc(void) {
    CHECK(refused() == 0);
    char *p = realloc(NULL, 20);
    CHECK(p != NULL);
    for (size_t i = 0; i < SIZES; i++) {
        if (sizes[i] == 0) continue;
        memset(p, 0x5a, 1);
        errno = 7;
        char *q = realloc(p, sizes[i]);
        CHECK(q && q[0] == 0x5a && malloc_usable_size(q) >= sizes[i] && errno == 7);
        memset(q, 0x5a, sizes[i]);
        p = q;
    }
    for (size_t i = SIZES; i-- > 1;) {
        p = realloc(p, sizes[i]);
        CHECK(p && p[0] == 0x5a && p[sizes[i] - 1] == 0x5a);
    }
    errno = 7;
    CHECK(realloc(p, hidden_size(0)) == NULL && errno == 7); /* freed */
    CHECK(!is_live(hidden(p)));
    p = malloc(10);
    CHECK(reallocarray(p, hidden_size(0), 8) == NULL && !is_live(hidden(p)));
    p = malloc(10);
    CHECK(reallocf(p, hidden_size(0)) == NULL && !is_live(hidden(p)));
    void *zero = realloc(NULL, hidden_size(0));
    CHECK(zero != NULL);
    free(zero);
    CHECK(refused() == 0);
    /* A pointer to no live object: refused, counted, nothing touched. */
    char there[64] = "on the stack";
    errno = 0;
    CHECK(realloc(hidden(there + 16), 100) == NULL && errno == EINVAL && refused() == 1);
}

static void test_aligned(void) {
    void *out = NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t a = 1; a <= (size_t)1 << 24; a *= 2) {
        for (size_t i = 0; i<SIZES; i += a> 1 << 13 ? 5 : 1) {
            void *p = aligned_alloc(a, sizes[i]);
            CHECK(p && (uintptr_t)p % a == 0 && malloc_usable_size(p) >= sizes[i]);
            memset(p, 1, sizes[i] < 10000 ? sizes[i] : 10000);
            free(p);
            p = memalign(a, sizes[i]);
            CHECK(p && (uintptr_t)p % a == 0);
            free(p);
            if (a < sizeof(void *)) continue;
            errno = 7;
            CHECK(posix_memalign(&out, a, sizes[i]) == 0 && (uintptr_t)out % a == 0 && errno == 7);
            free_aligned_sized(out, a, sizes[i]);
        }
    }
    out = &page;
    const size_t wrong[] = {0, 1, 2, 4, 3, 12, 24, 100, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        errno = 7;
        CHECK(posix_memalign(&out, hidden_size(wrong[i]), 10) == EINVAL && out == &page && errno == 7);
    }
    errno = 0;
    CHECK(aligned_alloc(hidden_size(24), 48) == NULL && errno == EINVAL);
    CHECK(aligned_alloc(hidden_size(0), 48) == NULL);
    void *p = memalign(hidden_size(24), 48); /* rounded up */
    CHECK(p && (uintptr_t)p % 32 == 0);
    free(p);
    errno = 0;
    CHECK(memalign(hidden_size(SIZE_MAX), 48) == NULL && errno == EINVAL);
    p = valloc(1);
    CHECK(p && (uintptr_t)p % page == 0);
    free(p);
    p = pvalloc(page + 1);
    CHECK(p && (uintptr_t)p % page == 0 && malloc_usable_size(p) >= 2 * page);
    free(p);
}

static void test_sized(void) {
    uint64_t before = refused();
    for (size_t i = 0; i < SIZES; i++) {
        free_sized(malloc(sizes[i]), sizes[i]);
        free_aligned_sized(aligned_alloc(128, sizes[i]), 128, sizes[i]);
    }
    free_sized(NULL, 10);
    free_aligned_sized(NULL, 16, 10);
    void *p = malloc(10);
    free_sized(p, hidden_size(100000)); /* never relied on */
    CHECK(!is_live(hidden(p)));
    p = malloc(5000);
    free_sized(p, hidden_size(1)); /* less than it has */
    CHECK(!is_live(hidden(p)));
    p = aligned_alloc(64, 256);
    free_aligned_sized(p, 64, hidden_size(1 << 20));
    CHECK(!is_live(hidden(p)));
    p = malloc(100);
    errno = 7;
    free_sized(p, 100);
    free_aligned_sized(aligned_alloc(64, 128), 64, 128);
    CHECK(errno == 7);
    CHECK(refused() == before);
}

/* Names that libc has no header for, or no longer: of a program that was linked long ago. */
static void test_other_names(void) {
#ifndef MALLOC_TEST_STATIC
    int (*libc_posix_memalign)(void **, size_t, size_t);
    void *(*libc_reallocarray)(void *, size_t, size_t);
    int (*libc_mallopt)(int, int);
    void (*old_free)(void *);
    look_up("__posix_memalign", &libc_posix_memalign);
    look_up("__libc_reallocarray", &libc_reallocarray);
    look_up("__libc_mallopt", &libc_mallopt);
    look_up("cfree", &old_free);
    void *p = NULL;
    CHECK(libc_posix_memalign(&p, 256, 100) == 0 && is_live(p) && (uintptr_t)p % 256 == 0);
    CHECK(libc_posix_memalign(&p, hidden_size(3), 100) == EINVAL && is_live(p));
    p = libc_reallocarray(p, 10, 1000);
    CHECK(is_live(p) && malloc_usable_size(p) >= 10000);
    errno = 0;
    CHECK(libc_reallocarray(p, hidden_size(SIZE_MAX / 2), 4) == NULL && errno == ENOMEM && is_live(p));
    errno = 7;
    old_free(p);
    CHECK(!is_live(hidden(p)) && errno == 7);
    old_free(NULL);
    CHECK(libc_mallopt(M_TRIM_THRESHOLD, 1 << 20) == 1 && libc_mallopt(1000, 1) == 1);
#endif
}

static void test_names(void) {
    void *p = __libc_malloc(10);
    CHECK(is_live(p));
    p = __libc_realloc(p, 1000);
    CHECK(is_live(p));
    __libc_free(p);
    p = __libc_calloc(3, 5);
    CHECK(is_live(p));
    free(p);
    p = __libc_memalign(512, 5);
    CHECK(is_live(p) && (uintptr_t)p % 512 == 0);
    free(p);
    p = __libc_valloc(5);
    CHECK(is_live(p) && (uintptr_t)p % 4096 == 0);
    free(p);
    p = __libc_pvalloc(5);
    CHECK(is_live(p) && (uintptr_t)p % 4096 == 0);
    free(p);
    test_other_names();
}

/* It is told on standard error. */
static void test_malloc_stats(void) {
    char text[512] = "";
    int pipes[2], before = dup(STDERR_FILENO);
    CHECK(before >= 0 && pipe(pipes) == 0 && dup2(pipes[1], STDERR_FILENO) >= 0);
    CHECK(fcntl(pipes[1], F_SETFL, O_NONBLOCK) == 0); /* more than a pipe holds is lost, and nobody waits */
    malloc_stats();
    CHECK(dup2(before, STDERR_FILENO) >= 0 && close(pipes[1]) == 0 && close(before) == 0);
    CHECK(read(pipes[0], text, sizeof text) == sizeof text && close(pipes[0]) == 0);
    CHECK(memchr(text, '\n', sizeof text) != NULL);
}

static void *tell_cancelled(void *answer) {
    CHECK(pthread_cancel(pthread_self()) == 0);
    malloc_stats();
    return answer;
}

/* A thread that is to end goes on through it, and nothing is left behind. */
static void test_malloc_stats_cancelled(void) {
    int before = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY), answer;
    CHECK(before >= 0 && null >= 0 && dup2(null, STDERR_FILENO) >= 0);
    size_t live = mallinfo2().uordblks;
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, tell_cancelled, &answer) == 0 && pthread_join(thread, &result) == 0);
        CHECK(result == &answer);
    }
    CHECK(mallinfo2().uordblks < live + 64 * 1024);
    CHECK(dup2(before, STDERR_FILENO) >= 0 && close(before) == 0 && close(null) == 0);
}

static void test_looks(void) {
    void *p = malloc(100000);
    struct mallinfo2 info = mallinfo2();
    CHECK(info.uordblks >= 100000 && info.arena >= info.uordblks);
    struct mallinfo old = mallinfo();
    CHECK(old.uordblks == (int)info.uordblks && old.arena >= old.uordblks);
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    CHECK(stream && malloc_info(0, stream) == 0 && malloc_info(1, stream) == EINVAL);
    fclose(stream);
    CHECK(strncmp(text, "<malloc version=\"1\">", 20) == 0 && strstr(text, "</malloc>"));
    free(text);
    free(p);
    test_malloc_stats();
    test_malloc_stats_cancelled();
    CHECK(mallopt(M_TRIM_THRESHOLD, 1 << 20) == 1 && mallopt(1000, 1) == 1);
    for (int i = 0; i < 1000; i++) free(malloc(8000));
    (void)malloc_trim(0);
    /* Nothing is left to give, unless the call that asks the system allocates itself. */
    CHECK(malloc_trim(0) == 0 || getenv("LD_PRELOAD"));
}

/* Objects of other allocators of the process: free and realloc take them. */
static void test_others(void) {
    SlabAllocator *other = slab_allocator_create();
    EpochId epoch = epoch_open(other, "other", EPOCH_SCOPE);
    uint64_t before = refused();
    char *p = slab_malloc(other, 100), *span = slab_malloc(other, 100000), *q = slab_malloc_epoch(other, 100, epoch);
    strcpy(p, "here");
    strcpy(q, "there");
    CHECK(malloc_usable_size(p) >= 100 && malloc_usable_size(q) >= 100 && malloc_usable_size(span) >= 100000);
    p = realloc(p, 5000);
    CHECK(strcmp(p, "here") == 0 && slab_owns(other, p)); /* it stays in its epoch */
    CHECK(epoch_close(other, epoch));
    q = realloc(q, 5000);
    CHECK(strcmp(q, "there") == 0 && is_live(q)); /* its epoch takes none any more */
    CHECK(epoch_state(other, epoch) == EPOCH_CLOSED);
    free(p);
    free(q);
    free(span);
    SlabGlobalStats stats;
    CHECK(slab_stats_global(other, &stats) && stats.live_objects == 0 && stats.rejected_frees_total == 0);
    CHECK(refused() == before);
    slab_allocator_free(other);
}

/* malloc's epoch does not end: the program is told so, and goes on. */
static void test_epoch_kept(void) {
    EpochId epochs[8];
    SlabAllocator *mine = slab_malloc_allocator();
    size_t n = slab_epochs(mine, epochs, 8);
    CHECK(n == 1);
    char *p = malloc(100);
    strcpy(p, "kept");
    errno = 0;
    CHECK(!epoch_close(mine, epochs[0]) && errno == EBUSY);
    errno = 0;
    CHECK(!epoch_destroy(mine, epochs[0]) && errno == EBUSY);
    CHECK(epoch_state(mine, epochs[0]) == EPOCH_ACTIVE);
    char *q = malloc(100);
    CHECK(q != NULL && malloc_usable_size(p) >= 100);
    p = realloc(p, 50000);
    CHECK(p && strcmp(p, "kept") == 0);
    free(q);
    free(p);
    CHECK(slab_epochs(mine, epochs, 8) == 1);
}

/* Memory that is locked cannot be given back: free leaves errno alone all the same. */
static void test_locked(void) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) return;
    void *p = malloc((size_t)4 << 20);
    CHECK(p != NULL);
    errno = 7;
    free(p);
    CHECK(errno == 7);
    CHECK(munlockall() == 0);
}

int main(void) {
    test_active();
    test_sizes();
    test_too_large();
    test_realloc();
    test_aligned();
    test_sized();
    test_names();
    test_looks();
    test_others();
    test_locked();
    test_epoch_kept();
    return 0;
}
