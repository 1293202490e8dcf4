#define _GNU_SOURCE
#include "support.h"

#include "walk/check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static char path[256];
static pid_t owner;

static void remove_path(void) {
    if (getpid() == owner) (void)unlink(path);
}

static const char *folder;

void zt_in_memory(void) {
    if (access("/dev/shm", W_OK) == 0) folder = "/dev/shm";
}

/* On a disk if it can be, where direct I/O works: /var/tmp before /tmp. */
const char *zt_path(void) {
    if (path[0]) return path;
    if (!folder) folder = access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
    owner = getpid();
    (void)snprintf(path, sizeof path, "%s/tslab-zones-%ld", folder, (long)owner);
    (void)unlink(path);
    (void)atexit(remove_path);
    return path;
}

const char *zt_where(const char *parameters) {
    static char where[512];
    (void)snprintf(where, sizeof where, "emulated:%s?%s", zt_path(), parameters);
    return where;
}

SlabZones *zt_open(const char *parameters) {
    SlabZones *zones = slab_zones_open(zt_where(parameters), NULL);
    SUP_CHECK(zones, "%s: %s", zt_where(parameters), strerror(errno));
    return zones;
}

SlabZonesStats zt_stats(SlabZones *zones) {
    SlabZonesStats s;
    SUP_CHECK(slab_zones_stats(zones, &s), "%s", strerror(errno));
    return s;
}

static unsigned char byte_of(uint32_t seed, size_t i) {
    return (unsigned char)((seed * 2654435761u + (uint32_t)i * 40503u) >> 13);
}

zt_epoch zt_fill(SlabAllocator *allocator, unsigned flags, size_t count, size_t bytes, uint32_t seed) {
    zt_epoch e = {.allocator = allocator, .count = count, .live = count};
    e.id = epoch_open(allocator, "zones", flags);
    e.object = calloc(count ? count : 1, sizeof *e.object);
    SUP_CHECK(e.id != EPOCH_NONE && e.object, "no epoch");
    for (size_t i = 0; i < count; i++) {
        static const uint32_t sizes[] = {1, 16, 40, 64, 100, 256, 700, 3000, 8000, 9000, 20000, 70000};
        zt_object *o = &e.object[i];
        o->seed = seed + (uint32_t)i * 7919u;
        o->bytes = (uint32_t)(bytes ? bytes : sizes[(o->seed >> 3) % (sizeof sizes / sizeof sizes[0])]);
        o->at = alloc_obj_epoch(allocator, o->bytes, e.id, &o->handle);
        SUP_CHECK(o->at, "no object: %s", strerror(errno));
        for (size_t k = 0; k < o->bytes; k++) o->at[k] = byte_of(o->seed, k);
    }
    SUP_CHECK(epoch_close(allocator, e.id), "it does not close");
    return e;
}

void zt_forget(zt_epoch *epoch) {
    free(epoch->object);
    *epoch = (zt_epoch){0};
}

static bool is_filled(const unsigned char *at, const zt_object *o) {
    for (size_t k = 0; k < o->bytes; k++)
        if (at[k] != byte_of(o->seed, k)) return false;
    return true;
}

bool zt_is_right(const zt_epoch *epoch) {
    for (size_t i = 0; i < epoch->count; i++)
        if (epoch->object[i].at && !is_filled(epoch->object[i].at, &epoch->object[i])) return false;
    return true;
}

bool zt_object_reads_right(const zt_epoch *epoch, const zt_object *o) {
    unsigned char *copy = malloc(o->bytes);
    SUP_CHECK(copy, "no memory");
    ssize_t n = slab_zones_read(epoch->allocator, o->handle, copy, o->bytes);
    bool right = n == (ssize_t)o->bytes && is_filled(copy, o);
    free(copy);
    return right;
}

bool zt_reads_right(const zt_epoch *epoch, size_t step) {
    for (size_t i = 0; i < epoch->count; i += step)
        if (epoch->object[i].at && !zt_object_reads_right(epoch, &epoch->object[i])) return false;
    return true;
}

void zt_free(zt_epoch *epoch, size_t i, bool by_handle) {
    zt_object *o = &epoch->object[i];
    bool freed = by_handle ? free_obj(epoch->allocator, o->handle) : slab_free(epoch->allocator, o->at);
    SUP_CHECK(freed, "object %zu is not freed", i);
    SUP_CHECK(!free_obj(epoch->allocator, o->handle), "object %zu is freed twice", i);
    SUP_CHECK(!slab_handle_get(epoch->allocator, o->handle), "object %zu lives on", i);
    o->at = NULL;
    epoch->live--;
}

/* The kernel looks: a system call that reads the address answers EFAULT. */
bool zt_faults(const void *at) {
    int pipe_ends[2];
    SUP_CHECK(pipe(pipe_ends) == 0, "no pipe");
    ssize_t n = write(pipe_ends[1], at, 1);
    int error = errno;
    (void)close(pipe_ends[0]);
    (void)close(pipe_ends[1]);
    return n < 0 && error == EFAULT;
}

void zt_check(void) {
    static ts_check check;
    SUP_CHECK(ts_check_all(&check, false), "%s", check.why);
}
