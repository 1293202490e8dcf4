#define _GNU_SOURCE
#include "os/file_limit.h"
#include "zones/emulated_device.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ts_emulated_hooks ts_emulated_hooks_now;

static ts_emulated_fault fault(ts_emulated_call call, uint32_t zone) {
    const ts_emulated_hooks *h = &ts_emulated_hooks_now;
    return h->fault ? h->fault(h->arg, call, zone) : TS_FAULT_NONE;
}
static void step(ts_emulated_step at, uint32_t zone) {
    const ts_emulated_hooks *h = &ts_emulated_hooks_now;
    if (h->step) h->step(h->arg, at, zone);
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

bool ts_emulated_put_all(int file, const void *from, size_t bytes, uint64_t at) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pwrite(file, (const char *)from + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? false : ts_emulated_fail(EIO);
        done += (size_t)n;
    }
    return true;
}

/* Whether the descriptor is still the device's file, and the file has all its bytes: somebody may have cut it. */
static bool is_whole(const emulated *e, const ts_own_file *file) {
    struct stat st;
    if (fstat(file->fd, &st) != 0 || st.st_dev != file->device || st.st_ino != file->inode)
        return ts_emulated_fail(EIO);
    return (uint64_t)st.st_size >= e->bytes || ts_emulated_fail(EIO);
}

/* In the file after all that came before: a process that is killed leaves the zones in order. */
static void save(emulated *e, uint32_t zone) {
    uint64_t at = HEADER_BYTES + (uint64_t)zone * sizeof(record);
    e->lost =
        e->lost || !is_whole(e, &e->plain) || !ts_emulated_put_all(e->plain.fd, &e->table[zone], sizeof(record), at);
}

/* ---- states ----------------------------------------------------------------------------------------------------- */

static void set_state(emulated *e, uint32_t zone, uint32_t state) {
    record *r = &e->table[zone];
    if (state == TS_ZONE_IMPLICITLY_OPEN && r->state != state) r->turn = e->turns++;
    e->open += (uint32_t)ts_emulated_is_open(state) - (uint32_t)ts_emulated_is_open(r->state);
    e->active += (uint32_t)ts_emulated_is_active(state) - (uint32_t)ts_emulated_is_active(r->state);
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
    if (!ts_emulated_is_active(e->table[zone].state) && e->device.max_active != 0 && e->active >= e->device.max_active)
        return ts_emulated_fail(EOVERFLOW);
    return e->device.max_open == 0 || e->open < e->device.max_open || ts_emulated_fail(ETOOMANYREFS);
}

/* Does the part of a fault that comes before the call. false: the call ends with EIO. */
static bool begin(emulated *e, uint32_t zone, ts_emulated_call call, ts_emulated_fault *f) {
    if (zone >= e->device.zones) return ts_emulated_fail(EINVAL);
    if (e->lost && call != TS_EMULATED_READ && call != TS_EMULATED_REPORT) return ts_emulated_fail(EIO);
    *f = fault(call, zone);
    if (*f == TS_FAULT_READ_ONLY) set_state(e, zone, TS_ZONE_READ_ONLY);
    if (*f == TS_FAULT_OFFLINE) set_state(e, zone, TS_ZONE_OFFLINE);
    if (*f == TS_FAULT_REFUSED || *f == TS_FAULT_READ_ONLY || *f == TS_FAULT_OFFLINE) return ts_emulated_fail(EIO);
    return true;
}
static bool end(const emulated *e, ts_emulated_fault f) {
    return (f == TS_FAULT_NONE && !e->lost) || ts_emulated_fail(EIO);
}

static bool report(ts_device *device, uint32_t zone, ts_zone_report *out) {
    emulated *e = (emulated *)device;
    ts_emulated_fault f;
    if (!begin(e, zone, TS_EMULATED_REPORT, &f) || (f != TS_FAULT_NONE && !ts_emulated_fail(EIO))) return false;
    *out = (ts_zone_report){(ts_zone_state)e->table[zone].state, e->table[zone].written, device->capacity};
    return true;
}

static bool zone_open(ts_device *device, uint32_t zone) {
    emulated *e = (emulated *)device;
    ts_emulated_fault f;
    if (!begin(e, zone, TS_EMULATED_OPEN, &f)) return false;
    uint32_t state = e->table[zone].state;
    if (state == TS_ZONE_FULL || state == TS_ZONE_READ_ONLY || state == TS_ZONE_OFFLINE) return ts_emulated_fail(EIO);
    if (!ts_emulated_is_open(state) && !can_open(e, zone)) return false;
    set_state(e, zone, TS_ZONE_EXPLICITLY_OPEN);
    return end(e, f);
}

static bool zone_close(ts_device *device, uint32_t zone) {
    emulated *e = (emulated *)device;
    ts_emulated_fault f;
    if (!begin(e, zone, TS_EMULATED_CLOSE, &f)) return false;
    if (!ts_emulated_is_active(e->table[zone].state)) return ts_emulated_fail(EIO);
    set_state(e, zone, TS_ZONE_CLOSED);
    return end(e, f);
}

static bool zone_finish(ts_device *device, uint32_t zone) {
    emulated *e = (emulated *)device;
    ts_emulated_fault f;
    if (!begin(e, zone, TS_EMULATED_FINISH, &f)) return false;
    uint32_t state = e->table[zone].state;
    if (state == TS_ZONE_READ_ONLY || state == TS_ZONE_OFFLINE) return ts_emulated_fail(EIO);
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
    if (state == TS_ZONE_READ_ONLY || state == TS_ZONE_OFFLINE) return ts_emulated_fail(EIO);
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
        if (n == 0) return ts_emulated_fail(EIO);
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
    if (r->state == TS_ZONE_FULL || r->state == TS_ZONE_READ_ONLY || r->state == TS_ZONE_OFFLINE)
        return ts_emulated_fail(EIO);
    if (now->count == 0) *now = (flight){.claimed = r->written};
    if (now->torn || bytes > e->device.capacity - now->claimed) return ts_emulated_fail(EIO);
    if (!ts_emulated_is_open(r->state)) {
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
    if (!is_good(e, iov, count, bytes) || bytes > device->append_bytes) return ts_emulated_fail(EINVAL);
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
    if (!done) return ts_emulated_fail(error);
    return counts ? end(e, f) : ts_emulated_fail(EIO);
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
    if (!is_good(e, iov, count, bytes) || at % device->block_bytes != 0) return ts_emulated_fail(EINVAL);
    if (at > device->zone_bytes || bytes > device->zone_bytes - at) return ts_emulated_fail(EINVAL);
    (void)pthread_mutex_lock(&e->mutex);
    bool may = begin(e, zone, TS_EMULATED_READ, &f) && (f == TS_FAULT_NONE || ts_emulated_fail(EIO));
    (void)pthread_mutex_unlock(&e->mutex);
    if (!may) return false;
    const record *r = &e->table[zone];
    if (r->state == TS_ZONE_OFFLINE) return ts_emulated_fail(EIO);
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
    if (e->table && is_whole(e, &e->plain))
        (void)ts_emulated_put_all(e->plain.fd, &nobody, sizeof nobody, offsetof(header, owner));
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

const ts_device_table ts_emulated_calls = {.report = report,
                                           .append = append,
                                           .read = zone_read,
                                           .open = zone_open,
                                           .close = zone_close,
                                           .finish = zone_finish,
                                           .reset = zone_reset,
                                           .end = release,
                                           .forked = forked};
