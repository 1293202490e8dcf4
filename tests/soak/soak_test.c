/*
 * Runs the soak and reports. Once a second everybody stops, and every structure of the process is walked and every
 * identity of the statistics checked; memory is measured, and its slope told at the end.
 *
 *     soak_test [--seconds N] [--seed N] [--threads N]
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "soak.h"

#include "identities.h"
#include "proc.h"
#include "region/region.h"
#include "walk/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((double)(1u << 20))
#define FLAT_AFTER_S 60.0 /* shorter runs report their memory and do not judge it */
/* The pool's highest unit is that many times the most that were in use at once, at most: the free units in between are
   used. */
#define HIGHEST_OF_MOST 8u

/* ---- the gate ------------------------------------------------------------------------------------------------ */

static pthread_mutex_t gate_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_open = PTHREAD_COND_INITIALIZER, gate_quiet = PTHREAD_COND_INITIALIZER;
static unsigned inside; /* lives that are not waiting */
atomic_bool soak_gate_shut;

void soak_gate_enter(void) {
    (void)pthread_mutex_lock(&gate_mutex);
    while (atomic_load(&soak_gate_shut)) {
        (void)pthread_cond_wait(&gate_open, &gate_mutex);
    }
    inside++;
    (void)pthread_mutex_unlock(&gate_mutex);
}

void soak_gate_leave(void) {
    (void)pthread_mutex_lock(&gate_mutex);
    inside--;
    (void)pthread_cond_signal(&gate_quiet);
    (void)pthread_mutex_unlock(&gate_mutex);
}

void soak_gate_wait(void) {
    soak_gate_leave();
    soak_gate_enter();
}

static void shut_gate(void) {
    (void)pthread_mutex_lock(&gate_mutex);
    atomic_store(&soak_gate_shut, true);
    while (inside > 0) {
        (void)pthread_cond_wait(&gate_quiet, &gate_mutex);
    }
    (void)pthread_mutex_unlock(&gate_mutex);
}

static void open_gate(void) {
    (void)pthread_mutex_lock(&gate_mutex);
    atomic_store(&soak_gate_shut, false);
    (void)pthread_cond_broadcast(&gate_open);
    (void)pthread_mutex_unlock(&gate_mutex);
}

/* ---- lives ----------------------------------------------------------------------------------------------------- */

struct life_job {
    struct soak *soak;
    uint64_t seed;
};

static void *live(void *argument) {
    const struct life_job *job = argument;
    soak_live(job->soak, job->seed);
    return NULL;
}

/* One thread after another. The driver itself uses nothing of the library. */
static void drive(void *argument, unsigned number) {
    struct soak *soak = argument;
    for (uint64_t round = 0; !atomic_load(&soak->stop); round++) {
        struct life_job job = {soak, sup_mix(soak->args.seed * 1000003u + round * 64u + number)};
        soak_gate_enter();
        sup_in_thread(live, &job);
        soak_gate_leave();
    }
}

/* ---- the quiet moment -------------------------------------------------------------------------------------------- */

struct sample {
    double second;
    double resident, committed, records, of_units; /* bytes; the last two: metadata */
};

struct record {
    struct sample *samples;
    size_t count, room;
    uint64_t walks, exact;
    ts_check walk, most; /* the last walk, and the most that any found */
    uint64_t most_units; /* of 16 KiB, in use, seen at a gate */
};

static uint64_t units_of_groups(const _Atomic uint64_t *groups, uint32_t count) {
    uint64_t units = 0;
    for (uint32_t group = 0; group < count; group++)
        if (atomic_load(&groups[group / 64]) >> group % 64 & 1)
            units += (uint64_t)1 << (group < TS_FINE_NEAR_UNITS >> TS_FINE_NEAR_SHIFT ? TS_FINE_NEAR_SHIFT
                                                                                      : TS_FINE_FAR_SHIFT);
    return units;
}

/* Metadata that units have below the highest that was ever used, which is judged by itself. It rises in steps of some
   MiB. The rest is records: of heaps, blocks, epochs and the like. */
static uint64_t metadata_of_units(void) {
    const uint64_t of_any = sizeof(uint64_t) + TS_SLAB_BYTES + sizeof(ts_run);
    return (uint64_t)ts_region_marked_units(TS_FAR) * of_any +
           (uint64_t)ts_region_marked_units(TS_NORMAL) *
               (of_any + TS_GRANULES_COARSE * sizeof(uint16_t) + TS_WIDE_BYTES) +
           units_of_groups(ts_region.fine_groups, TS_FINE_GROUPS) *
               (TS_GRANULES_FINE * sizeof(uint16_t) + TS_FINE_BYTES) +
           units_of_groups(ts_region.piece_groups, TS_PIECE_GROUPS) * TS_PIECES *
               (TS_PIECE_RECORD_BYTES + sizeof(uint64_t));
}

static void check_figures(const struct soak *soak, struct record *record) {
    char why[256] = "";
    SlabAllocator *all[] = {soak->plain, soak->tight, slab_allocator_default()};
    /* Units of dead blocks and zombies wait for a thread that stands at the gate: the public figures do not count them
       as in use or retained. And asking for an epoch's figures takes foreign frees off the queues of ended threads, so
       the sums before and after differ. The walk counts both exactly. */
    if (record->walk.zombies + record->walk.condemned_units + record->walk.queued != 0) {
        return;
    }
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        SUP_CHECK(sup_identities(all[i], why, sizeof why), "allocator %u: %s", i, why);
    }
    record->exact++;
}

static void walk(const struct soak *soak, struct record *record, double second) {
    ts_check *w = &record->walk;
    SUP_CHECK(ts_check_all(w, false), "after %.0f s: %s", second, w->why);
    record->walks++;
    record->most.heaps = w->heaps > record->most.heaps ? w->heaps : record->most.heaps;
    record->most.blocks = w->blocks > record->most.blocks ? w->blocks : record->most.blocks;
    record->most.slabs = w->slabs > record->most.slabs ? w->slabs : record->most.slabs;
    record->most.spans = w->spans > record->most.spans ? w->spans : record->most.spans;
    record->most.live = w->live > record->most.live ? w->live : record->most.live;
    record->most.queued = w->queued > record->most.queued ? w->queued : record->most.queued;
    record->most.zombies = w->zombies > record->most.zombies ? w->zombies : record->most.zombies;
    record->most.condemned_units =
        w->condemned_units > record->most.condemned_units ? w->condemned_units : record->most.condemned_units;
    check_figures(soak, record);
}

static void renew(struct soak *soak) {
    /* Owned by this thread, which made it; others may have ended inside of it. */
    epoch_domain_destroy(soak->shared);
    soak->shared = epoch_domain_create_ex(soak->plain, "shared", EPOCH_DOMAIN_SHARED);
    SUP_CHECK(soak->shared != NULL, "epoch_domain_create_ex: %s", strerror(errno));
    SUP_CHECK(epoch_destroy(soak->plain, soak->scope), "epoch_destroy");
    soak->scope = epoch_open(soak->plain, "scope", EPOCH_SCOPE);
    SUP_CHECK(soak->scope != EPOCH_NONE, "epoch_open");
}

static void measure(const struct soak *soak, struct record *record, double second) {
    SlabGlobalStats stats;
    SUP_CHECK(slab_stats_global(soak->plain, &stats), "slab_stats_global");
    if (record->count == record->room) {
        record->room = record->room ? 2 * record->room : 1024;
        record->samples = realloc(record->samples, record->room * sizeof *record->samples);
        SUP_CHECK(record->samples != NULL, "out of memory");
    }
    uint64_t of_units = metadata_of_units();
    SUP_CHECK(of_units < stats.metadata_bytes, "%" PRIu64 " bytes of metadata, of units %" PRIu64, stats.metadata_bytes,
              of_units);
    record->samples[record->count++] = (struct sample){second, (double)sup_rss_bytes(), (double)stats.committed_bytes,
                                                       (double)(stats.metadata_bytes - of_units), (double)of_units};
}

static void quiet_moment(struct soak *soak, struct record *record, double second) {
    shut_gate();
    uint64_t used = ts_pool_used(TS_NORMAL);
    record->most_units = used > record->most_units ? used : record->most_units;
    walk(soak, record, second);
    /* One of them is more than all that is measured here. */
    soak_drain_large(soak);
    (void)slab_trim(soak->plain);
    (void)slab_trim(soak->tight);
    renew(soak);
    walk(soak, record, second);
    measure(soak, record, second);
    open_gate();
}

/* ---- report ------------------------------------------------------------------------------------------------------ */

/* Bytes per second by least squares over the second half. */
static double slope(const struct record *record, size_t offset) {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (size_t i = record->count / 2; i < record->count; i++) {
        double v;
        memcpy(&v, (const char *)&record->samples[i] + offset, sizeof v);
        n += 1;
        x += record->samples[i].second;
        y += v;
        xx += record->samples[i].second * record->samples[i].second;
        xy += record->samples[i].second * v;
    }
    double d = n * xx - x * x;
    return d > 0 ? (n * xy - x * y) / d : 0;
}

static double mean(const struct record *record, size_t offset, double from, double to) {
    double sum = 0;
    size_t n = 0;
    for (size_t i = (size_t)((double)record->count * from); i < (size_t)((double)record->count * to); i++) {
        double v;
        memcpy(&v, (const char *)&record->samples[i] + offset, sizeof v);
        sum += v;
        n++;
    }
    return n ? sum / (double)n : 0;
}

static void memory_line(const struct record *record, const char *name, size_t offset, bool judge) {
    double second = mean(record, offset, 0.25, 0.5), last = mean(record, offset, 0.75, 1.0);
    (void)printf("  %-10s %8.2f MiB in the second quarter, %8.2f in the last; slope of the second half %+.3f MiB/min\n",
                 name, second / MIB, last / MIB, slope(record, offset) * 60 / MIB);
    SUP_CHECK(!judge || last <= second * 1.15 + 2 * MIB, "%s is not flat: %.2f MiB, then %.2f", name, second / MIB,
              last / MIB);
}

static void report(const struct soak *soak, const struct record *record, double seconds) {
    static const char *const names[] = {
#define X(name) #name,
        SOAK_COUNTS(X)
#undef X
    };
    (void)printf("soak: %.0f s, %u threads, seed %" PRIu64 "\n ", seconds, (unsigned)soak->args.threads,
                 soak->args.seed);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)printf(" %s %" PRIu64, names[i], (uint64_t)atomic_load(&soak->count[i]));
    }
    (void)printf("\n  %" PRIu64 " walks of everything, %" PRIu64 " with the public figures; at most %" PRIu64
                 " heaps, %" PRIu64 " blocks, %" PRIu64 " slabs, %" PRIu64 " spans, %" PRIu64 " live objects, %" PRIu64
                 " slabs with foreign frees, %" PRIu64 " zombies, %" PRIu64 " units of dead blocks\n",
                 record->walks, record->exact, record->most.heaps, record->most.blocks, record->most.slabs,
                 record->most.spans, record->most.live, record->most.queued, record->most.zombies,
                 record->most.condemned_units);
    bool judge = seconds >= FLAT_AFTER_S && !SUP_SANITIZED;
    uint32_t far_units = record->walk.high[TS_FAR];
    (void)printf("  objects of 0 bytes to %s MiB; %" PRIu32 " MiB of the FAR part were ever taken\n",
                 sizeof(size_t) > 4 ? "128" : "4", far_units);
    SUP_CHECK(!judge || sizeof(size_t) == 4 || far_units > 16, "no object above 32 MiB lay in the FAR part");
    memory_line(record, "resident", offsetof(struct sample, resident), judge);
    memory_line(record, "committed", offsetof(struct sample, committed), judge);
    memory_line(record, "records", offsetof(struct sample, records), judge);
    memory_line(record, "of units", offsetof(struct sample, of_units), false);
    uint32_t highest = ts_pool_highest(TS_NORMAL);
    (void)printf("  at most %" PRIu64 " units in use, the highest was %u\n", record->most_units, highest);
    SUP_CHECK(!judge || highest <= HIGHEST_OF_MOST * record->most_units, "units above %u", highest);
}

/* ---- main -------------------------------------------------------------------------------------------------------- */

static void begin(struct soak *soak) {
    SlabOptions options = {.size = sizeof options,
                           .reclaim_policy = SLAB_RECLAIM_AT_ONCE,
                           .poison_on_free = 1,
                           .budget_bytes = (size_t)8 << 20};
    soak->plain = slab_allocator_create();
    soak->tight = slab_allocator_create_ex(&options);
    SUP_CHECK(soak->plain != NULL && soak->tight != NULL, "slab_allocator_create: %s", strerror(errno));
    soak->churn = epoch_open(soak->plain, "churn", EPOCH_CHURN);
    soak->scope = epoch_open(soak->plain, "scope", EPOCH_SCOPE);
    soak->tight_churn = epoch_open(soak->tight, "tight", EPOCH_CHURN);
    atomic_store(&soak->chaos, epoch_open(soak->plain, "chaos", EPOCH_CHURN));
    soak->shared = epoch_domain_create_ex(soak->plain, "shared", EPOCH_DOMAIN_SHARED);
    for (unsigned i = 0; i < SOAK_BOXES; i++) {
        stress_box_init(&soak->boxes[i]);
    }
    stress_box_init(&soak->large);
    (void)pthread_mutex_init(&soak->parked_mutex, NULL);
}

static void finish(struct soak *soak, struct record *record) {
    soak_drain(soak);
    epoch_domain_destroy(soak->shared);
    SUP_CHECK(epoch_destroy(soak->plain, atomic_load(&soak->chaos)), "epoch_destroy");
    SUP_CHECK(epoch_destroy(soak->plain, soak->churn) && epoch_destroy(soak->plain, soak->scope), "epoch_destroy");
    SUP_CHECK(epoch_destroy(soak->tight, soak->tight_churn), "epoch_destroy");
    (void)epoch_advance(soak->plain);
    (void)slab_trim(soak->plain);
    (void)slab_trim(soak->tight);
    walk(soak, record, soak->args.seconds);
    SUP_CHECK(record->walk.live == 0, "%" PRIu64 " objects are left", record->walk.live);
    sup_check_empty(soak->plain);
    sup_check_empty(soak->tight);
    SUP_CHECK(sup_committed_bytes(soak->plain) == 0 && sup_committed_bytes(soak->tight) == 0,
              "memory that nothing is in");
    slab_allocator_free(soak->plain);
    slab_allocator_free(soak->tight);
    SUP_CHECK(ts_check_all(&record->walk, false), "at the end: %s", record->walk.why);
}

int main(int argc, char **argv) {
    static struct soak soak = {.args = {.seconds = 2.5, .seed = 1, .threads = 6}};
    static struct stress_crew crew;
    static struct record record;
    sup_args_parse(argc, argv, &soak.args);
    SUP_CHECK(soak.args.threads >= 1 && soak.args.threads <= 64, "1 to 64 threads");
    begin(&soak);
    stress_start(&crew, (unsigned)soak.args.threads, drive, &soak);
    double start = sup_now_s();
    double pause_s = soak.args.seconds < 10 ? soak.args.seconds / 5 : 1.0;
    for (double next = start + pause_s; sup_now_s() - start < soak.args.seconds; next += pause_s) {
        double wait = next - sup_now_s();
        if (wait > 0) {
            sup_sleep_ms((unsigned)(wait * 1000));
        }
        quiet_moment(&soak, &record, sup_now_s() - start);
        const struct sample *s = &record.samples[record.count - 1];
        (void)printf("%6.0f s  %10" PRIu64 " operations  %6" PRIu64 " threads  %4" PRIu64 " forks  %5" PRIu64
                     " slabs  %6" PRIu64 " live  %7.2f MiB resident\n",
                     s->second, (uint64_t)atomic_load(&soak.count[0]), (uint64_t)atomic_load(&soak.count[6]),
                     (uint64_t)atomic_load(&soak.count[7]), record.walk.slabs, record.walk.live, s->resident / MIB);
        (void)fflush(stdout);
    }
    atomic_store(&soak.stop, true);
    stress_join(&crew);
    finish(&soak, &record);
    report(&soak, &record, soak.args.seconds);
    SUP_CHECK(record.exact > 0, "the public figures were never checked");
    SUP_CHECK(atomic_load(&soak.count[0]) > 1000, "nearly nothing was done");
    (void)printf("soak: good\n");
    free(record.samples);
    return 0;
}
