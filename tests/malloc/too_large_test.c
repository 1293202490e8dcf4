/*
 * Sizes that nobody can have, asked for in every way: NULL with ENOMEM, quickly, and nothing else happens. In the hard
 * mode the quarantine stays, through those and through refusals by the budget.
 */
#define _GNU_SOURCE
#include "live.h"
#include "malloc_test.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static void expect_none(void *p, size_t size, const char *call) {
    if (!p && errno == ENOMEM) {
        errno = 0;
        return;
    }
    fprintf(stderr, "%s(%zu): %p, errno %d\n", call, size, p, errno);
    abort();
}

static void ask(size_t size, char *live) {
    void *out = live;
    expect_none(malloc(size), size, "malloc");
    expect_none(calloc(1, size), size, "calloc");
    expect_none(calloc(size / 16, 16), size, "calloc");
    expect_none(calloc(size, 16), size, "calloc");
    expect_none(realloc(live, size), size, "realloc");
    expect_none(reallocarray(live, size / 16, 16), size, "reallocarray");
    expect_none(aligned_alloc(64, size), size, "aligned_alloc");
    expect_none(memalign(4096, size), size, "memalign");
    expect_none(valloc(size), size, "valloc");
    expect_none(pvalloc(size), size, "pvalloc");
    CHECK(posix_memalign(&out, 64, size) == ENOMEM && out == live && errno == ENOMEM);
    CHECK(live[0] == 'x' && live[99] == 'x');
}

/* 100 of small sizes and ten of large ones. */
static void *freed[110];

static void free_some(void) {
    for (size_t i = 0; i < 110; i++) CHECK((freed[i] = malloc(i < 100 ? 24 + i * 8 : 200000)) != NULL);
    for (size_t i = 0; i < 110; i++) free(freed[i]);
}

static unsigned count_waiting(void) {
    unsigned n = 0;
    for (size_t i = 0; i < 110; i++) n += malloc_usable_size(hidden(freed[i])) == 0;
    for (size_t i = 0; i < 110; i++) {
        void *p = malloc(i < 100 ? 24 + i * 8 : 200000);
        for (size_t k = 0; k < 110; k++) n -= p == hidden(freed[k]);
    }
    return n;
}

int main(void) {
    char *live = memset(malloc(100), 'x', 100);
    const size_t most = hidden_size(SIZE_MAX);
    free_some();
    for (size_t i = 0; i < 2000; i++) ask(most - i * 1001, live);
    for (size_t i = 0; i < 500; i++) ask(most / 2 - i * 4096, live);
#if SIZE_MAX > UINT32_MAX
    for (unsigned log2 = 45; log2 < 64; log2++)
        for (size_t i = 0; i < 20; i++) ask(((size_t)1 << log2) + i * 65536, live);
#endif
    if (is_hard()) CHECK(count_waiting() > 80); /* chance has let some go */
    free_some();
    void *half = malloc(40 * MIB);
    CHECK(half && slab_set_budget(slab_malloc_allocator(), 64 * MIB));
    for (size_t i = 0; i < 100; i++) expect_none(malloc(hidden_size((30 + i) * MIB)), (30 + i) * MIB, "malloc");
    CHECK(slab_set_budget(slab_malloc_allocator(), 0));
    if (is_hard()) CHECK(count_waiting() > 80);
    free(half);
    free(live);
    return 0;
}
