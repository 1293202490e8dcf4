#define _GNU_SOURCE
#include "zones/emulated.h"

#include "os/file_limit.h"
#include "os/own_file.h"
#include "zones/owner.h"
#include "zones/say.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "tslab zones 1\n"
#define HEADER_BYTES 4096u
#define BLOCK 4096u
#define DATA_ALIGN ((uint64_t)1 << 20)
#define IOV_MOST 64

typedef struct header {
    char magic[16];
    uint64_t zones, zone_size, zone_capacity, max_open, max_active;
    ts_owner owner;
} header;
_Static_assert(sizeof(header) <= HEADER_BYTES, "one block");

typedef struct record {
    uint32_t state;
    uint32_t turn; /* of its last opening by a write */
    uint64_t written;
} record;

/* Appends to a zone that are under way. Each has its place by `claimed`, and counts when all before it do. */
typedef struct flight {
    uint64_t claimed; /* bytes from the start of the zone */
    uint32_t count;
    bool torn; /* one did not write all of its bytes: those behind it fail */
} flight;

typedef struct emulated {
    ts_device device;
    pthread_mutex_t mutex; /* for appends and reads: the table and what is under way; other calls are alone */
    pthread_cond_t moved;  /* a write pointer, or a zone is torn */
    flight *flight;        /* [zone] */
    ts_own_file file;      /* with direct I/O, where there is such */
    ts_own_file plain;     /* the same file, for the header and the table */
    uint64_t bytes;        /* that the file has */
    uint64_t data;         /* offset of the first zone in the file */
    record *table;         /* [zone], as it is in the file */
    bool lost;             /* a record could not be written: nothing changes any more */
    uint32_t open, active, turns;
} emulated;

ts_emulated_hooks ts_emulated_hooks_now;

static ts_emulated_fault fault(ts_emulated_call call, uint32_t zone) {
    const ts_emulated_hooks *h = &ts_emulated_hooks_now;
    return h->fault ? h->fault(h->arg, call, zone) : TS_FAULT_NONE;
}
static void step(ts_emulated_step at, uint32_t zone) {
    const ts_emulated_hooks *h = &ts_emulated_hooks_now;
    if (h->step) h->step(h->arg, at, zone);
}

static bool fail(int error) {
    errno = error;
    return false;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

/* All of it, or false with errno. */
static bool put_all(int file, const void *from, size_t bytes, uint64_t at) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pwrite(file, (const char *)from + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? false : fail(EIO);
        done += (size_t)n;
    }
    return true;
}

/* Whether the descriptor is still the device's file, and the file has all its bytes: somebody may have cut it. */
static bool is_whole(const emulated *e, const ts_own_file *file) {
    struct stat st;
    if (fstat(file->fd, &st) != 0 || st.st_dev != file->device || st.st_ino != file->inode) return fail(EIO);
    return (uint64_t)st.st_size >= e->bytes || fail(EIO);
}

/* In the file after all that came before: a process that is killed leaves the zones in order. */
static void save(emulated *e, uint32_t zone) {
    uint64_t at = HEADER_BYTES + (uint64_t)zone * sizeof(record);
    e->lost = e->lost || !is_whole(e, &e->plain) || !put_all(e->plain.fd, &e->table[zone], sizeof(record), at);
}

/* ---- states ----------------------------------------------------------------------------------------------------- */

static bool is_open(uint32_t state) { return state == TS_ZONE_IMPLICITLY_OPEN || state == TS_ZONE_EXPLICITLY_OPEN; }
static bool is_active(uint32_t state) { return is_open(state) || state == TS_ZONE_CLOSED; }

static void set_state(emulated *e, uint32_t zone, uint32_t state) {
    record *r = &e->table[zone];
    if (state == TS_ZONE_IMPLICITLY_OPEN && r->state != state) r->turn = e->turns++;
    e->open += (uint32_t)is_open(state) - (uint32_t)is_open(r->state);
    e->active += (uint32_t)is_active(state) - (uint32_t)is_active(r->state);
    r->state = state;
    save(e, zone);
}

/* Closes the first zone that a write opened, if there is no room for another open zone: devices do so by themselves. */
static void make_room(emulated *e) {
    uint32_t first = UINT32_MAX;
    if (e->device.max_open == 0 || e->open < e->device.max_open) return;
    for (uint32_t i = 0; i < e->device.zones; i++)
        if (e->table[i].state == TS_ZONE_IMPLICITLY_OPEN &&
            (first == UINT32_MAX || (int32_t)(e->table[i].turn - e->table[first].turn) < 0))
            first = i;
    if (first != UINT32_MAX) set_state(e, first, TS_ZONE_CLOSED);
}

/* The zone, which is empty or closed, may become an open one. */
static bool can_open(emulated *e, uint32_t zone) {
    make_room(e);
    if (!is_active(e->table[zone].state) && e->device.max_active != 0 && e->active >= e->device.max_active)
        return fail(EOVERFLOW);
    return e->device.max_open == 0 || e->open < e->device.max_open || fail(ETOOMANYREFS);
}

/* Does the part of a fault that comes before the call. false: the call ends with EIO. */
static bool begin(emulated *e, uint32_t zone, ts_emulated_call call, ts_emulated_fault *f) {
    if (zone >= e->device.zones) return fail(EINVAL);
    if (e->lost && call != TS_EMULATED_READ && call != TS_EMULATED_REPORT) return fail(EIO);
    *f = fault(call, zone);
    if (*f == TS_FAULT_READ_ONLY) set_state(e, zone, TS_ZONE_READ_ONLY);
    if (*f == TS_FAULT_OFFLINE) set_state(e, zone, TS_ZONE_OFFLINE);
    if (*f == TS_FAULT_REFUSED || *f == TS_FAULT_READ_ONLY || *f == TS_FAULT_OFFLINE) return fail(EIO);
    return true;
}
static bool end(const emulated *e, ts_emulated_fault f) { return (f == TS_FAULT_NONE && !e->lost) || fail(EIO); }

static bool report(ts_device *device, uint32_t zone, ts_zone_report *out) {
    emulated *e = (emulated *)device;
    ts_emulated_fault f;
    if (!begin(e, zone, TS_EMULATED_REPORT, &f) || (f != TS_FAULT_NONE && !fail(EIO))) return false;
    *out = (ts_zone_report){(ts_zone_state)e->table[zone].state, e->table[zone].written, device->capacity};
    return true;
}

static bool zone_open(ts_device *device, uint32_t zone) {
    emulated *e = (emulated *)device;
    ts_emulated_fault f;
    if (!begin(e, zone, TS_EMULATED_OPEN, &f)) return false;
    uint32_t state = e->table[zone].state;
    if (state == TS_ZONE_FULL || state == TS_ZONE_READ_ONLY || state == TS_ZONE_OFFLINE) return fail(EIO);
    if (!is_open(state) && !can_open(e, zone)) return false;
    set_state(e, zone, TS_ZONE_EXPLICITLY_OPEN);
    return end(e, f);
}

static bool zone_close(ts_device *device, uint32_t zone) {
    emulated *e = (emulated *)device;
    ts_emulated_fault f;
    if (!begin(e, zone, TS_EMULATED_CLOSE, &f)) return false;
    if (!is_active(e->table[zone].state)) return fail(EIO);
    set_state(e, zone, TS_ZONE_CLOSED);
    return end(e, f);
}

static bool zone_finish(ts_device *device, uint32_t zone) {
    emulated *e = (emulated *)device;
    ts_emulated_fault f;
    if (!begin(e, zone, TS_EMULATED_FINISH, &f)) return false;
    uint32_t state = e->table[zone].state;
    if (state == TS_ZONE_READ_ONLY || state == TS_ZONE_OFFLINE) return fail(EIO);
    set_state(e, zone, TS_ZONE_FULL);
    return end(e, f);
}

static off_t place_of(const emulated *e, uint32_t zone, uint64_t at) {
    return (off_t)(e->data + (uint64_t)zone * e->device.capacity + at);
}

static bool zone_reset(ts_device *device, uint32_t zone) {
    emulated *e = (emulated *)device;
    ts_emulated_fault f;
    if (!begin(e, zone, TS_EMULATED_RESET, &f)) return false;
    uint32_t state = e->table[zone].state;
    if (state == TS_ZONE_READ_ONLY || state == TS_ZONE_OFFLINE) return fail(EIO);
    if (state != TS_ZONE_EMPTY) {
        e->table[zone].written = 0;
        set_state(e, zone, TS_ZONE_EMPTY);
        /* Where a file system cannot do it, the bytes stay in the file. They read as zero in any case. */
        if (is_whole(e, &e->file))
            (void)fallocate(e->file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place_of(e, zone, 0),
                            (off_t)device->capacity);
    }
    return end(e, f);
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* All of it, or false with EIO or what the system says. */
static bool transfer(const emulated *e, const struct iovec *from, int count, off_t at, uint64_t bytes, bool write) {
    struct iovec iov[IOV_MOST];
    memcpy(iov, from, (size_t)count * sizeof *iov);
    for (int first = 0; bytes > 0;) {
        if (!is_whole(e, &e->file) || (write && !ts_file_may_have((uint64_t)at + bytes))) return false;
        ssize_t n = write ? pwritev(e->file.fd, iov + first, count - first, at)
                          : preadv(e->file.fd, iov + first, count - first, at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        if (n == 0) return fail(EIO);
        bytes -= (uint64_t)n;
        at += n;
        for (size_t left = (size_t)n; left > 0;) {
            size_t part = left < iov[first].iov_len ? left : iov[first].iov_len;
            iov[first].iov_base = (char *)iov[first].iov_base + part;
            iov[first].iov_len -= part;
            left -= part;
            if (iov[first].iov_len == 0) first++;
        }
    }
    return true;
}

/* The first bytes of a vector. */
static int cut(const struct iovec *iov, int count, uint64_t bytes, struct iovec *out) {
    int n = 0;
    for (; n < count && bytes > 0; n++) {
        out[n] = iov[n];
        if (out[n].iov_len > bytes) out[n].iov_len = (size_t)bytes;
        bytes -= out[n].iov_len;
    }
    return n;
}

static bool is_good(const emulated *e, const struct iovec *iov, int count, uint64_t bytes) {
    if (count < 1 || count > IOV_MOST || bytes == 0 || bytes % e->device.block_bytes != 0) return false;
    for (int i = 0; i < count; i++)
        if (iov[i].iov_len == 0 || iov[i].iov_len % e->device.block_bytes != 0) return false;
    return true;
}

/* The place of an append that may be made. The caller has the mutex. */
static bool claim(emulated *e, uint32_t zone, uint64_t bytes, uint64_t *at, ts_emulated_fault *f) {
    if (!begin(e, zone, TS_EMULATED_APPEND, f)) return false;
    record *r = &e->table[zone];
    flight *now = &e->flight[zone];
    if (r->state == TS_ZONE_FULL || r->state == TS_ZONE_READ_ONLY || r->state == TS_ZONE_OFFLINE) return fail(EIO);
    if (now->count == 0) *now = (flight){.claimed = r->written};
    if (now->torn || bytes > e->device.capacity - now->claimed) return fail(EIO);
    if (!is_open(r->state)) {
        if (!can_open(e, zone)) return false;
        set_state(e, zone, TS_ZONE_IMPLICITLY_OPEN);
    }
    step(TS_STEP_OPENED, zone);
    *at = now->claimed;
    now->claimed += bytes;
    now->count++;
    return true;
}

/* The first bytes of an append: without the mutex. */
static bool put(emulated *e, uint32_t zone, const struct iovec *iov, int count, uint64_t at, uint64_t bytes) {
    struct iovec part[IOV_MOST];
    int n = cut(iov, count, bytes, part);
    return bytes == 0 || transfer(e, part, n, place_of(e, zone, at), bytes, true);
}

/* So many of its bytes are written. The write pointer moves when that of all before it has. The caller has the mutex.
   */
static bool settle(emulated *e, uint32_t zone, uint64_t at, uint64_t written, bool whole) {
    record *r = &e->table[zone];
    flight *now = &e->flight[zone];
    while (!now->torn && r->written != at) (void)pthread_cond_wait(&e->moved, &e->mutex);
    bool counts = !now->torn && r->state != TS_ZONE_READ_ONLY && r->state != TS_ZONE_OFFLINE;
    if (counts) {
        step(TS_STEP_WRITTEN, zone);
        r->written = at + written;
        save(e, zone);
        if (r->written == e->device.capacity) set_state(e, zone, TS_ZONE_FULL);
        step(TS_STEP_COUNTED, zone);
    }
    now->torn |= !counts || !whole;
    now->count--;
    (void)pthread_cond_broadcast(&e->moved);
    return counts && whole;
}

static bool append(ts_device *device, uint32_t zone, const struct iovec *iov, int count, uint64_t *at) {
    emulated *e = (emulated *)device;
    ts_emulated_fault f = TS_FAULT_NONE;
    uint64_t bytes = ts_iov_bytes(iov, count);
    if (!is_good(e, iov, count, bytes) || bytes > device->append_bytes) return fail(EINVAL);
    (void)pthread_mutex_lock(&e->mutex);
    bool done = claim(e, zone, bytes, at, &f);
    (void)pthread_mutex_unlock(&e->mutex);
    if (!done) return false;
    uint64_t half = bytes / device->block_bytes / 2 * device->block_bytes, first = half;
    uint64_t all = f == TS_FAULT_TORN ? half : bytes;
    if (ts_emulated_hooks_now.step && first != 0) {
        done = put(e, zone, iov, count, *at, first);
        step(TS_STEP_HALF, zone);
    }
    done = done && put(e, zone, iov, count, *at, all);
    int error = errno;
    (void)pthread_mutex_lock(&e->mutex);
    bool counts = settle(e, zone, *at, done ? all : 0, done && all == bytes);
    (void)pthread_mutex_unlock(&e->mutex);
    if (!done) return fail(error);
    return counts ? end(e, f) : fail(EIO);
}

static void clear(const struct iovec *iov, int count, uint64_t from) {
    for (int i = 0; i < count; i++) {
        uint64_t skip = from < iov[i].iov_len ? from : iov[i].iov_len;
        memset((char *)iov[i].iov_base + skip, 0, iov[i].iov_len - (size_t)skip);
        from -= skip;
    }
}

static bool zone_read(ts_device *device, uint32_t zone, uint64_t at, const struct iovec *iov, int count) {
    emulated *e = (emulated *)device;
    ts_emulated_fault f;
    uint64_t bytes = ts_iov_bytes(iov, count);
    if (!is_good(e, iov, count, bytes) || at % device->block_bytes != 0) return fail(EINVAL);
    if (at > device->zone_bytes || bytes > device->zone_bytes - at) return fail(EINVAL);
    (void)pthread_mutex_lock(&e->mutex);
    bool may = begin(e, zone, TS_EMULATED_READ, &f) && (f == TS_FAULT_NONE || fail(EIO));
    (void)pthread_mutex_unlock(&e->mutex);
    if (!may) return false;
    const record *r = &e->table[zone];
    if (r->state == TS_ZONE_OFFLINE) return fail(EIO);
    uint64_t there = at < r->written ? r->written - at : 0;
    if (there > bytes) there = bytes;
    if (there != 0) {
        struct iovec part[IOV_MOST];
        int n = cut(iov, count, there, part);
        if (!transfer(e, part, n, place_of(e, zone, at), there, false)) return false;
    }
    clear(iov, count, there);
    return true;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void release(ts_device *device) {
    emulated *e = (emulated *)device;
    const ts_owner nobody = {.process = 0};
    if (e->table && is_whole(e, &e->plain)) (void)put_all(e->plain.fd, &nobody, sizeof nobody, offsetof(header, owner));
    ts_own_file_close(&e->plain);
    ts_own_file_close(&e->file);
    (void)pthread_cond_destroy(&e->moved);
    (void)pthread_mutex_destroy(&e->mutex);
    free(e->flight);
    free(e->table);
    free(e);
}

static void forked(ts_device *device) {
    emulated *e = (emulated *)device;
    ts_own_file_close(&e->plain);
    ts_own_file_close(&e->file);
}

static const ts_device_table table = {.report = report,
                                      .append = append,
                                      .read = zone_read,
                                      .open = zone_open,
                                      .close = zone_close,
                                      .finish = zone_finish,
                                      .reset = zone_reset,
                                      .end = release,
                                      .forked = forked};

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
        return fail(EINVAL);
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
        if (put_all(file, block, sizeof block, 0)) return true;
        int error = errno;
        (void)!ftruncate(file, 0); /* as it was */
        return fail(error);
    }
    if (pread(file, h, sizeof *h, 0) != (ssize_t)sizeof *h || !is_header(h)) {
        ts_zones_say("%s is something else than an emulated device; it stays as it is", path);
        return fail(EINVAL);
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
        return fail(EINVAL);
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
        return fail(EFBIG);
    }
    if ((uint64_t)st.st_size < e->bytes && ftruncate(e->plain.fd, (off_t)e->bytes) != 0) return false;
    e->table = calloc(h->zones, sizeof *e->table);
    if (!e->table) return fail(ENOMEM);
    ssize_t n = pread(e->plain.fd, e->table, h->zones * sizeof *e->table, HEADER_BYTES);
    return n == (ssize_t)(h->zones * sizeof *e->table) || (n >= 0 && fail(EIO));
}

/* Writes all of it, so that the file system has a place for each record: ENOSPC. */
static bool save_table(emulated *e, header *h) {
    ts_owner_self(&h->owner);
    return put_all(e->plain.fd, e->table, e->device.zones * sizeof *e->table, HEADER_BYTES) &&
           put_all(e->plain.fd, h, sizeof *h, 0);
}

static bool read_table(emulated *e, const char *path) {
    for (uint32_t i = 0; i < e->device.zones; i++) {
        record *r = &e->table[i];
        if (r->state >= TS_ZONE_STATES || r->written > e->device.capacity || r->written % BLOCK != 0) {
            ts_zones_say("%s: the record of zone %u is damaged", path, i);
            return fail(EINVAL);
        }
        /* Its process was killed between the two. */
        if (is_active(r->state) && r->written == e->device.capacity) r->state = TS_ZONE_FULL;
        e->open += is_open(r->state);
        e->active += is_active(r->state);
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
        e->device = (ts_device){.call = &table,
                                .zones = (uint32_t)h.zones,
                                .max_open = (uint32_t)h.max_open,
                                .max_active = (uint32_t)h.max_active,
                                .zone_bytes = h.zone_size,
                                .capacity = h.zone_capacity,
                                .block_bytes = BLOCK,
                                .append_bytes = (size_t)1 << 20,
                                .append_pieces = IOV_MOST};
        e->flight = calloc(e->device.zones, sizeof *e->flight);
        good = (e->flight || fail(ENOMEM)) && begin_table(e, &h, path) && read_table(e, path) && save_table(e, &h);
    }
    if (good) return &e->device;
    int error = errno;
    release(&e->device);
    errno = error;
    return NULL;
}
