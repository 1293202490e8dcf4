/*
 * The room that a process has. A cgroup that reaches its limit kills a process. Above its high mark (version 2)
 * it holds the process up. So each group counts, from its own up to the root. In a container the paths of
 * /proc/self/cgroup may be those of the machine, whose files are not there. Then the root that the container sees is
 * its own group.
 *
 * Page cache counts as used. The part of it that goes first when memory is short does not count here.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "os/os.h"

#include "os/small_file.h"

#define TEXT_BYTES 2048u
#define NO_LIMIT ((uint64_t)1 << 62) /* version 1 has a number for none, which is larger */

/* Where the groups of a version are, and the names of their files. */
typedef struct version {
    const char *root, *limit, *high, *used;
    const char *cache; /* the page cache that goes first, in memory.stat */
} version;
static const version one = {"/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/", "/memory.usage_in_bytes",
                            "\ntotal_inactive_file "};
static const version two = {"/sys/fs/cgroup", "/memory.max", "/memory.high", "/memory.current", "\ninactive_file "};

typedef struct room {
    uint64_t limit, left; /* the least of all groups; UINT64_MAX: none */
} room;

static bool read_text(const char *directory, const char *file, char *text, size_t bytes) {
    char path[512];
    size_t a = strlen(directory), b = strlen(file);
    if (a + b >= sizeof path) return false;
    memcpy(path, directory, a);
    memcpy(path + a, file, b + 1);
    return ts_small_file_read(path, text, bytes);
}

/* false: there is no such file, or its text is "max". */
static bool read_number(const char *directory, const char *file, uint64_t *out) {
    char text[64];
    return read_text(directory, file, text, sizeof text) && ts_number_at(text, out) && *out < NO_LIMIT;
}

static uint64_t read_cache(const version *v, const char *directory) {
    char text[TEXT_BYTES];
    uint64_t bytes = 0;
    const char *at = read_text(directory, "/memory.stat", text, sizeof text) ? strstr(text, v->cache) : NULL;
    return at && ts_number_at(at + strlen(v->cache), &bytes) ? bytes : 0;
}

static void look_at_group(const version *v, const char *directory, room *r) {
    uint64_t most = UINT64_MAX, limit, high, used;
    if (read_number(directory, v->limit, &limit)) most = limit;
    if (most < r->limit) r->limit = most;
    if (read_number(directory, v->high, &high) && high < most) most = high;
    if (most == UINT64_MAX || !read_number(directory, v->used, &used)) return;
    uint64_t cache = read_cache(v, directory);
    used -= cache < used ? cache : used;
    uint64_t left = most > used ? most - used : 0;
    if (left < r->left) r->left = left;
}

/* The group at the path, and those around it. */
static void look_at_groups(const version *v, const char *group, size_t bytes, room *r) {
    char path[512];
    size_t root = strlen(v->root), length = root + bytes;
    if (length >= sizeof path) return;
    memcpy(path, v->root, root);
    memcpy(path + root, group, bytes);
    for (;;) {
        path[length] = 0;
        look_at_group(v, path, r);
        if (length <= root) return;
        do length--;
        while (length > root && path[length] != '/');
    }
}

/* Whether a line of /proc/self/cgroup, from behind its number on, names the controller. */
static bool is_of_memory(const char *controllers, const char *end) {
    static const char name[] = "memory";
    for (const char *at = controllers; at < end; at += strcspn(at, ",:") + 1)
        if (strcspn(at, ",:") == sizeof name - 1 && memcmp(at, name, sizeof name - 1) == 0) return true;
    return false;
}

static room room_of_cgroups(void) {
    room r = {UINT64_MAX, UINT64_MAX};
    char text[TEXT_BYTES];
    if (!ts_small_file_read("/proc/self/cgroup", text, sizeof text)) return r;
    for (const char *line = text; *line;) {
        size_t bytes = strcspn(line, "\n");
        const char *end = line + bytes, *controllers = memchr(line, ':', bytes);
        const char *group = controllers ? memchr(controllers + 1, ':', (size_t)(end - controllers - 1)) : NULL;
        if (group && group == controllers + 1)
            look_at_groups(&two, group + 1, (size_t)(end - group - 1), &r);
        else if (group && is_of_memory(controllers + 1, group))
            look_at_groups(&one, group + 1, (size_t)(end - group - 1), &r);
        line = *end ? end + 1 : end;
    }
    return r;
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
    uint64_t machine = room_of_machine(), cgroups = room_of_cgroups().left;
    *what = cgroups < machine ? "the memory limit of the cgroup" : "the machine's memory";
    return cgroups < machine ? cgroups : machine;
}

uint64_t ts_room_limit(void) { return room_of_cgroups().limit; }
