/*
 * The calls of NUMA, against a kernel that is played here with the rules that catch others: a mask is read up to one
 * bit less than its length says, one that is shorter than the kernel's own is refused, nodes have ids with gaps, and a
 * node that has no memory or is outside of the cpuset may not be asked for.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static long played(long number, ...);
#define syscall played
#include "os/numa.c"
#undef syscall

#if defined(SYS_mbind)

#define PAGE 4096u
#define LONG_BITS (8u * sizeof(unsigned long))

static struct {
    unsigned node_ids;   /* the kernel's own count of possible nodes */
    ts_numa_set allowed; /* nodes with memory, within the cpuset */
    int task_mode;       /* set_mempolicy's */
    ts_numa_set task_nodes;
    int refuse;         /* errno of every call, 0: none */
    long refuse_number; /* of this call alone, 0: of every one */
    int bound_mode;     /* of the last mbind */
    ts_numa_set bound;
    unsigned calls;
    unsigned watched, watched_reads; /* each third page has its access taken away, till it is read; reads so far */
    bool refuse_reads;
} kernel;

static long refuse_with(int error) {
    errno = error;
    return -1;
}

static bool is_empty(const ts_numa_set *set) {
    for (size_t i = 0; i < sizeof set->bits / sizeof *set->bits; i++)
        if (set->bits[i]) return false;
    return true;
}

/* get_nodes of mm/mempolicy.c. */
static long read_mask(const unsigned long *mask, unsigned long maxnode, ts_numa_set *out) {
    memset(out, 0, sizeof *out);
    maxnode--;
    if (maxnode == 0 || maxnode == ~0ul || !mask) return 0;
    if (maxnode > PAGE * 8) return refuse_with(EINVAL);
    for (unsigned long bit = 0; bit < maxnode; bit++) {
        if (!(mask[bit / LONG_BITS] >> bit % LONG_BITS & 1)) continue;
        if (bit >= kernel.node_ids) return refuse_with(EINVAL);
        (void)ts_numa_set_add(out, (int)bit);
    }
    return 0;
}

/* copy_nodes_to_user. */
static long write_mask(unsigned long *mask, unsigned long maxnode, const ts_numa_set *set) {
    unsigned long copy = ((maxnode - 1 + 63) & ~63ul) / 8,
                  own = (kernel.node_ids + LONG_BITS - 1) / LONG_BITS * sizeof(long);
    if (copy > own) {
        if (copy > PAGE) return refuse_with(EINVAL);
        memset((char *)mask + own, 0, copy - own);
        copy = own;
    }
    memcpy(mask, set->bits, copy);
    return 0;
}

static bool was_read[1024];

/* Where an address is: the kernel reads there. */
static long play_node_of(int *node, uintptr_t address) {
    if (kernel.refuse_reads) return refuse_with(EPERM);
    was_read[address / ts_os_page_bytes()] = true;
    kernel.watched_reads++;
    *node = 5;
    return 0;
}

static long play_get_mempolicy(int *mode, unsigned long *mask, unsigned long maxnode, unsigned long flags) {
    if (mask && maxnode < kernel.node_ids) return refuse_with(EINVAL);
    if (flags & MEMORY_ALLOWED) return mode ? refuse_with(EINVAL) : write_mask(mask, maxnode, &kernel.allowed);
    bool of_range = (flags & OF_ADDRESS) != 0;
    if (mode) *mode = of_range ? kernel.bound_mode : kernel.task_mode;
    return mask ? write_mask(mask, maxnode, of_range ? &kernel.bound : &kernel.task_nodes) : 0;
}

static long play_mbind(int mode, const unsigned long *mask, unsigned long maxnode) {
    ts_numa_set nodes;
    if (read_mask(mask, maxnode, &nodes) != 0) return -1;
    if (mode == POLICY_DEFAULT ? !is_empty(&nodes) : mode != POLICY_PREFERRED && is_empty(&nodes))
        return refuse_with(EINVAL);
    bool none = is_empty(&nodes);
    for (size_t i = 0; i < sizeof nodes.bits / sizeof *nodes.bits; i++) nodes.bits[i] &= kernel.allowed.bits[i];
    if (!none && is_empty(&nodes)) return refuse_with(EINVAL);
    kernel.bound_mode = mode;
    kernel.bound = nodes;
    return 0;
}

/* Of three pages two are on the node of that number; the third is not there, or watched. */
static int play_status(uintptr_t page) {
    if (page % 3 != 2) return (int)(page % 3);
    return kernel.watched != 0 && was_read[page] ? 5 : -ENOENT;
}

static long played(long number, ...) {
    va_list args;
    long result = 0;
    kernel.calls++;
    if (kernel.refuse && (kernel.refuse_number == 0 || kernel.refuse_number == number))
        return refuse_with(kernel.refuse);
    va_start(args, number);
    if (number == SYS_get_mempolicy) {
        int *mode = va_arg(args, int *);
        unsigned long *mask = va_arg(args, unsigned long *), maxnode = va_arg(args, unsigned long);
        uintptr_t address = (uintptr_t)va_arg(args, void *);
        unsigned long flags = (unsigned long)va_arg(args, int);
        result = flags & ITS_NODE ? play_node_of(mode, address) : play_get_mempolicy(mode, mask, maxnode, flags);
    } else if (number == SYS_mbind) {
        (void)va_arg(args, void *);
        (void)va_arg(args, size_t);
        int mode = va_arg(args, int);
        const unsigned long *mask = va_arg(args, unsigned long *);
        result = play_mbind(mode, mask, va_arg(args, unsigned long));
    } else if (number == SYS_move_pages) {
        (void)va_arg(args, int);
        unsigned long count = va_arg(args, unsigned long);
        const void *pages = va_arg(args, void *);
        void *const *at = (void *const *)pages;
        const int *to = va_arg(args, int *);
        int *status = va_arg(args, int *);
        assert_null(to);
        for (unsigned long i = 0; i < count; i++) status[i] = play_status((uintptr_t)at[i] / ts_os_page_bytes());
    } else if (number == SYS_mincore) {
        uintptr_t page = va_arg(args, uintptr_t);
        (void)va_arg(args, size_t);
        assert_int_equal(page % ts_os_page_bytes(), 0);
        *va_arg(args, unsigned char *) = page / ts_os_page_bytes() % 3 != 2 || kernel.watched != 0;
    } else {
        assert_int_equal(number, SYS_getcpu);
        *va_arg(args, unsigned *) = 9;
        *va_arg(args, unsigned *) = 7;
    }
    va_end(args);
    return result;
}

static int begin(void **state) {
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    memset(was_read, 0, sizeof was_read);
    kernel.node_ids = 8;
    return 0;
}

static void allow(int node) { assert_true(ts_numa_set_add(&kernel.allowed, node)); }

/* The node that a mask with one bit too few loses: shown first, so that the rest of this file can find it. */
static void one_bit_too_few(void **state) {
    (void)state;
    unsigned long mask[16] = {1ul << 3};
    ts_numa_set seen;
    assert_int_equal(read_mask(mask, 4, &seen), 0);
    assert_true(is_empty(&seen));
    assert_int_equal(read_mask(mask, 5, &seen), 0);
    assert_true(ts_numa_set_has(&seen, 3));
}

static void each_node_of_each_kernel(void **state) {
    (void)state;
    static const unsigned ids[] = {1, 2, 4, 8, 63, 64, 65, 128, 1024};
    for (size_t k = 0; k < sizeof ids / sizeof *ids; k++) {
        kernel.node_ids = ids[k];
        memset(&kernel.allowed, 0, sizeof kernel.allowed);
        for (unsigned node = 0; node < ids[k]; node++) allow((int)node);
        int found[1024];
        assert_int_equal(ts_numa_nodes(found, 1024), ids[k]);
        for (unsigned node = 0; node < ids[k]; node++) {
            assert_int_equal(found[node], node);
            assert_true(ts_numa_bind(NULL, 0, (int)node));
            assert_int_equal(kernel.bound_mode, POLICY_PREFERRED);
            ts_numa_set only = {{0}};
            assert_true(ts_numa_set_add(&only, (int)node));
            assert_memory_equal(&kernel.bound, &only, sizeof only);
        }
        assert_true(ts_numa_bind(NULL, 0, TS_NODE_EACH));
        assert_int_equal(kernel.bound_mode, POLICY_INTERLEAVE);
        assert_memory_equal(&kernel.bound, &kernel.allowed, sizeof kernel.bound);
        assert_true(ts_numa_bind(NULL, 0, TS_NODE_ANY));
        assert_int_equal(kernel.bound_mode, POLICY_DEFAULT);
        assert_true(is_empty(&kernel.bound));
    }
}

static void ids_with_gaps(void **state) {
    (void)state;
    kernel.node_ids = 256;
    allow(0), allow(8), allow(250), allow(255);
    int found[3] = {-1, -1, -1};
    assert_int_equal(ts_numa_nodes(found, 3), 4); /* more than there is room for */
    assert_int_equal(found[0], 0);
    assert_int_equal(found[1], 8);
    assert_int_equal(found[2], 250);
    assert_true(ts_numa_bind(NULL, 0, 255));
    assert_true(ts_numa_set_has(&kernel.bound, 255));
    errno = 0;
    assert_false(ts_numa_bind(NULL, 0, 9)); /* no memory there, or not for us */
    assert_false(ts_numa_bind(NULL, 0, 300));
    assert_false(ts_numa_bind(NULL, 0, 1024));
    assert_false(ts_numa_bind(NULL, 0, -7));
    assert_int_equal(errno, 0);
}

static void bound_by_the_user(void **state) {
    (void)state;
    allow(0), allow(1), allow(2);
    kernel.task_mode = POLICY_BIND | 1 << 15; /* with a flag */
    assert_true(ts_numa_set_add(&kernel.task_nodes, 1) && ts_numa_set_add(&kernel.task_nodes, 2));
    int found[8];
    assert_int_equal(ts_numa_nodes(found, 8), 2);
    assert_int_equal(found[0], 1);
    kernel.task_mode = POLICY_INTERLEAVE; /* which binds to nothing */
    assert_int_equal(ts_numa_nodes(found, 8), 3);
}

static void refused(void **state) {
    (void)state;
    static const int errors[] = {EPERM, ENOSYS};
    allow(0), allow(1);
    for (size_t i = 0; i < 2; i++) {
        int found[8], where = 5;
        void *const at[1] = {NULL};
        kernel.refuse = errors[i];
        errno = 77;
        assert_int_equal(ts_numa_nodes(found, 8), 0);
        assert_false(ts_numa_bind(NULL, 0, 0));
        assert_false(ts_numa_bind(NULL, 0, TS_NODE_EACH));
        assert_false(ts_numa_nodes_of(at, 1, &where));
        assert_int_equal(where, 5);
        assert_int_equal(errno, 77);
    }
    kernel.refuse_number = SYS_mbind;
    int found[8];
    assert_int_equal(ts_numa_nodes(found, 8), 2);
    assert_false(ts_numa_bind(NULL, 0, 1));
}

#define PAGES 500u
static void *page_at[PAGES];
static int page_node[PAGES];

static void ask_pages(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        page_at[i] = (char *)((uintptr_t)i * ts_os_page_bytes()) + 1; /* any address in it */
        page_node[i] = 9;
    }
    errno = 77;
    assert_true(ts_numa_nodes_of(page_at, count, page_node));
    assert_int_equal(errno, 77);
}

static void pages(void **state) {
    (void)state;
    ask_pages(4);
    assert_int_equal(page_node[0], 0);
    assert_int_equal(page_node[1], 1);
    assert_int_equal(page_node[2], -1);
    assert_int_equal(page_node[3], 0);
    assert_int_equal(kernel.watched_reads, 0); /* a missing node is not invented */
}

/* Pages of which the kernel watches the use have a node all the same. */
static void watched_pages(void **state) {
    (void)state;
    kernel.watched = 1;
    kernel.refuse_reads = true;
    ask_pages(PAGES);
    assert_int_equal(page_node[2], -1);
    kernel.refuse_reads = false;
    ask_pages(PAGES);
    for (unsigned i = 0; i < PAGES; i++) assert_int_equal(page_node[i], i % 3 == 2 ? 5 : i % 3);
    assert_int_equal(kernel.watched_reads, PAGES / 3);
}

/* The binding that a mapping over a range takes away comes back. */
static void bound_again(void **state) {
    (void)state;
    allow(0), allow(5);
    ts_numa_policy policy;
    assert_true(ts_numa_bind(NULL, 0, 5) && ts_numa_bound());
    ts_numa_policy_of(NULL, &policy);
    assert_true(ts_numa_bind(NULL, 0, TS_NODE_ANY));
    ts_numa_bind_again(NULL, 0, &policy);
    assert_int_equal(kernel.bound_mode, POLICY_PREFERRED);
    assert_true(ts_numa_set_has(&kernel.bound, 5) && !ts_numa_set_has(&kernel.bound, 0));
    assert_true(ts_numa_bind(NULL, 0, TS_NODE_ANY));
    ts_numa_policy_of(NULL, &policy);
    ts_numa_bind_again(NULL, 0, &policy);
    assert_int_equal(kernel.bound_mode, POLICY_DEFAULT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_bit_too_few, begin), cmocka_unit_test_setup(each_node_of_each_kernel, begin),
        cmocka_unit_test_setup(ids_with_gaps, begin),   cmocka_unit_test_setup(bound_by_the_user, begin),
        cmocka_unit_test_setup(refused, begin),         cmocka_unit_test_setup(pages, begin),
        cmocka_unit_test_setup(bound_again, begin),     cmocka_unit_test_setup(watched_pages, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) { return 77; /* a system without these calls */ }

#endif
