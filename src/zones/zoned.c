#define _GNU_SOURCE
#include "zones/zoned.h"

#include "os/own_file.h"
#include "os/small_file.h"
#include "zones/owner.h"
#include "zones/say.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/blkzoned.h>
#include <linux/fs.h>
#include <linux/nvme_ioctl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MAGIC "tslab zones of\n"
#define SECTOR 512u
#define HEADER_ZONES 1u
#define NVME_ZONE_APPEND 0x7d
#define IOV_MOST 64

typedef struct zoned {
    ts_device device;
    ts_own_file file;
    uint32_t nsid;
    bool settled;          /* opened: `chooses` is constant */
    pthread_mutex_t mutex; /* of appends: guards `zone`; held over a write at a write pointer: these have an order */
    struct known {
        uint64_t written, capacity; /* bytes to the write pointer, and in all; appends under way count as written */
    } * zone;                       /* [zone], of the device: as it was looked at, with the writes since */
} zoned;

/* The header, one block. */
typedef struct header {
    char magic[16];
    ts_owner owner;
} header;

static bool fail(int error) {
    errno = error;
    return false;
}

/* Whether the descriptor is still the device's, before each use of it. */
static bool has_device(const zoned *z) { return ts_own_file_is_open(&z->file) || fail(EIO); }

static uint64_t start_of(const zoned *z, uint32_t zone) { return (uint64_t)zone * z->device.zone_bytes; }

/* ---- zones; numbers here are the device's -------------------------------------------------------------------- */

static ts_zone_state state_of(const struct blk_zone *zone) {
    if (zone->type != BLK_ZONE_TYPE_SEQWRITE_REQ) return TS_ZONE_OFFLINE; /* not for this library */
    switch (zone->cond) {
    case BLK_ZONE_COND_EMPTY: return TS_ZONE_EMPTY;
    case BLK_ZONE_COND_IMP_OPEN: return TS_ZONE_IMPLICITLY_OPEN;
    case BLK_ZONE_COND_EXP_OPEN: return TS_ZONE_EXPLICITLY_OPEN;
    case BLK_ZONE_COND_CLOSED: return TS_ZONE_CLOSED;
    case BLK_ZONE_COND_FULL: return TS_ZONE_FULL;
    case BLK_ZONE_COND_READONLY: return TS_ZONE_READ_ONLY;
    default: return TS_ZONE_OFFLINE;
    }
}

static bool look(zoned *z, uint32_t zone, ts_zone_report *out) {
    union {
        struct blk_zone_report report;
        char room[sizeof(struct blk_zone_report) + sizeof(struct blk_zone)];
    } u;
    memset(&u, 0, sizeof u);
    u.report.sector = start_of(z, zone) / SECTOR;
    u.report.nr_zones = 1;
    if (!has_device(z) || ioctl(z->file.fd, BLKREPORTZONE, &u.report) != 0) return false;
    if (u.report.nr_zones != 1) return fail(EIO);
    struct blk_zone found;
    memcpy(&found, u.room + sizeof u.report, sizeof found);
    uint64_t capacity = u.report.flags & BLK_ZONE_REP_CAPACITY ? found.capacity * SECTOR : z->device.zone_bytes;
    *out = (ts_zone_report){.state = state_of(&found), .capacity = capacity};
    out->written = out->state == TS_ZONE_FULL    ? capacity
                   : out->state == TS_ZONE_EMPTY ? 0
                                                 : (found.wp - found.start) * SECTOR;
    z->zone[zone] = (struct known){out->written, capacity};
    return true;
}

static bool command(const zoned *z, uint32_t zone, unsigned long what) {
    struct blk_zone_range range = {start_of(z, zone) / SECTOR, z->device.zone_bytes / SECTOR};
    return has_device(z) && ioctl(z->file.fd, what, &range) == 0;
}

/* ---- writes ------------------------------------------------------------------------------------------------------ */

/* One piece of memory, by a zone append of NVMe; *at: bytes from the start of the zone. */
static bool append_piece(const zoned *z, uint32_t zone, const struct iovec *iov, uint64_t *at) {
    uint64_t lba = start_of(z, zone) / z->device.block_bytes;
    struct nvme_passthru_cmd64 c = {.opcode = NVME_ZONE_APPEND,
                                    .nsid = z->nsid,
                                    .addr = (uint64_t)(uintptr_t)iov->iov_base,
                                    .data_len = (uint32_t)iov->iov_len,
                                    .cdw10 = (uint32_t)lba,
                                    .cdw11 = (uint32_t)(lba >> 32),
                                    .cdw12 = (uint32_t)(iov->iov_len / z->device.block_bytes) - 1};
    int answer = has_device(z) ? ioctl(z->file.fd, NVME_IOCTL_IO64_CMD, &c) : -1;
    if (answer < 0) return false;
    if (answer > 0) return fail(EIO); /* a status of the device */
    *at = (c.result - lba) * z->device.block_bytes;
    return true;
}

/* Piece by piece, which have to lie side by side: of several it may have no fellows. */
static bool append_by_passthrough(const zoned *z, uint32_t zone, const struct iovec *iov, int count, uint64_t *at) {
    uint64_t next = 0;
    for (int i = 0; i < count; i++) {
        uint64_t where;
        if (!append_piece(z, zone, &iov[i], &where)) return false;
        if (i == 0) *at = next = where;
        if (where != next) return fail(EIO);
        next += iov[i].iov_len;
    }
    return true;
}

/* At the write pointer. A write that ends short has moved it: the caller asks the device. */
static bool append_by_write(zoned *z, uint32_t zone, const struct iovec *iov, int count, uint64_t *at) {
    uint64_t bytes = ts_iov_bytes(iov, count);
    ssize_t n;
    if (!has_device(z)) return false;
    do {
        n = pwritev(z->file.fd, iov, count, (off_t)(start_of(z, zone) + z->zone[zone].written));
    } while (n < 0 && errno == EINTR);
    if (n < 0) return false;
    if ((uint64_t)n != bytes) return fail(EIO);
    *at = z->zone[zone].written;
    z->zone[zone].written += bytes;
    return true;
}

/* Passthrough takes rights: the first refusal decides. */
static bool is_refusal(int error) { return error == EACCES || error == EPERM || error == ENOTTY || error == EINVAL; }

/* As one: pieces of it could fit. The caller has the mutex. */
static bool claim(zoned *z, uint32_t zone, uint64_t bytes) {
    struct known *k = &z->zone[zone];
    if (bytes > k->capacity - k->written) return fail(EIO);
    k->written += bytes;
    return true;
}

static bool append_in(zoned *z, uint32_t zone, const struct iovec *iov, int count, uint64_t *at) {
    ts_zone_report r;
    uint64_t bytes = ts_iov_bytes(iov, count);
    (void)pthread_mutex_lock(&z->mutex);
    if (!claim(z, zone, bytes)) {
        (void)pthread_mutex_unlock(&z->mutex);
        return false;
    }
    bool done = false;
    if (z->device.chooses) {
        (void)pthread_mutex_unlock(&z->mutex);
        done = append_by_passthrough(z, zone, iov, count, at);
        (void)pthread_mutex_lock(&z->mutex);
        if (!done && !z->settled && is_refusal(errno)) z->device.chooses = false;
    }
    if (!done && !z->device.chooses) {
        z->zone[zone].written -= bytes; /* where it is to be written */
        done = append_by_write(z, zone, iov, count, at);
    }
    int error = errno;
    if (!done) (void)look(z, zone, &r); /* what there is now; of fellows as much as has come */
    (void)pthread_mutex_unlock(&z->mutex);
    return done || fail(error);
}

/* ---- the table; numbers are the library's --------------------------------------------------------------------- */

static bool zone_report(ts_device *d, uint32_t zone, ts_zone_report *out) {
    return zone < d->zones ? look((zoned *)d, zone + HEADER_ZONES, out) : fail(EINVAL);
}
static bool zone_command(ts_device *d, uint32_t zone, unsigned long what) {
    zoned *z = (zoned *)d;
    if (zone >= d->zones) return fail(EINVAL);
    if (!command(z, zone + HEADER_ZONES, what)) return false;
    if (what == BLKRESETZONE) z->zone[zone + HEADER_ZONES].written = 0;
    return true;
}
static bool zone_open(ts_device *d, uint32_t zone) { return zone_command(d, zone, BLKOPENZONE); }
static bool zone_close(ts_device *d, uint32_t zone) { return zone_command(d, zone, BLKCLOSEZONE); }
static bool zone_finish(ts_device *d, uint32_t zone) { return zone_command(d, zone, BLKFINISHZONE); }
static bool zone_reset(ts_device *d, uint32_t zone) { return zone_command(d, zone, BLKRESETZONE); }

static bool is_good(const ts_device *d, const struct iovec *iov, int count) {
    if (count < 1 || count > IOV_MOST) return false;
    for (int i = 0; i < count; i++)
        if (iov[i].iov_len == 0 || iov[i].iov_len % d->block_bytes != 0) return false;
    return true;
}

static bool zone_append(ts_device *d, uint32_t zone, const struct iovec *iov, int count, uint64_t *at) {
    zoned *z = (zoned *)d;
    if (zone >= d->zones || !is_good(d, iov, count) || ts_iov_bytes(iov, count) > d->append_bytes) return fail(EINVAL);
    return append_in(z, zone + HEADER_ZONES, iov, count, at);
}

static bool zone_read(ts_device *d, uint32_t zone, uint64_t at, const struct iovec *iov, int count) {
    const zoned *z = (const zoned *)d;
    uint64_t bytes = ts_iov_bytes(iov, count);
    if (zone >= d->zones || !is_good(d, iov, count) || at % d->block_bytes != 0 || at > d->zone_bytes ||
        bytes > d->zone_bytes - at)
        return fail(EINVAL);
    ssize_t n;
    if (!has_device(z)) return false;
    do {
        n = preadv(z->file.fd, iov, count, (off_t)(start_of(z, zone + HEADER_ZONES) + at));
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)bytes || fail(n < 0 ? errno : EIO);
}

static void end(ts_device *d) {
    zoned *z = (zoned *)d;
    ts_own_file_close(&z->file);
    (void)pthread_mutex_destroy(&z->mutex);
    free(z->zone);
    free(z);
}

static void forked(ts_device *d) {
    zoned *z = (zoned *)d;
    ts_own_file_close(&z->file);
}

static const ts_device_table table = {.report = zone_report,
                                      .append = zone_append,
                                      .read = zone_read,
                                      .open = zone_open,
                                      .close = zone_close,
                                      .finish = zone_finish,
                                      .reset = zone_reset,
                                      .end = end,
                                      .forked = forked};

/* ---- open -------------------------------------------------------------------------------------------------------- */

/* A number of the device's queue, as sysfs has it. 0: it has none. */
static uint64_t setting(dev_t device, const char *name) {
    char path[128];
    (void)snprintf(path, sizeof path, "/sys/dev/block/%u:%u/queue/%s", major(device), minor(device), name);
    return ts_small_file_number(path);
}

static uint64_t least(uint64_t a, uint64_t b) { return b != 0 && b < a ? b : a; }

static bool read_geometry(zoned *z, const char *path) {
    struct stat st;
    uint32_t zones = 0, sectors = 0;
    int block = 0;
    if (fstat(z->file.fd, &st) != 0) return false;
    if (!S_ISBLK(st.st_mode) || ioctl(z->file.fd, BLKGETNRZONES, &zones) != 0 ||
        ioctl(z->file.fd, BLKGETZONESZ, &sectors) != 0 || zones <= HEADER_ZONES || sectors == 0 ||
        ioctl(z->file.fd, BLKSSZGET, &block) != 0) {
        ts_zones_say("%s is no zoned device", path);
        return fail(EINVAL);
    }
    z->zone = calloc(zones, sizeof *z->zone);
    if (!z->zone) return fail(ENOMEM);
    int nsid = ioctl(z->file.fd, NVME_IOCTL_ID);
    bool nvme = nsid > 0;
    z->nsid = nsid > 0 ? (uint32_t)nsid : 0;
    /* A zone of the header's is never open for long, but it can be active: one less for the library. */
    uint64_t open = setting(st.st_rdev, "max_open_zones"), active = setting(st.st_rdev, "max_active_zones");
    uint64_t most = least((uint64_t)1 << 20, setting(st.st_rdev, "max_hw_sectors_kb") << 10);
    if (nvme) most = least(most, setting(st.st_rdev, "zone_append_max_bytes"));
    /* A passthrough is one command, and memory of no two pages side by side has a segment for each. */
    if (nvme) most = least(most, setting(st.st_rdev, "max_segments") * (uint64_t)sysconf(_SC_PAGESIZE));
    most -= most % (uint64_t)block;
    z->device = (ts_device){.call = &table,
                            .zones = zones - HEADER_ZONES,
                            .max_open = (uint32_t)open,
                            .max_active = (uint32_t)active,
                            .zone_bytes = (uint64_t)sectors * SECTOR,
                            .block_bytes = (uint32_t)block,
                            .append_bytes = (size_t)most,
                            .chooses = nvme};
    ts_zone_report r;
    for (uint32_t zone = 0; zone < zones; zone++)
        if (!look(z, zone, &r)) return false;
    z->device.capacity = r.capacity;
    return true;
}

/* Whether all zones but the first are empty, or no good. */
static bool is_blank(zoned *z) {
    for (uint32_t zone = HEADER_ZONES; zone < z->device.zones + HEADER_ZONES; zone++) {
        ts_zone_report r;
        if (!look(z, zone, &r)) return false;
        if (r.state != TS_ZONE_EMPTY && r.state != TS_ZONE_OFFLINE && r.state != TS_ZONE_READ_ONLY) return false;
    }
    return true;
}

/* The last block of the first zone is a header. */
static bool is_ours(const zoned *z, uint64_t written, char *block) {
    struct iovec iov = {block, z->device.block_bytes};
    header h;
    if (written < z->device.block_bytes) return false;
    if (preadv(z->file.fd, &iov, 1, (off_t)(written - z->device.block_bytes)) != (ssize_t)iov.iov_len) return false;
    memcpy(&h, block, sizeof h);
    return memcmp(h.magic, MAGIC, sizeof MAGIC) == 0;
}

static bool empty_all(zoned *z) {
    for (uint32_t zone = HEADER_ZONES; zone < z->device.zones + HEADER_ZONES; zone++) {
        ts_zone_report r;
        if (!look(z, zone, &r)) return false;
        if (r.state != TS_ZONE_EMPTY && r.state != TS_ZONE_OFFLINE && r.state != TS_ZONE_READ_ONLY)
            (void)command(z, zone, BLKRESETZONE);
    }
    return true;
}

/* This opening's block goes into the first zone, which is then closed. When it is full all others are emptied first:
   a process that is killed between leaves a blank device. */
static bool write_header(zoned *z, const char *path, char *block) {
    ts_zone_report r;
    if (!look(z, 0, &r)) return false;
    if (r.state == TS_ZONE_READ_ONLY || r.state == TS_ZONE_OFFLINE) {
        ts_zones_say("%s: its first zone cannot be written", path);
        return fail(EINVAL);
    }
    if (!is_ours(z, r.written, block) && !(r.state == TS_ZONE_EMPTY && is_blank(z))) {
        ts_zones_say("%s has data of somebody else; `blkzone reset` it to give it away", path);
        return fail(EINVAL);
    }
    if (r.capacity - r.written < z->device.block_bytes) {
        if (!empty_all(z) || !command(z, 0, BLKRESETZONE)) return false;
        z->zone[0].written = 0;
    }
    header h = {.magic = MAGIC};
    ts_owner_self(&h.owner);
    memset(block, 0, z->device.block_bytes);
    memcpy(block, &h, sizeof h);
    struct iovec iov = {block, z->device.block_bytes};
    uint64_t at;
    if (!append_in(z, 0, &iov, 1, &at)) return false;
    (void)command(z, 0, BLKCLOSEZONE); /* full, perhaps */
    return true;
}

ts_device *ts_zoned_open(const char *path) {
    zoned *z = calloc(1, sizeof *z);
    if (!z) return NULL;
    (void)pthread_mutex_init(&z->mutex, NULL);
    /* O_EXCL on a block device takes it from others that open it so, and from file systems. */
    z->file = ts_own_file_of(open(path, O_RDWR | O_DIRECT | O_EXCL | O_CLOEXEC));
    if (z->file.fd < 0 && errno == EBUSY) ts_zones_say("%s is in use", path);
    void *block = NULL;
    bool good = z->file.fd >= 0 && read_geometry(z, path);
    if (good && posix_memalign(&block, 4096, z->device.block_bytes) != 0) good = fail(ENOMEM);
    good = good && write_header(z, path, block);
    int error = errno;
    free(block);
    if (good) {
        if (z->device.max_active > 1) z->device.max_active--; /* the header's zone */
        z->device.append_pieces = z->device.chooses ? 1 : IOV_MOST;
        z->settled = true;
        return &z->device;
    }
    ts_own_file_close(&z->file);
    (void)pthread_mutex_destroy(&z->mutex);
    free(z->zone);
    free(z);
    errno = error;
    return NULL;
}
