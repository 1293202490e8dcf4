/*
 * The emulated device and a real one are the same to the library: random sequences of calls are answered alike,
 * states and bytes included. Then epochs go to the real one and come back. TSLAB_ZONED_DEVICE names it (default
 * /dev/nvme0n1, in the machine of tests/vm); all of its data is lost. --programs N sequences, --ops N calls each,
 * --seed N.
 */
#define _GNU_SOURCE
#include "rng.h"
#include "support.h"
#include "zones/zoned.h"

#include <fcntl.h>
#include <sys/stat.h>

#define BLOCK 4096u
#define MOST (16u * BLOCK)

static ts_device *real, *emulated;
static char *memory, *from_real, *from_emulated;

static ts_device *make_emulated(void) {
    char path[512];
    ts_emulated_parameters p;
    char parameters[256];
    (void)snprintf(parameters, sizeof parameters,
                   "zones=%u&zone_size=%llu&zone_capacity=%llu&max_open=%u&max_active=%u", real->zones,
                   (unsigned long long)real->zone_bytes, (unsigned long long)real->capacity, real->max_open,
                   real->max_active);
    SUP_CHECK(ts_emulated_parse(strchr(zt_where(parameters), ':') + 1, path, sizeof path, &p), "%s", parameters);
    ts_device *d = ts_emulated_open(path, &p);
    SUP_CHECK(d, "%s", strerror(errno));
    return d;
}

static void agree(bool a, int a_error, bool b, int b_error, const char *what, uint32_t zone) {
    SUP_CHECK(a == b, "%s of zone %u: the device %s (%s), the emulated one %s (%s)", what, zone, a ? "does" : "refuses",
              a ? "" : strerror(a_error), b ? "does" : "refuses", b ? "" : strerror(b_error));
}

static void look(uint32_t zone) {
    ts_zone_report a, b;
    SUP_CHECK(real->call->report(real, zone, &a) && emulated->call->report(emulated, zone, &b), "%s", strerror(errno));
    SUP_CHECK(a.state == b.state && a.capacity == b.capacity && (a.state == TS_ZONE_FULL || a.written == b.written),
              "zone %u: the device says state %d, %llu bytes; the emulated one %d, %llu", zone, a.state,
              (unsigned long long)a.written, b.state, (unsigned long long)b.written);
}

#define BOTH(name)                                      \
    do {                                                \
        errno = 0;                                      \
        bool a_ = real->call->name(real, zone);         \
        int a_error_ = errno;                           \
        errno = 0;                                      \
        bool b_ = emulated->call->name(emulated, zone); \
        agree(a_, a_error_, b_, errno, #name, zone);    \
    } while (0)

/* Where the standard of NVMe and that of SCSI and ATA differ: of a zone without data that is closed the latter say it
   is empty. The emulated device has the former's rules, and null_blk the latter's. */
static bool empty_when_closed;
static void close_both(uint32_t zone) {
    ts_zone_report r;
    BOTH(close);
    if (!empty_when_closed || !emulated->call->report(emulated, zone, &r)) return;
    if (r.state == TS_ZONE_CLOSED && r.written == 0) (void)emulated->call->reset(emulated, zone);
}

static void append(struct sup_rng *rng, uint32_t zone) {
    struct iovec iov[3];
    int count = 1 + (int)sup_rng_below(rng, 3);
    for (int i = 0; i < count; i++) {
        iov[i].iov_base = memory + sup_rng_below(rng, 32) * BLOCK;
        iov[i].iov_len = (1 + sup_rng_below(rng, 5)) * BLOCK;
    }
    uint64_t a = 1, b = 1;
    errno = 0;
    bool on_real = real->call->append(real, zone, iov, count, &a);
    int error = errno;
    bool on_emulated = emulated->call->append(emulated, zone, iov, count, &b);
    agree(on_real, error, on_emulated, errno, "append", zone);
    SUP_CHECK(!on_real || a == b, "an append to zone %u is at %llu, and at %llu", zone, (unsigned long long)a,
              (unsigned long long)b);
}

/* Fills a zone but for some blocks, so that its end is met: 3 MiB are many appends. */
static void nearly_fill(struct sup_rng *rng, uint32_t zone) {
    ts_zone_report r;
    uint64_t at, spare = sup_rng_below(rng, 6) * BLOCK;
    for (int i = 0; i < 64 && emulated->call->report(emulated, zone, &r) && r.state != TS_ZONE_FULL; i++) {
        uint64_t room = r.capacity - r.written, most = real->append_bytes < MOST * 8 ? real->append_bytes : MOST * 8;
        if (room <= spare) break;
        uint64_t bytes = room - spare < most ? room - spare : most;
        struct iovec iov = {memory, (size_t)bytes};
        bool a = real->call->append(real, zone, &iov, 1, &at);
        int error = errno;
        bool b = emulated->call->append(emulated, zone, &iov, 1, &at);
        agree(a, error, b, errno, "long append", zone);
        if (!a) break;
    }
}

static void read_both(struct sup_rng *rng, uint32_t zone) {
    ts_zone_report r;
    SUP_CHECK(emulated->call->report(emulated, zone, &r), "no report");
    uint64_t at = sup_rng_below(rng, (r.written + 8 * BLOCK) / BLOCK) * BLOCK;
    size_t bytes = (1 + sup_rng_below(rng, 8)) * BLOCK;
    struct iovec a = {from_real, bytes}, b = {from_emulated, bytes};
    errno = 0;
    bool on_real = real->call->read(real, zone, at, &a, 1);
    int error = errno;
    bool on_emulated = emulated->call->read(emulated, zone, at, &b, 1);
    agree(on_real, error, on_emulated, errno, "read", zone);
    /* Only written blocks: the device decides how the rest reads. */
    size_t there = r.written >= at + bytes ? bytes : r.written > at ? (size_t)(r.written - at) : 0;
    SUP_CHECK(!on_real || memcmp(from_real, from_emulated, there) == 0, "zone %u, %llu: other bytes", zone,
              (unsigned long long)at);
}

static void sequence(uint64_t number, const struct sup_args *args) {
    struct sup_rng rng = {sup_mix(args->seed) ^ sup_mix(number + 1)};
    static const uint32_t spreads[] = {3, 20, 50};
    uint32_t spread = spreads[number % 3] < real->zones ? spreads[number % 3] : real->zones;
    bool used[64] = {false};
    for (uint64_t i = 0; i < args->ops; i++) {
        uint32_t zone = (uint32_t)sup_rng_below(&rng, spread);
        used[zone] = true;
        switch (sup_rng_below(&rng, 20)) {
        case 0: BOTH(finish); break;
        case 1: BOTH(reset); break;
        case 2:
        case 3: BOTH(open); break;
        case 4: close_both(zone); break;
        case 5:
        case 6: read_both(&rng, zone); break;
        case 7:
            if (number % 16 == 0) nearly_fill(&rng, zone);
            break;
        default: append(&rng, zone);
        }
        look(zone);
    }
    for (uint32_t zone = 0; zone < spread; zone++) {
        if (!used[zone]) continue;
        look(zone);
        BOTH(reset);
    }
}

static void epochs(const char *path) {
    SlabZones *zones = slab_zones_open(path, NULL);
    SUP_CHECK(zones, "%s", strerror(errno));
    ZT_ERRNO(slab_zones_open(path, NULL), EBUSY);
    SlabAllocator *a = slab_allocator_create();
    zt_epoch e = zt_fill(a, EPOCH_CHURN, 300, 0, 1), d = zt_fill(a, EPOCH_SCOPE, 2000, 100, 2),
             l = zt_fill(a, EPOCH_CHURN, 2, 5 << 20, 3);
    for (int round = 0; round < 2; round++) {
        SUP_CHECK(epoch_spill(a, e.id, zones) && epoch_spill(a, d.id, zones) && epoch_spill(a, l.id, zones), "%s",
                  strerror(errno));
        SUP_CHECK(zt_reads_right(&e, 7) && zt_reads_right(&d, 90) && zt_reads_right(&l, 1), "read");
        SUP_CHECK(epoch_load(a, l.id) && zt_is_right(&l) && epoch_load(a, e.id) && zt_is_right(&e) &&
                      epoch_load(a, d.id) && zt_is_right(&d),
                  "load: %s", strerror(errno));
    }
    SUP_CHECK(epoch_spill(a, e.id, zones) && epoch_destroy(a, e.id), "%s", strerror(errno));
    SlabZonesStats s = zt_stats(zones);
    SUP_CHECK(s.empty_zones == s.zones && s.errors_total == 0, "%u of %u zones are empty, %llu errors", s.empty_zones,
              s.zones, (unsigned long long)s.errors_total);
    SUP_CHECK(epoch_spill(a, l.id, zones), "%s", strerror(errno));
    /* A process that is killed leaves it so: the next one empties it. */
    zt_forget(&e);
    zt_forget(&d);
    zt_forget(&l);
    slab_allocator_free(a);
    SUP_CHECK(slab_zones_close(zones), "%s", strerror(errno));
}

/* The next opening reclaims the remaining data in the zones. */
static void reclaimed(const char *path) {
    uint64_t at;
    struct iovec iov = {memory, BLOCK};
    real = ts_zoned_open(path);
    SUP_CHECK(real && real->call->append(real, 3, &iov, 1, &at) && real->call->append(real, 5, &iov, 1, &at), "%s",
              strerror(errno));
    real->call->end(real);
    SlabZones *zones = slab_zones_open(path, NULL);
    SUP_CHECK(zones, "%s", strerror(errno));
    SlabZonesStats s = zt_stats(zones);
    SUP_CHECK(s.reclaimed_zones == 2 && s.empty_zones == s.zones, "%llu reclaimed",
              (unsigned long long)s.reclaimed_zones);
    SUP_CHECK(slab_zones_close(zones), "%s", strerror(errno));
}

/* A disk without zones is refused, and is as it was. */
static void ordinary(const char *path) {
    struct stat st;
    uint64_t before[512], after[512];
    if (stat(path, &st) != 0 || !S_ISBLK(st.st_mode)) return;
    for (int i = 0; i < 2; i++) {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        SUP_CHECK(file >= 0 && pread(file, i ? after : before, sizeof before, 0) == sizeof before, "%s", path);
        (void)close(file);
        if (i == 0) ZT_ERRNO(slab_zones_open(path, NULL), EINVAL);
    }
    SUP_CHECK(memcmp(before, after, sizeof before) == 0, "%s was written to", path);
    printf("device_test: %s has no zones, and is refused\n", path);
}

int main(int argc, char **argv) {
    const char *path = getenv("TSLAB_ZONED_DEVICE");
    struct sup_args args = {.seed = 1, .programs = 1000, .ops = 20};
    struct stat st;
    sup_args_parse(argc, argv, &args);
    if (!path) path = "/dev/nvme0n1";
    /* Without the variable only where all of the machine is a test. */
    bool machine = getenv("TSLAB_ZONED_DEVICE") || access("/plan", R_OK) == 0;
    if (!machine || stat(path, &st) != 0 || !S_ISBLK(st.st_mode)) {
        printf("device_test: skipped: no zoned device (TSLAB_ZONED_DEVICE)\n");
        return 77;
    }
    zt_in_memory();
    if (posix_memalign((void **)(void *)&memory, BLOCK, 1 << 20) != 0) return 1;
    if (posix_memalign((void **)(void *)&from_real, BLOCK, 1 << 20) != 0) return 1;
    if (posix_memalign((void **)(void *)&from_emulated, BLOCK, 1 << 20) != 0) return 1;
    for (size_t i = 0; i < 1 << 20; i++) memory[i] = (char)(i * 31 + i / 4096 + i / 700);
    real = ts_zoned_open(path);
    SUP_CHECK(real, "%s: %s", path, strerror(errno));
    emulated = make_emulated();
    empty_when_closed = !strstr(path, "nvme");
    for (uint32_t zone = 0; zone < real->zones; zone++) BOTH(reset);
    for (uint64_t i = 0; i < args.programs; i++) sequence(i, &args);
    SUP_CHECK(real->chooses || !strstr(path, "nvme"), "the machine's device is not appended to by passthrough");
    bool chooses = real->chooses;
    real->chooses = false; /* the other way to write */
    for (uint64_t i = 0; chooses && i < args.programs / 10; i++) sequence(args.programs + i, &args);
    printf("device_test: the place is %s\n", chooses ? "the device's choice" : "the tracked pointer");
    printf("device_test: %llu sequences of %llu calls; %u zones, max_open %u, max_active %u, appends of %zu bytes\n",
           (unsigned long long)args.programs, (unsigned long long)args.ops, real->zones, real->max_open,
           real->max_active, real->append_bytes);
    real->call->end(real);
    emulated->call->end(emulated);
    epochs(path);
    reclaimed(path);
    ordinary("/dev/nvme0n2");
    free(memory);
    free(from_real);
    free(from_emulated);
    return 0;
}
