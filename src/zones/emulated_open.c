/* Opens the file of an emulated device, or makes it. */
#define _GNU_SOURCE
#include "os/file_limit.h"
#include "zones/emulated_device.h"
#include "zones/say.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "tslab zones 1\n"
#define DATA_ALIGN ((uint64_t)1 << 20)

static ts_emulated_parameters defaults(const ts_emulated_parameters *given) {
    ts_emulated_parameters p = *given;
    if (!(p.given & 1u)) p.zones = 64;
    if (!(p.given & 2u)) p.zone_size = (uint64_t)4 << 20;
    if (!(p.given & 4u)) p.zone_capacity = p.zone_size;
    return p;
}

static bool is_header(const header *h) {
    return memcmp(h->magic, MAGIC, sizeof MAGIC) == 0 && h->zones != 0 && h->zones <= UINT16_MAX + 1u &&
           h->zone_size <= (uint64_t)1 << 40 && h->zone_capacity >= BLOCK && h->zone_capacity % BLOCK == 0 &&
           h->zone_capacity <= h->zone_size;
}

/* The file, locked, is empty or a device already: *h is its header. */
static bool read_header(int file, const char *path, const ts_emulated_parameters *given, header *h) {
    struct stat st;
    if (fstat(file, &st) != 0) return false;
    if (!S_ISREG(st.st_mode)) {
        ts_zones_say("%s is no file", path);
        return ts_emulated_fail(EINVAL);
    }
    if (st.st_size == 0) {
        ts_emulated_parameters p = defaults(given);
        memset(h, 0, sizeof *h);
        memcpy(h->magic, MAGIC, sizeof MAGIC);
        h->zones = p.zones;
        h->zone_size = p.zone_size;
        h->zone_capacity = p.zone_capacity;
        h->max_open = p.max_open;
        h->max_active = p.max_active;
        /* The header comes first and is whole. So a process that is killed leaves a device, which the next one
           completes. */
        char block[HEADER_BYTES] = {0};
        memcpy(block, h, sizeof *h);
        if (ts_emulated_put_all(file, block, sizeof block, 0)) return true;
        int error = errno;
        (void)!ftruncate(file, 0); /* as it was */
        return ts_emulated_fail(error);
    }
    if (pread(file, h, sizeof *h, 0) != (ssize_t)sizeof *h || !is_header(h)) {
        ts_zones_say("%s is something else than an emulated device; it stays as it is", path);
        return ts_emulated_fail(EINVAL);
    }
    const struct {
        const char *name;
        uint64_t given, has;
    } each[] = {{"zones", given->zones, h->zones},
                {"zone_size", given->zone_size, h->zone_size},
                {"zone_capacity", given->zone_capacity, h->zone_capacity},
                {"max_open", given->max_open, h->max_open},
                {"max_active", given->max_active, h->max_active}};
    for (unsigned i = 0; i < sizeof each / sizeof each[0]; i++) {
        if (!(given->given >> i & 1) || each[i].given == each[i].has) continue;
        ts_zones_say("%s was made with %s=%llu, not %llu", path, each[i].name, (unsigned long long)each[i].has,
                     (unsigned long long)each[i].given);
        return ts_emulated_fail(EINVAL);
    }
    return true;
}

static void say_who(int file, const char *path) {
    header h;
    if (pread(file, &h, sizeof h, 0) == (ssize_t)sizeof h && is_header(&h) && ts_owner_is_alive(&h.owner))
        ts_zones_say("%s is open in process %llu", path, (unsigned long long)h.owner.process);
    else
        ts_zones_say("%s is locked by another process", path);
}

/* With direct I/O, where the file system has that, and the lock. -1 with errno. */
static int open_locked(const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_DIRECT, 0600);
    if (file < 0 && errno == EINVAL) file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return -1;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
    int error = errno == EWOULDBLOCK ? EBUSY : errno;
    int buffered = open(path, O_RDONLY | O_CLOEXEC);
    if (error == EBUSY && buffered >= 0) say_who(buffered, path);
    if (buffered >= 0) (void)close(buffered);
    (void)close(file);
    errno = error;
    return -1;
}

/* Makes the file as long as it has to be, and reads the table. */
static bool begin_table(emulated *e, const header *h, const char *path) {
    uint64_t table_end = HEADER_BYTES + h->zones * sizeof(record);
    e->data = (table_end + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN;
    e->bytes = e->data + h->zones * h->zone_capacity;
    struct stat st;
    if (fstat(e->plain.fd, &st) != 0) return false;
    if (!ts_file_may_have(e->bytes)) {
        ts_zones_say("%s: ulimit -f allows no file of %llu bytes", path, (unsigned long long)e->bytes);
        return ts_emulated_fail(EFBIG);
    }
    if ((uint64_t)st.st_size < e->bytes && ftruncate(e->plain.fd, (off_t)e->bytes) != 0) return false;
    e->table = calloc(h->zones, sizeof *e->table);
    if (!e->table) return ts_emulated_fail(ENOMEM);
    ssize_t n = pread(e->plain.fd, e->table, h->zones * sizeof *e->table, HEADER_BYTES);
    return n == (ssize_t)(h->zones * sizeof *e->table) || (n >= 0 && ts_emulated_fail(EIO));
}

/* Writes all of it, so that the file system has a place for each record: ENOSPC. */
static bool save_table(emulated *e, header *h) {
    ts_owner_self(&h->owner);
    return ts_emulated_put_all(e->plain.fd, e->table, e->device.zones * sizeof *e->table, HEADER_BYTES) &&
           ts_emulated_put_all(e->plain.fd, h, sizeof *h, 0);
}

static bool read_table(emulated *e, const char *path) {
    for (uint32_t i = 0; i < e->device.zones; i++) {
        record *r = &e->table[i];
        if (r->state >= TS_ZONE_STATES || r->written > e->device.capacity || r->written % BLOCK != 0) {
            ts_zones_say("%s: the record of zone %u is damaged", path, i);
            return ts_emulated_fail(EINVAL);
        }
        /* Its process was killed between the two. */
        if (ts_emulated_is_active(r->state) && r->written == e->device.capacity) r->state = TS_ZONE_FULL;
        e->open += ts_emulated_is_open(r->state);
        e->active += ts_emulated_is_active(r->state);
        if (r->state == TS_ZONE_IMPLICITLY_OPEN && r->turn >= e->turns) e->turns = r->turn + 1;
    }
    return true;
}

ts_device *ts_emulated_open(const char *path, const ts_emulated_parameters *given) {
    header h;
    emulated *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    (void)pthread_mutex_init(&e->mutex, NULL);
    (void)pthread_cond_init(&e->moved, NULL);
    e->file = ts_own_file_of(open_locked(path));
    e->plain = ts_own_file_of(e->file.fd < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC));
    bool good = e->plain.fd >= 0 && read_header(e->plain.fd, path, given, &h);
    if (good) {
        e->device = (ts_device){.call = &ts_emulated_calls,
                                .zones = (uint32_t)h.zones,
                                .max_open = (uint32_t)h.max_open,
                                .max_active = (uint32_t)h.max_active,
                                .zone_bytes = h.zone_size,
                                .capacity = h.zone_capacity,
                                .block_bytes = BLOCK,
                                .append_bytes = (size_t)1 << 20,
                                .append_pieces = IOV_MOST};
        e->flight = calloc(e->device.zones, sizeof *e->flight);
        good = (e->flight || ts_emulated_fail(ENOMEM)) && begin_table(e, &h, path) && read_table(e, path) &&
               save_table(e, &h);
    }
    if (good) return &e->device;
    int error = errno;
    ts_emulated_calls.end(&e->device);
    errno = error;
    return NULL;
}
