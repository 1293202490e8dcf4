/* Diagnoses of pointers, handles and epochs, for every kind of place that a program can name. */
#include "check.h"
#include "fixture.h"

#include "bins.h"
#include "epoch/epoch.h"
#include "observe/diagnose.h"

#include <string.h>
#include <sys/mman.h>

static uintptr_t token;
static EpochId churn, scope;

static int start(void **state) {
    SlabOptions options = {.size = sizeof options, .reclaim_policy = SLAB_RECLAIM_KEEP, .memory_tools = SLAB_TOOLS_OFF};
    (void)state;
    allocator = slab_allocator_create_ex(&options);
    token = ts_token(allocator);
    churn = epoch_open(allocator, "churn", EPOCH_CHURN);
    scope = epoch_open(allocator, NULL, EPOCH_SCOPE);
    return allocator == NULL;
}

static ts_text line;

static void check_words(int at, const char *what, const char *want) {
    line.text[line.used] = 0;
    SUP_CHECK(strncmp(line.text, want, strlen(want)) == 0, "line %d: %s: \"%s\", not \"%s\"", at, what, line.text,
              want);
}

#define SAYS(call, want)                    \
    do {                                    \
        line.used = 0;                      \
        call;                               \
        check_words(__LINE__, #call, want); \
    } while (0)
#define OF_POINTER(p, want) SAYS(ts_diagnose_pointer(&line, token, (p)), want)
#define OF_HANDLE(h, want) SAYS(ts_diagnose_handle(&line, token, (h)), want)

/* ---- pointers ------------------------------------------------------------------------------------------------- */

static void places_without_objects(void **state) {
    (void)state;
    OF_POINTER(&line, "not memory of temporal-slab");
    OF_POINTER(NULL, "not memory of temporal-slab");
    for (unsigned part = 0; part < TS_PARTS; part++) {
        if (ts_region.part[part].units == 0) continue;
        OF_POINTER(ts_region.part[part].base + ts_part_bytes(part, ts_region.part[part].units - 1) + 100,
                   "in memory that holds no object");
    }
}

/* A slot whose generations are used up: in its bin, when its epoch has ended, and when its empty slab is nobody's. */
static void slots_that_are_retired(void **state) {
    const size_t sizes[] = {16, 64, 112, 16, 64, 112};
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        EpochId epoch = epoch_open(allocator, NULL, EPOCH_CHURN);
        void *p = NULL, *other = slab_malloc_epoch(allocator, sizes[i], epoch);
        SlabHandle handle = SLAB_HANDLE_NONE;
        for (unsigned use = 0; use <= TS_SLOT_GEN_MAX; use++) {
            void *before = p;
            assert_non_null(p = alloc_obj_epoch(allocator, sizes[i], epoch, &handle));
            assert_true(use == 0 || p == before);
            assert_true(slab_free(allocator, p));
        }
        OF_POINTER(p, "freed already (class ");
        OF_HANDLE(handle, "freed already (class ");
        if (i < 3) {
            assert_true(epoch_destroy(allocator, epoch));
            OF_POINTER(other, "freed with its epoch (class ");
        } else {
            assert_true(slab_free(allocator, other));
            assert_true(epoch_close(allocator, epoch));
        }
        OF_POINTER(p, "freed already (class ");
        OF_HANDLE(handle, "freed already (class ");
    }
}

static void places_in_slabs_of_a_class(void **state) {
    const size_t sizes[] = {16, 48, 64, 112, 768, 4096};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *object = slab_malloc_epoch(allocator, sizes[i], churn),
             *freed = slab_malloc_epoch(allocator, sizes[i], churn);
        uint64_t entry;
        char *slab = ts_unit_address(unit_of(object, &entry));
        unsigned cls = ts_classes.of[(sizes[i] + 15) / 16];
        size_t used = (size_t)ts_classes.slots[cls] * ts_class_bytes[cls];
        assert_true(slab_free(allocator, freed));
        OF_POINTER(object + 5, "5 bytes into a live object (class ");
        OF_POINTER(freed, "freed already (class ");
        OF_POINTER(freed + 15, "15 bytes into a freed object (class ");
        /* At hand next, and in the bitmap. */
        OF_POINTER(freed + ts_class_bytes[cls], "freed already, or never allocated (class ");
        OF_POINTER(slab + used - ts_class_bytes[cls], "freed already, or never allocated (class ");
        OF_POINTER(slab + used - ts_class_bytes[cls] + 3, "3 bytes into a free place (class ");
        if (used < TS_UNIT_BYTES) OF_POINTER(slab + used, "never allocated (class ");
        /* Refused a moment ago, and live by now. */
        OF_POINTER(object, "freed already, and given out again since (class ");
    }
    char *object = slab_malloc_epoch(allocator, 112, churn);
    assert_true(epoch_destroy(allocator, churn));
    OF_POINTER(object, "freed with its epoch (class 112, epoch ");
    OF_POINTER(object + 1, "1 byte into an object that was freed with its epoch (class 112, epoch ");
}

/* What seems to be the last word of a slab that is nobody's can be a part of its next use. Whatever it says, no memory
   without access is looked at. */
static void place_whose_last_word_is_none(void **state) {
    (void)state;
    void *p = slab_malloc_epoch(allocator, 64, churn);
    uint32_t unit = (uint32_t)(ts_entry_of(&ts_region.part[TS_NORMAL], p) >> TS_ENTRY_UNIT_SHIFT);
    ts_slab *slab = ts_slab_at(unit);
    uint64_t word = ts_load_relaxed(ts_unit_word(unit)), before = ts_load_relaxed(&slab->u.last_word);
    uint64_t group = ts_load_relaxed(&ts_region.generation_groups[0]);
    assert_int_equal(ts_fine_group(unit), 0);
    assert_true(mprotect((void *)(uintptr_t)ts_generation_word(0), (size_t)256 << 10, PROT_NONE) == 0);
    ts_store_relaxed(&ts_region.generation_groups[0], group & ~(uint64_t)1);
    ts_store_relaxed(ts_unit_word(unit), 0);
    ts_store_relaxed(&slab->u.last_word, word | TS_UNIT_HANDLED);
    OF_POINTER(p, "freed with its epoch (class ");
    ts_store_relaxed(&slab->u.last_word, before);
    ts_store_relaxed(ts_unit_word(unit), word);
    ts_store_relaxed(&ts_region.generation_groups[0], group);
    assert_true(mprotect((void *)(uintptr_t)ts_generation_word(0), (size_t)256 << 10, PROT_READ | PROT_WRITE) == 0);
    OF_POINTER(p, "freed already, and given out again since");
}

static void places_in_scope_slabs(void **state) {
    (void)state;
    char *first = slab_malloc_epoch(allocator, 100, scope), *second = slab_malloc_epoch(allocator, 100, scope);
    OF_POINTER(first + 17, "17 bytes into a live object (scope of 112, epoch ");
    OF_POINTER(second + 112, "never allocated (scope");
    assert_true(slab_free(allocator, first));
    OF_POINTER(first, "freed already (scope of 112, epoch ");
    OF_POINTER(first + 111, "111 bytes into a freed object (scope of 112");
    /* In a slab that is full, and behind its end. */
    char *last = second, *p;
    uint64_t entry;
    uint32_t unit = unit_of(second, &entry);
    for (p = slab_malloc_epoch(allocator, 2000, scope); unit_of(p, &entry) == unit;
         p = slab_malloc_epoch(allocator, 2000, scope))
        last = p;
    OF_POINTER(last + 1, "1 byte into a live object (scope of 2000");
    OF_POINTER(last + 2000, "never allocated (scope");
    EpochId next = epoch_open(allocator, NULL, EPOCH_SCOPE);
    assert_true(epoch_destroy(allocator, scope));
    OF_POINTER(last, "freed with its epoch (scope of 2000");
    OF_POINTER(p + 3, "3 bytes into an object that was freed with its epoch (scope");
    scope = next;
}

static void places_in_spans(void **state) {
    (void)state;
    char *live = slab_malloc_epoch(allocator, 100000, churn), *dead = slab_malloc_epoch(allocator, 100000, scope);
    OF_POINTER(live + 99999, "99999 bytes into a live object (span of 114688, epoch ");
    OF_POINTER(live + 7, "7 bytes into a live object (span of 114688, epoch ");
    assert_true(slab_free(allocator, live));
    OF_POINTER(live, "freed already (span of 114688, epoch ");
    assert_true(epoch_destroy(allocator, scope));
    OF_POINTER(dead, "freed with its epoch (span of 114688, epoch ");
    OF_POINTER(dead + 9, "9 bytes into an object that was freed with its epoch (span of 114688");
}

static void places_of_another_allocator(void **state) {
    (void)state;
    SlabAllocator *another = slab_allocator_create();
    char *object = slab_malloc(another, 100), *large = slab_malloc(another, 100000);
    OF_POINTER(object, "an object of another allocator (class 112");
    OF_POINTER(object + 3, "3 bytes into a live object of another allocator (class 112");
    OF_POINTER(large, "an object of another allocator (span of 114688");
    slab_allocator_free(another);
}

/* ---- handles ---------------------------------------------------------------------------------------------------- */

#define UNIT(h, n) (((h) & (((SlabHandle)1 << 42) - 1)) | (SlabHandle)(n) << 42)
#define KIND(h, k) (((h) & ~((SlabHandle)63 << 2)) | (SlabHandle)(k) << 2)
#define GENERATION(h, by) ((h) + ((SlabHandle)(by) << 18))

static void handles_that_are_none(void **state) {
    (void)state;
    SlabHandle handle;
    void *object = alloc_obj_epoch(allocator, 112, churn, &handle);
    uint64_t units = ts_region.part[TS_NORMAL].units;
    assert_non_null(object);
    OF_HANDLE(SLAB_HANDLE_NONE, "not a handle");
    for (unsigned format = 1; format < 4; format++) OF_HANDLE(handle ^ format, "not a handle");
    for (unsigned kind = TS_COUNT_KINDS; kind < TS_HANDLE_FAR; kind++) OF_HANDLE(KIND(handle, kind), "not a handle");
    OF_HANDLE(UNIT(handle, 0), "not a handle");
    if (units < (uint64_t)1 << 22) OF_HANDLE(UNIT(handle, units), "not a handle");
    OF_HANDLE(UNIT(handle, ts_region.part[TS_NORMAL].units - 1), "forged: this generation was never given out");
    OF_HANDLE(GENERATION(handle, 1), "forged: this generation was never given out (class 112");
    OF_HANDLE(ts_handle_pack_far(1u << 31, 5), "not a handle");
    if (ts_region.part[TS_FAR].units)
        OF_HANDLE(ts_handle_pack_far(5, 5), "forged: this generation was never given out");
    OF_HANDLE(KIND(handle, TS_COUNT_SCOPE), "forged: no object has it (class 112");
    OF_HANDLE(KIND(handle, TS_COUNT_SPAN), "forged: no object has it (class 112");
    OF_HANDLE(handle + (1u << 8), "forged: no object has it (class 112"); /* 16 bytes into it */
    OF_HANDLE(handle, "freed already, and given out again since (class 112");
    /* An object of whose slab no handle was made. */
    char *unnamed = slab_malloc_epoch(allocator, 2048, churn);
    uint64_t entry;
    uint32_t unit = unit_of(unnamed, &entry);
    unsigned cls = ts_classes.of[2048 / 16];
    SlabHandle made_up = (SlabHandle)unit << 42 | (SlabHandle)ts_load_relaxed(&ts_slab_at(unit)->gen) << 18 |
                         (entry % TS_UNIT_ENTRIES) << 8 | cls << 2 | 2u;
    OF_HANDLE(made_up, "forged: no object has it (class 2048");
}

static void handles_of_what_is_gone(void **state) {
    (void)state;
    SlabHandle handle, again;
    char *object = alloc_obj_epoch(allocator, 112, churn, &handle);
    assert_true(free_obj(allocator, handle));
    OF_HANDLE(handle, "freed already (class 112");
    OF_HANDLE(GENERATION(handle, 1), "forged: this generation was never given out (class 112");
    while (alloc_obj_epoch(allocator, 112, churn, &again) != object) {
    }
    OF_HANDLE(handle, "stale: freed already, and its place has had another object since (class 112");
    assert_true(epoch_destroy(allocator, churn));
    OF_HANDLE(again, "freed with its epoch (class 112");
    OF_HANDLE(handle, "stale: freed already, and its place has had another object since (class 112");
    churn = epoch_open(allocator, NULL, EPOCH_CHURN);
    while (slab_malloc_epoch(allocator, 112, churn) != object) {
    }
    OF_HANDLE(again, "stale: its slab has had another use since");
}

/* ---- epochs ------------------------------------------------------------------------------------------------------ */

static void epochs(void **state) {
    (void)state;
    uint64_t era = (uint64_t)1 << ts_epochs.index_bits;
    EpochId gone = epoch_open(allocator, "gone", EPOCH_CHURN), draining = epoch_open(allocator, "drains", EPOCH_CHURN);
    assert_non_null(slab_malloc_epoch(allocator, 10, draining));
    assert_true(epoch_destroy(allocator, gone) && epoch_close(allocator, draining));
    SAYS(ts_epoch_describe(&line, churn), "epoch ");
    assert_non_null(strstr(line.text, "\"churn\""));
    assert_null(strstr(line.text, ", ended"));
    SAYS(ts_epoch_describe(&line, draining), "epoch ");
    assert_non_null(strstr(line.text, "\"drains\", closed"));
    SAYS(ts_epoch_describe(&line, gone), "epoch ");
    assert_non_null(strstr(line.text, "\"gone\", ended"));
    assert_true(ts_table_is_past(&ts_epochs, gone) && ts_table_was_last(&ts_epochs, gone));
    assert_false(ts_table_is_past(&ts_epochs, churn) || ts_table_was_last(&ts_epochs, churn));
    assert_false(ts_table_is_past(&ts_epochs, EPOCH_NONE));
    assert_false(ts_table_is_past(&ts_epochs, gone % era));      /* of no era */
    assert_false(ts_table_is_past(&ts_epochs, era | (era - 1))); /* of no entry */
    assert_false(ts_table_is_past(&ts_epochs, gone + 2 * era));  /* of an era to come */
    EpochId next = epoch_open(allocator, NULL, EPOCH_CHURN);     /* takes the entry */
    assert_int_equal(next % era, gone % era);
    assert_true(ts_table_is_past(&ts_epochs, gone));
    assert_false(ts_table_was_last(&ts_epochs, gone));
    SAYS(ts_epoch_describe(&line, gone), "epoch ");
    assert_null(strstr(line.text, "\"gone\""));
    assert_non_null(strstr(line.text, ", ended"));
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(places_without_objects),        WITH(slots_that_are_retired),
        WITH(places_without_objects),        WITH(places_in_slabs_of_a_class),
        WITH(places_in_scope_slabs),         WITH(places_in_spans),
        WITH(places_of_another_allocator),   WITH(handles_that_are_none),
        WITH(handles_of_what_is_gone),       WITH(epochs),
        WITH(place_whose_last_word_is_none),
    };
    return cmocka_run_group_tests_name("observe.diagnose", tests, NULL, NULL);
}
