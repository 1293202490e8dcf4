/* The functions by which glibc's malloc is looked at and adjusted. Their figures are those of the process's
   allocator. */
#define _GNU_SOURCE
#include "malloc/entry.h"
#include "malloc/hard.h"

#include <tslab/malloc.h>
#include <tslab/stats.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GLIBC__)
#include <malloc.h>
#define HAS_MALLINFO 1
#if __GLIBC__ > 2 || __GLIBC_MINOR__ >= 33
#define HAS_MALLINFO2 1
#endif
#endif

/* 1: memory has gone back. Memory for the padding is retained anyway, or comes back by itself. */
TM_EXPORT_EXTRA int malloc_trim(size_t padding);
int malloc_trim(size_t padding) {
    SlabAllocator *allocator = slab_malloc_allocator();
    (void)padding;
    return allocator && slab_trim(allocator) > 0;
}

/* 1, as glibc's, which says so of parameters that it does not know, too. None has a meaning here; options are the
   library's own (tslab.h). */
TM_EXPORT_EXTRA int mallopt(int parameter, int value);
int mallopt(int parameter, int value) {
    (void)parameter, (void)value;
    return 1;
}

#if !defined(TSLAB_MALLOC_STATIC) || defined(__GLIBC__)
TM_EXPORT int __libc_mallopt(int parameter, int value);
int __libc_mallopt(int parameter, int value) { return mallopt(parameter, value); }
#endif

static bool figures(SlabGlobalStats *stats) {
    SlabAllocator *allocator = slab_malloc_allocator();
    if (!allocator || !slab_stats_global(allocator, stats)) return false;
    size_t beside = tm_is_hard() ? tm_hard_beside_bytes() : 0;
    stats->live_bytes -= beside < stats->live_bytes ? beside : stats->live_bytes;
    return true;
}

#ifdef HAS_MALLINFO
typedef struct sums {
    size_t committed, live, free, retained;
} sums;

static sums sum(void) {
    SlabGlobalStats stats;
    sums s = {0};
    if (!figures(&stats)) return s;
    s.committed = (size_t)stats.committed_bytes;
    s.live = (size_t)stats.live_bytes;
    s.free = s.committed > s.live ? s.committed - s.live : 0;
    s.retained = (size_t)stats.retained_bytes;
    return s;
}

static int clipped(size_t n) { return n > INT32_MAX ? INT32_MAX : (int)n; }

static struct mallinfo clipped_figures(void) {
    sums s = sum();
    struct mallinfo info;
    memset(&info, 0, sizeof info);
    info.arena = clipped(s.committed);
    info.uordblks = clipped(s.live);
    info.fordblks = clipped(s.free);
    info.keepcost = clipped(s.retained);
    return info;
}

TM_EXPORT_EXTRA struct mallinfo mallinfo(void) { return clipped_figures(); }

TM_EXPORT struct mallinfo __libc_mallinfo(void);
struct mallinfo __libc_mallinfo(void) {
    return clipped_figures();
}
#endif

#ifdef HAS_MALLINFO2
TM_EXPORT_EXTRA struct mallinfo2 mallinfo2(void) {
    sums s = sum();
    struct mallinfo2 info;
    memset(&info, 0, sizeof info);
    info.arena = s.committed;
    info.uordblks = s.live;
    info.fordblks = s.free;
    info.keepcost = s.retained;
    return info;
}
#endif

/* The statistics as text, on standard error. */
TM_EXPORT_EXTRA void malloc_stats(void);
void malloc_stats(void) {
    SlabAllocator *allocator = slab_malloc_allocator();
    if (!allocator) return;
    size_t bytes = slab_stats_text(allocator, NULL, 0) + 4096; /* it may grow meanwhile */
    char *text = malloc(bytes);
    if (!text) return;
    int cancel;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* it writes, and has the text */
    if (slab_stats_text(allocator, text, bytes) > 0) (void)fputs(text, stderr);
    (void)pthread_setcancelstate(cancel, NULL);
    free(text);
}

/* As glibc's, with one heap that has the figures of all. */
TM_EXPORT_EXTRA int malloc_info(int options, FILE *stream);
int malloc_info(int options, FILE *stream) {
    SlabGlobalStats stats;
    if (options != 0) return EINVAL;
    if (!figures(&stats)) memset(&stats, 0, sizeof stats);
    unsigned long long committed = stats.committed_bytes, live = stats.live_bytes;
    unsigned long long rest = committed > live ? committed - live : 0;
    fprintf(stream,
            "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n</sizes>\n"
            "<total type=\"fast\" count=\"0\" size=\"0\"/>\n<total type=\"rest\" count=\"0\" size=\"%llu\"/>\n"
            "<system type=\"current\" size=\"%llu\"/>\n<system type=\"max\" size=\"%llu\"/>\n"
            "<aspace type=\"total\" size=\"%llu\"/>\n<aspace type=\"mprotect\" size=\"%llu\"/>\n</heap>\n"
            "<total type=\"fast\" count=\"0\" size=\"0\"/>\n<total type=\"rest\" count=\"0\" size=\"%llu\"/>\n"
            "<total type=\"mmap\" count=\"0\" size=\"0\"/>\n"
            "<system type=\"current\" size=\"%llu\"/>\n<system type=\"max\" size=\"%llu\"/>\n"
            "<aspace type=\"total\" size=\"%llu\"/>\n<aspace type=\"mprotect\" size=\"%llu\"/>\n</malloc>\n",
            rest, committed, committed, committed, committed, rest, committed, committed, committed, committed);
    return 0;
}

/* ---- the library's own --------------------------------------------------------------------------------------------
   */

bool slab_malloc_active(void) {
    /* Asked of libc: it allocates by the malloc that the process has. */
    char *copy = strdup("active");
    SlabAllocator *allocator = slab_malloc_allocator();
    bool active = copy && allocator && ts_private_owner(copy) == allocator;
    free(copy);
    return active;
}
