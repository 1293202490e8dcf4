/* Long pieces, and when a scope begins with a piece rather than with a unit. piece_test.c has the rest. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "small_scopes.h"

/* Objects begin in both halves of a long piece, and each is freed by its thread, by another, or with its scope. */
enum { PARTS = 4 };
static char *part[MANY][PARTS];
static void free_two_parts(void) {
    for (unsigned i = 0; i < MANY; i++)
        for (unsigned k = 1; k < PARTS; k += 2)
            SUP_CHECK(slab_free(allocator, part[i][k]) && !slab_free(allocator, part[i][k]), "part %u of %u", k, i);
}
static void long_pieces(void **state) {
    (void)state;
    static const size_t sizes[PARTS] = {600, 96, 208, 112}; /* 1,024 bytes in all */
    begin();
    make_many(0, 64); /* the thread has small scopes */
    end_many();
    for (unsigned round = 0; round < 3; round++) {
        unsigned pieces = 0;
        for (unsigned i = 0; i < MANY; i++) {
            domains[i] = epoch_domain_create(allocator);
            for (unsigned k = 0; k < PARTS; k++) {
                part[i][k] = one_object(domains[i], sizes[k]);
                sup_pattern_fill(part[i][k], sizes[k], i + k);
            }
        }
        SlabHandle handles[MANY];
        for (unsigned i = 0; i < MANY; i++) {
            uint32_t slab = slab_of(part[i][0]);
            for (unsigned k = 0; k < PARTS; k++) {
                assert_true(slab_of(part[i][k]) == slab && sup_pattern_check(part[i][k], sizes[k], i + k));
                assert_int_equal(slab_usable_size(allocator, part[i][k]), (sizes[k] + 15) / 16 * 16);
            }
            assert_true(!ts_is_piece(slab) || ts_piece_is_long(slab));
            pieces += ts_is_piece(slab);
            handles[i] = slab_handle_of(allocator, part[i][2]);
            assert_ptr_equal(slab_handle_get(allocator, handles[i]), part[i][2]);
            if (i % 2) assert_true(slab_free(allocator, part[i][2]) && !free_obj(allocator, handles[i]));
        }
        assert_in_range(pieces, MANY - 1, MANY);
        sup_check_identities(allocator);
        if (round > 0) let(free_two_parts);
        sup_check_identities(allocator);
        assert_int_equal(sup_live_objects(allocator), MANY * PARTS - MANY / 2 - (round > 0 ? 2 * MANY : 0));
        for (unsigned i = 0; i < MANY; i++) {
            assert_true(slab_owns(allocator, part[i][3]) == (round == 0) && slab_owns(allocator, part[i][0]));
            if (round == 2 && i % 2) assert_true(slab_free(allocator, part[i][0]));
        }
        end_many();
        for (unsigned i = 0; i < MANY; i++)
            assert_false(slab_owns(allocator, part[i][0]) || free_obj(allocator, handles[i]));
        all_goes_back();
        make_many(0, 64); /* the same places as short ones */
        sup_check_identities(allocator);
        end_many();
    }
    end();
    all_goes_back();
}

/* A unit that a larger scope has left does not take the place of a piece for ever. */
static void pieces_come_back(void **state) {
    (void)state;
    unsigned pieces = 0;
    make_many(0, 64);
    for (unsigned i = 1; i < 40 * MANY; i++) {
        epoch_domain_destroy(domains[i % MANY]);
        domains[i % MANY] = epoch_domain_create(allocator);
        objects[i % MANY] = one_object(domains[i % MANY], i % 11 == 0 ? 3000 : i % 3 == 0 ? 800 : 64);
    }
    for (unsigned i = 0; i < MANY; i++) pieces += ts_is_piece(slab_of(objects[i]));
    assert_in_range(pieces, MANY * 3 / 4, MANY);
    sup_check_identities(allocator);
    end_many();
    all_goes_back();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(long_pieces, start, stop),
        cmocka_unit_test_setup_teardown(pieces_come_back, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
