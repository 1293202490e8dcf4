#include "http/process.h"

#include "advice/advice.h"
#include "http/loaded.h"
#include "observe/observe.h"
#include "os/os.h"
#include "os/small_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the process ------------------------------------------------------------------------------------------------- */

/* Seconds since its start; 0: not known. */
static uint64_t uptime(void) {
    struct timespec now;
    long hz = sysconf(_SC_CLK_TCK);
    uint64_t ticks = ts_process_word("/proc/self/stat", 22);
    if (hz <= 0 || ticks == 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
    uint64_t started = ticks / (uint64_t)hz;
    return (uint64_t)now.tv_sec > started ? (uint64_t)now.tv_sec - started : 0;
}

/* UINT64_MAX: there is none. */
static void json_limit(ts_sink *s, const char *key, uint64_t value) {
    if (value != UINT64_MAX) {
        ts_json_u64(s, key, value);
        return;
    }
    ts_json_key(s, key);
    ts_put(s, "null");
}

size_t http_process_render(char *buffer, size_t capacity) {
    ts_sink s = ts_sink_buffer(buffer, buffer ? capacity : 0);
    char program[64];
    const char *what;
    uint64_t left = ts_room_bytes(&what);
    (void)ts_small_file_line("/proc/self/comm", program, sizeof program);
    ts_json_begin(&s, NULL, '{');
    ts_json_u64(&s, "pid", (uint64_t)getpid());
    ts_json_text(&s, "program", program);
    ts_json_u64(&s, "uptime_s", uptime());
    json_limit(&s, "cgroup_limit_bytes", ts_room_limit());
    json_limit(&s, "left_bytes", left);
    ts_json_text(&s, "left_of", what);
    ts_json_end(&s, '}');
    return ts_sink_end(&s);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    const elf_place *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* The frames of the largest stacks of an allocator. Returns how many. */
static size_t add_frames(SlabAllocator *allocator, SlabStackSample *rows, elf_place *place) {
    size_t count = 0, n = slab_stacks(allocator, EPOCH_NONE, rows, TS_VIEW_STACKS);
    for (size_t i = 0; i < n && i < TS_VIEW_STACKS; i++)
        for (unsigned k = 0; k < rows[i].frame_count; k++) place[count++].address = rows[i].frames[k] - 1;
    return count;
}

#define FRAMES ((size_t)TS_VIEW_STACKS * SLAB_STACK_FRAMES) /* of an allocator, at most */

size_t http_functions_render(SlabAllocator *allocator, char *buffer, size_t capacity) {
    ts_sink s = ts_sink_buffer(buffer, buffer ? capacity : 0);
    SlabAllocator *all[TS_VIEWS];
    size_t allocators = slab_allocators(all, TS_VIEWS), count = 0, kept = 0;
    if (allocators > TS_VIEWS) allocators = TS_VIEWS;
    if (allocator) all[0] = allocator, allocators = 1;
    SlabStackSample *rows = malloc(TS_VIEW_STACKS * sizeof *rows);
    elf_place *place = calloc(TS_VIEWS * FRAMES, sizeof *place);
    http_segments segments = {NULL, 0};
    for (size_t i = 0; i < allocators && rows && place; i++) count += add_frames(all[i], rows, place + count);
    if (count > 0) qsort(place, count, sizeof *place, compare);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || place[i].address != place[i - 1].address) place[kept++].address = place[i].address;
    http_segments_read(&segments);
    http_segments_name(&segments, place, kept);
    ts_json_begin(&s, NULL, '{');
    for (size_t i = 0; i < kept; i++) {
        if (!place[i].name) continue;
        char key[24];
        (void)snprintf(key, sizeof key, "0x%llx", (unsigned long long)place[i].address + 1);
        ts_json_text(&s, key, place[i].name);
        free(place[i].name);
    }
    ts_json_end(&s, '}');
    http_segments_free(&segments);
    free(rows);
    free(place);
    return ts_sink_end(&s);
}
