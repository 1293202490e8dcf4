/*
 * The region becomes smaller while threads allocate and free objects of all sizes, and free units become read-only:
 * live objects stay, and all structures are whole. Each part is a child.
 */
#include "check.h"
#include "in_child.h"
#include "stress.h"
#include "unit.h"

#include "api/api.h"
#include "api/runtime.h"
#include "memtools/memtools.h"
#include "os/os.h"
#include "region/region.h"
#include "walk/check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

enum { KEPT = 64, THREADS = 3 };
#define MIB ((size_t)1 << 20)

static SlabAllocator *allocator;
static EpochId churn;
static atomic_bool stop;
static atomic_uint turns[THREADS];

typedef struct object {
    char *p;
    size_t bytes;
    char mark;
} object;

static void make(object *o, struct sup_rng *rng) {
    static const size_t most[] = {64, 3000, 60000, 600000, 40 * MIB};
    o->bytes = 1 + sup_rng_below(rng, most[sup_rng_below(rng, 40) ? sup_rng_below(rng, 4) : 4]);
    o->p = slab_malloc_epoch(allocator, o->bytes, churn);
    SUP_CHECK(o->p || errno == ENOMEM, "slab_malloc_epoch: errno %d", errno);
    o->mark = (char)sup_rng_below(rng, 100);
    if (o->p) o->p[0] = o->p[o->bytes - 1] = o->mark;
}

static void end(object *o) {
    if (!o->p) return;
    SUP_CHECK(o->p[0] == o->mark && o->p[o->bytes - 1] == o->mark, "an object of %zu bytes", o->bytes);
    SUP_CHECK(slab_free(allocator, o->p), "slab_free");
    o->p = NULL;
}

static void work(void *argument, unsigned number) {
    struct sup_rng rng = {sup_mix(number) + 1};
    object kept[KEPT] = {{0}};
    (void)argument;
    while (!atomic_load(&stop)) {
        object *o = &kept[sup_rng_below(&rng, KEPT)];
        end(o);
        make(o, &rng);
        if (sup_rng_below(&rng, 300) == 0) (void)slab_trim(allocator);
        atomic_fetch_add(&turns[number], 1);
    }
    for (int i = 0; i < KEPT; i++) end(&kept[i]);
}

static void let_all_go_on(unsigned more) {
    for (unsigned i = 0; i < THREADS; i++)
        for (unsigned from = atomic_load(&turns[i]); atomic_load(&turns[i]) - from < more;) sup_sleep_ms(0);
}

static void beside_threads(void (*step)(unsigned), unsigned steps) {
    static ts_check walk;
    struct stress_crew crew;
    allocator = slab_allocator_create();
    churn = epoch_open(allocator, "churn", EPOCH_CHURN);
    stress_start(&crew, THREADS, work, NULL);
    for (unsigned i = 0; i < steps; i++) {
        let_all_go_on(300);
        step(i);
    }
    let_all_go_on(300);
    atomic_store(&stop, true);
    stress_join(&crew);
    SUP_CHECK(ts_check_all(&walk, true), "%s", walk.why); /* units that went back are nobody's */
    void *p = slab_malloc_epoch(allocator, 1000, churn);
    SUP_CHECK(p && slab_free(allocator, p), "afterwards");
}

static void limit_address_space(unsigned turn) {
    ts_private_limit_address_space((uint64_t)(4096u >> turn) * MIB);
    SUP_CHECK(ts_region.far_bytes == SIZE_MAX, "the FAR part is there still");
}

static void shrink(void *argument) {
    (void)argument;
    SlabAllocator *other = slab_allocator_create();
    size_t bytes = ts_load_relaxed(&ts_region.far_bytes) + 1;
    char *far = slab_malloc(other, bytes);
    SUP_CHECK(far && ts_is_data_of(TS_FAR, far), "an object of the FAR part");
    far[0] = far[bytes - 1] = 'f';
    beside_threads(limit_address_space, 4);
    SUP_CHECK(far[0] == 'f' && far[bytes - 1] == 'f' && slab_free(other, far), "the object of the FAR part");
    uint64_t reserved = ts_load_relaxed(&ts_region.reserved_bytes);
    SUP_CHECK(reserved < UINT64_C(8) << 30, "%" PRIu64 " bytes reserved", reserved);
}

static void limit_data(unsigned turn) {
    (void)turn;
    ts_private_limit_data();
    SUP_CHECK(ts_private_is_data_limited(), "data is not limited");
}

/* Whether the system can read a byte into it. */
static bool is_writable(char *p) {
    int zeros = open("/dev/zero", O_RDONLY);
    bool is = read(zeros, p, 1) == 1;
    SUP_CHECK(zeros >= 0 && (is || errno == EFAULT) && close(zeros) == 0, "errno %d", errno);
    return is;
}

static void freeze(void *argument) {
    (void)argument;
    beside_threads(limit_data, 2);
    char *p = slab_malloc_epoch(allocator, 8 * MIB, churn);
    SUP_CHECK(p && is_writable(p), "an object");
    SUP_CHECK(slab_free(allocator, p) && slab_trim(allocator) > 0 && !is_writable(p), "what was an object");
}

static void a_smaller_region(void **state) {
    (void)state;
    slab_allocator_free(slab_allocator_create()); /* the first looks for tools */
    if (!ts_care_tools && sizeof(void *) == 8) sup_in_child(shrink, NULL);
}

static void read_only_when_free(void **state) {
    (void)state;
    if (!ts_care_tools && ts_os_page_bytes() <= TS_UNIT_BYTES) sup_in_child(freeze, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_smaller_region), cmocka_unit_test(read_only_when_free)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
