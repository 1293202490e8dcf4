/* Pieces: the first slabs of scopes with few objects. Every check of an object in one, and how units are cut and become
   whole. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "rng.h"
#include "small_scopes.h"

#include <errno.h>
#include <string.h>

/* Many lifetimes in one unit, and each of them is told apart by every call. */
static void many_share_a_unit(void **state) {
    (void)state;
    for (unsigned kind = 0; kind < 3; kind++) {
        const size_t size = kind == 2 ? 640 : 64; /* in long pieces, in short ones */
        make_many(kind == 1 ? EPOCH_CHURN : 0, size);
        assert_in_range(cut_units(), MANY * (1 + kind / 2) / TS_PIECES, MANY * (1 + kind / 2) / TS_PIECES + 1);
        SlabHandle handles[MANY];
        unsigned pieces = 0;
        for (unsigned i = 0; i < MANY; i++) {
            pieces += ts_is_piece(slab_of(objects[i]));
            assert_true(slab_owns(allocator, objects[i]) && sup_pattern_check(objects[i], size, i));
            assert_int_equal(slab_usable_size(allocator, objects[i]), size);
            assert_false(slab_owns(allocator, objects[i] + 16) || slab_free(allocator, objects[i] + 16));
            assert_false(slab_free(allocator, objects[i] + size) ||
                         slab_free(allocator, objects[i] + TS_PIECE_BYTES * (1 + kind / 2) - 16));
            assert_true(slab_free(slab_allocator_default(), objects[i]) == false);
            handles[i] = slab_handle_of(allocator, objects[i]);
            assert_ptr_equal(slab_handle_get(allocator, handles[i]), objects[i]);
        }
        assert_true(pieces >= MANY - 1); /* one in TS_PIECES_UNIT_EVERY has a unit */
        sup_check_identities(allocator);
        /* Every second lifetime ends; the others do not notice. */
        for (unsigned i = 0; i < MANY; i += 2) {
            epoch_domain_destroy(domains[i]);
        }
        for (unsigned i = 0; i < MANY; i++) {
            assert_true(slab_owns(allocator, objects[i]) == (i % 2 == 1));
            assert_ptr_equal(slab_handle_get(allocator, handles[i]), i % 2 ? objects[i] : NULL);
            if (i % 2 == 0) assert_false(free_obj(allocator, handles[i]) || slab_free(allocator, objects[i]));
        }
        sup_check_identities(allocator);
        for (unsigned i = 1; i < MANY; i += 2) {
            assert_true(i % 4 == 1 ? slab_free(allocator, objects[i]) : free_obj(allocator, handles[i]));
            assert_false(slab_free(allocator, objects[i]) || free_obj(allocator, handles[i]));
            epoch_domain_destroy(domains[i]);
        }
        /* The places have other objects now, and the handles are those of none. */
        make_many(0, 64);
        sup_check_identities(allocator);
        for (unsigned i = 0; i < MANY; i++) {
            assert_null(slab_handle_get(allocator, handles[i]));
            assert_false(free_obj(allocator, handles[i]));
        }
        end_many();
        all_goes_back();
    }
}

static uint32_t tag_of(uint32_t slab) { return ts_load_relaxed(&ts_slab_at(slab)->tag); }

/* Tags of foreign words rise over all uses of a place: as a unit, as pieces, as a unit again. */
static void tags_rise(void **state) {
    enum { UNITS = 4096 };
    static uint32_t last[UNITS];
    unsigned again = 0;
    (void)state;
    for (unsigned round = 0; round < 5; round++) {
        make_many(0, 64);
        for (unsigned i = 0; i < MANY; i++) {
            uint32_t slab = slab_of(objects[i]), unit = ts_unit_of(slab);
            assert_true(unit < UNITS && tag_of(slab) > last[unit] && tag_of(slab) >= tag_of(unit));
            again += ts_is_piece(slab) && last[unit] != 0;
        }
        uint32_t most[UNITS] = {0};
        for (unsigned i = 0; i < MANY; i++) {
            uint32_t slab = slab_of(objects[i]), unit = ts_unit_of(slab);
            most[unit] = tag_of(slab) > most[unit] ? tag_of(slab) : most[unit];
        }
        end_many();
        slab_thread_idle();
        for (unsigned unit = 1; unit < UNITS; unit++) {
            if (most[unit] == 0) continue;
            assert_true(!ts_word_is_cut(ts_load_relaxed(ts_unit_word(unit))) && tag_of(unit) >= most[unit]);
            last[unit] = tag_of(unit);
        }
    }
    assert_true(again > 0);
    all_goes_back();
}

/* As slabs of other kinds a unit has had, and will have, generations and tags of its own. */
static void no_generation_comes_twice(void **state) {
    enum { ROUNDS = 6, USES = 4, KEPT = 64 };
    static SlabHandle handles[ROUNDS * USES * KEPT];
    unsigned count = 0;
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned use = 0; use < USES; use++) {
            /* As a churn slab, and as a scope slab in which objects start where pieces begin. */
            bool whole = use % 2 != 0;
            EpochId epoch = whole ? epoch_open(allocator, NULL, use == 1 ? EPOCH_CHURN : EPOCH_SCOPE) : EPOCH_NONE;
            size_t size = use == 1 ? 48 : TS_PIECE_BYTES;
            if (use == 3) assert_non_null(slab_malloc_epoch(allocator, 4 * TS_PIECE_BYTES, epoch));
            if (!whole) make_many(0, 48);
            for (unsigned i = 0; i < KEPT; i++) {
                void *p = whole ? slab_malloc_epoch(allocator, size, epoch) : objects[i];
                handles[count] = slab_handle_of(allocator, p);
                assert_true(handles[count] != SLAB_HANDLE_NONE);
                for (unsigned k = 0; k < count; k++) {
                    assert_true(handles[k] != handles[count]);
                    assert_null(k + i < count ? slab_handle_get(allocator, handles[k]) : NULL);
                }
                count++;
            }
            if (whole)
                assert_true(epoch_destroy(allocator, epoch));
            else
                end_many();
            if (round % 2) (void)slab_trim(allocator);
            sup_check_identities(allocator);
        }
    }
    all_goes_back();
}

/* A scope grows from pieces into units; objects in either die with it, and a reset begins anew. */
static void a_scope_grows(void **state) {
    enum { OBJECTS = 300 };
    static char *own[OBJECTS];
    struct sup_rng rng = {7};
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        EpochDomain *domain = epoch_domain_create_ex(allocator, NULL, kind ? EPOCH_CHURN : 0);
        for (unsigned round = 0; round < 4; round++) {
            size_t sizes[OBJECTS];
            unsigned pieces = 0;
            assert_true(epoch_domain_enter(domain));
            for (unsigned i = 0; i < OBJECTS; i++) {
                size_t most = i < 60 ? 300 : 5000;
                size_t align = (size_t)16 << sup_rng_below(&rng, 6);
                sizes[i] = sup_rng_below(&rng, most) + 1;
                own[i] = i % 5 ? slab_alloc(sizes[i]) : slab_alloc_aligned(align, sizes[i]);
                assert_true(own[i] && (i % 5 || (uintptr_t)own[i] % align == 0));
                sup_pattern_fill(own[i], sizes[i], i);
                pieces += ts_is_piece(slab_of(own[i]));
                if (i % 50 == 0) sup_check_identities(allocator);
            }
            assert_true(epoch_domain_exit(domain));
            assert_true(pieces > 3 || round > 0);
            for (unsigned i = 0; i < OBJECTS; i++) {
                assert_true(sup_pattern_check(own[i], sizes[i], i));
                assert_true(slab_usable_size(allocator, own[i]) >= sizes[i]);
                if (i % 3 == 0) assert_true(slab_free(allocator, own[i]) && !slab_free(allocator, own[i]));
            }
            sup_check_identities(allocator);
            assert_true(epoch_domain_reset(domain, round % 2 ? 0 : SIZE_MAX));
            for (unsigned i = 0; i < OBJECTS; i++) {
                assert_false(slab_owns(allocator, own[i]));
            }
            sup_check_identities(allocator);
        }
        epoch_domain_destroy(domain);
    }
    all_goes_back();
}

/* One first slab in TS_PIECES_UNIT_EVERY is a unit, whether a piece is at hand or not. */
static void one_in_many_has_a_unit(void **state) {
    enum { OPEN = 4 * TS_PIECES_UNIT_EVERY };
    static EpochDomain *open[OPEN];
    unsigned units = 0;
    (void)state;
    for (unsigned i = 0; i < OPEN; i++) {
        open[i] = epoch_domain_create(allocator);
        units += !ts_is_piece(slab_of(one_object(open[i], 64)));
    }
    assert_int_equal(units, OPEN / TS_PIECES_UNIT_EVERY);
    for (unsigned i = 0; i < OPEN; i++) epoch_domain_destroy(open[i]);
    all_goes_back();
}

/* A place behind which all died is used again, in a piece as in a unit; not one where a handle was made. */
static void marks_in_pieces(void **state) {
    (void)state;
    EpochDomain *domain = epoch_domain_create(allocator);
    assert_true(epoch_domain_enter(domain));
    char *first = slab_alloc(100);
    assert_true(ts_is_piece(slab_of(first)));
    for (unsigned handled = 0; handled < 2; handled++) {
        SlabMark mark;
        char *behind[80];
        assert_true(epoch_domain_mark(domain, &mark));
        for (unsigned i = 0; i < 80; i++) {
            behind[i] = slab_alloc(i % 7 ? 64 : 200);
        }
        SlabHandle handle = handled ? slab_handle_of(allocator, behind[0]) : SLAB_HANDLE_NONE;
        sup_check_identities(allocator);
        assert_true(epoch_domain_rewind(domain, mark));
        for (unsigned i = 0; i < 80; i++) {
            assert_false(slab_owns(allocator, behind[i]));
        }
        assert_true(slab_owns(allocator, first) && !free_obj(allocator, handle));
        sup_check_identities(allocator);
    }
    assert_true(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
    all_goes_back();
}

static void resize(void **state) {
    (void)state;
    EpochDomain *domain = epoch_domain_create(allocator);
    assert_true(epoch_domain_enter(domain));
    char *p = slab_alloc(100);
    sup_pattern_fill(p, 100, 1);
    assert_true(ts_is_piece(slab_of(p)));
    for (size_t size = 100; size < 3000; size += 40) {
        p = slab_realloc(allocator, p, size);
        assert_true(p && sup_pattern_check(p, 100, 1) && slab_usable_size(allocator, p) >= size);
    }
    sup_check_identities(allocator);
    assert_true(epoch_domain_exit(domain));
    epoch_domain_destroy(domain);
    all_goes_back();
}

/* ---- two threads ------------------------------------------------------------------------------------------- */

static unsigned from, step;
static void free_some(void) {
    for (unsigned i = from; i < MANY; i += step) {
        SUP_CHECK(slab_free(allocator, objects[i]) && !slab_free(allocator, objects[i]), "object %u", i);
    }
}

/* The owner of a piece takes in the frees of another thread. A piece whose scope ends before that goes back when the
   owner does. */
static void freed_by_another(void **state) {
    (void)state;
    begin();
    for (unsigned kind = 0; kind < 2; kind++) {
        make_many(kind ? EPOCH_CHURN : 0, 80);
        from = 0, step = 1;
        let(free_some);
        sup_check_identities(allocator);
        assert_int_equal(sup_live_objects(allocator), 0);
        for (unsigned i = 0; i < MANY / 2; i++) { /* zombies: they are on the queue */
            epoch_domain_destroy(domains[i]);
        }
        sup_check_identities(allocator);
        slab_thread_idle();
        sup_check_identities(allocator);
        for (unsigned i = MANY / 2; i < MANY; i++) {
            epoch_domain_destroy(domains[i]);
        }
        all_goes_back();
    }
    end();
}

/* The last object of a closed epoch gives its piece back, whether its owner or another thread frees it. */
static void of_closed_epochs(void **state) {
    (void)state;
    EpochId epochs[MANY];
    begin();
    for (unsigned i = 0; i < MANY; i++) {
        epochs[i] = epoch_open(allocator, NULL, EPOCH_SCOPE);
        objects[i] = slab_malloc_epoch(allocator, 200, epochs[i]);
        assert_true(ts_is_piece(slab_of(objects[i])));
        assert_true(epoch_close(allocator, epochs[i]));
    }
    from = 0, step = 2;
    let(free_some);
    sup_check_identities(allocator);
    from = 1;
    free_some();
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(epoch_state(allocator, epochs[i]), EPOCH_CLOSED);
    }
    end();
    all_goes_back();
}

static void make_shared(void) {
    for (unsigned i = 0; i < MANY; i++) {
        domains[i] = epoch_domain_create_ex(allocator, NULL, EPOCH_DOMAIN_SHARED);
        objects[i] = one_object(domains[i], 100);
    }
}

/* Pieces of a thread that has ended belong to the thread that takes over its blocks; the free ones serve all. */
static void of_a_thread_that_ended(void **state) {
    (void)state;
    begin();
    let(make_shared);
    end();
    for (unsigned i = 0; i < MANY; i++) {
        char *more = one_object(domains[i], 100);
        assert_true(slab_owns(allocator, more) && slab_owns(allocator, objects[i]));
        if (i % 2) assert_true(slab_free(allocator, objects[i]) && slab_free(allocator, more));
    }
    sup_check_identities(allocator);
    end_many();
    all_goes_back();
}

/* ---- costs ------------------------------------------------------------------------------------------------------ */

/* So much is committed for each of many small scopes, and a scope that is alone gets a unit, which is retained for the
   next. */
static void small_scopes_cost_little(void **state) {
    (void)state;
    SlabGlobalStats global;
    make_many(0, 64);
    assert_true(slab_stats_global(allocator, &global));
    assert_true(global.committed_bytes <= (MANY + TS_PIECES) * TS_PIECE_BYTES);
    SlabEpochStats row;
    assert_true(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch_domain_epoch(domains[0]), &row));
    assert_int_equal(row.estimated_rss_bytes, TS_PIECE_BYTES);
    assert_int_equal(epoch_domain_held(domains[0]), TS_PIECE_BYTES);
    end_many();
    all_goes_back();
    ts_pieces_after = TS_PIECES_AFTER;
    slab_allocator_free(allocator);
    void **unused = NULL;
    assert_int_equal(start(unused), 0);
    ts_pieces_after = TS_PIECES_AFTER;
    for (unsigned i = 0; i < MANY; i++) {
        EpochDomain *domain = epoch_domain_create(allocator);
        assert_false(ts_is_piece(slab_of(one_object(domain, 64))));
        epoch_domain_destroy(domain);
    }
    assert_int_equal(cut_units(), 0);
}

/* A limit counts units, so a scope with one gets no pieces; one that has pieces already keeps them. */
/* A connection with a buffer: that has a unit, the small objects have pieces, in any order; and many more make bins. */
static void a_buffer_lies_beside(void **state) {
    (void)state;
    enum { SMALL = 12 };
    void *small[SMALL];
    for (unsigned first = 0; first <= SMALL; first += SMALL / 2) {
        slab_thread_idle();
        (void)slab_trim(allocator); /* no unit is retained */
        EpochDomain *d = epoch_domain_create_ex(allocator, NULL, EPOCH_CHURN);
        void *buffer = NULL;
        for (unsigned i = 0; i <= SMALL; i++) {
            if (i == first) {
                SUP_CHECK((buffer = epoch_domain_alloc(d, 4096)) != NULL, "a buffer");
                sup_pattern_fill(buffer, 4096, 99);
            }
            if (i == SMALL) break;
            SUP_CHECK((small[i] = epoch_domain_alloc(d, 100)) != NULL, "object %u", i);
            sup_pattern_fill(small[i], 100, i);
        }
        SUP_CHECK(!ts_is_piece(slab_of(buffer)) && (uintptr_t)buffer % 4096 == 0, "the buffer, after %u others", first);
        for (unsigned i = 0; i < SMALL; i++) {
            SUP_CHECK(ts_is_piece(slab_of(small[i])), "object %u, beside a buffer after %u others", i, first);
        }
        void *second = epoch_domain_alloc(d, 5000);
        SUP_CHECK(second && slab_of(second) == slab_of(buffer), "a second buffer has room there");
        sup_check_identities(allocator);
        for (unsigned i = 0; i < SMALL; i++) {
            SUP_CHECK(sup_pattern_check(small[i], 100, i) && slab_free(allocator, small[i]), "object %u", i);
        }
        SUP_CHECK(sup_pattern_check(buffer, 4096, 99) && slab_free(allocator, buffer), "the buffer");
        SUP_CHECK(!slab_free(allocator, buffer) && slab_free(allocator, second), "the buffers");
        for (unsigned i = 0; i < 1000; i++)
            SUP_CHECK(epoch_domain_alloc(d, i % 2 ? 100 : 3000) != NULL, "object %u", i);
        sup_check_identities(allocator);
        epoch_domain_destroy(d);
        sup_check_empty(allocator);
    }
}

/* Epochs of some 18 KB each leave one object. Each keeps the piece of that; the next epochs have the others. */
static void epochs_that_leak(void **state) {
    enum { EPOCHS = 900, OBJECTS = 140, MANY_OBJECTS = 700 };
    static unsigned char *left[EPOCHS], *p[MANY_OBJECTS];
    static SlabHandle handle[EPOCHS];
    struct sup_rng rng = {77};
    uint64_t before = 0;
    const ts_allocator *record = ts_allocator_find(ts_token(allocator));
    (void)state;
    for (unsigned e = 0; e < EPOCHS; e++) {
        /* One in fifty grows beyond its pieces, and then beyond a unit. */
        unsigned count = e % 50 == 49 ? MANY_OBJECTS : OBJECTS, stays = (unsigned)sup_rng_below(&rng, OBJECTS);
        EpochId id = epoch_open(allocator, "leaks", EPOCH_CHURN);
        for (unsigned i = 0; i < count; i++) {
            size_t bytes = i % 10 == 0 ? 16 + (size_t)sup_rng_below(&rng, 400) : 128;
            SUP_CHECK((p[i] = slab_malloc_epoch(allocator, bytes, id)) != NULL, "object %u", i);
            SUP_CHECK(bytes != 128 || (uintptr_t)p[i] % 128 == 0, "object %u is not aligned", i);
            SUP_CHECK(slab_usable_size(allocator, p[i]) >= bytes, "object %u is too small", i);
            sup_pattern_fill(p[i], 16, i);
        }
        for (unsigned i = 0; i < count; i++) {
            SUP_CHECK(sup_pattern_check(p[i], 16, i), "object %u of epoch %u", i, e);
            if (i == stays) continue;
            SUP_CHECK(slab_free(allocator, p[i]) && !slab_free(allocator, p[i]), "object %u of epoch %u", i, e);
        }
        left[e] = p[stays];
        handle[e] = slab_handle_of(allocator, left[e]);
        sup_pattern_fill(left[e], 16, 1000 + e);
        epoch_close(allocator, id);
        if (e == EPOCHS / 3) before = ts_load_relaxed(&record->committed_units);
        if (e == EPOCHS / 2) sup_check_identities(allocator);
    }
    uint64_t more = ts_load_relaxed(&record->committed_units) - before;
    /* Those that grew beyond their pieces keep a unit each, and one in the size of such an epoch is taken meanwhile. */
    SUP_CHECK(more <= (EPOCHS - EPOCHS / 3) * 2 / TS_PIECES + EPOCHS / 50 + 16, "%llu units", (unsigned long long)more);
    for (unsigned e = 0; e < EPOCHS; e++) {
        SUP_CHECK(sup_pattern_check(left[e], 16, 1000 + e), "what epoch %u left", e);
        SUP_CHECK(slab_handle_get(allocator, handle[e]) == left[e], "its handle");
        SUP_CHECK(slab_free(allocator, left[e]) && !free_obj(allocator, handle[e]), "its free");
    }
    all_goes_back();
}

static void limits(void **state) {
    (void)state;
    EpochDomain *domain = epoch_domain_create(allocator);
    assert_true(epoch_domain_set_limit(domain, 2 * TS_UNIT_BYTES));
    assert_false(ts_is_piece(slab_of(one_object(domain, 64))));
    assert_int_equal(epoch_domain_held(domain), TS_UNIT_BYTES);
    EpochDomain *late = epoch_domain_create(allocator);
    char *p = one_object(late, 64);
    assert_true(ts_is_piece(slab_of(p)));
    assert_true(epoch_domain_set_limit(late, TS_UNIT_BYTES));
    assert_int_equal(epoch_domain_held(late), 0);
    assert_true(epoch_domain_enter(late));
    unsigned count = 0;
    while (slab_alloc(64)) {
        count++;
    }
    assert_true(errno == ENOMEM && count == (TS_PIECE_BYTES + TS_UNIT_BYTES) / 64 - 1);
    assert_true(epoch_domain_exit(late) && slab_free(allocator, p));
    sup_check_identities(allocator);
    epoch_domain_destroy(late);
    epoch_domain_destroy(domain);
    all_goes_back();
}

/* Without memory for pieces, or for their records, there is none, and all stays as it was. */
static ts_os_table refusing;
static unsigned refuse_at;
static bool refuse_commit(void *at, size_t bytes) {
    if (refuse_at != 0 && --refuse_at == 0) return false;
    return ts_os_native.commit(at, bytes);
}

static void no_memory(void **state) {
    (void)state;
    refusing = ts_os_native;
    refusing.commit = refuse_commit;
    for (unsigned at = 1; at < 6; at++) {
        EpochDomain *domain = epoch_domain_create(allocator);
        refuse_at = at;
        ts_os = &refusing;
        assert_true(epoch_domain_enter(domain));
        void *p = slab_alloc(64);
        ts_os = &ts_os_native;
        assert_true(p || errno == ENOMEM);
        assert_non_null(slab_alloc(64));
        assert_true(epoch_domain_exit(domain));
        sup_check_identities(allocator);
        epoch_domain_destroy(domain);
        all_goes_back();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_memory, start, stop),
        cmocka_unit_test_setup_teardown(many_share_a_unit, start, stop),
        cmocka_unit_test_setup_teardown(tags_rise, start, stop),
        cmocka_unit_test_setup_teardown(no_generation_comes_twice, start, stop),
        cmocka_unit_test_setup_teardown(a_scope_grows, start, stop),
        cmocka_unit_test_setup_teardown(one_in_many_has_a_unit, start, stop),
        cmocka_unit_test_setup_teardown(marks_in_pieces, start, stop),
        cmocka_unit_test_setup_teardown(resize, start, stop),
        cmocka_unit_test_setup_teardown(freed_by_another, start, stop),
        cmocka_unit_test_setup_teardown(of_closed_epochs, start, stop),
        cmocka_unit_test_setup_teardown(of_a_thread_that_ended, start, stop),
        cmocka_unit_test_setup_teardown(small_scopes_cost_little, start, stop),
        cmocka_unit_test_setup_teardown(a_buffer_lies_beside, start, stop),
        cmocka_unit_test_setup_teardown(epochs_that_leak, start, stop),
        cmocka_unit_test_setup_teardown(limits, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
