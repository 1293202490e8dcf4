#define _GNU_SOURCE
#include "zones/maps.h"

#include "os/small_file.h"

/* Lines of /proc/self/maps. -1: it cannot be read. */
static long count_maps(void) {
    char text[1 << 14];
    long lines = 0;
    ssize_t n;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    while ((n = read(file, text, sizeof text)) > 0)
        for (const char *p = text; (p = memchr(p, '\n', (size_t)(text + n - p))) != NULL; p++) lines++;
    (void)close(file);
    return lines;
}

bool ts_maps_have_room(size_t more) {
    long limit = (long)ts_small_file_number("/proc/sys/vm/max_map_count"), used = limit > 0 ? count_maps() : -1;
    if (used < 0) return true;
    long free = limit - limit / 16 - used;
    return free > 0 && more <= (size_t)free;
}
