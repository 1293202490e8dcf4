/*
 * The cost of taking closed epochs to zones and back: bytes appended beside the bytes of the slabs, time beside writing
 * the same bytes to the same place with direct I/O, memory that stays. `zones_bench [--mib N] [--csv FILE] [FILE]`; the
 * last file is made and removed.
 */
#define _GNU_SOURCE
#include "bench_csv.h"

#include <tslab/stats.h>
#include <tslab/zones.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *path = "/var/tmp/tslab-zones-bench";
static size_t mib = 512;

#define NEED(condition)                                                                               \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "zones_bench: line %d: %s: %s\n", __LINE__, #condition, strerror(errno)); \
            (void)unlink(path);                                                                       \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

/* A row of the CSV file, if there is one. limit < 0: there is no aim. */
static FILE *csv;
static void figure(const char *work, const char *name, double value, double limit) {
    double load = 0;
    FILE *f = fopen("/proc/loadavg", "re");
    if (f && fscanf(f, "%lf", &load) != 1) load = 0;
    if (f) (void)fclose(f);
    if (!csv) return;
    fprintf(csv, "%s,%s,%.4f,", work, name, value < 0 ? 0 : value);
    if (limit >= 0) fprintf(csv, "%.4f", limit);
    fprintf(csv, ",%.2f\n", load);
}

static double now_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static size_t resident_kib(void) {
    size_t pages = 0, all = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    NEED(f && fscanf(f, "%zu %zu", &all, &pages) == 2);
    (void)fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

static double appended_at; /* when the last piece of a spill was written, before protection and purge */
static void progress(uint64_t done, uint64_t whole, void *arg) {
    (void)arg;
    if (done == whole) appended_at = now_s();
}

/* With room for so many MiB, and half as much again. */
static SlabZones *open_zones(size_t room) {
    char where[512];
    SlabZonesOptions options = {.size = sizeof options, .progress = progress};
    (void)unlink(path);
    (void)snprintf(where, sizeof where, "emulated:%s?zones=%zu&zone_size=4M&zone_capacity=3M&max_open=14&max_active=14",
                   path, room / 2 + 16);
    SlabZones *zones = slab_zones_open(where, &options);
    NEED(zones);
    return zones;
}

/* An epoch of so many bytes, in objects of one size, each filled with its number. Closed. */
static EpochId fill(SlabAllocator *a, size_t bytes, size_t object, uint64_t **first, unsigned flags) {
    EpochId e = epoch_open(a, "bench", flags);
    uint64_t *before = NULL;
    for (size_t i = 0; i < bytes / object; i++) {
        uint64_t *p = slab_malloc_epoch(a, object, e);
        NEED(p);
        for (size_t k = 0; k < object / 8; k++) p[k] = i * 1000003u + k;
        p[0] = (uint64_t)(uintptr_t)before; /* linked, so that a load can check all of them */
        before = p;
    }
    *first = before;
    NEED(epoch_close(a, e));
    return e;
}

static void check(const uint64_t *p, size_t bytes, size_t object) {
    for (size_t i = bytes / object; i-- > 0; p = (const uint64_t *)(uintptr_t)p[0])
        for (size_t k = 1; k < object / 8; k++) NEED(p[k] == i * 1000003u + k);
    NEED(p == NULL);
}

/* Writes of 1 MiB with direct I/O to a new file beside that of the zones: there, too, blocks are new to the file system. source >= 0: each
   MiB is read from there first, as `dd if=SOURCE oflag=direct bs=1M` does; else it is one buffer all the time. */
static double write_plain(size_t bytes, int source) {
    char *buffer, plain[512];
    NEED(posix_memalign((void **)(void *)&buffer, 4096, 1 << 20) == 0);
    memset(buffer, 0x5a, 1 << 20);
    (void)snprintf(plain, sizeof plain, "%s.plain", path);
    int file = open(plain, O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    if (file < 0) file = open(plain, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    NEED(file >= 0 && ftruncate(file, (off_t)bytes) == 0);
    double from = now_s();
    for (size_t at = 0; at < bytes; at += 1 << 20) {
        if (source >= 0) NEED(pread(source, buffer, 1 << 20, (off_t)at) == 1 << 20);
        NEED(pwrite(file, buffer, 1 << 20, (off_t)at) == 1 << 20);
    }
    double took = now_s() - from;
    (void)close(file);
    (void)unlink(plain);
    free(buffer);
    return took;
}

/* There and back: time, memory and bytes of epochs of one size. */
static void there_and_back(size_t all, size_t each, size_t object, unsigned flags) {
    SlabZones *zones = open_zones(mib);
    SlabAllocator *a = slab_allocator_create();
    size_t count = all / each;
    EpochId *e = calloc(count, sizeof *e);
    uint64_t **first = calloc(count, sizeof *first);
    NEED(e && first);
    size_t before = resident_kib();
    for (size_t i = 0; i < count; i++) e[i] = fill(a, each, object, &first[i], flags);
    size_t full = resident_kib();
    double spill = now_s();
    for (size_t i = 0; i < count; i++) NEED(epoch_spill(a, e[i], zones));
    spill = now_s() - spill;
    (void)slab_trim(a);
    size_t away = resident_kib();
    SlabZonesStats s;
    NEED(slab_zones_stats(zones, &s));
    double load = now_s();
    for (size_t i = 0; i < count; i++) NEED(epoch_load(a, e[i]));
    load = now_s() - load;
    for (size_t i = 0; i < count; i++) check(first[i], each, object);
    SlabZonesStats end; /* zones of loaded epochs are reset */
    NEED(slab_zones_stats(zones, &end));
    printf("%6zu x %8zu KiB of %6zu B %-5s  (appended + padded) / slabs %.3f  fill at reset %.3f  memory away %5.2f %% "
           " spill %6.0f MiB/s  load "
           "%6.0f MiB/s\n",
           count, each >> 10, object, flags == EPOCH_SCOPE ? "scope" : "churn",
           (double)(s.appended_bytes + s.padding_bytes) / (double)s.payload_bytes,
           (double)end.reset_filled_bytes_total / ((double)end.reset_zones_total * (double)end.capacity_bytes),
           100 * ((double)away - (double)before) / ((double)full - (double)before), (double)all / spill / 1048576,
           (double)all / load / 1048576);
    char work[128];
    (void)snprintf(work, sizeof work, "%zu epochs of %zu MiB; %s of %zu B", count, each >> 20,
                   flags == EPOCH_SCOPE ? "scope" : "churn", object);
    bool small = each <= (size_t)1 << 20;
    figure(work, "(appended + padded) / slabs", (double)(s.appended_bytes + s.padding_bytes) / (double)s.payload_bytes,
           small ? 1.1 : 1.02);
    figure(work, "fill at reset",
           (double)end.reset_filled_bytes_total / ((double)end.reset_zones_total * (double)end.capacity_bytes), -1);
    figure(work, "% of memory that stays", 100 * ((double)away - (double)before) / ((double)full - (double)before), -1);
    slab_allocator_free(a);
    NEED(slab_zones_close(zones));
    free(e);
    free(first);
}

/* In a process of its own: memory of an earlier epoch would be there already, and would not be counted. */
static void there_and_back_apart(size_t all, size_t each, size_t object, unsigned flags) {
    (void)fflush(stdout);
    if (csv) (void)fflush(csv);
    pid_t child = fork();
    NEED(child >= 0);
    if (child == 0) {
        there_and_back(all, each, object, flags);
        (void)fflush(stdout);
        if (csv) (void)fflush(csv);
        _exit(0);
    }
    int status;
    NEED(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#define ROUNDS 25
static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Spilling and plain writing by turns, in one process, to the same file; the purge apart. */
static void beside_dd(size_t bytes) {
    SlabZones *zones = open_zones(mib);
    SlabAllocator *a = slab_allocator_create();
    double ratio[2][ROUNDS];
    int source = memfd_create("source", MFD_CLOEXEC);
    NEED(source >= 0);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t *first;
        EpochId e = fill(a, bytes, 4096, &first, EPOCH_CHURN);
        SlabZonesStats stats;
        for (const uint64_t *p = first; round == 0 && p; p = (const uint64_t *)(uintptr_t)p[0])
            NEED(write(source, p, 4096) == 4096);
        for (int i = 0; i < 8; i++) NEED(slab_zones_stats(zones, &stats)); /* resets of the round before */
        double from = now_s();
        NEED(epoch_spill(a, e, zones));
        double s = appended_at - from;
        for (int kind = 0; kind < 2; kind++) /* by turns */
            ratio[(round + kind) % 2][round] = s / write_plain(bytes, (round + kind) % 2 == 0 ? source : -1);
        NEED(epoch_destroy(a, e));
        (void)slab_trim(a);
    }
    static const char *const name[] = {"dd if=memory oflag=direct bs=1M", "direct writes of one buffer of 1 MiB"};
    for (int kind = 0; kind < 2; kind++) {
        qsort(ratio[kind], ROUNDS, sizeof *ratio[kind], by_size);
        figure(name[kind], "appending takes times", ratio[kind][ROUNDS / 2], kind == 0 ? 1.25 : -1);
        printf("appending / %s, %zu MiB: median of %d %.2f (quartiles %.2f, %.2f)\n", name[kind], bytes >> 20, ROUNDS,
               ratio[kind][ROUNDS / 2], ratio[kind][ROUNDS / 4], ratio[kind][ROUNDS * 3 / 4]);
    }
    (void)close(source);
    slab_allocator_free(a);
    NEED(slab_zones_close(zones));
}

enum { WITHOUT, DESTROYED, ONE_AWAY };

/* KiB that are resident in the end: two epochs of so many slabs took them by turns, so that no two of one epoch lie side by side. WITHOUT: there
   is the second alone; else the first has ended, or is away. 0: refused, *error says why. */
static size_t scattered_rest(size_t slabs, size_t object, int what, int *error) {
    SlabZones *zones = open_zones(2 * slabs * 16 >> 10);
    SlabAllocator *a = slab_allocator_create();
    EpochId one = epoch_open(a, "one", EPOCH_CHURN), other = epoch_open(a, "other", EPOCH_CHURN);
    for (size_t i = 0; i < slabs; i++) {
        for (int of = what == WITHOUT; of < 2; of++) {
            for (size_t k = 0; k < 16384 / object; k++) {
                char *p = slab_malloc_epoch(a, object, of ? other : one);
                NEED(p);
                memset(p, 1, object);
            }
        }
    }
    bool done = what == WITHOUT || epoch_close(a, one);
    if (what == DESTROYED) done = epoch_destroy(a, one);
    if (what == ONE_AWAY) done = epoch_spill(a, one, zones);
    *error = errno;
    (void)slab_trim(a);
    return done ? resident_kib() : 0;
}

typedef struct rest {
    size_t kib;
    int error;
} rest;

static rest scattered_rest_apart(size_t slabs, size_t object, int what) {
    rest *out = mmap(NULL, sizeof *out, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), answer;
    NEED(out != MAP_FAILED);
    (void)fflush(NULL);
    pid_t child = fork();
    NEED(child >= 0);
    if (child == 0) {
        size_t before = resident_kib();
        out->kib = scattered_rest(slabs, object, what, &out->error);
        if (out->kib) out->kib -= before;
        _exit(0);
    }
    int status;
    NEED(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    answer = *out;
    (void)munmap(out, sizeof *out);
    return answer;
}

/* Every second slab away: as many groups of slabs as there can be. The remaining memory is told beside a process that
   never had the epoch, and beside one that has ended it. */
static void scattered(size_t slabs, size_t object) {
    char work[96];
    rest without = scattered_rest_apart(slabs, object, WITHOUT), ended = scattered_rest_apart(slabs, object, DESTROYED),
         one = scattered_rest_apart(slabs, object, ONE_AWAY);
    double whole = (double)slabs * 16;
    (void)snprintf(work, sizeof work, "%zu scattered slabs; churn of %zu B", slabs, object);
    printf("%s: ", work);
    figure(work, "refused (EBUSY)", one.kib == 0, -1);
    if (one.kib == 0) {
        NEED(one.error == EBUSY);
        printf("refused\n");
        return;
    }
    double stays = 100 * ((double)one.kib - (double)without.kib) / whole,
           more = 100 * ((double)one.kib - (double)ended.kib) / whole;
    printf("memory away %.2f %% of what it was, %.2f %% more than if it had ended", stays, more);
    figure(work, "% of memory that stays", stays, -1);
    figure(work, "% that stays beyond what its end leaves", more, -1);
    printf("\n");
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--mib") == 0 && i + 1 < argc)
            mib = strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--csv") == 0 && i + 1 < argc)
            csv = bench_csv_open("zones_bench", argv[++i]);
        else
            path = argv[i];
    }
    if (mib < 8) mib = 8;
    if (csv) fprintf(csv, "work,figure,value,limit,load\n");
    size_t all = mib << 20, large = all >= (size_t)128 << 20 ? (size_t)128 << 20 : all;
    there_and_back_apart(all, large, 64, EPOCH_CHURN);
    there_and_back_apart(all, large, 64, EPOCH_SCOPE);
    there_and_back_apart(all, large, 256, EPOCH_CHURN);
    there_and_back_apart(all, large, 4096, EPOCH_CHURN);
    there_and_back_apart(all, large, 1 << 20, EPOCH_CHURN);
    there_and_back_apart(all / 4, 1 << 20, 256, EPOCH_CHURN);
    beside_dd(all / 8);
    scattered(mib * 16, 64);
    scattered(mib * 64, 64);
    scattered(mib * 64, 16384);
    (void)unlink(path);
    bench_csv_close(csv);
    return 0;
}
