/*
 * A second opinion on a zoned device: libzbd, which reports zones and sends commands on its own. Its geometry, limits,
 * states and write pointers agree with this library's, whichever of the two has sent the last command. All data of the
 * device is lost; which one it is: as in device_test.c. --ops N commands, --seed N.
 */
#define _GNU_SOURCE
#include "rng.h"
#include "support.h"
#include "zones/zoned.h"

#include <fcntl.h>
#include <libzbd/zbd.h>
#include <sys/stat.h>

#define BLOCK 4096u
#define SPREAD 40u /* zones that are used: more than may be active */

static ts_device *ours;
static int theirs;
static struct zbd_info info;

/* The library's first zone is the second of the device. */
static off_t start_of(uint32_t zone) { return (off_t)((zone + 1) * info.zone_size); }

static ts_zone_state state_of(const struct zbd_zone *z) {
    if (zbd_zone_empty(z)) return TS_ZONE_EMPTY;
    if (zbd_zone_imp_open(z)) return TS_ZONE_IMPLICITLY_OPEN;
    if (zbd_zone_exp_open(z)) return TS_ZONE_EXPLICITLY_OPEN;
    if (zbd_zone_closed(z)) return TS_ZONE_CLOSED;
    if (zbd_zone_full(z)) return TS_ZONE_FULL;
    return zbd_zone_rdonly(z) ? TS_ZONE_READ_ONLY : TS_ZONE_OFFLINE;
}

static ts_zone_report compare(uint32_t zone) {
    struct zbd_zone z;
    unsigned count = 1;
    ts_zone_report r;
    SUP_CHECK(zbd_report_zones(theirs, start_of(zone), (off_t)info.zone_size, ZBD_RO_ALL, &z, &count) == 0 &&
                  count == 1,
              "libzbd: zone %u: %s", zone, strerror(errno));
    SUP_CHECK(ours->call->report(ours, zone, &r), "zone %u: %s", zone, strerror(errno));
    uint64_t written = state_of(&z) == TS_ZONE_FULL ? r.written : zbd_zone_wp(&z) - zbd_zone_start(&z);
    SUP_CHECK(zbd_zone_start(&z) == (uint64_t)start_of(zone) && r.state == state_of(&z) &&
                  r.capacity == zbd_zone_capacity(&z) && r.written == written,
              "zone %u: state %d, %llu of %llu bytes; libzbd: state %d, %llu of %llu", zone, (int)r.state,
              (unsigned long long)r.written, (unsigned long long)r.capacity, (int)state_of(&z),
              (unsigned long long)written, (unsigned long long)zbd_zone_capacity(&z));
    return r;
}

/* 0 or the error. */
static int by_libzbd(uint32_t zone, unsigned what) {
    static const enum zbd_zone_op op[] = {ZBD_OP_OPEN, ZBD_OP_CLOSE, ZBD_OP_FINISH, ZBD_OP_RESET};
    errno = 0;
    return zbd_zones_operation(theirs, op[what], start_of(zone), (off_t)info.zone_size) == 0 ? 0 : errno;
}

static int by_ours(uint32_t zone, unsigned what) {
    const ts_device_table *call = ours->call;
    bool (*const op[])(ts_device *, uint32_t) = {call->open, call->close, call->finish, call->reset};
    errno = 0;
    return op[what](ours, zone) ? 0 : errno;
}

/* Both send the same command: where the first does nothing to the state the second has the same answer. */
static void refused_alike(uint32_t zone, unsigned what, int error) {
    int other = by_libzbd(zone, what);
    SUP_CHECK(other == error, "command %u on zone %u: %s; libzbd: %s", what, zone, strerror(error), strerror(other));
}

static unsigned run(const struct sup_args *args, void *memory) {
    struct sup_rng rng = {sup_mix(args->seed)};
    unsigned refused = 0;
    for (uint64_t i = 0; i < args->ops; i++) {
        uint32_t zone = (uint32_t)sup_rng_below(&rng, SPREAD);
        unsigned what = (unsigned)sup_rng_below(&rng, 10);
        ts_zone_report r = compare(zone);
        if (what >= 4) {
            uint64_t at = 1;
            struct iovec iov = {memory, (1 + sup_rng_below(&rng, 4)) * BLOCK};
            if (ours->call->append(ours, zone, &iov, 1, &at)) SUP_CHECK(at == r.written, "appended elsewhere");
        } else if (i % 2) {
            (void)by_libzbd(zone, what);
        } else {
            int error = by_ours(zone, what);
            refused += error != 0;
            if (error) refused_alike(zone, what, error);
        }
        (void)compare(zone);
    }
    return refused;
}

int main(int argc, char **argv) {
    const char *path = getenv("TSLAB_ZONED_DEVICE");
    struct sup_args args = {.seed = 1, .ops = 3000};
    struct stat st;
    void *memory = NULL;
    sup_args_parse(argc, argv, &args);
    bool machine =
        path || access("/plan", R_OK) == 0; /* without the variable only where all of the machine is a test */
    if (!path) path = "/dev/nvme0n1";
    if (!machine || stat(path, &st) != 0 || !S_ISBLK(st.st_mode)) {
        printf("libzbd_test: skipped: no zoned device (TSLAB_ZONED_DEVICE)\n");
        return 77;
    }
    if (posix_memalign(&memory, BLOCK, 4 * BLOCK) != 0) return 1;
    memset(memory, 1, 4 * BLOCK);
    ours = ts_zoned_open(path);
    SUP_CHECK(ours, "%s: %s", path, strerror(errno));
    theirs = zbd_open(path, O_RDWR, &info);
    SUP_CHECK(theirs >= 0, "libzbd: %s: %s", path, strerror(errno));
    SUP_CHECK(
        info.nr_zones == ours->zones + 1 && info.zone_size == ours->zone_bytes &&
            info.lblock_size == ours->block_bytes && info.max_nr_open_zones == ours->max_open &&
            (info.max_nr_active_zones == 0 ? ours->max_active == 0 : info.max_nr_active_zones == ours->max_active + 1),
        "geometry: libzbd says %u zones of %llu bytes, blocks of %u, %u open and %u active", info.nr_zones,
        info.zone_size, info.lblock_size, info.max_nr_open_zones, info.max_nr_active_zones);
    SUP_CHECK(ours->zones >= SPREAD, "%u zones", ours->zones);
    unsigned refused = run(&args, memory);
    for (uint32_t zone = 0; zone < ours->zones; zone++) (void)compare(zone);
    printf("libzbd_test: %llu commands and appends, %u refused to both; %u zones agree\n", (unsigned long long)args.ops,
           refused, ours->zones);
    for (uint32_t zone = 0; zone < SPREAD; zone++) SUP_CHECK(by_ours(zone, 3) == 0, "reset: %s", strerror(errno));
    zbd_close(theirs);
    ours->call->end(ours);
    free(memory);
    return 0;
}
