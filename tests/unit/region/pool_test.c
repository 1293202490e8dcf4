/*
 * The pool of units against a model that knows the owner of every unit. Each test makes a region of its own in a forked
 * child.
 */
#include "check.h"
#include "in_child.h"
#include "proc.h"
#include "rng.h"
#include "unit.h"

#include "base/base.h"
#include "os/os.h"
#include "region/region.h"
#include "walk/check_pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LOG2 12u /* 4096 units, 512 of them SMALL */
#define UNITS (1u << LOG2)

static ts_os_table table;
static bool refuse_commit;  /* every call */
static size_t refuse_above; /* data calls of more bytes than this */
static unsigned commits;

static bool is_data(const void *at) {
    const char *from = ts_region.part[TS_NORMAL].base;
    return (const char *)at >= from && (const char *)at < from + UNITS * TS_UNIT_BYTES;
}

static bool test_commit(void *at, size_t bytes) {
    commits++;
    if (refuse_commit || (is_data(at) && bytes > refuse_above)) {
        return false;
    }
    return ts_os_native.commit(at, bytes);
}

static void make_region(void) {
    table = ts_os_native;
    table.commit = test_commit;
    refuse_above = SIZE_MAX;
    ts_os = &table;
    SUP_CHECK(ts_region_init(LOG2), "ts_region_init");
    ts_pool_init();
    ts_pool_check();
}

/* ---- the model --------------------------------------------------------------------------------------------- */

typedef struct run {
    uint32_t first, count;
} run;

static uint8_t taken[UNITS];
static run runs[UNITS];
static unsigned run_count;
static uint64_t taken_count;

static bool take(unsigned part, uint32_t count, uint32_t align) {
    const ts_part *p = &ts_region.part[part];
    uint32_t first = ts_pool_take(part, count, align);
    if (!first) {
        return false;
    }
    SUP_CHECK(ts_part_of_unit(first) == part && first > p->first_unit, "unit %u is not of part %u", first, part);
    SUP_CHECK(first + count <= p->first_unit + p->units, "units %u + %u end outside", first, count);
    SUP_CHECK((uintptr_t)ts_unit_address(first) % (align * TS_UNIT_BYTES) == 0, "unit %u is not aligned", first);
    for (uint32_t u = first; u < first + count; u++) {
        SUP_CHECK(!taken[u], "unit %u is handed out twice", u);
        taken[u] = 1;
        char *at = ts_unit_address(u);
        SUP_CHECK(at[0] == 0 && at[TS_UNIT_BYTES - 1] == 0, "unit %u is not zero", u);
    }
    ts_unit_address(first)[0] = 1; /* it can be written */
    ts_unit_address(first + count - 1)[TS_UNIT_BYTES - 1] = 1;
    runs[run_count++] = (run){first, count};
    taken_count += count;
    return true;
}

/* More units behind a run, if they are free: all of them, or none. */
static bool extend(unsigned index, uint32_t count) {
    run *r = &runs[index];
    uint32_t from = r->first + r->count;
    const ts_part *p = &ts_region.part[ts_part_of_unit(r->first)];
    bool inside = count <= p->first_unit + p->units - from, free_below_high = inside;
    for (uint32_t u = from; inside && u < from + count; u++) {
        free_below_high = free_below_high && !taken[u];
    }
    uint32_t at_hand = ts_pool_free_at(from);
    SUP_CHECK(at_hand <= p->first_unit + p->units - from, "%u units behind %u", at_hand, from);
    for (uint32_t u = from; u < from + at_hand; u++) SUP_CHECK(!taken[u], "unit %u is not free", u);
    if (!ts_pool_take_at(from, count, r->count + count)) {
        return false;
    }
    SUP_CHECK(free_below_high, "units %u + %u are another's, or outside", from, count);
    memset(taken + from, 1, count);
    ts_unit_address(from)[0] = 1;
    ts_unit_address(from + count - 1)[TS_UNIT_BYTES - 1] = 1;
    r->count += count;
    taken_count += count;
    return true;
}

/* Gives back all of a run, or a part: an owner of units may return some of them. */
static void give(unsigned index, uint32_t from, uint32_t count) {
    run r = runs[index];
    SUP_CHECK(ts_os->purge(ts_unit_address(r.first + from), count * TS_UNIT_BYTES), "purge");
    ts_pool_give(r.first + from, count);
    memset(taken + r.first + from, 0, count);
    taken_count -= count;
    runs[index] = runs[--run_count];
    if (from > 0) {
        runs[run_count++] = (run){r.first, from};
    }
    if (from + count < r.count) {
        runs[run_count++] = (run){r.first + from + count, r.count - from - count};
    }
}

static void give_all(void) {
    while (run_count > 0) {
        give(0, 0, runs[0].count);
    }
}

/* ---- tests ------------------------------------------------------------------------------------------------- */

static void random_runs(void *argument) {
    struct sup_rng rng = {*(uint64_t *)argument};
    sup_set_seed(rng.state);
    make_region();
    unsigned extended = 0;
    for (unsigned i = 0; i < SUP_SCALED(20000u); i++) {
        const unsigned part = TS_NORMAL;
        uint64_t kind = sup_rng_below(&rng, 100);
        if (kind < 10 && run_count > 0) {
            refuse_commit = sup_rng_below(&rng, 4) == 0;
            extended += extend((unsigned)sup_rng_below(&rng, run_count), 1 + (uint32_t)sup_rng_below(&rng, 20));
            refuse_commit = false;
        } else if (kind < 50 || run_count == 0) {
            uint32_t most = sup_rng_below(&rng, 10) == 0 ? 200 : 8;
            uint32_t align = sup_rng_below(&rng, 8) == 0 ? 1u << sup_rng_below(&rng, 7) : 1;
            refuse_commit = sup_rng_below(&rng, 16) == 0;
            (void)take(part, 1 + (uint32_t)sup_rng_below(&rng, most), align);
            refuse_commit = false;
        } else {
            unsigned index = (unsigned)sup_rng_below(&rng, run_count);
            uint32_t from = (uint32_t)sup_rng_below(&rng, runs[index].count);
            uint32_t count = 1 + (uint32_t)sup_rng_below(&rng, runs[index].count - from);
            if (kind < 80) {
                from = 0;
                count = runs[index].count;
            }
            give(index, from, count);
        }
        SUP_CHECK(ts_pool_used_units() == taken_count, "used %llu, handed out %llu",
                  (unsigned long long)ts_pool_used_units(), (unsigned long long)taken_count);
        if (i % 16 == 0) {
            ts_pool_check();
        }
    }
    SUP_CHECK(extended > 0, "no run was ever extended");
    give_all();
    ts_pool_check();
    SUP_CHECK(ts_pool_used_units() == 0, "units are left");
}

/* At the untouched end the pool grows; it does not elsewhere, nor beyond its part. */
static void extended_at_the_end(void *argument) {
    (void)argument;
    make_region();
    SUP_CHECK(take(TS_NORMAL, 1, 1), "the first");
    while (runs[0].first + runs[0].count - ts_region.part[TS_NORMAL].first_unit < ts_pool_high(TS_NORMAL)) {
        SUP_CHECK(extend(0, 1), "up to the end of what there is");
    }
    refuse_commit = true;
    SUP_CHECK(!extend(0, 1), "the system refuses");
    refuse_commit = false;
    SUP_CHECK(extend(0, 3), "the pool grows");
    SUP_CHECK(!extend(0, ts_region.part[TS_NORMAL].units), "there are not so many");
    ts_pool_check();
    give_all();
    SUP_CHECK(ts_pool_used_units() == 0, "units are left");
}

/* Where it has room for the whole elsewhere it does not: or it would grow each time that something comes to lie at its
   end. */
static void not_extended_in_vain(void *argument) {
    (void)argument;
    make_region();
    SUP_CHECK(take(TS_NORMAL, 600, 1), "a run");
    uint32_t high = ts_pool_high(TS_NORMAL);
    while (runs[0].first + runs[0].count < high) SUP_CHECK(extend(0, 1), "up to the end of what there is");
    give(0, 1, runs[0].count - 11);
    run *last = &runs[run_count - 1];
    SUP_CHECK(last->first + last->count == high && last->count == 10, "ten units are left at the end");
    SUP_CHECK(!extend(run_count - 1, 60) && !extend(run_count - 1, 400), "there is room elsewhere");
    SUP_CHECK(ts_pool_high(TS_NORMAL) == high, "%u units instead of %u", ts_pool_high(TS_NORMAL), high);
    SUP_CHECK(extend(run_count - 1, high), "there is none for so many");
    ts_pool_check();
    give_all();
    SUP_CHECK(ts_pool_used_units() == 0, "units are left");
}

/* Free units before the untouched end count: the pool grows by the missing units only. */
static void grows_by_what_it_lacks(void *argument) {
    (void)argument;
    make_region();
    SUP_CHECK(take(TS_NORMAL, 1000, 1), "a run");
    uint32_t high = ts_pool_high(TS_NORMAL), first = runs[0].first;
    SUP_CHECK(high % TS_HOME_UNITS == 0, "the accessible units end at %u, within a huge page", high);
    give(0, 100, 900);
    SUP_CHECK(take(TS_NORMAL, 1500, 1), "one that is longer than what is free");
    SUP_CHECK(runs[run_count - 1].first == first + 100, "it begins with what was free");
    uint32_t most = first + 100 + 1500 + 1500 / 8 + 3 * TS_HOME_UNITS; /* a search rounds up, and growth to a step */
    SUP_CHECK(ts_pool_high(TS_NORMAL) <= most, "%u units after %u", ts_pool_high(TS_NORMAL), high);
    ts_pool_check();
    give_all();
    SUP_CHECK(ts_pool_used_units() == 0, "units are left");
}

/* Units in cells count as room. */
static void not_extended_beside_cells(void *argument) {
    (void)argument;
    make_region();
    SUP_CHECK(take(TS_NORMAL, 1, 1) && take(TS_NORMAL, 2, 1), "one from a cell, two from what is left");
    uint32_t high = ts_pool_high(TS_NORMAL);
    SUP_CHECK(extend(1, high - 8 - (runs[1].first + 2)) && take(TS_NORMAL, 8, 1), "all of that");
    SUP_CHECK(runs[2].first + 8 == high, "the last ones are at the end");
    SUP_CHECK(!extend(2, 40) && ts_pool_high(TS_NORMAL) == high, "there is room in the cells");
    SUP_CHECK(extend(2, 400), "there is none for so many");
    ts_pool_check();
    give_all();
    SUP_CHECK(ts_pool_used_units() == 0, "units are left");
}

static void exhaust(unsigned part) {
    uint32_t all = ts_region.part[part].units - 1; /* but unit 0 */
    for (uint32_t i = 0; i < all; i++) {
        SUP_CHECK(take(part, 1, 1), "unit %u of %u", i, all);
    }
    SUP_CHECK(!take(part, 1, 1), "more units than there are");
    ts_pool_check();
    give_all();
    ts_pool_check();
    /* All of it is one run again. */
    SUP_CHECK(take(part, all / 8 * 7, 1), "freed runs are merged");
    give_all();
}

static void every_unit(void *argument) {
    (void)argument;
    make_region();
    SUP_CHECK(take(TS_NORMAL, 3000, 1), "a large step at once");
    ts_pool_check();
    give_all();
    exhaust(TS_NORMAL);
    SUP_CHECK(ts_region.part[TS_NORMAL].units == UNITS, "units");
    SUP_CHECK(ts_pool_take(TS_NORMAL, UNITS, 1) == 0, "too many");
    SUP_CHECK(ts_pool_take(TS_NORMAL, 1, UNITS) == 0, "too large an alignment");
    ts_pool_check();
}

static void alignments(void *argument) {
    (void)argument;
    make_region();
    for (unsigned part = 0; part < TS_FAR; part++) {
        for (uint32_t align = 1; align <= 64; align *= 2) {
            SUP_CHECK(take(part, 3, align) && take(part, 1, align), "alignment %u", align);
        }
    }
    ts_pool_check();
    give_all();
    ts_pool_check();
}

/* A refusal loses no unit: the same request succeeds later. */
static void refused_growth(void *argument) {
    (void)argument;
    make_region();
    SUP_CHECK(take(TS_NORMAL, 1, 1), "the first");
    for (int i = 0; i < 100; i++) {
        refuse_commit = true;
        SUP_CHECK(!take(TS_NORMAL, 300, 1), "refused");
        refuse_commit = false;
        ts_pool_check();
    }
    SUP_CHECK(ts_pool_used_units() == 1, "used");
    give_all();
    exhaust(TS_NORMAL);
}

/* The system makes only the needed pages accessible. */
static void small_steps(void *argument) {
    (void)argument;
    make_region();
    refuse_above = 8 * TS_UNIT_BYTES;
    for (int i = 0; i < 200; i++) {
        SUP_CHECK(take(TS_NORMAL, 1 + (uint32_t)i % 7, 1), "step %d", i);
        ts_pool_check();
    }
    SUP_CHECK(!take(TS_NORMAL, 30, 1), "more than the system gives");
    refuse_above = SIZE_MAX;
    SUP_CHECK(take(TS_NORMAL, 500, 1), "now it gives");
    give_all();
    exhaust(TS_NORMAL);
}

static void growth_is_in_large_steps(void *argument) {
    (void)argument;
    make_region();
    commits = 0;
    for (int i = 0; i < 250; i++) {
        SUP_CHECK(take(TS_NORMAL, 1, 1), "unit %d", i);
    }
    SUP_CHECK(commits <= 7, "%u system calls for 250 units", commits);
    for (int i = 250; i < 1500; i++) {
        SUP_CHECK(take(TS_NORMAL, 1, 1), "unit %d", i);
    }
    SUP_CHECK(commits <= 13, "%u system calls for 1500 units", commits); /* of data, the metadata is there */
}

/* ---- single units, from the cells -------------------------------------------------------------------------- */

/* While somebody has the lock, for as long as both cells last: the one that was used up has been filled again. */
static void singles_need_no_lock(void *argument) {
    (void)argument;
    make_region();
    for (unsigned part = 0; part < TS_FAR; part++)
        for (int i = 0; i < 64; i++) SUP_CHECK(take(part, 1, 1), "unit %d of the first cell", i);
    uint64_t waits = ts_load_relaxed(&ts_lock_waits);
    ts_pool_for_locks(ts_lock_acquire_for_fork); /* every lock of the pools: a waiting thread waits for ever */
    for (unsigned part = 0; part < TS_FAR; part++)
        for (int i = 0; i < 120; i++) SUP_CHECK(take(part, 1, 1), "unit %d", i);
    ts_pool_for_locks(ts_lock_release_for_fork);
    SUP_CHECK(ts_load_relaxed(&ts_lock_waits) == waits, "somebody waited");
    ts_pool_check();
    /* And no more than there are: the next ones come with the lock. */
    for (int i = 0; i < 200; i++) SUP_CHECK(take(TS_NORMAL, 1, 1), "unit %d", i);
    ts_pool_check();
    give_all();
    SUP_CHECK(ts_pool_used_units() == 0, "units are left");
}

/* The pool makes runs of the units in cells where there is no other memory. */
static void cells_become_runs(void *argument) {
    (void)argument;
    make_region();
    SUP_CHECK(take(TS_NORMAL, 1, 1), "the first");
    uint32_t high = ts_pool_high(TS_NORMAL);
    refuse_commit = true;
    SUP_CHECK(take(TS_NORMAL, (high - 2) / 8 * 7, 1), "all but what the first has");
    SUP_CHECK(take(TS_NORMAL, 1, 1), "another one, from what is left");
    ts_pool_check();
    give_all();
    SUP_CHECK(ts_pool_used_units() == 0, "units are left");
    refuse_commit = false;
    exhaust(TS_NORMAL);
}

/* Units of a page that goes back as a whole, in the cell behind those that its last user has, or in the other before
   it. */
static void cells_are_around(void *argument) {
    enum { PAGE = 8 };
    (void)argument;
    make_region();
    uint32_t unit, first, count;
    for (uint32_t i = 1; i <= 192; i++) {
        if (i == 130) ts_pool_give(65, 64);
        SUP_CHECK((unit = ts_pool_take(TS_NORMAL, 1, 1)) == i, "unit %u, not %u", unit, i);
    }
    ts_pool_give(130, 6);
    SUP_CHECK(ts_pool_used_units() == 122, "used");
    first = 129, count = 1; /* 65 to 128 are in one cell, 193 to 256 in the other */
    ts_pool_take_around(&first, &count, PAGE);
    SUP_CHECK(first == 128 && count == PAGE, "%u and %u", first, count);
    SUP_CHECK(ts_pool_used_units() == 121 + PAGE, "used");
    ts_pool_check();
    ts_pool_give(first, count);
    SUP_CHECK((unit = ts_pool_take(TS_NORMAL, 1, 1)) == 193, "unit %u", unit); /* 65 to 128 are in a cell again */
    first = 64, count = 1; /* 57 to 63 are in use, so the page lacks more than the units behind it */
    ts_pool_take_around(&first, &count, PAGE);
    SUP_CHECK(first == 64 && count == PAGE, "%u and %u", first, count);
    ts_pool_give(64, PAGE);
    SUP_CHECK((unit = ts_pool_take(TS_NORMAL, 1, 1)) == 194, "unit %u", unit); /* 64 to 127 are */
    SUP_CHECK(ts_pool_take_at(64, 72, 135), "what a cell has, and the run behind it");
    ts_pool_check();
    ts_pool_give(64, 72);
    ts_pool_give(1, 63);
    ts_pool_give(136, 59);
    ts_pool_check();
    SUP_CHECK(ts_pool_used_units() == 0, "units are left");
    exhaust(TS_NORMAL);
}

static _Atomic uint32_t owned[UNITS];
static uint32_t uses[UNITS]; /* written by the owner: ThreadSanitizer sees whether the pool publishes these writes */

static void mark(uint32_t first, uint32_t count, uint32_t from, uint32_t to) {
    for (uint32_t u = first; u < first + count; u++) {
        SUP_CHECK(atomic_exchange_explicit(&owned[u], to, memory_order_relaxed) == from, "unit %u has two owners", u);
        uses[u]++;
    }
}

static void *take_and_give(void *argument) {
    struct sup_rng rng = {(uintptr_t)argument};
    run mine[24] = {{0, 0}};
    for (unsigned i = 0; i < SUP_SCALED(300000u); i++) {
        run *r = &mine[sup_rng_below(&rng, sizeof mine / sizeof *mine)];
        uint64_t kind = sup_rng_below(&rng, 32);
        if (!r->count) {
            r->count = kind > 1 ? 1 : 2 + (uint32_t)kind;
            r->first = ts_pool_take(TS_NORMAL, r->count, kind == 1 ? 2 : 1);
            if (!r->first) r->count = 0;
            mark(r->first, r->count, 0, 1);
        } else if (kind == 0 && ts_pool_take_at(r->first + r->count, 1, r->count + 1)) {
            mark(r->first + r->count++, 1, 0, 1);
        } else {
            mark(r->first, r->count, 1, 0);
            uint32_t first = r->first, count = r->count, before = 0, after = 0;
            if (kind < 8) {
                ts_pool_take_around(&first, &count, 8);
                before = r->first - first;
                after = count - before - r->count;
                mark(first, before, 0, 1), mark(r->first + r->count, after, 0, 1);
                mark(first, before, 1, 0), mark(r->first + r->count, after, 1, 0);
            }
            ts_pool_give(first, count);
            r->count = 0;
        }
    }
    for (unsigned i = 0; i < sizeof mine / sizeof *mine; i++) {
        mark(mine[i].first, mine[i].count, 1, 0);
        if (mine[i].count) ts_pool_give(mine[i].first, mine[i].count);
    }
    return NULL;
}

static void in_threads(void *(*fn)(void *), void *(*first)(void *)) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        SUP_CHECK(pthread_create(&threads[i], NULL, i == 0 ? first : fn, (void *)(i + 1)) == 0, "pthread_create");
    for (unsigned i = 0; i < THREADS; i++) SUP_CHECK(pthread_join(threads[i], NULL) == 0, "pthread_join");
    ts_pool_check();
}

static void threads_take_and_give(void *argument) {
    (void)argument;
    make_region();
    in_threads(take_and_give, take_and_give);
    SUP_CHECK(ts_pool_used_units() == 0, "units are left");
    exhaust(TS_NORMAL);
}

/* Some at a time. None fails while the pool has free units. */
static void *take_singles(void *argument) {
    uint32_t unit[8];
    for (unsigned i = 0; i < SUP_SCALED(100000u); i++) {
        for (unsigned k = 0; k < 8; k++) {
            unit[k] = ts_pool_take(TS_NORMAL, 1, 1);
            SUP_CHECK(unit[k] != 0, "no unit where there are free ones");
            mark(unit[k], 1, 0, 1);
        }
        for (unsigned k = 0; k < 8; k++) {
            mark(unit[k], 1, 1, 0);
            ts_pool_give(unit[k], 1);
        }
    }
    return argument;
}

static void *take_around(void *argument) {
    for (unsigned i = 0; i < SUP_SCALED(200000u); i++) {
        uint32_t first = ts_pool_take(TS_NORMAL, 1, 1), count = 1;
        ts_pool_take_around(&first, &count, 64);
        mark(first, count, 0, 1);
        mark(first, count, 1, 0);
        ts_pool_give(first, count);
    }
    return argument;
}

static void singles_beside_who_empties_cells(void *argument) {
    (void)argument;
    make_region();
    in_threads(take_singles, take_around);
    SUP_CHECK(ts_pool_used_units() == 0, "units are left");
    exhaust(TS_NORMAL);
}

/* Free runs of one unit each: a cell is empty again after each, and the thread that has filled it finds that others
   took its units. */
static void singles_where_runs_are_short(void *argument) {
    enum { SHORT = 200 };
    (void)argument;
    make_region();
    uint32_t unit[2 * SHORT];
    for (unsigned i = 0; i < 2 * SHORT; i++) SUP_CHECK((unit[i] = ts_pool_take(TS_NORMAL, 1, 1)) != 0, "unit %u", i);
    refuse_commit = true;
    uint32_t rest[UNITS], rests = 0, high = ts_pool_high(TS_NORMAL);
    while ((rest[rests] = ts_pool_take(TS_NORMAL, 1, 1)) != 0) rests++;
    for (unsigned i = 0; i < 2 * SHORT; i += 2) ts_pool_give(unit[i], 1);
    in_threads(take_singles, take_singles);
    refuse_commit = false;
    in_threads(take_singles, take_singles);
    SUP_CHECK(ts_pool_high(TS_NORMAL) == high, "the pool grew with free units in it");
    for (unsigned i = 1; i < 2 * SHORT; i += 2) ts_pool_give(unit[i], 1);
    while (rests > 0) ts_pool_give(rest[--rests], 1);
    SUP_CHECK(ts_pool_used_units() == 0, "units are left");
    exhaust(TS_NORMAL);
}

/* One thread grows at a time, and the others take of the new units. The accessible range ends at one place, however the
   system refuses, and no thread ever sees a unit above the mark. */
static _Atomic unsigned growing;
static _Atomic unsigned grown, denied;

static bool commit_alone(void *at, size_t bytes) {
    if (!is_data(at)) return ts_os_native.commit(at, bytes);
    SUP_CHECK(atomic_fetch_add(&growing, 1) == 0, "two grow one part at once");
    bool refused = atomic_fetch_add(&grown, 1) % 3 == 0 && bytes > 8 * TS_UNIT_BYTES;
    if (refused) atomic_fetch_add(&denied, 1);
    bool done = !refused && ts_os_native.commit(at, bytes);
    (void)atomic_fetch_sub(&growing, 1);
    return done;
}

static void *grow_beside_others(void *argument) {
    struct sup_rng rng = {(uintptr_t)argument};
    for (unsigned i = 0; i < 300; i++) {
        uint32_t count = 1 + (uint32_t)sup_rng_below(&rng, 3), unit = ts_pool_take(TS_NORMAL, count, 1);
        if (!unit) continue; /* refused, or no more */
        SUP_CHECK(ts_is_unit_of(TS_NORMAL, unit) && ts_is_unit_of(TS_NORMAL, unit + count - 1),
                  "units %u + %u are above the mark", unit, count);
        ts_unit_address(unit)[0] = ts_unit_address(unit + count - 1)[TS_UNIT_BYTES - 1] = 1;
        ts_store_relaxed(&ts_region.part[TS_NORMAL].unit[unit], 0); /* metadata too */
    }
    return NULL;
}

static void growth_of_one_at_a_time(void *argument) {
    (void)argument;
    make_region();
    table.commit = commit_alone;
    in_threads(grow_beside_others, grow_beside_others);
    SUP_CHECK(grown > 5 && denied > 1, "%u calls, %u refused", grown, denied);
    SUP_CHECK(ts_pool_high(TS_NORMAL) == ts_pool_highest(TS_NORMAL), "high");
    SUP_CHECK(ts_pool_high(TS_NORMAL) <= ts_region_marked_units(TS_NORMAL), "the mark is below what there is");
}

static void test_random_runs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        sup_in_child(random_runs, &seed);
    }
}

#define IN_CHILD(name)                      \
    static void test_##name(void **state) { \
        (void)state;                        \
        sup_in_child(name, NULL);           \
    }
IN_CHILD(every_unit)
IN_CHILD(extended_at_the_end)
IN_CHILD(not_extended_in_vain)
IN_CHILD(grows_by_what_it_lacks)
IN_CHILD(not_extended_beside_cells)
IN_CHILD(alignments)
IN_CHILD(refused_growth)
IN_CHILD(small_steps)
IN_CHILD(growth_of_one_at_a_time)
IN_CHILD(growth_is_in_large_steps)
IN_CHILD(singles_need_no_lock)
/* A part that was made smaller ends with a group of units that get their FINE metadata together. */
static void each_unit_left_can_be_fine(void *argument) {
    (void)argument;
    make_region();
    ts_pool_shrink(TS_NORMAL, 2 * TS_REGION_END_UNITS + 450);
    uint32_t end = ts_region_part_end(TS_NORMAL);
    SUP_CHECK(end < UNITS && end >= 2 * TS_REGION_END_UNITS, "the part ends at unit %u", end);
    SUP_CHECK(ts_region_commit_fine(end - 1), "unit %u cannot be a FINE slab", end - 1);
    SUP_CHECK(ts_region_commit_pieces(end - 1), "unit %u cannot be cut", end - 1);
    while (take(TS_NORMAL, 1, 1)) {
    }
    SUP_CHECK(ts_pool_high(TS_NORMAL) == end, "units up to %u, not to %u", ts_pool_high(TS_NORMAL), end);
    give_all();
}

IN_CHILD(each_unit_left_can_be_fine)
IN_CHILD(cells_become_runs)
IN_CHILD(cells_are_around)
IN_CHILD(threads_take_and_give)
IN_CHILD(singles_beside_who_empties_cells)
IN_CHILD(singles_where_runs_are_short)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_runs),
        cmocka_unit_test(test_every_unit),
        cmocka_unit_test(test_extended_at_the_end),
        cmocka_unit_test(test_not_extended_in_vain),
        cmocka_unit_test(test_grows_by_what_it_lacks),
        cmocka_unit_test(test_not_extended_beside_cells),
        cmocka_unit_test(test_alignments),
        cmocka_unit_test(test_refused_growth),
        cmocka_unit_test(test_small_steps),
        cmocka_unit_test(test_growth_of_one_at_a_time),
        cmocka_unit_test(test_growth_is_in_large_steps),
        cmocka_unit_test(test_singles_need_no_lock),
        cmocka_unit_test(test_each_unit_left_can_be_fine),
        cmocka_unit_test(test_cells_become_runs),
        cmocka_unit_test(test_cells_are_around),
        cmocka_unit_test(test_threads_take_and_give),
        cmocka_unit_test(test_singles_beside_who_empties_cells),
        cmocka_unit_test(test_singles_where_runs_are_short),
    };
    return cmocka_run_group_tests_name("region.pool", tests, NULL, NULL);
}
