/*
 * The pool of free units (pool.h has the invariants).
 *
 * What could go wrong: a unit is handed out twice, or is in no run and no cell, and lost. It is not: runs change under
 * the pool's lock. A cell is one word, first unit and how many: who takes one moves it on by compare-and-swap, who
 * empties it exchanges it for 0, and only who has the lock fills an empty one. So each unit leaves it once.
 */
/* Modelled in tests/model: orders. */
#include "region/pool.h"

#include "base/assert.h"
#include "base/bits.h"
#include "base/lock.h"
#include "os/os.h"
#include "region/dump.h"
#include "region/home.h"
#include "region/region.h"

#include <string.h>

#define FIRST_LEVELS 23u /* lengths up to 2^24 */
#define SECOND_LEVELS 8u
/* Growth: 4 MiB of data, one system call for a thousand page faults; so much of a core dump can be data that was never used. */
#define GROW_UNITS 256u
_Static_assert(TS_DUMP_UNITS *TS_UNIT_BYTES % TS_PAGE_BYTES_MAX == 0, "growth ends with a page");
typedef struct range {
    uint32_t first, count;
} range;

#define CELLS 2u       /* the second is taken from while the first is being filled */
#define CELL_UNITS 64u /* a spike of threads that begin takes some ten units each */

typedef struct ts_pool {
    ts_lock lock;
    ts_lock grow_lock; /* taken before the other */
    _Atomic uint32_t
        high; /* units of the part ever taken from the untouched end: written with both locks, read with either, or as a hint */
    _Atomic uint32_t first_bits; /* bit f: some list of level f is not empty; read by anyone */
    uint32_t second_bits[FIRST_LEVELS];
    uint32_t head[FIRST_LEVELS][SECOND_LEVELS];
    _Atomic uint64_t used; /* the units of the cells counted in; written with the lock, read by anyone */
    uint64_t moved;        /* units that came from other homes, less those that went to them */
    /* first unit << 32 | units: filled under the lock when it is empty, and taken from by anyone */
    TS_ALIGNED(TS_CACHE_LINE) _Atomic uint64_t cell[CELLS];
} ts_pool;

/* One for each part, of home ANY, which grow from their untouched ends; and one for each other home, all in the NORMAL
   part. */
#define POOLS (TS_PARTS - 1 + TS_HOMES)
static ts_pool pools[POOLS];
static _Atomic uint32_t pools_in_use = TS_PARTS; /* or POOLS; written under the start mutex, as forks look at it */

static unsigned pools_there_are(void) { return ts_load_acquire(&pools_in_use); } /* acquire: they are made */
static ts_pool *any_pool(unsigned part) { return &pools[part]; }
static ts_pool *home_pool(unsigned home) { return &pools[home == TS_HOME_ANY ? TS_NORMAL : TS_PARTS - 1 + home]; }
static unsigned home_of_pool(const ts_pool *pool) {
    size_t i = (size_t)(pool - pools);
    return i < TS_PARTS ? TS_HOME_ANY : (unsigned)(i - (TS_PARTS - 1));
}
static unsigned part_of_pool(const ts_pool *pool) { return pool == &pools[TS_FAR] ? TS_FAR : TS_NORMAL; }
/* Whose a unit is, by its number in the part; and whether it is of that pool, which is one of the part's. */
static ts_pool *pool_of(unsigned part, uint32_t unit) {
    return part == TS_NORMAL ? home_pool(ts_home_of(unit)) : any_pool(part);
}
static bool is_of(const ts_pool *pool, uint32_t unit) {
    return pool == &pools[TS_FAR] || home_pool(ts_home_of(unit)) == pool;
}

static ts_run *run_at(unsigned part, uint32_t unit) { return &ts_region.run[ts_region.part[part].first_unit + unit]; }

static void add_used(ts_pool *pool, uint64_t units) {
    ts_store_relaxed(&pool->used, ts_load_relaxed(&pool->used) + units);
}

static uint32_t high_of(const ts_pool *pool) { return ts_load_relaxed(&pool->high); }

static void level_of(uint32_t length, unsigned *f, unsigned *s) {
    if (length < SECOND_LEVELS) {
        *f = 0;
        *s = length;
    } else {
        unsigned log2 = ts_log2_64(length);
        *f = log2 - 2;
        *s = (length >> (log2 - 3)) & (SECOND_LEVELS - 1);
    }
}

static void insert(ts_pool *pool, unsigned part, uint32_t first, uint32_t length) {
    unsigned f, s;
    level_of(length, &f, &s);
    ts_run *r = run_at(part, first);
    r->length = length;
    r->prev = 0;
    r->next = pool->head[f][s];
    if (r->next) run_at(part, r->next)->prev = first;
    run_at(part, first + length - 1)->length = length;
    pool->head[f][s] = first;
    pool->second_bits[f] |= 1u << s;
    ts_store_relaxed(&pool->first_bits, ts_load_relaxed(&pool->first_bits) | 1u << f);
}

static void remove_run(ts_pool *pool, unsigned part, uint32_t first) {
    unsigned f, s;
    ts_run *r = run_at(part, first);
    uint32_t length = r->length;
    level_of(length, &f, &s);
    if (r->prev) {
        run_at(part, r->prev)->next = r->next;
    } else {
        pool->head[f][s] = r->next;
        if (!r->next) {
            pool->second_bits[f] &= ~(1u << s);
            if (!pool->second_bits[f])
                ts_store_relaxed(&pool->first_bits, ts_load_relaxed(&pool->first_bits) & ~(1u << f));
        }
    }
    if (r->next) run_at(part, r->next)->prev = r->prev;
    r->length = 0;
    run_at(part, first + length - 1)->length = 0;
}

/* Merges with the free runs on both sides that are of the pool. Unit 0 is never free, so first - 1 exists. Returns the run. */
static range give_locked(ts_pool *pool, unsigned part, uint32_t first, uint32_t count) {
    uint32_t before = is_of(pool, first - 1) ? run_at(part, first - 1)->length : 0;
    if (before) {
        remove_run(pool, part, first - before);
        first -= before;
        count += before;
    }
    if (first + count < high_of(pool) && is_of(pool, first + count)) {
        uint32_t after = run_at(part, first + count)->length;
        if (after) {
            remove_run(pool, part, first + count);
            count += after;
        }
    }
    insert(pool, part, first, count);
    return (range){first, count};
}

/* A run of at least `length` units, or 0: the first list all of whose runs are long enough. */
static uint32_t find(ts_pool *pool, uint32_t length) {
    unsigned f, s;
    uint32_t rounded = length;
    if (length >= SECOND_LEVELS) rounded += (1u << (ts_log2_64(length) - 3)) - 1;
    level_of(rounded, &f, &s);
    if (f >= FIRST_LEVELS) return 0;
    uint32_t bits = pool->second_bits[f] & (~0u << s);
    if (!bits) {
        uint32_t levels = f + 1 < 32 ? ts_load_relaxed(&pool->first_bits) & (~0u << (f + 1)) : 0;
        if (!levels) return 0;
        f = ts_ctz64(levels);
        bits = pool->second_bits[f];
    }
    return pool->head[f][ts_ctz64(bits)];
}

/* ---- cells ---------------------------------------------------------------------------------------- */

static uint32_t cell_first(uint64_t cell) { return (uint32_t)(cell >> 32); }
static uint32_t cell_units(uint64_t cell) { return (uint32_t)cell; }

/* Takes the first unit of a cell; 0: there is none. */
static uint32_t take_of_cell(ts_pool *pool, unsigned i) {
    uint64_t cell = ts_load_relaxed(&pool->cell[i]);
    while (cell_units(cell) != 0) {
        /* acquire: partner of the release in fill_cells, on which all that take since then build. The value says all: who
           finds it again after others came and went takes what is in the cell now. */
        if (atomic_compare_exchange_weak_explicit(&pool->cell[i], &cell, cell + (UINT64_C(1) << 32) - 1,
                                                  memory_order_acquire, memory_order_relaxed))
            return cell_first(cell);
    }
    return 0;
}

static uint32_t take_of_cells(ts_pool *pool) {
    uint32_t unit = 0;
    for (unsigned i = 0; i < CELLS && !unit; i++) unit = take_of_cell(pool, i);
    return unit;
}

/* From the list with the shortest runs. A fork holds the lock, so a child finds each cell filled or not. Caller has the lock,
   without which no empty cell changes. */
static void fill_cells(ts_pool *pool, unsigned part) {
    for (unsigned i = 0; i < CELLS; i++) {
        uint32_t first = cell_units(ts_load_relaxed(&pool->cell[i])) == 0 ? find(pool, 1) : 0;
        if (!first) continue;
        uint32_t length = run_at(part, first)->length, units = length < CELL_UNITS ? length : CELL_UNITS;
        remove_run(pool, part, first);
        if (length > units) insert(pool, part, first + units, length - units);
        add_used(pool, units);
        /* release: what those who gave the units back wrote before that, under the lock */
        ts_store_release(&pool->cell[i], (uint64_t)first << 32 | units);
    }
}

/* Caller has the lock. Returns whether there were any units from `first` to `end` - 1 in cells, whose rest is free as others now. */
static bool empty_cells(ts_pool *pool, unsigned part, uint32_t first, uint32_t end) {
    bool some = false;
    for (unsigned i = 0; i < CELLS; i++) {
        uint64_t cell = ts_load_relaxed(&pool->cell[i]);
        if (cell_first(cell) >= end || cell_first(cell) + cell_units(cell) <= first) continue;
        cell = atomic_exchange_explicit(&pool->cell[i], 0, memory_order_relaxed); /* who took one meanwhile has it */
        if (cell_units(cell) == 0) continue;
        (void)give_locked(pool, part, cell_first(cell), cell_units(cell));
        add_used(pool, (uint64_t)0 - cell_units(cell));
        some = true;
    }
    return some;
}

/* ---- growth --------------------------------------------------------------------------------------- */

static _Atomic bool
    data_is_limited; /* set once. relaxed: units come by the pool's lock, or a cell's release and acquire */

/* Whether units become accessible when they are handed out. */
static bool is_made_late(unsigned part) { return part == TS_FAR || ts_load_relaxed(&data_is_limited); }

/* The next `count` units of the untouched end. The mark rises first: who can be handed a unit can look it up. */
static bool grow_by(unsigned part, uint32_t high, uint32_t count) {
    return ts_region_raise(part, high + count) && (is_made_late(part) || ts_region_commit_data(part, high, count));
}

/* Units of the free run that ends there: what is new becomes one with it. (Somebody may take it meanwhile: then who
   grows finds nothing still, and grows again.) */
static uint32_t free_at_end(ts_pool *pool, unsigned part, uint32_t high) {
    if (high == 1) return 0; /* unit 0 may have no record yet */
    ts_lock_acquire(&pool->lock);
    uint32_t length = is_of(pool, high - 1) ? run_at(part, high - 1)->length : 0;
    ts_lock_release(&pool->lock);
    return length;
}

/* One thread grows a part at a time, so that what is accessible ends at one place. Who waits for it needs units as well, and takes of
   what it brings: it finds `high` above what it has seen, with the pool's lock, when there was nothing. What a refusal leaves behind is
   above `high`, and is made accessible again later. */
static bool grow(unsigned part, uint32_t count, uint32_t seen) {
    ts_pool *pool = &pools[part];
    ts_lock_acquire(&pool->grow_lock);
    uint32_t high = high_of(pool), left = ts_region_part_end(part) - high, got = 0;
    if (high != seen) {
        ts_lock_release(&pool->grow_lock);
        return true;
    }
    uint32_t tail = free_at_end(pool, part, high);
    count = count > tail ? count - tail : 1;
    /* To the end of a block that dumps leave out, and so of a page of any size: it is whole when its units are free. */
    uint64_t end = ts_align_up((uint64_t)high + count, TS_DUMP_UNITS);
    uint64_t usual = ts_align_down((uint64_t)high + GROW_UNITS, TS_DUMP_UNITS);
    uint64_t most = (end > usual ? end : usual) - high;
    uint32_t step = most < left ? (uint32_t)most : left;
    if (count <= left) {
        if (grow_by(part, high, step))
            got = step;
        else if (step > count && grow_by(part, high, count))
            got = count; /* a system short of memory may still have what is needed now */
    }
    /* Of a large piece an eighth may never be used: what is, is shown when it is handed out. */
    uint32_t from = (uint32_t)ts_align_up(high, TS_DUMP_UNITS),
             whole = (uint32_t)ts_align_down(high + got, TS_DUMP_UNITS);
    if (part == TS_NORMAL && got > GROW_UNITS && from < whole && ts_dump_runs(part) < TS_DUMP_RUNS)
        ts_dump_hide(part, from, whole);
    if (got) {
        ts_lock_acquire(&pool->lock);
        ts_store_release(&pool->high, high + got); /* release: partner of ts_pool_highest */
        (void)give_locked(pool, part, high, got);
        ts_lock_release(&pool->lock);
    }
    ts_lock_release(&pool->grow_lock);
    return got != 0;
}

/* The units from `from` to `end` - 1 of a free run. */
static void take_out(ts_pool *pool, unsigned part, range run, uint32_t from, uint32_t end) {
    remove_run(pool, part, run.first);
    if (from > run.first) insert(pool, part, run.first, from - run.first);
    if (run.first + run.count > end) insert(pool, part, end, run.first + run.count - end);
    add_used(pool, end - from);
}

/* Alignment is of addresses. */
static uint32_t skip_to(unsigned part, uint32_t first, uint32_t align) {
    uint64_t number = ((uintptr_t)ts_region.part[part].base >> ts_part_shift(part)) + first;
    return (uint32_t)(ts_align_up(number, align) - number);
}

static uint32_t take_locked(ts_pool *pool, unsigned part, uint32_t count, uint32_t align) {
    uint32_t first = find(pool, count + align - 1);
    if (!first && part == TS_NORMAL && align == TS_HOME_UNITS) { /* a free block may be all that there is of a home */
        first = find(pool, count);
        if (first && skip_to(part, first, align) + count > run_at(part, first)->length) first = 0;
    }
    if (!first) return 0;
    uint32_t length = run_at(part, first)->length, skip = skip_to(part, first, align);
    remove_run(pool, part, first);
    if (skip) insert(pool, part, first, skip);
    if (length > skip + count) insert(pool, part, first + skip + count, length - skip - count);
    add_used(pool, count);
    return ts_region.part[part].first_unit + first + skip;
}

static bool grow_pool(ts_pool *pool, unsigned part, uint32_t count, uint32_t seen);
static void init_pool(ts_pool *pool);

/* The lock is for who fills a cell. Who sees an empty one fills it if nobody has the lock, so that others find units in one of the
   two meanwhile, and waits for the lock only if there is none in either. Then others may take all that the cells have just got. */
static uint32_t take_single(ts_pool *pool, unsigned part) {
    uint32_t before = ts_region.part[part].first_unit, unit = take_of_cells(pool);
    while (!unit) {
        ts_lock_acquire(&pool->lock);
        fill_cells(pool, part);
        unit = take_of_cells(pool);
        uint32_t of_runs = unit ? 0 : take_locked(pool, part, 1, 1);
        uint32_t seen = high_of(pool);
        ts_lock_release(&pool->lock);
        if (unit) return before + unit;
        if (of_runs) return of_runs;
        if (!grow_pool(pool, part, 1, seen)) return 0;
    }
    if (ts_load_relaxed(&pool->first_bits) == 0) return before + unit; /* nothing to fill one with */
    for (unsigned i = 0; i < CELLS; i++) {
        if (cell_units(ts_load_relaxed(&pool->cell[i])) != 0) continue;
        if (ts_lock_try(&pool->lock)) {
            fill_cells(pool, part);
            ts_lock_release(&pool->lock);
        }
        break;
    }
    return before + unit;
}

/* *seen: as of `grow`. */
static uint32_t take_free_run(ts_pool *pool, unsigned part, uint32_t count, uint32_t align, uint32_t *seen) {
    ts_lock_acquire(&pool->lock);
    uint32_t unit = take_locked(pool, part, count, align);
    if (!unit && empty_cells(pool, part, 0, UINT32_MAX)) unit = take_locked(pool, part, count, align);
    *seen = high_of(pool);
    ts_lock_release(&pool->lock);
    return unit;
}

static uint32_t take_run(ts_pool *pool, unsigned part, uint32_t count, uint32_t align) {
    if (count > ts_region.part[part].units || align > ts_region.part[part].units) return 0;
    for (;;) {
        uint32_t seen, unit = take_free_run(pool, part, count, align, &seen);
        if (unit) return unit;
        /* The search rounds up to a list all of whose runs fit, so growth must cover the rounding too. */
        uint64_t need = (uint64_t)count + align - 1;
        if (need >= SECOND_LEVELS) need += (1u << (ts_log2_64(need) - 3)) - 1;
        if (need > ts_region.part[part].units || !grow_pool(pool, part, (uint32_t)need, seen)) return 0;
    }
}

static void give(unsigned part, uint32_t unit, uint32_t count);

/* To who has just got units (numbered within the part). false: the system has no memory for them, and they are the
   pool's again. */
static bool make_ready(unsigned part, uint32_t first, uint32_t count) {
    if (part == TS_NORMAL) ts_dump_use(part, first, count);
    if (!is_made_late(part) || ts_region_commit_data(part, first, count)) return true;
    give(part, first, count);
    return false;
}

static uint32_t take_of(ts_pool *pool, unsigned part, uint32_t count, uint32_t align) {
    ts_assert(1, count > 0 && ts_is_pow2(align));
    uint32_t unit = count == 1 && align == 1 ? take_single(pool, part) : take_run(pool, part, count, align);
    return unit && make_ready(part, unit - ts_region.part[part].first_unit, count) ? unit : 0;
}

uint32_t ts_pool_take(unsigned part, uint32_t count, uint32_t align) {
    if (part == TS_FAR && ts_region.part[part].units == 0) return 0;
    return take_of(any_pool(part), part, count, align);
}

uint32_t ts_pool_take_of(unsigned home, uint32_t count, uint32_t align) {
    bool own = home != TS_HOME_ANY && pools_there_are() > TS_PARTS;
    uint32_t unit = own ? take_of(home_pool(home), TS_NORMAL, count, align) : 0;
    return unit ? unit : take_of(any_pool(TS_NORMAL), TS_NORMAL, count, align);
}

/* ---- homes ---------------------------------------------------------------------------------------- */

/* Free units, whole blocks, of any other pool: in nobody's hands but the caller's. 0: none has so many in a row. */
static uint32_t take_blocks(const ts_pool *to, uint32_t units, bool from_homes) {
    ts_pool *any = any_pool(TS_NORMAL);
    if (to != any && !from_homes) return take_run(any, TS_NORMAL, units, TS_HOME_UNITS);
    for (unsigned home = 0; from_homes && home < TS_HOMES; home++) {
        ts_pool *from = home_pool(home);
        uint32_t seen, unit = from == to ? 0 : take_free_run(from, TS_NORMAL, units, TS_HOME_UNITS, &seen);
        if (unit) return unit;
    }
    return 0;
}

/* The table says it before anybody looks for the units in a pool, and under the lock of the pool that they leave: who has that and
   looks beside the block, or has the lock of the other, finds no free run where the block is. */
static void take_home(ts_pool *to, uint32_t first, uint32_t units) {
    ts_pool *from = pool_of(TS_NORMAL, first);
    unsigned home = home_of_pool(to);
    ts_dump_use(TS_NORMAL, first, units);
    ts_lock_acquire(&from->lock);
    add_used(from, (uint64_t)0 - units);
    from->moved -= units;
    ts_home_set(first, units, home);
    ts_lock_release(&from->lock);
    (void)ts_home_bind(first, units, home); /* refused: first touch decides, which is mostly the same */
    ts_lock_acquire(&to->lock);
    to->moved += units;
    (void)give_locked(to, TS_NORMAL, first, units);
    ts_lock_release(&to->lock);
}

/* Several threads may do so at once: each brings blocks. */
static bool grow_home(ts_pool *pool, uint32_t count) {
    uint32_t least = (uint32_t)ts_align_up(count, TS_HOME_UNITS), units = least < GROW_UNITS ? GROW_UNITS : least;
    if (pools_there_are() == TS_PARTS) return false;
    for (unsigned of_homes = 0; of_homes < 2; of_homes++) {
        uint32_t first = take_blocks(pool, units, of_homes);
        if (!first && units > least) first = take_blocks(pool, units = least, of_homes);
        if (!first) continue;
        take_home(pool, first, units);
        return true;
    }
    return false;
}

/* From the untouched end, if that is the pool's, and else from the others. */
static bool grow_pool(ts_pool *pool, unsigned part, uint32_t count, uint32_t seen) {
    if (pool == any_pool(part) && grow(part, count, seen)) return true;
    return part == TS_NORMAL && grow_home(pool, count);
}

void ts_pool_start_homes(void) {
    if (pools_there_are() != TS_PARTS || ts_homes_count() == 0) return;
    for (unsigned home = 1; home < TS_HOMES; home++) {
        init_pool(home_pool(home));
        /* The home of a unit says where it ends. */
        ts_store_relaxed(&home_pool(home)->high, ts_region.part[TS_NORMAL].units);
    }
    ts_store_release(&pools_in_use, (uint32_t)POOLS);
}

/* Behind what the caller has there is a free run, or units in use, or the untouched end. */
static bool take_at_locked(ts_pool *pool, unsigned part, uint32_t unit, uint32_t count) {
    if (unit >= high_of(pool) || !is_of(pool, unit)) return false;
    const ts_run *r = run_at(part, unit);
    if (r->length == 0 && !empty_cells(pool, part, unit, unit + 1)) return false; /* in use */
    if (r->length < count) (void)empty_cells(pool, part, unit, unit + count);
    uint32_t length = r->length;
    if (length < count) return false;
    remove_run(pool, part, unit);
    if (length > count) insert(pool, part, unit + count, length - count);
    add_used(pool, count);
    return true;
}

/* Caller has the lock. */
static bool has_run(ts_pool *pool, unsigned part, uint32_t length) {
    return find(pool, length) || (empty_cells(pool, part, 0, UINT32_MAX) && find(pool, length));
}

/* Who wants more behind the last unit could as well have the whole elsewhere. If the pool grew while it has room for that, it would grow
   each time that something comes to lie at its end, and never stop. */
bool ts_pool_take_at(uint32_t first, uint32_t count, uint32_t whole) {
    unsigned part = ts_part_of_unit(first);
    uint32_t unit = ts_unit_in_part(first);
    ts_pool *pool = pool_of(part, unit - 1);
    ts_assert(1, count > 0 && whole > count);
    for (unsigned tries = 0; tries < 2; tries++) {
        ts_lock_acquire(&pool->lock);
        bool taken = take_at_locked(pool, part, unit, count);
        bool grows = !taken && unit == high_of(pool) && !has_run(pool, part, whole);
        ts_lock_release(&pool->lock);
        if (taken) return make_ready(part, unit, count);
        if (!grows || pool != any_pool(part) || count > ts_region.part[part].units || !grow(part, count, unit))
            return false;
    }
    return false;
}

void ts_pool_take_around(uint32_t *first, uint32_t *count, uint32_t page_units) {
    const unsigned part = TS_NORMAL;
    ts_pool *pool = pool_of(part, *first); /* a page has one home */
    uint32_t unit = *first, end = unit + *count;
    uint64_t number = (uintptr_t)ts_region.part[part].base / TS_UNIT_BYTES + unit;
    uint32_t before = (uint32_t)(number & (page_units - 1));
    uint32_t after = (uint32_t)(-(number + *count) & (page_units - 1));
    ts_lock_acquire(&pool->lock);
    if (before) (void)empty_cells(pool, part, unit - before, unit);
    if (after) (void)empty_cells(pool, part, end, end + after);
    uint32_t length = before ? run_at(part, unit - 1)->length : 0;
    if (before && length >= before) {
        remove_run(pool, part, unit - length);
        if (length > before) insert(pool, part, unit - length, length - before);
        *first -= before;
        *count += before;
        add_used(pool, before);
    }
    length = after && end < high_of(pool) ? run_at(part, end)->length : 0;
    if (after && length >= after) {
        remove_run(pool, part, end);
        if (length > after) insert(pool, part, end + after, length - after);
        *count += after;
        add_used(pool, after);
    }
    ts_lock_release(&pool->lock);
}

static _Atomic bool
    tainted; /* set before the units are in the pool; its lock, or a cell's release and acquire, is between */

bool ts_pool_is_zero(void) { return !ts_load_relaxed(&tainted) && ts_os_page_bytes() <= TS_UNIT_BYTES; }

void ts_pool_give_unpurged(uint32_t first, uint32_t count) {
    ts_store_relaxed(&tainted, true);
    ts_pool_give(first, count);
}

/* Shorter runs stay writable: each that is not is a mapping of its own, of which the system limits the number. */
#define FREEZE_UNITS 16u
static bool is_to_freeze(unsigned part, range run) {
    return part == TS_NORMAL && TS_UNLIKELY(ts_load_relaxed(&data_is_limited)) && run.count >= FREEZE_UNITS;
}
/* Where it is refused they count as data. */
static void freeze(range run) { (void)ts_os->freeze(ts_unit_address(run.first), ts_part_bytes(TS_NORMAL, run.count)); }

static void give(unsigned part, uint32_t unit, uint32_t count) {
    ts_pool *pool = pool_of(part, unit);
    ts_assert(1, part == TS_FAR || ts_home_is_same(unit, unit + count - 1));
    ts_lock_acquire(&pool->lock);
    range run = give_locked(pool, part, unit, count), out = {0, 0};
    add_used(pool, (uint64_t)0 - count);
    uint32_t from = run.first, end = run.first + run.count;
    bool hides = part == TS_NORMAL && ts_dump_choose(part, unit, count, &from, &end), freezes = is_to_freeze(part, run);
    if (hides) out = (range){from, end - from};
    if (freezes) out = run;
    if (out.count) take_out(pool, part, run, out.first, out.first + out.count);
    ts_lock_release(&pool->lock);
    if (!out.count) return;
    /* In nobody's reach while the system is asked. */
    if (hides) ts_dump_hide(part, from, end);
    if (freezes) freeze(run);
    ts_lock_acquire(&pool->lock);
    (void)give_locked(pool, part, out.first, out.count);
    add_used(pool, (uint64_t)0 - out.count);
    ts_lock_release(&pool->lock);
}

/* Caller has the lock. */
static void freeze_runs(ts_pool *pool) {
    (void)empty_cells(pool, TS_NORMAL, 0, UINT32_MAX);
    for (unsigned list = 0; list < FIRST_LEVELS * SECOND_LEVELS; list++)
        for (uint32_t u = pool->head[list / SECOND_LEVELS][list % SECOND_LEVELS]; u; u = run_at(TS_NORMAL, u)->next) {
            range run = {u, run_at(TS_NORMAL, u)->length};
            if (is_to_freeze(TS_NORMAL, run)) freeze(run);
        }
}

/* Who takes a unit after the lock was released finds that data is limited. */
void ts_pool_limit_data(void) {
    if (ts_os_page_bytes() > TS_UNIT_BYTES || ts_load_relaxed(&data_is_limited)) return;
    ts_store_relaxed(&data_is_limited, true);
    for (unsigned p = 0; p < pools_there_are(); p++) {
        if (part_of_pool(&pools[p]) != TS_NORMAL) continue;
        ts_lock_acquire(&pools[p].lock);
        freeze_runs(&pools[p]);
        ts_lock_release(&pools[p].lock);
    }
}

bool ts_pool_is_data_limited(void) { return ts_load_relaxed(&data_is_limited); }

void ts_pool_give(uint32_t first, uint32_t count) {
    unsigned part = ts_part_of_unit(first);
    if (part == TS_FAR) {
        char *at = ts_unit_address(first);
        size_t bytes = ts_part_bytes(part, count);
        /* A stale pointer can be read through. Where it is refused the units can be written, too, until they are handed out again. */
        (void)ts_os->freeze(at, bytes);
        ts_os->dump(at, bytes, false);
    }
    give(part, ts_unit_in_part(first), count);
}

static uint64_t used_of(const ts_pool *pool) {
    uint64_t used = ts_load_relaxed(&pool->used), waiting = 0;
    for (unsigned i = 0; i < CELLS; i++) waiting += cell_units(ts_load_relaxed(&pool->cell[i]));
    return used > waiting ? used - waiting : 0;
}

uint64_t ts_pool_used(unsigned part) {
    uint64_t sum = 0;
    for (unsigned p = 0; p < pools_there_are(); p++) sum += part_of_pool(&pools[p]) == part ? used_of(&pools[p]) : 0;
    return sum;
}

uint64_t ts_pool_used_units(void) {
    uint64_t sum = 0;
    for (unsigned p = 0; p < pools_there_are(); p++) {
        ts_lock_acquire(&pools[p].lock);
        sum += used_of(&pools[p]);
        ts_lock_release(&pools[p].lock);
    }
    return sum;
}

/* A free run of which some is at `from` or behind that. Caller has the lock. */
static range find_behind(ts_pool *pool, unsigned part, uint32_t from) {
    for (unsigned list = 0; list < FIRST_LEVELS * SECOND_LEVELS; list++)
        for (uint32_t u = pool->head[list / SECOND_LEVELS][list % SECOND_LEVELS]; u; u = run_at(part, u)->next)
            if (u + run_at(part, u)->length > from) return (range){u, run_at(part, u)->length};
    return (range){0, 0};
}

/* Free units in a row, from `from` on, that are nobody's from now on; count 0: there are none. */
static range take_away(ts_pool *pool, unsigned part, uint32_t from) {
    ts_lock_acquire(&pool->lock);
    (void)empty_cells(pool, part, from, UINT32_MAX);
    range run = find_behind(pool, part, from);
    if (run.count > 0) {
        uint32_t first = run.first < from ? from : run.first, end = run.first + run.count;
        take_out(pool, part, run, first, end);
        run = (range){first, end - first};
        add_used(pool, (uint64_t)0 - run.count);
        pool->moved -= run.count;
    }
    ts_lock_release(&pool->lock);
    return run;
}

void ts_pool_shrink(unsigned part, uint32_t units) {
    ts_pool *pool = any_pool(part);
    ts_lock_acquire(&pool->grow_lock);
    uint32_t least = high_of(pool);
    if (part == TS_NORMAL) {
        if (least < ts_region_marked_units(part)) least = ts_region_marked_units(part);
        least = (uint32_t)ts_align_up(least, TS_REGION_END_UNITS);
    }
    ts_region_release_units(part, units > least ? units : least);
    ts_lock_release(&pool->grow_lock);
    for (range run; (run = take_away(pool, part, units)).count > 0;)
        ts_region_release_tail(ts_region.part[part].base, ts_part_bytes(part, run.first),
                               ts_part_bytes(part, run.first + run.count));
}

static void init_pool(ts_pool *pool) {
    memset(pool, 0, sizeof *pool);
    ts_lock_init(&pool->lock, TS_RANK_POOL);
    ts_lock_init(&pool->grow_lock, TS_RANK_GROWTH);
}

void ts_pool_init(void) {
    for (unsigned part = 0; part < TS_PARTS; part++) {
        init_pool(any_pool(part));
        ts_store_relaxed(&any_pool(part)->high, 1); /* unit 0 is never handed out */
    }
    ts_store_relaxed(&pools_in_use, (uint32_t)TS_PARTS);
    ts_dump_init();
    ts_store_relaxed(&data_is_limited, false);
    if (ts_os_data_is_limited()) ts_pool_limit_data();
}

void ts_pool_fork_prepare(void) {
    for (unsigned p = 0; p < pools_there_are(); p++) ts_lock_acquire_for_fork(&pools[p].grow_lock);
    for (unsigned p = 0; p < pools_there_are(); p++) ts_lock_acquire_for_fork(&pools[p].lock);
}

void ts_pool_fork_done(void) {
    for (unsigned p = pools_there_are(); p-- > 0;) ts_lock_release_for_fork(&pools[p].lock);
    for (unsigned p = pools_there_are(); p-- > 0;) ts_lock_release_for_fork(&pools[p].grow_lock);
}

/* Caller has the lock. */
static const char *walk_locked(ts_pool *pool, unsigned part, ts_pool_visit *visit, void *arg, bool forked,
                               uint64_t *free_units) {
    uint32_t units = ts_region.part[part].units, high = high_of(pool), before;
    if (pool == any_pool(part) && high > 1 && high > ts_region_marked_units(part)) return "pool: units above the mark";
    for (unsigned f = 0; f < FIRST_LEVELS; f++) {
        if (((ts_load_relaxed(&pool->first_bits) >> f) & 1u) != (pool->second_bits[f] != 0))
            return "pool: a level and its bit";
        for (unsigned s = 0; s < SECOND_LEVELS; s++) {
            bool bit = (pool->second_bits[f] >> s) & 1u;
            if (bit != (pool->head[f][s] != 0)) return "pool: a list and its bit";
            before = 0;
            for (uint32_t u = pool->head[f][s]; u; before = u, u = run_at(part, u)->next) {
                unsigned rf, rs;
                if (u >= units) return "pool: a run outside of its part";
                uint32_t length = run_at(part, u)->length;
                if (length == 0 || u >= high || length > high - u) return "pool: the length of a run";
                level_of(length, &rf, &rs);
                if (rf != f || rs != s) return "pool: a run in the list of another length";
                if (run_at(part, u)->prev != before) return "pool: a list that is broken";
                if (run_at(part, u + length - 1)->length != length) return "pool: a run with two lengths";
                if (!is_of(pool, u) || !is_of(pool, u + length - 1)) return "pool: a run of another home";
                if (is_of(pool, u - 1) && run_at(part, u - 1)->length != 0) return "pool: two runs that touch";
                *free_units += length;
                /* A list that is a circle ends here. */
                if (*free_units > units) return "pool: more free units than there are";
                if (visit && !visit(arg, ts_region.part[part].first_unit + u, length)) return "pool: a run";
            }
        }
    }
    for (unsigned i = 0; i < CELLS; i++) {
        uint64_t cell = ts_load_relaxed(&pool->cell[i]);
        if (cell_units(cell) == 0) continue;
        if (cell_first(cell) == 0 || cell_first(cell) >= high || cell_units(cell) > high - cell_first(cell))
            return "pool: a cell outside of its part";
        uint32_t end = cell_first(cell) + cell_units(cell);
        if (run_at(part, cell_first(cell))->length != 0 || run_at(part, end - 1)->length != 0)
            return "pool: a cell in a run";
        if (visit && !visit(arg, ts_region.part[part].first_unit + cell_first(cell), cell_units(cell)))
            return "pool: a cell";
    }
    uint64_t found = *free_units + ts_load_relaxed(&pool->used); /* with the cells, whose units are on their way */
    uint64_t has = (pool == any_pool(part) ? high - 1 : 0) + pool->moved;
    return found == has || (forked && found < has) ? NULL : "pool: units that nobody has";
}

const char *ts_pool_walk(unsigned part, ts_pool_visit *visit, void *arg, bool forked) {
    const char *fault = NULL;
    for (unsigned p = 0; !fault && p < pools_there_are(); p++) {
        uint64_t free_units = 0;
        if (part_of_pool(&pools[p]) != part) continue;
        ts_lock_acquire(&pools[p].lock);
        fault = walk_locked(&pools[p], part, visit, arg, forked, &free_units);
        ts_lock_release(&pools[p].lock);
    }
    return fault;
}

uint32_t ts_pool_high(unsigned part) {
    ts_lock_acquire(&pools[part].lock);
    uint32_t high = high_of(&pools[part]);
    ts_lock_release(&pools[part].lock);
    return high;
}

void ts_pool_check(void) {
    for (unsigned part = 0; part < TS_PARTS; part++) {
        const char *fault = ts_pool_walk(part, NULL, NULL, false);
        if (fault) ts_assert_failed(fault, __FILE__, __LINE__);
    }
}

/* acquire: what was made accessible before is */
uint32_t ts_pool_highest(unsigned part) { return ts_load_acquire(&pools[part].high); }
