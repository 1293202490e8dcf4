/* The emulated device: each rule of a zoned namespace, the contents of the file afterwards, and the files that it
   refuses to open. */
#define _GNU_SOURCE
#include "support.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BLOCK 4096u
static char *memory; /* 1 MiB, aligned */

static ts_device *open_device(const char *parameters) {
    char path[512];
    ts_emulated_parameters p;
    (void)unlink(zt_path());
    assert_true(ts_emulated_parse(strchr(zt_where(parameters), ':') + 1, path, sizeof path, &p));
    ts_device *d = ts_emulated_open(path, &p);
    assert_non_null(d);
    return d;
}

static bool put(ts_device *d, uint32_t zone, size_t bytes, uint64_t *at) {
    struct iovec iov = {memory, bytes};
    return d->call->append(d, zone, &iov, 1, at);
}
static bool get(ts_device *d, uint32_t zone, uint64_t at, char *to, size_t bytes) {
    struct iovec iov = {to, bytes};
    return d->call->read(d, zone, at, &iov, 1);
}
static ts_zone_report look(ts_device *d, uint32_t zone) {
    ts_zone_report r;
    assert_true(d->call->report(d, zone, &r));
    return r;
}
static void is_in(ts_device *d, uint32_t zone, ts_zone_state state, uint64_t written) {
    ts_zone_report r = look(d, zone);
    assert_int_equal(r.state, state);
    assert_int_equal(r.written, written);
}
#define REFUSED(call, error)            \
    do {                                \
        errno = 0;                      \
        assert_false(call);             \
        assert_int_equal(errno, error); \
    } while (0)

static void states(void **s) {
    (void)s;
    ts_device *d = open_device("zones=4&zone_size=64K&zone_capacity=48K");
    uint64_t at;
    is_in(d, 0, TS_ZONE_EMPTY, 0);
    assert_int_equal(look(d, 0).capacity, 48 << 10);
    assert_true(put(d, 0, 2 * BLOCK, &at) && at == 0);
    is_in(d, 0, TS_ZONE_IMPLICITLY_OPEN, 2 * BLOCK);
    assert_true(put(d, 0, BLOCK, &at) && at == 2 * BLOCK); /* the append answers the place */
    assert_true(d->call->open(d, 0));
    is_in(d, 0, TS_ZONE_EXPLICITLY_OPEN, 3 * BLOCK);
    assert_true(put(d, 0, BLOCK, &at) && at == 3 * BLOCK);
    is_in(d, 0, TS_ZONE_EXPLICITLY_OPEN, 4 * BLOCK);
    assert_true(d->call->close(d, 0));
    is_in(d, 0, TS_ZONE_CLOSED, 4 * BLOCK);
    assert_true(put(d, 0, BLOCK, &at));
    is_in(d, 0, TS_ZONE_IMPLICITLY_OPEN, 5 * BLOCK);
    assert_true(d->call->finish(d, 0));
    is_in(d, 0, TS_ZONE_FULL, 5 * BLOCK);
    REFUSED(put(d, 0, BLOCK, &at), EIO);
    REFUSED(d->call->open(d, 0), EIO);
    REFUSED(d->call->close(d, 0), EIO);
    assert_true(d->call->finish(d, 0)); /* full it is */
    assert_true(d->call->reset(d, 0));
    is_in(d, 0, TS_ZONE_EMPTY, 0);
    assert_true(d->call->reset(d, 0)); /* empty it is */
    REFUSED(d->call->close(d, 0), EIO);
    assert_true(d->call->finish(d, 1));
    is_in(d, 1, TS_ZONE_FULL, 0);
    assert_true(d->call->open(d, 2) && d->call->close(d, 2));
    is_in(d, 2, TS_ZONE_CLOSED, 0);
    assert_true(d->call->reset(d, 2));
    REFUSED(d->call->reset(d, 4), EINVAL);
    d->call->end(d);
}

static void capacity(void **s) {
    (void)s;
    ts_device *d = open_device("zones=2&zone_size=64K&zone_capacity=48K");
    uint64_t at;
    assert_true(put(d, 0, 44 << 10, &at));
    REFUSED(put(d, 0, 8 << 10, &at), EIO); /* beyond the capacity: nothing of it */
    is_in(d, 0, TS_ZONE_IMPLICITLY_OPEN, 44 << 10);
    assert_true(put(d, 0, BLOCK, &at) && at == 44 << 10);
    is_in(d, 0, TS_ZONE_FULL, 48 << 10);
    REFUSED(put(d, 0, 100, &at), EINVAL);
    REFUSED(put(d, 0, 0, &at), EINVAL);
    REFUSED(put(d, 1, 2 << 20, &at), EINVAL); /* more than one append takes */
    d->call->end(d);
}

static void bytes(void **s) {
    (void)s;
    ts_device *d = open_device("zones=2&zone_size=64K&zone_capacity=48K");
    uint64_t at;
    char *back = memory + (512 << 10);
    for (size_t i = 0; i < 128 << 10; i++) memory[i] = (char)(i * 31 + i / 4096);
    struct iovec iov[3] = {{memory, BLOCK}, {memory + 3 * BLOCK, 2 * BLOCK}, {memory + BLOCK, BLOCK}};
    assert_true(d->call->append(d, 1, iov, 3, &at) && at == 0);
    assert_true(get(d, 1, 0, back, 4 * BLOCK));
    assert_memory_equal(back, memory, BLOCK);
    assert_memory_equal(back + BLOCK, memory + 3 * BLOCK, 2 * BLOCK);
    assert_memory_equal(back + 3 * BLOCK, memory + BLOCK, BLOCK);
    /* Unwritten blocks read as zero: behind the write pointer, behind the capacity, after a reset. */
    memset(back, 1, 3 * BLOCK);
    assert_true(get(d, 1, 3 * BLOCK, back, 3 * BLOCK));
    assert_memory_equal(back, memory + BLOCK, BLOCK);
    for (size_t i = BLOCK; i < 3 * BLOCK; i++) assert_int_equal(back[i], 0);
    assert_true(get(d, 1, 60 << 10, back, BLOCK) && back[0] == 0);
    REFUSED(get(d, 1, 64 << 10, back, BLOCK), EINVAL);
    REFUSED(get(d, 1, 100, back, BLOCK), EINVAL);
    assert_true(d->call->reset(d, 1));
    back[0] = 1;
    assert_true(get(d, 1, 0, back, BLOCK) && back[0] == 0);
    /* After a rewrite only the new blocks. */
    assert_true(put(d, 1, BLOCK, &at) && get(d, 1, BLOCK, back, BLOCK) && back[0] == 0);
    d->call->end(d);
}

static void open_limit(void **s) {
    (void)s;
    ts_device *d = open_device("zones=8&zone_size=64K&max_open=2&max_active=5");
    uint64_t at;
    /* A zone that a write opened is closed to make room. */
    assert_true(put(d, 0, BLOCK, &at) && put(d, 1, BLOCK, &at) && put(d, 2, BLOCK, &at));
    is_in(d, 0, TS_ZONE_CLOSED, BLOCK);
    is_in(d, 2, TS_ZONE_IMPLICITLY_OPEN, BLOCK);
    /* One that was opened by command is not. */
    assert_true(d->call->open(d, 1) && d->call->open(d, 2));
    REFUSED(put(d, 0, BLOCK, &at), ETOOMANYREFS);
    REFUSED(put(d, 3, BLOCK, &at), ETOOMANYREFS);
    REFUSED(d->call->open(d, 3), ETOOMANYREFS);
    is_in(d, 3, TS_ZONE_EMPTY, 0);
    assert_true(put(d, 1, BLOCK, &at));
    assert_true(d->call->close(d, 1) && put(d, 0, BLOCK, &at) && at == BLOCK);
    assert_true(d->call->finish(d, 2) && d->call->open(d, 3));
    d->call->end(d);
}

static void active_limit(void **s) {
    (void)s;
    ts_device *d = open_device("zones=8&zone_size=64K&max_open=2&max_active=3");
    uint64_t at;
    for (uint32_t z = 0; z < 3; z++) assert_true(put(d, z, BLOCK, &at));
    REFUSED(put(d, 3, BLOCK, &at), EOVERFLOW);
    REFUSED(d->call->open(d, 3), EOVERFLOW);
    is_in(d, 3, TS_ZONE_EMPTY, 0);
    assert_true(put(d, 0, BLOCK, &at)); /* one of them can be written */
    assert_true(d->call->finish(d, 0) && put(d, 3, BLOCK, &at));
    REFUSED(put(d, 4, BLOCK, &at), EOVERFLOW);
    assert_true(d->call->reset(d, 1) && put(d, 4, BLOCK, &at));
    REFUSED(put(d, 5, BLOCK, &at), EOVERFLOW);
    assert_true(put(d, 4, (60 << 10), &at)); /* full: not active any more */
    is_in(d, 4, TS_ZONE_FULL, 64 << 10);
    assert_true(put(d, 5, BLOCK, &at));
    assert_true(d->call->finish(d, 6)); /* an empty zone becomes full without being active */
    d->call->end(d);
}

static ts_emulated_fault next_fault;
static ts_emulated_fault once(void *arg, ts_emulated_call call, uint32_t zone) {
    (void)arg, (void)call, (void)zone;
    ts_emulated_fault f = next_fault;
    next_fault = TS_FAULT_NONE;
    return f;
}

static void faults(void **s) {
    (void)s;
    ts_device *d = open_device("zones=8&zone_size=64K");
    uint64_t at;
    char *back = memory + (512 << 10);
    memset(memory, 7, 64 << 10);
    ts_emulated_hooks_now.fault = once;
    next_fault = TS_FAULT_REFUSED;
    REFUSED(put(d, 0, 4 * BLOCK, &at), EIO);
    is_in(d, 0, TS_ZONE_EMPTY, 0);
    next_fault = TS_FAULT_TORN; /* half of it is there */
    REFUSED(put(d, 0, 4 * BLOCK, &at), EIO);
    is_in(d, 0, TS_ZONE_IMPLICITLY_OPEN, 2 * BLOCK);
    assert_true(get(d, 0, BLOCK, back, 2 * BLOCK) && back[BLOCK - 1] == 7 && back[BLOCK] == 0);
    assert_true(put(d, 0, BLOCK, &at) && at == 2 * BLOCK);
    next_fault = TS_FAULT_LATE; /* all of it is there, and it does not say so */
    REFUSED(put(d, 0, BLOCK, &at), EIO);
    is_in(d, 0, TS_ZONE_IMPLICITLY_OPEN, 4 * BLOCK);
    next_fault = TS_FAULT_READ_ONLY;
    REFUSED(put(d, 0, BLOCK, &at), EIO);
    assert_int_equal(look(d, 0).state, TS_ZONE_READ_ONLY);
    assert_true(get(d, 0, 0, back, BLOCK) && back[0] == 7); /* the written blocks can be read */
    REFUSED(put(d, 0, BLOCK, &at), EIO);
    REFUSED(d->call->reset(d, 0), EIO);
    REFUSED(d->call->finish(d, 0), EIO);
    REFUSED(d->call->open(d, 0), EIO);
    assert_true(put(d, 1, BLOCK, &at));
    next_fault = TS_FAULT_OFFLINE;
    REFUSED(get(d, 1, 0, back, BLOCK), EIO);
    assert_int_equal(look(d, 1).state, TS_ZONE_OFFLINE);
    REFUSED(get(d, 1, 0, back, BLOCK), EIO);
    REFUSED(d->call->reset(d, 1), EIO);
    REFUSED(put(d, 1, BLOCK, &at), EIO);
    ts_emulated_hooks_now.fault = NULL;
    d->call->end(d);
}

static void reopening(void **s) {
    (void)s;
    ts_device *d = open_device("zones=8&zone_size=64K&zone_capacity=48K&max_open=2&max_active=3");
    uint64_t at;
    char *back = memory + (512 << 10);
    memset(memory, 9, 64 << 10);
    assert_true(put(d, 0, BLOCK, &at) && put(d, 1, 48 << 10, &at) && put(d, 2, 2 * BLOCK, &at) && d->call->close(d, 2));
    assert_true(put(d, 3, BLOCK, &at));
    ts_emulated_hooks_now.fault = once;
    next_fault = TS_FAULT_READ_ONLY;
    REFUSED(put(d, 5, BLOCK, &at), EIO);
    ts_emulated_hooks_now.fault = NULL;
    ts_emulated_parameters none = {0}, same = {.zones = 8, .given = 1}, other = {.max_active = 4, .given = 16};
    /* Locked while it is open, here too. */
    REFUSED(ts_emulated_open(zt_path(), &none), EBUSY);
    d->call->end(d);
    REFUSED(ts_emulated_open(zt_path(), &other), EINVAL);
    d = ts_emulated_open(zt_path(), &same);
    assert_non_null(d);
    assert_int_equal(d->max_open, 2);
    assert_int_equal(d->max_active, 3);
    assert_int_equal(d->capacity, 48 << 10);
    is_in(d, 0, TS_ZONE_IMPLICITLY_OPEN, BLOCK);
    is_in(d, 1, TS_ZONE_FULL, 48 << 10);
    is_in(d, 2, TS_ZONE_CLOSED, 2 * BLOCK);
    is_in(d, 4, TS_ZONE_EMPTY, 0);
    assert_int_equal(look(d, 5).state, TS_ZONE_READ_ONLY);
    REFUSED(put(d, 6, BLOCK, &at), EOVERFLOW); /* the limits count the zones from before */
    assert_true(get(d, 1, 44 << 10, back, BLOCK) && back[5] == 9);
    d->call->end(d);
}

static char said[1024];
static void sink(const char *line, size_t length, void *arg) {
    (void)arg;
    (void)snprintf(said, sizeof said, "%.*s", (int)length, line);
}

static void bad_parameters(void **s) {
    (void)s;
    static const struct {
        const char *parameters, *named;
    } bad[] = {{"zone=64", "zone"},
               {"zones", "zones"},
               {"zones=", "zones="},
               {"zones=0", "zones=0"},
               {"zones=many", "zones=many"},
               {"zones=70000", "zones"},
               {"zones=4&zones=4", "twice"},
               {"zones=4&&max_open=1", "parameter"},
               {"zone_size=4T", "zone_size=4T"},
               {"zone_size=5000", "zone_size"},
               {"zone_size=8K", "zone_size"},
               {"zone_size=64K&zone_capacity=128K", "zone_capacity"},
               {"zone_capacity=4K", "zone_capacity"},
               {"zone_capacity=99999999999999999999G", "zone_capacity"},
               {"zones=4&max_open=5", "max_open"},
               {"zones=4&max_active=5", "max_active"},
               {"zones=8&max_open=4&max_active=2", "max_open"},
               {"max_open=-1", "max_open=-1"}};
    (void)unlink(zt_path());
    slab_set_message_sink(sink, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        said[0] = 0;
        REFUSED(slab_zones_open(zt_where(bad[i].parameters), NULL), EINVAL);
        assert_true(strstr(said, "tslab: zones: ") == said);
        assert_non_null(strstr(said + 14, bad[i].named));
        assert_int_equal(access(zt_path(), F_OK), -1); /* nothing was made */
    }
    REFUSED(slab_zones_open("emulated:", NULL), EINVAL);
    REFUSED(slab_zones_open("tape:0", NULL), EINVAL);
    assert_non_null(strstr(said, "tape:0"));
    REFUSED(slab_zones_open(NULL, NULL), EINVAL);
    REFUSED(slab_zones_open("emulated:/nowhere/at/all", NULL), ENOENT);
    SlabZonesOptions none = {.size = 1};
    REFUSED(slab_zones_open(zt_where("zones=4"), &none), EINVAL);
    /* A file that is something else stays as it is. */
    FILE *f = fopen(zt_path(), "w");
    assert_true(f && fputs("a letter", f) >= 0 && fclose(f) == 0);
    REFUSED(slab_zones_open(zt_where("zones=4"), NULL), EINVAL);
    assert_non_null(strstr(said, "something else"));
    char text[16] = {0};
    f = fopen(zt_path(), "r");
    assert_true(f && fgets(text, sizeof text, f) && fclose(f) == 0);
    assert_string_equal(text, "a letter");
    (void)unlink(zt_path());
    /* The message on an open device names the process that has it. */
    SlabZones *zones = zt_open("zones=4");
    REFUSED(slab_zones_open(zt_where("zones=4"), NULL), EBUSY);
    char me[64];
    (void)snprintf(me, sizeof me, "process %ld", (long)getpid());
    assert_non_null(strstr(said, me));
    assert_true(slab_zones_close(zones));
    REFUSED(slab_zones_open(zt_where("zones=5"), NULL), EINVAL);
    assert_non_null(strstr(said, "zones=4"));
    REFUSED(slab_zones_close(zones), EINVAL); /* closed already */
    slab_set_message_sink(NULL, NULL);
}

int main(void) {
    if (posix_memalign((void **)(void *)&memory, BLOCK, 2 << 20) != 0) return 1;
    memset(memory, 0, 2 << 20);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states),     cmocka_unit_test(capacity),       cmocka_unit_test(bytes),
        cmocka_unit_test(open_limit), cmocka_unit_test(active_limit),   cmocka_unit_test(faults),
        cmocka_unit_test(reopening),  cmocka_unit_test(bad_parameters),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(memory);
    return failed;
}
