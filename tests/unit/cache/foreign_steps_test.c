/*
 * The protocol of foreign frees with something else happening before each of its steps. The functions of foreign.c are
 * compiled once more, with a place to stop at before every access of a shared word; the calls made there go through the
 * library. All of it is one thread: ts_foreign_free does not ask whose the object is.
 */
#include "identities.h"
#include "unit.h"

#include "bins.h"
#include "cache/cache.h"
#include "diagnose/diagnose.h"
#include "epoch/epoch.h"
#include "object/object.h"
#include "ownership/ownership.h"
#include "supply/supply.h"
#include "walk/check_pool.h"

#include "steps.h"

#undef ts_load_seq
#undef ts_cas_seq
#undef ts_exchange_seq
#define ts_load_seq(p) (step(), atomic_load_explicit((p), memory_order_seq_cst))
#define ts_exchange_seq(p, v) (step(), atomic_exchange_explicit((p), (v), memory_order_seq_cst))
#define ts_cas_seq(p, e, v) \
    (step(), atomic_compare_exchange_strong_explicit((p), (e), (v), memory_order_seq_cst, memory_order_acquire))
#include "foreign_stepped.h"

/* As slab_free does it. */
static ts_foreign_result stepped_free_open(uint64_t entry, uintptr_t token) {
    uint64_t seen = ts_load_acquire(ts_unit_word((uint32_t)(entry >> TS_ENTRY_UNIT_SHIFT)));
    if (seen == 0 || (seen & (TS_UNIT_ZOMBIE | TS_UNIT_SCOPE | TS_UNIT_SPAN))) return TS_FOREIGN_NOT_LIVE;
    const ts_block *block = ts_block_of_line(ts_word_line(seen), false);
    ts_foreign_result result = ts_foreign_open(block, entry, token, seen);
    return result == TS_FOREIGN_QUEUE ? stepped_queue(entry, seen) : result;
}

enum { COUNT = 60, MOST = 400 };
static SlabAllocator *allocator;
static uintptr_t token;
static EpochId epoch, other;
static char *objects[COUNT], *others[MOST];
static unsigned other_count;
static ts_foreign_result meanwhile;

static const struct kind {
    size_t size;
    unsigned flags;
} kinds[] = {{16, EPOCH_CHURN}, {64, EPOCH_CHURN}, {112, EPOCH_CHURN}, {4096, EPOCH_CHURN}, {100, EPOCH_SCOPE}};
static const struct kind *kind;
#define KINDS (sizeof kinds / sizeof *kinds)

static int start(void **state) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_KEEP};
    (void)state;
    allocator = slab_allocator_create_ex(&options);
    token = ts_token(allocator);
    return allocator == NULL;
}

/* By way of the call for the usual case, as slab_free does it. */
static bool open_first;
static int start_open(void **state) {
    open_first = true;
    return start(state);
}

static int stop(void **state) {
    (void)state;
    open_first = false;
    slab_allocator_free(allocator);
    return ts_pool_used_units() != 0;
}

static void begin(const struct kind *k) {
    kind = k;
    epoch = epoch_open(allocator, NULL, k->flags);
    other = epoch_open(allocator, NULL, k->flags);
    other_count = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        objects[i] = slab_malloc_epoch(allocator, k->size, epoch);
        assert_non_null(objects[i]);
    }
}

static void end(void) {
    sup_check_identities(allocator);
    assert_true(epoch_destroy(allocator, epoch));
    assert_true(epoch_destroy(allocator, other));
}

static ts_foreign_result foreign_free(const void *p) {
    uint64_t entry, retries = 0;
    uint32_t unit = unit_of(p, &entry);
    return ts_foreign_free(unit, entry, token, TS_ANY_GENERATION, &retries);
}

static void drain(void) {
    ts_heap_enter(ts_thread.heap);
    ts_foreign_drain(ts_thread.heap);
    ts_heap_leave(ts_thread.heap);
    ts_epoch_run_deferred();
    assert_int_equal(ts_load_relaxed(&ts_thread.heap->queue), 0);
}

static uint64_t live_objects(void) { return sup_live_objects(allocator); }

static void bin_is_whole(const void *p) {
    if (kind->flags == EPOCH_CHURN) {
        (void)check_bin(ts_churn(block_of(p)), ts_classes.of[(kind->size + 15) / 16]);
    }
}

/* ---- while an object is freed -------------------------------------------------------------------------------- */

static unsigned met; /* how often another writer was */

/* Frees the first object with fn before the step'th of its steps. false: there are not so many. */
static bool free_with(unsigned at, void (*fn)(void), uint32_t generation, ts_foreign_result *result) {
    uint64_t entry, retries = 0;
    uint32_t unit = unit_of(objects[0], &entry);
    sup_stop_arm(&at_step, at, fn);
    bool usual = open_first && generation == TS_ANY_GENERATION;
    *result = usual ? stepped_free_open(entry, token) : TS_FOREIGN_NOT_LIVE;
    met += *result == TS_FOREIGN_MET;
    if (*result == TS_FOREIGN_NOT_LIVE || *result == TS_FOREIGN_MET)
        *result = stepped_free(unit, entry, token, generation, &retries);
    bool stopped = sup_stop_disarm(&at_step);
    return stopped;
}

#define EACH_STEP(k, at, done)           \
    for (unsigned k = 0; k < KINDS; k++) \
        for (unsigned at = 0, done = 0; done == 0; at++)

static void a_drain(void **state) {
    (void)state;
    EACH_STEP(k, at, done) {
        ts_foreign_result r;
        begin(&kinds[k]);
        assert_int_equal(foreign_free(objects[1]), TS_FOREIGN_FREED);
        done = !free_with(at, drain, TS_ANY_GENERATION, &r);
        assert_int_equal(r, TS_FOREIGN_FREED);
        assert_false(slab_owns(allocator, objects[0]));
        drain();
        assert_int_equal(live_objects(), COUNT - 2);
        assert_false(slab_owns(allocator, objects[0]) || slab_owns(allocator, objects[1]));
        bin_is_whole(objects[2]);
        end();
    }
}

/* The epoch is closed meanwhile: a slab that is pushed after the close has drained for the last time is the freer's to
   see to, and it knows. */
static void close_epoch(void) { assert_true(epoch_close(allocator, epoch)); }
static void a_close(void **state) {
    (void)state;
    unsigned told = 0;
    bool stopped = true;
    for (unsigned at = 0; stopped; at++) {
        begin(&kinds[2]);
        uint64_t entry;
        (void)unit_of(objects[0], &entry);
        sup_stop_arm(&at_step, at, close_epoch);
        ts_foreign_result r = stepped_free_open(entry, token);
        stopped = sup_stop_disarm(&at_step);
        bool queued = ts_load_relaxed(&ts_thread.heap->queue) != 0;
        SUP_CHECK(!stopped || !queued || r == TS_FOREIGN_FREED_SHUT, "step %u: nobody knows of the slab", at);
        told += r == TS_FOREIGN_FREED_SHUT;
        drain();
        for (unsigned i = r == TS_FOREIGN_NOT_LIVE || r == TS_FOREIGN_MET ? 0 : 1; i < COUNT; i++)
            assert_true(slab_free(allocator, objects[i]));
        if (!stopped) close_epoch();
        assert_int_equal(epoch_state(allocator, epoch), EPOCH_CLOSED);
        assert_true(epoch_destroy(allocator, other));
    }
    assert_true(told > 0);
}

static void free_same(void) { meanwhile = foreign_free(objects[0]); }

static void free_same_and_drain(void) {
    free_same();
    drain();
}

static void another_free(void **state) {
    (void)state;
    for (int drained = 0; drained < 2; drained++) {
        EACH_STEP(k, at, done) {
            ts_foreign_result r;
            begin(&kinds[k]);
            meanwhile = TS_FOREIGN_NOT_LIVE;
            done = !free_with(at, drained ? free_same_and_drain : free_same, TS_ANY_GENERATION, &r);
            assert_true((r == TS_FOREIGN_FREED) != (meanwhile == TS_FOREIGN_FREED)); /* one of two */
            drain();
            assert_int_equal(live_objects(), COUNT - 1);
            bin_is_whole(objects[1]);
            end();
        }
    }
    assert_true(!open_first || met > 0); /* it is told that it was not the first: a retry, by which it is counted */
}

static void owner_frees(void) { meanwhile = slab_free(allocator, objects[0]) ? TS_FOREIGN_FREED : TS_FOREIGN_NOT_LIVE; }

/* Both can be told that they were the one (foreign.c, 8), but the slot is in one place. */
static void a_free_of_the_owner(void **state) {
    (void)state;
    EACH_STEP(k, at, done) {
        ts_foreign_result r;
        begin(&kinds[k]);
        meanwhile = TS_FOREIGN_NOT_LIVE;
        done = !free_with(at, owner_frees, TS_ANY_GENERATION, &r);
        assert_true(r == TS_FOREIGN_FREED || meanwhile == TS_FOREIGN_FREED);
        drain();
        assert_int_equal(live_objects(), COUNT - 1);
        assert_false(slab_owns(allocator, objects[0]));
        bin_is_whole(objects[1]);
        end();
    }
}

static SlabHandle handle;
static uint32_t exact; /* not 0: the generation by which a realloc that moves would free it */
static void owner_frees_handle(void) {
    bool freed = exact ? ts_free(token, objects[0], exact) : free_obj(allocator, handle);
    meanwhile = freed ? TS_FOREIGN_FREED : TS_FOREIGN_NOT_LIVE;
}

static void owner_frees_handle_and_drains(void) {
    owner_frees_handle();
    drain();
}

static void handle_neighbour(void) { assert_int_not_equal(slab_handle_of(allocator, objects[1]), SLAB_HANDLE_NONE); }

/* The slab becomes HANDLED: it is queued all the same, and stays HANDLED. */
static void a_first_handle(void **state) {
    (void)state;
    EACH_STEP(k, at, done) {
        ts_foreign_result r;
        uint64_t entry;
        begin(&kinds[k]);
        const _Atomic uint64_t *word = ts_unit_word(unit_of(objects[0], &entry));
        bool churn = kind->flags == EPOCH_CHURN && unit_of(objects[0], &entry) == unit_of(objects[1], &entry);
        done = !free_with(at, handle_neighbour, TS_ANY_GENERATION, &r);
        assert_int_equal(r, TS_FOREIGN_FREED);
        assert_true(ts_load_relaxed(word) & TS_UNIT_FOREIGN);
        assert_int_equal((ts_load_relaxed(word) & TS_UNIT_HANDLED) != 0, churn && !done);
        drain();
        assert_int_equal(live_objects(), COUNT - 1);
        bin_is_whole(objects[1]);
        end();
    }
}

/* By its handle or generation: one of the two, at any moment, and whether the other goes by the handle or by the
   pointer. */
static void an_exact_free_of_the_owner(void **state) {
    (void)state;
    for (unsigned way = 0; way < 8; way++) {
        EACH_STEP(k, at, done) {
            ts_foreign_result r;
            ts_object object;
            begin(&kinds[k]);
            handle = slab_handle_of(allocator, objects[0]);
            assert_true(ts_object_at(token, objects[0], &object));
            exact = way & 4 ? object.generation : 0;
            meanwhile = TS_FOREIGN_NOT_LIVE;
            done = !free_with(at, way & 1 ? owner_frees_handle_and_drains : owner_frees_handle,
                              way & 2 ? object.generation : TS_ANY_GENERATION, &r);
            assert_true((r == TS_FOREIGN_FREED) != (meanwhile == TS_FOREIGN_FREED));
            assert_false(slab_owns(allocator, objects[0]));
            drain();
            assert_int_equal(live_objects(), COUNT - 1);
            assert_false(free_obj(allocator, handle) || slab_owns(allocator, objects[0]));
            bin_is_whole(objects[1]);
            end();
        }
    }
    exact = 0;
}

static SlabHandle handles[COUNT];
static unsigned handles_in_word; /* those of the word that the first object's bit is in, itself first */

static void find_handles_in_word(void) {
    uint64_t entry, bit;
    uint32_t unit = unit_of(objects[0], &entry);
    uint64_t unit_word = ts_load_relaxed(ts_unit_word(unit));
    const _Atomic uint64_t *word = ts_slab_foreign_word(unit_word, entry, &bit);
    handles_in_word = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        (void)unit_of(objects[i], &entry);
        if (ts_slab_foreign_word(unit_word, entry, &bit) == word)
            handles[handles_in_word++] = slab_handle_of(allocator, objects[i]);
    }
}

enum { FREES = 15 };
static void free_fifteen(void) {
    handle = handles[0];
    owner_frees_handle();
    for (unsigned i = 1; i < FREES; i++) assert_true(free_obj(allocator, handles[i]));
}

/* As many such frees in the word as its count tells apart. */
static void as_many_frees_as_counts(void **state) {
    (void)state;
    unsigned refused = 0;
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned at = 0, done = 0; done == 0; at++) {
            ts_foreign_result r;
            begin(&kinds[k]);
            find_handles_in_word();
            assert_in_range(handles_in_word, FREES, COUNT);
            meanwhile = TS_FOREIGN_NOT_LIVE;
            done = !free_with(at, free_fifteen, TS_ANY_GENERATION, &r);
            assert_true((r == TS_FOREIGN_FREED) != (meanwhile == TS_FOREIGN_FREED));
            refused += r != TS_FOREIGN_FREED;
            drain();
            assert_int_equal(live_objects(), COUNT - (done ? 1 : FREES));
            end();
        }
    }
    assert_true(refused > 0);
}

static char *again;
static void new_one_is_live(void) { assert_true(slab_owns(allocator, again)); }

static unsigned steps_until_look;
static void free_and_have_another_in_its_place(void) {
    handle = handles[0];
    owner_frees_handle();
    again = NULL;
    for (unsigned i = 0; i < MOST && again != objects[0]; i++) again = slab_malloc_epoch(allocator, kind->size, epoch);
    assert_true(again == objects[0] || meanwhile == TS_FOREIGN_NOT_LIVE);
    if (again != objects[0]) return;
    sup_stop_arm(&at_step, steps_until_look, new_one_is_live);
}

/* A thread that looked before the object was freed and its place used again does not even touch the new object. */
static void another_in_its_place(void **state) {
    (void)state;
    for (unsigned k = 0; k < 2; k++)
        for (steps_until_look = 0; steps_until_look < 8; steps_until_look++)
            for (unsigned at = 0, done = 0; done == 0; at++) {
                ts_foreign_result r;
                ts_object object;
                begin(&kinds[k]);
                find_handles_in_word();
                meanwhile = TS_FOREIGN_NOT_LIVE;
                again = NULL;
                assert_true(ts_object_at(token, objects[0], &object));
                (void)free_with(at, free_and_have_another_in_its_place, object.generation, &r);
                done = meanwhile == TS_FOREIGN_NOT_LIVE;
                assert_true((r == TS_FOREIGN_FREED) != (meanwhile == TS_FOREIGN_FREED));
                assert_true(again != objects[0] || slab_owns(allocator, again));
                drain();
                assert_true(again != objects[0] || slab_owns(allocator, again));
                end();
            }
}

/* New objects in the other epoch, until one is where the first was and further words of its slab are in use. */
static void fill_other(void) {
    for (unsigned more = COUNT; other_count < MOST && more > 0; other_count++) {
        others[other_count] = slab_malloc_epoch(allocator, kind->size, other);
        assert_non_null(others[other_count]);
        more -= more < COUNT || others[other_count] == objects[0];
    }
}

/* The newest of them in the slab of the first object. */
static unsigned neighbour(void) {
    uint64_t entry;
    unsigned i = other_count - 1;
    while (i > 0 && unit_of(others[i], &entry) != unit_of(objects[0], &entry)) {
        i--;
    }
    return i;
}

static void destroy_and_fill(void) {
    assert_true(epoch_destroy(allocator, epoch));
    fill_other();
    epoch = epoch_open(allocator, NULL, kind->flags);
}

/* With the generation of the old object, nothing of the new ones dies. */
static void a_destroy(void **state) {
    (void)state;
    EACH_STEP(k, at, done) {
        ts_foreign_result r;
        ts_object object;
        begin(&kinds[k]);
        assert_int_not_equal(slab_handle_of(allocator, objects[0]), SLAB_HANDLE_NONE);
        assert_true(ts_object_at(token, objects[0], &object));
        done = !free_with(at, destroy_and_fill, object.generation, &r);
        drain();
        for (unsigned i = 0; i < other_count; i++) {
            assert_true(slab_owns(allocator, others[i]));
        }
        if (!done) {
            assert_int_equal(live_objects(), other_count);
            /* A bit that the late free left in its word does not take effect with a later free. */
            unsigned freed = neighbour();
            assert_int_equal(foreign_free(others[freed]), TS_FOREIGN_FREED);
            drain();
            for (unsigned i = 0; i < other_count; i++) {
                assert_int_equal(slab_owns(allocator, others[i]), i != freed);
            }
            bin_is_whole(others[0]);
        }
        end();
    }
}

/* Its block is nobody's then, and without memory. */
static void destroy_and_go(void) {
    assert_true(epoch_destroy(allocator, epoch));
    epoch = EPOCH_NONE;
    slab_thread_idle();
    ts_records_purge(true);
}

/* A slab that is pushed then has no owner to drain it, so the pushing thread does. */
static void a_block_that_goes(void **state) {
    (void)state;
    unsigned pushed = 0;
    EACH_STEP(k, at, done) {
        ts_foreign_result r;
        begin(&kinds[k]);
        done = !free_with(at, destroy_and_go, TS_ANY_GENERATION, &r);
        pushed += ts_load_relaxed(&ts_heap_nobody->queue) != 0;
        ts_epoch_run_deferred();
        assert_int_equal(ts_load_relaxed(&ts_heap_nobody->queue), 0);
        if (done)
            drain();
        else
            epoch = epoch_open(allocator, NULL, kind->flags);
        assert_int_equal(live_objects(), done ? COUNT - 1 : 0);
        end();
    }
    assert_true(pushed > 0);
}

static void empty_and_fill(void) {
    for (unsigned i = 0; i < COUNT; i++) {
        (void)slab_free(allocator, objects[i]);
    }
    slab_thread_idle();
    fill_other();
}

/* Bits that no drain has come to, of a use that ended, say nothing of the next one's objects. */
static void bits_of_the_last_use(void **state) {
    (void)state;
    for (unsigned k = 0; k < KINDS; k++) {
        begin(&kinds[k]);
        assert_int_not_equal(slab_handle_of(allocator, objects[0]), SLAB_HANDLE_NONE);
        for (unsigned i = 0; i < COUNT; i++) {
            assert_int_equal(foreign_free(objects[i]), TS_FOREIGN_FREED);
        }
        destroy_and_fill();
        for (unsigned i = 0; i < other_count; i++) {
            handle = slab_handle_of(allocator, others[i]);
            assert_true(free_obj(allocator, handle));
            assert_false(free_obj(allocator, handle));
        }
        other_count = 0;
        end();
    }
}

/* Objects of a destroyed epoch are not live, though words and bits still say so. */
static void after_a_destroy(void **state) {
    (void)state;
    for (unsigned k = 0; k < KINDS; k++) {
        begin(&kinds[k]);
        assert_true(epoch_destroy(allocator, epoch));
        for (unsigned i = 0; i < COUNT; i++) {
            assert_int_equal(foreign_free(objects[i]), TS_FOREIGN_NOT_LIVE);
        }
        assert_int_equal(ts_load_relaxed(&ts_thread.heap->queue), 0);
        epoch = epoch_open(allocator, NULL, kind->flags);
        end();
    }
}

/* The slab changes hands without the end of an epoch. The free may hit its next object, but then the whole free is
   done: a bit that is set is on a queue. */
static void a_release(void **state) {
    (void)state;
    EACH_STEP(k, at, done) {
        ts_foreign_result r;
        begin(&kinds[k]);
        done = !free_with(at, empty_and_fill, TS_ANY_GENERATION, &r);
        drain();
        unsigned live = 0;
        for (unsigned i = 0; i < other_count; i++) {
            uint64_t entry;
            uint32_t unit = unit_of(others[i], &entry);
            assert_false(ts_foreign_pending(unit, ts_load_relaxed(ts_unit_word(unit)), entry));
            live += slab_owns(allocator, others[i]);
        }
        if (!done) {
            assert_true(live + 1 >= other_count);
            assert_int_equal(live_objects(), live);
        }
        end();
    }
}

/* ---- while the owner drains ---------------------------------------------------------------------------------- */

static bool drain_with(unsigned at, void (*fn)(void)) {
    sup_stop_arm(&at_step, at, fn);
    ts_heap_enter(ts_thread.heap);
    stepped_drain(ts_thread.heap);
    ts_heap_leave(ts_thread.heap);
    bool stopped = sup_stop_disarm(&at_step);
    ts_epoch_run_deferred();
    return stopped;
}

static unsigned second;
static void free_second(void) { meanwhile = foreign_free(objects[second]); }

static void a_free_in_a_drain(void **state) {
    (void)state;
    for (second = 1; second < COUNT; second = second * 7 + 1) {
        EACH_STEP(k, at, done) {
            begin(&kinds[k]);
            assert_int_equal(foreign_free(objects[0]), TS_FOREIGN_FREED);
            meanwhile = TS_FOREIGN_NOT_LIVE;
            done = !drain_with(at, free_second);
            assert_int_equal(meanwhile, done ? TS_FOREIGN_NOT_LIVE : TS_FOREIGN_FREED);
            assert_int_equal(slab_owns(allocator, objects[second]), done);
            drain();
            assert_int_equal(live_objects(), COUNT - (done ? 1 : 2));
            bin_is_whole(objects[2]);
            end();
        }
    }
}

static void find_object_dead(void) {
    assert_int_equal(foreign_free(objects[0]), TS_FOREIGN_NOT_LIVE);
    assert_false(slab_owns(allocator, objects[0]));
    assert_true(slab_owns(allocator, objects[1]));
}

/* At no moment is an object live again that was freed. */
static void a_look_in_a_drain(void **state) {
    (void)state;
    EACH_STEP(k, at, done) {
        begin(&kinds[k]);
        assert_int_equal(foreign_free(objects[0]), TS_FOREIGN_FREED);
        done = !drain_with(at, find_object_dead);
        assert_int_equal(live_objects(), COUNT - 1);
        end();
    }
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)
#define OPEN(test) \
    { #test "_open", test, start_open, stop, NULL }

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(another_in_its_place),
        WITH(a_drain),
        WITH(another_free),
        WITH(a_free_of_the_owner),
        WITH(a_destroy),
        WITH(after_a_destroy),
        WITH(bits_of_the_last_use),
        WITH(a_release),
        WITH(a_free_in_a_drain),
        WITH(a_look_in_a_drain),
        OPEN(a_drain),
        OPEN(another_free),
        OPEN(a_free_of_the_owner),
        OPEN(a_release),
        WITH(an_exact_free_of_the_owner),
        WITH(a_first_handle),
        OPEN(an_exact_free_of_the_owner),
        OPEN(a_first_handle),
        WITH(as_many_frees_as_counts),
        OPEN(as_many_frees_as_counts),
        WITH(a_close),
        WITH(a_block_that_goes),
        OPEN(a_block_that_goes),
    };
    return cmocka_run_group_tests_name("cache.foreign_steps", tests, NULL, NULL);
}
