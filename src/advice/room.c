#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "advice/room.h"

#include "os/small_file.h"

#include <stdbool.h>
#include <string.h>

#define CGROUPS "/sys/fs/cgroup"

static bool read_number(const char *directory, const char *file, uint64_t *out) {
    char path[512], text[64];
    size_t a = strlen(directory), b = strlen(file);
    if (a + b >= sizeof path) return false;
    memcpy(path, directory, a);
    memcpy(path + a, file, b + 1);
    return ts_small_file_read(path, text, sizeof text) && ts_number_at(text, out);
}

/* The room that the process's cgroup (version 2) and those around it leave, and their least limit. */
static uint64_t room_of_cgroups(uint64_t *least) {
    char text[512], path[512] = CGROUPS;
    uint64_t room = UINT64_MAX, limit, used;
    *least = UINT64_MAX;
    if (!ts_small_file_read("/proc/self/cgroup", text, sizeof text)) return room;
    const char *at = strstr(text, "0::/");
    if (!at) return room;
    size_t n = strcspn(at + 3, "\n"), root = strlen(CGROUPS);
    if (root + n >= sizeof path) return room;
    memcpy(path + root, at + 3, n);
    path[root + n] = 0;
    for (;;) {
        size_t length = strlen(path);
        while (length > root && path[length - 1] == '/') path[--length] = 0;
        if (read_number(path, "/memory.max", &limit) && read_number(path, "/memory.current", &used)) {
            uint64_t left = limit > used ? limit - used : 0;
            if (limit < *least) *least = limit;
            if (left < room) room = left;
        }
        char *slash = strrchr(path, '/');
        if (length <= root || !slash) return room;
        *slash = 0;
    }
}

static uint64_t room_of_machine(void) {
    static const char key[] = "MemAvailable:";
    char text[1024];
    uint64_t kib = 0;
    if (!ts_small_file_read("/proc/meminfo", text, sizeof text)) return UINT64_MAX;
    const char *at = strstr(text, key);
    return at && ts_number_at(at + sizeof key - 1, &kib) ? kib << 10 : UINT64_MAX;
}

uint64_t ts_room_bytes(const char **what) {
    uint64_t limit, machine = room_of_machine(), cgroups = room_of_cgroups(&limit);
    *what = cgroups < machine ? "the memory limit of the cgroup" : "the machine's memory";
    return cgroups < machine ? cgroups : machine;
}

uint64_t ts_room_limit(void) {
    uint64_t limit;
    (void)room_of_cgroups(&limit);
    return limit;
}
