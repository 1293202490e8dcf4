/*
 * Memory over time: does it stay constant, and does it go back?
 *
 *   cycles         100,000 live objects of 128 bytes in ten generations; a cycle frees the oldest generation and
 *                  allocates a new one (an epoch each). Resident memory after every one of 1,000 cycles.
 *   phase shifts   10,000 objects live on, a tenth of them replaced at random while 256 MB of others come and go
 *                  again in an epoch of their own; 2,000 times. Committed and live bytes at every cool-down, and the
 *                  share of the peak that the kernel has back.
 *   epochs         20 epochs of 50,000 objects, one after the other, each freed and closed.
 *   mixed          objects of 16-1040 bytes come and go at random, with no boundary ever.
 *
 * Resident means resident anonymous memory, the kernel's count, with the harness's own arrays (2 MiB at most in the
 * cycles, 16 MiB in the phase shifts, the same for every allocator).
 *
 * With temporal-slab the program fails (exit 1) if
 *
 *   - live bytes of two cool-downs differ, or committed bytes by more than a slab of 16 KiB once the retain budget has
 *   settled,
 *     which may take ten phase shifts,
 *   - more is committed than the need of the objects that live on and the retain budget,
 *   - of a spike less than 85 % is back as soon as it is over, or less than 96 % after a second of calls or when asked
 *   for
 *     (only with a pressure of 256 MiB and more: the budget is a larger part of less),
 *   - resident memory grows by more than 50 % in any of the four parts.
 */
#include "bench_clock.h"
#include "suite.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CHURN_BYTES = 128, GENERATIONS = 10, BASE_OBJECTS = 10000, EPOCH_OBJECTS = 50000, MIXED_SLOTS = 20000 };

static const uint16_t sizes[] = {64, 96, 128, 192, 256, 384, 512, 768};
enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0], SIZE_SUM = 64 + 96 + 128 + 192 + 256 + 384 + 512 + 768 };

static struct {
    uint64_t cycles, shifts, pressure_mib, epochs, samples;
    const char *shifts_csv, *epochs_csv, *mixed_csv;
} options;

static suite_csv *cycles_csv, *shifts_csv, *epochs_csv, *mixed_csv;

/* Requirements on temporal-slab that did not hold: written by the parts, each in its own process. */
typedef struct faults {
    char text[8][160];
    unsigned count;
} faults;

static faults *found;

__attribute__((format(printf, 1, 2))) static void fault(const char *format, ...) {
    enum { MOST = sizeof found->text / sizeof found->text[0] };
    va_list args;
    va_start(args, format);
    if (found->count < MOST) vsnprintf(found->text[found->count++], sizeof found->text[0], format, args);
    va_end(args);
}

static double mib(uint64_t bytes) { return (double)bytes / 1048576; }

/* A slot that remembers its object's size: so many bytes are checked in smoke mode, and touched otherwise. */
typedef struct slot {
    void *object;
    uint32_t size;
    uint32_t tag;
} slot;

static void slot_alloc(peer_ref peer, slot *s, uint32_t size, uint32_t tag) {
    unsigned char *object = suite_alloc(peer, size);
    *s = (slot){object, size, tag};
    if (suite.smoke) {
        suite_fill(object, size, tag);
    } else {
        *(volatile unsigned char *)object = 1;
        *(volatile unsigned char *)(object + size - 1) = 1;
    }
}

static void slot_free(peer_ref peer, slot *s) {
    if (suite.smoke && !suite_verify(s->object, s->size, s->tag))
        suite_fail("object %p of %u bytes was overwritten", s->object, s->size);
    if (!peer_free(peer, s->object)) suite_fail("the free of the live object %p was refused", s->object);
    s->object = NULL;
}

static void close_epoch(peer_ref epoch) {
    if (!suite_epoch_close(epoch)) suite_fail("epoch_close refused an open epoch");
}

/* The course of a series of figures. */
typedef struct series {
    double first, last, least, most;
    bool any;
} series;

static void series_add(series *s, double value) {
    if (!s->any) *s = (series){value, value, value, value, true};
    s->last = value;
    if (value < s->least) s->least = value;
    if (value > s->most) s->most = value;
}

/* From when the program has all that it keeps. */
static void check_growth(const char *part, double first, double last) {
    bool ours = strcmp(SUITE_ALLOCATOR, "tslab") == 0;
    if (ours && last > 1.5 * first)
        fault("resident memory of the %s has grown from %.2f to %.2f MiB", part, first, last);
}

/* ---- cycles ----------------------------------------------------------------------------------- */

static void run_cycles(const void *unused) {
    (void)unused;
    size_t generation_objects = suite_amount(100000, 100000, 2000) / GENERATIONS;
    size_t live = generation_objects * GENERATIONS;
    slot *slots = bench_map(live * sizeof *slots);
    peer_ref epochs[GENERATIONS];
    series rss = {0};
    peer_ref peer = peer_open();
    for (unsigned g = 0; g < GENERATIONS; g++) {
        epochs[g] = suite_epoch_open(peer, "generation", false);
        for (size_t i = 0; i < generation_objects; i++)
            slot_alloc(epochs[g], &slots[g * generation_objects + i], CHURN_BYTES, (uint32_t)i);
    }
    for (uint64_t cycle = 1; cycle <= options.cycles; cycle++) {
        unsigned g = (unsigned)(cycle % GENERATIONS);
        slot *generation = slots + g * generation_objects;
        for (size_t i = 0; i < generation_objects; i++) slot_free(epochs[g], &generation[i]);
        close_epoch(epochs[g]);
        epochs[g] = suite_epoch_open(peer, "generation", false);
        for (size_t i = 0; i < generation_objects; i++)
            slot_alloc(epochs[g], &generation[i], CHURN_BYTES, (uint32_t)(cycle + i));
        double rss_mib = mib(suite_resident_bytes());
        suite_counters c = suite_count(peer);
        series_add(&rss, rss_mib);
        suite_csv_line(cycles_csv, "%s,%llu,%.3f,%s,%s,%s", SUITE_ALLOCATOR, (unsigned long long)cycle, rss_mib,
                       suite_count_field(c.known, c.slabs_allocated).text,
                       suite_count_field(c.known, c.slabs_recycled).text,
                       suite_count_field(c.known, c.slabs_overflowed).text);
        suite_progress(false, "cycle %llu of %llu", (unsigned long long)cycle, (unsigned long long)options.cycles);
    }
    for (unsigned g = 0; g < GENERATIONS; g++) {
        for (size_t i = 0; i < generation_objects; i++) slot_free(epochs[g], &slots[g * generation_objects + i]);
        close_epoch(epochs[g]);
    }
    peer_close(peer);
    bench_unmap(slots, live * sizeof *slots);
    printf(
        "%-10s cycles        resident MiB: %.2f after the first of %llu, %.2f after the last, %.2f to %.2f between\n",
        SUITE_ALLOCATOR, rss.first, (unsigned long long)options.cycles, rss.last, rss.least, rss.most);
    check_growth("cycles", rss.first, rss.last);
}

/* ---- phase shifts ----------------------------------------------------------------------------- */

enum { SETTLED = 10 }; /* phase shifts after which the retain budget has settled */

static void replace_a_tenth(peer_ref peer, slot *base, size_t count) {
    for (size_t i = 0; i < count; i += 10) slot_free(peer, &base[i]);
    for (size_t i = 0; i < count; i += 10) slot_alloc(peer, &base[i], base[i].size, base[i].tag + 1);
}

/* A program that goes on for a second, and a while after it. */
static void rest(peer_ref peer, slot *base, size_t count) {
    uint64_t ns = suite_amount(1000000000, 1000000000, 0);
    for (uint64_t begin = bench_now_ns(); bench_now_ns() - begin < ns;) replace_a_tenth(peer, base, count);
    for (uint64_t i = suite_amount(1000, 1000, 1); i > 0; i--) replace_a_tenth(peer, base, count);
}

static double percent_of(size_t peak, size_t base, size_t now) {
    return 100.0 * ((double)peak - (double)now) / ((double)peak - (double)base);
}

/* Memory that stays of the spikes. */
static void check_shifts(series live, series committed, series returned, double rested, double asked) {
    const double slab = 16384;
    if (live.least < live.most) fault("live bytes of cool-downs differ: %.0f to %.0f", live.least, live.most);
    if (committed.most - committed.least > slab)
        fault("committed bytes of cool-downs differ: %.0f to %.0f", committed.least, committed.most);
    if (options.pressure_mib < 256) return;
    if (returned.least < 85) fault("%.2f %% of a spike was back as soon as it was over, 85 should be", returned.least);
    if (rested < 96) fault("%.2f %% of a spike was back after a second of calls, 96 should be", rested);
    if (asked < 96) fault("%.2f %% of a spike was back after it was asked for, 96 should be", asked);
}

static void run_shifts(const void *unused) {
    (void)unused;
    size_t base_objects = suite_amount(BASE_OBJECTS, BASE_OBJECTS, 1000);
    /* whole rounds over the sizes, so that the pressure is the same at every shift */
    size_t spike_objects = (size_t)(options.pressure_mib << 20) / SIZE_SUM * SIZE_COUNT;
    slot *base = bench_map(base_objects * sizeof *base), *spike = bench_map(spike_objects * sizeof *spike);
    bench_rng rng = {suite.seed};
    series returned = {0}, cool = {0}, settled = {0}, peak = {0}, live = {0}, committed = {0};
    uint64_t settles = options.shifts > 2 * SETTLED ? SETTLED : options.shifts / 2;
    double returned_sum = 0, rested = 0, asked = 0;

    (void)suite_resident_bytes();
    peer_ref peer = peer_open();
    for (size_t i = 0; i < base_objects; i++)
        slot_alloc(peer, &base[i], sizes[bench_rng_below(&rng, SIZE_COUNT)], (uint32_t)i);
    size_t base_bytes = suite_resident_bytes();
    suite_counters first = suite_count(peer);
    for (uint64_t shift = 1; shift <= options.shifts; shift++) {
        peer_ref epoch = suite_epoch_open(peer, "pressure", false);
        size_t replaced = base_objects / 10, every = spike_objects / replaced + 1;
        for (size_t i = 0; i < spike_objects; i++) {
            slot_alloc(epoch, &spike[i], sizes[i % SIZE_COUNT], (uint32_t)(shift + i));
            if (i % every != 0) continue;
            slot *victim = &base[bench_rng_below(&rng, (uint32_t)base_objects)];
            slot_free(peer, victim);
            slot_alloc(peer, victim, victim->size, victim->tag + 1);
        }
        size_t peak_bytes = suite_resident_bytes();
        for (size_t i = 0; i < spike_objects; i++) slot_free(epoch, &spike[i]);
        close_epoch(epoch);
        size_t cool_bytes = suite_resident_bytes();
        suite_counters c = suite_count(peer);
        double returned_pct = percent_of(peak_bytes, base_bytes, cool_bytes);
        /* Memory of every allocator after the last spike: a second later, and after a request to give it back. */
        char later_pct[48] = ",";
        if (shift == options.shifts) {
            rest(peer, base, base_objects);
            rested = percent_of(peak_bytes, base_bytes, suite_resident_bytes());
            suite_trim(peer);
            asked = percent_of(peak_bytes, base_bytes, suite_resident_bytes());
            snprintf(later_pct, sizeof later_pct, "%.2f,%.2f", rested, asked);
        }
        series_add(&live, (double)c.live_bytes);
        uint64_t may = first.committed_bytes + c.retain_bytes;
        if (c.known && c.committed_bytes > may)
            fault("%llu bytes are committed at cool-down %llu, %llu may be", (unsigned long long)c.committed_bytes,
                  (unsigned long long)shift, (unsigned long long)may);
        if (shift > settles) {
            series_add(&committed, (double)c.committed_bytes);
            series_add(&settled, mib(cool_bytes));
        }
        series_add(&returned, returned_pct);
        series_add(&cool, mib(cool_bytes));
        series_add(&peak, mib(peak_bytes));
        returned_sum += returned_pct;
        suite_csv_line(
            shifts_csv, "%s,%llu,%s,%s,%s,%s,%.3f,%.3f,%.3f,%.2f,%s,%s", SUITE_ALLOCATOR, (unsigned long long)shift,
            suite_count_field(c.known, c.live_objects).text, suite_count_field(c.known, c.live_bytes).text,
            suite_count_field(c.known, c.committed_bytes).text, suite_count_field(c.known, c.metadata_bytes).text,
            mib(base_bytes), mib(peak_bytes), mib(cool_bytes), returned_pct, later_pct, suite.identity.version);
        suite_progress(false, "phase shift %llu of %llu", (unsigned long long)shift,
                       (unsigned long long)options.shifts);
    }
    for (size_t i = 0; i < base_objects; i++) slot_free(peer, &base[i]);
    peer_close(peer);
    bench_unmap(spike, spike_objects * sizeof *spike);
    bench_unmap(base, base_objects * sizeof *base);

    printf(
        "%-10s phase shifts  resident MiB: %.2f before, %.2f at the first peak; at cool-downs %.2f first, %.2f last, "
        "%.2f to %.2f\n",
        SUITE_ALLOCATOR, mib(base_bytes), peak.first, cool.first, cool.last, cool.least, cool.most);
    printf("%-10s phase shifts  returned of the peak: %.2f %% on average, %.2f to %.2f; after the last %.2f a second "
           "later, "
           "%.2f asked for\n",
           SUITE_ALLOCATOR, returned_sum / (double)options.shifts, returned.least, returned.most, rested, asked);
    if (!first.known) return;
    printf("%-10s phase shifts  at cool-downs live bytes %.0f to %.0f; committed, from shift %llu on, %.0f to %.0f\n",
           SUITE_ALLOCATOR, live.least, live.most, (unsigned long long)settles + 1, committed.least, committed.most);
    check_shifts(live, committed, returned, rested, asked);
    check_growth("phase shifts", settled.first, settled.last);
}

/* ---- epochs ----------------------------------------------------------------------------------- */

static void run_epochs(const void *unused) {
    (void)unused;
    size_t objects = suite_amount(EPOCH_OBJECTS, EPOCH_OBJECTS, 1000);
    slot *slots = bench_map(objects * sizeof *slots);
    series full = {0}, closed = {0};
    peer_ref peer = peer_open();
    for (uint64_t cycle = 1; cycle <= options.epochs; cycle++) {
        peer_ref epoch = suite_epoch_open(peer, "batch", false);
        for (size_t i = 0; i < objects; i++) slot_alloc(epoch, &slots[i], CHURN_BYTES, (uint32_t)(cycle + i));
        size_t full_bytes = suite_resident_bytes();
        for (size_t i = 0; i < objects; i++) slot_free(epoch, &slots[i]);
        close_epoch(epoch);
        size_t closed_bytes = suite_resident_bytes();
        suite_counters c = suite_count(peer);
        series_add(&full, mib(full_bytes));
        series_add(&closed, mib(closed_bytes));
        suite_csv_line(
            epochs_csv, "%s,%llu,%zu,%.3f,%.3f,%s,%s,%s,%s,%s,%s", SUITE_ALLOCATOR, (unsigned long long)cycle, objects,
            mib(full_bytes), mib(closed_bytes), suite_count_field(c.known, c.live_bytes).text,
            suite_count_field(c.known, c.committed_bytes).text, suite_count_field(c.known, c.slabs_allocated).text,
            suite_count_field(c.known, c.slabs_recycled).text, suite_count_field(c.known, c.slabs_overflowed).text,
            suite.identity.version);
    }
    peer_close(peer);
    bench_unmap(slots, objects * sizeof *slots);
    printf("%-10s epochs        resident MiB: full %.2f first, %.2f last; closed %.2f first, %.2f last\n",
           SUITE_ALLOCATOR, full.first, full.last, closed.first, closed.last);
    check_growth("epochs", closed.first, closed.last);
}

/* ---- mixed ------------------------------------------------------------------------------------ */

static void run_mixed(const void *unused) {
    (void)unused;
    enum { MIN_BYTES = 16, MAX_BYTES = 1040 };
    uint32_t count = (uint32_t)suite_amount(MIXED_SLOTS, MIXED_SLOTS, 400);
    uint64_t operations = suite_amount(1000000, 200000, 2000), payload = 0; /* operations of one sample */
    slot *slots = bench_map(count * sizeof *slots);
    bench_rng rng = {suite.seed};
    series rss = {0}, filled = {0};
    peer_ref peer = peer_open();
    for (uint64_t sample = 1; sample <= options.samples; sample++) {
        for (uint64_t i = 0; i < operations; i++) {
            slot *s = &slots[bench_rng_below(&rng, count)];
            bool fill = bench_rng_below(&rng, 10) < 7; /* 70 % of the operations allocate, if they can */
            if (s->object != NULL && !fill) {
                payload -= s->size;
                slot_free(peer, s);
            } else if (s->object == NULL && fill) {
                slot_alloc(peer, s, MIN_BYTES + bench_rng_below(&rng, MAX_BYTES - MIN_BYTES + 1), (uint32_t)i);
                payload += s->size;
            }
        }
        double rss_mib = mib(suite_resident_bytes());
        suite_counters c = suite_count(peer);
        series_add(&rss, rss_mib);
        series_add(&filled, mib(payload));
        suite_csv_line(mixed_csv, "%s,%llu,%llu,%.3f,%.3f,%s,%s,%s", SUITE_ALLOCATOR, (unsigned long long)sample,
                       (unsigned long long)(sample * operations), rss_mib, mib(payload),
                       suite_count_field(c.known, c.live_bytes).text,
                       suite_count_field(c.known, c.committed_bytes).text, suite.identity.version);
        suite_progress(false, "mixed: sample %llu of %llu", (unsigned long long)sample,
                       (unsigned long long)options.samples);
    }
    for (uint32_t i = 0; i < count; i++)
        if (slots[i].object != NULL) slot_free(peer, &slots[i]);
    peer_close(peer);
    bench_unmap(slots, count * sizeof *slots);
    printf("%-10s mixed         resident MiB: %.2f first, %.2f last, %.2f to %.2f; payload %.2f first, %.2f last\n",
           SUITE_ALLOCATOR, rss.first, rss.last, rss.least, rss.most, filled.first, filled.last);
    check_growth("mixed load", rss.first, rss.last);
}

/* ---- main ------------------------------------------------------------------------------------- */

static const suite_option option_table[] = {
    {.name = "--cycles",
     .value = "N",
     .help = "cycles (default 1000; --quick: 200)",
     .number = &options.cycles,
     .low = 1,
     .high = 100000},
    {.name = "--shifts",
     .value = "N",
     .help = "phase shifts (default 2000; --quick: 40)",
     .number = &options.shifts,
     .low = 1,
     .high = 100000},
    {.name = "--pressure",
     .value = "MIB",
     .help = "payload of a phase's objects (default 256)",
     .number = &options.pressure_mib,
     .low = 1,
     .high = 16384},
    {.name = "--epochs",
     .value = "N",
     .help = "epochs of 50,000 objects (default 20)",
     .number = &options.epochs,
     .low = 1,
     .high = 100000},
    {.name = "--samples",
     .value = "N",
     .help = "samples of the mixed load (default 100; --quick: 50)",
     .number = &options.samples,
     .low = 1,
     .high = 100000},
    {.name = "--phase-shifts", .value = "FILE", .help = "memory at and after each phase", .text = &options.shifts_csv},
    {.name = "--epoch-cycles",
     .value = "FILE",
     .help = "memory of epochs one after the other",
     .text = &options.epochs_csv},
    {.name = "--mixed", .value = "FILE", .help = "memory of the mixed load", .text = &options.mixed_csv},
};

static const suite_program self = {
    .name = "churn_test",
    .summary =
        "Resident memory over cycles of churn, over phase shifts under pressure, over epochs, and under a mixed load\n"
        "without boundaries. With temporal-slab exit 1 if memory drifts or grows, or a spike does not go back.",
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
};

static void set_amount(uint64_t *amount, uint64_t full, uint64_t quick, uint64_t smoke) {
    if (*amount == 0) *amount = suite_amount(full, quick, smoke);
}

int main(int argc, char **argv) {
    suite_begin(&self, argc, argv);
    set_amount(&options.cycles, 1000, 200, 30);
    set_amount(&options.shifts, 2000, 40, 10);
    set_amount(&options.pressure_mib, 256, 256, 2);
    set_amount(&options.epochs, 20, 20, 20);
    set_amount(&options.samples, 100, 50, 10);
    cycles_csv = suite_csv_open(suite.csv, "allocator,cycle,rss_mib,slabs_allocated,slabs_recycled,slabs_overflowed");
    shifts_csv = suite_csv_open(
        options.shifts_csv, "allocator,shift,live_objects,live_bytes,committed_bytes,metadata_bytes,rss_base_mib,"
                            "rss_peak_mib,rss_cool_mib,returned_pct,returned_rested_pct,returned_asked_pct,version");
    epochs_csv = suite_csv_open(options.epochs_csv,
                                "allocator,cycle,objects,rss_full_mib,rss_closed_mib,live_bytes,committed_bytes,"
                                "slabs_allocated,slabs_recycled,slabs_overflowed,version");
    mixed_csv = suite_csv_open(options.mixed_csv,
                               "allocator,sample,operations,rss_mib,payload_mib,live_bytes,committed_bytes,version");
    found = suite_shared(sizeof *found);

    suite_progress(true, "%llu cycles of churn", (unsigned long long)options.cycles);
    suite_run(run_cycles, NULL);
    suite_progress(true, "%llu phase shifts under %llu MiB", (unsigned long long)options.shifts,
                   (unsigned long long)options.pressure_mib);
    suite_run(run_shifts, NULL);
    suite_progress(true, "%llu epochs", (unsigned long long)options.epochs);
    suite_run(run_epochs, NULL);
    suite_progress(true, "mixed load");
    suite_run(run_mixed, NULL);
    suite_csv_commit();
    for (unsigned i = 0; i < found->count && i < sizeof found->text / sizeof found->text[0]; i++)
        fprintf(stderr, "churn_test (%s): %s\n", SUITE_ALLOCATOR, found->text[i]);
    if (found->count != 0) suite_fail("%u of what should hold does not", found->count);
    return 0;
}
