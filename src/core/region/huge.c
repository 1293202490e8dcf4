#include "region/huge.h"

#include "os/os.h"
#include "region/free_runs.h"
#include "region/growth.h"
#include "region/region.h"

static _Atomic bool left_to_program; /* written under the start mutex, read with the lock of growth */
static _Thread_local bool makes_grow;

/* Units of the pool of home ANY. Any thread writes a hint; the other fields are written with the lock of growth. */
static struct {
    _Atomic uint32_t gave_at;   /* a hint: the end of the pool when memory last went back */
    _Atomic uint32_t loose;     /* a hint: LOOSE ones since then */
    _Atomic uint32_t asked_end; /* 0: nothing is asked for; as a hint read without the lock */
    uint32_t asked_from;        /* what is asked for is one row: the pool grows at one end */
    uint32_t skip;              /* growths that are left out */
} huge;

/* A growth after this has the lock after this, and so sees the wish. */
void ts_huge_leave_to_program(void) {
    ts_store_relaxed(&left_to_program, true);
    ts_lock_acquire(&ts_any_pool(TS_NORMAL)->grow_lock);
    ts_store_relaxed(&huge.asked_end, 0);
    ts_lock_release(&ts_any_pool(TS_NORMAL)->grow_lock);
}

void ts_huge_set_growing(bool growing) { makes_grow = growing; }
bool ts_huge_is_growing(void) { return makes_grow; }

void ts_huge_note_loose(uint32_t units) {
    if (!makes_grow) ts_fetch_add_relaxed(&huge.loose, units);
}

/* Where units become accessible late (growth.h), and where homes take ranges and bind them, the touch below would come
   too early. */
static bool may_ask(const ts_pool *pool) {
    return pool == ts_any_pool(TS_NORMAL) && ts_load_relaxed(&pool->used) >= TS_HUGE_LEAST_UNITS &&
           !ts_load_relaxed(&left_to_program) && !ts_pool_is_made_late(TS_NORMAL) && ts_pools_count() == TS_PARTS;
}

static bool is_dense(uint32_t end, uint32_t wanted) {
    uint32_t before = ts_load_relaxed(&huge.gave_at), grown = end > before ? end - before : 0;
    return grown >= TS_HUGE_GROWTH_UNITS && ts_load_relaxed(&huge.loose) <= grown / TS_HUGE_LOOSE &&
           (makes_grow || wanted < TS_HOME_UNITS);
}

static void ask(uint32_t first, uint32_t end, bool on) {
    ts_os->huge_pages(ts_unit_address(first), ts_units_bytes(first, end - first), on);
}

/* The first touch of a range, by the thread that needs units of it. true: it took long. */
static bool is_slow(uint32_t unit) {
    uint64_t from = ts_os->cpu_ns();
    (void)ts_os->populate(ts_unit_address(unit), ts_os_page_bytes());
    return ts_os->cpu_ns() - from > TS_HUGE_SLOW_NS;
}

void ts_huge_grown(const struct ts_pool *pool, uint32_t first, uint32_t units, uint32_t wanted) {
    uint32_t from = (uint32_t)ts_align_up(first, TS_HOME_UNITS);
    uint32_t end = (uint32_t)ts_align_down(first + units, TS_HOME_UNITS);
    if (from >= end || !may_ask(pool) || !is_dense(first, wanted)) return;
    if (huge.skip > 0) {
        huge.skip--;
        return;
    }
    ask(from, end, true);
    if (ts_load_relaxed(&huge.asked_end) == 0) huge.asked_from = from;
    ts_store_relaxed(&huge.asked_end, end);
    if (is_slow(from)) huge.skip = TS_HUGE_SKIPPED;
}

void ts_huge_give(void) {
    ts_pool *pool = ts_any_pool(TS_NORMAL);
    ts_store_relaxed(&huge.gave_at, ts_pool_high_of(pool));
    ts_store_relaxed(&huge.loose, 0);
    if (TS_LIKELY(ts_load_relaxed(&huge.asked_end) == 0)) return;
    ts_lock_acquire(&pool->grow_lock);
    uint32_t end = ts_load_relaxed(&huge.asked_end);
    if (end != 0) ask(huge.asked_from, end, false);
    ts_store_relaxed(&huge.asked_end, 0);
    ts_lock_release(&pool->grow_lock);
}
