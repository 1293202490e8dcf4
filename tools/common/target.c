#include "common/target.h"

#include "common/core.h"
#include "common/endpoint.h"
#include "common/text.h"
#include "os/small_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE_LINK "/memfd:" TS_PAGE_NAME

const char *tool_name = "tslab";
void (*before_saying)(void);

void say(const char *format, ...) {
    char text[4096];
    va_list args;
    va_start(args, format);
    if (before_saying) before_saying();
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)text_tame(text, strlen(text), false);
    fprintf(stderr, "%s: %s\n", tool_name, text);
}

int tool_end(int code) {
    if ((fflush(stdout) == 0 && !ferror(stdout)) || code != EXIT_DONE) return code;
    if (errno != EPIPE) say("stdout: %s", strerror(errno));
    return EXIT_NO_TARGET;
}

bool target_has_screen(void) {
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

/* ---- the page ------------------------------------------------------------------------------------------------- */

/* The line of a file of /proc/PID that begins with `key`, without the key, in `out`. pid 0: of this tool. */
static bool proc_line(pid_t pid, const char *file, const char *key, char *out, size_t bytes) {
    char path[64] = "/proc/self", text[1 << 15];
    if (pid) snprintf(path, sizeof path, "/proc/%ld", (long)pid);
    snprintf(path + strlen(path), sizeof path - strlen(path), "/%s", file);
    (void)ts_small_file_read(path, text, sizeof text);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, strlen(key)) != 0) continue;
        snprintf(out, bytes, "%.*s", (int)strcspn(line + strlen(key), "\n"), line + strlen(key));
        return true;
    }
    return false;
}

/* The process's id as it knows it itself, and as its page has it: the last of those that it has in the PID namespaces
   from here to its own. A kernel without NSpid (before 4.1) tells none but ours. */
static uint64_t pid_inside(pid_t pid) {
    char text[256];
    if (!proc_line(pid, "status", "NSpid:", text, sizeof text)) return (uint64_t)pid;
    const char *last = strrchr(text, '\t');
    return strtoull(last ? last : text, NULL, 10);
}

/* A process's page at that path of /proc; -1: it is another file, or another process's page. */
static int open_if_page(const char *path, uint64_t inside) {
    uint64_t head[3];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    if (pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head && head[0] == TS_PAGE_MAGIC && head[2] == inside)
        return fd;
    (void)close(fd);
    errno = ENOENT;
    return -1;
}

/* By its mapping, which stays when a program closes all descriptors that it does not know. Needs rights that root
   has. */
static int open_mapped_page(pid_t pid, uint64_t inside) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%ld/maps", (long)pid);
    FILE *maps = fopen(path, "re");
    int fd = -1;
    while (maps && fd < 0 && fgets(line, sizeof line, maps)) {
        unsigned long long from, to;
        if (!strstr(line, PAGE_LINK) || sscanf(line, "%llx-%llx", &from, &to) != 2) continue;
        snprintf(path, sizeof path, "/proc/%ld/map_files/%llx-%llx", (long)pid, from, to);
        fd = open_if_page(path, inside);
    }
    if (maps) (void)fclose(maps);
    return fd;
}

/* The descriptor of a process's page, opened for reading; -1: none, and errno says why (ENOENT: it has none). A child
   of fork closes its parent's, so the one with its own id is the process's own. */
static int open_page(pid_t pid) {
    char path[64], link[64];
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    DIR *dir = opendir(path);
    if (!dir) return -1;
    uint64_t inside = pid_inside(pid);
    int fd = -1, error = ENOENT;
    for (struct dirent *e; fd < 0 && (e = readdir(dir)) != NULL;) {
        char name[512];
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        ssize_t n = readlink(name, link, sizeof link - 1);
        if (n >= 0 && (n < (ssize_t)strlen(PAGE_LINK) || strncmp(link, PAGE_LINK, strlen(PAGE_LINK)) != 0)) continue;
        if (n >= 0) fd = open_if_page(name, inside);
        if (fd < 0 && (errno == EACCES || errno == EPERM)) error = errno;
    }
    (void)closedir(dir);
    if (fd < 0 && error == ENOENT) fd = open_mapped_page(pid, inside);
    errno = fd >= 0 ? 0 : error;
    return fd;
}

static void program_of(pid_t pid, char out[64]) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/comm", (long)pid);
    if (!ts_small_file_line(path, out, 64) || !*out) snprintf(out, 64, "?");
    (void)text_tame(out, strlen(out), false);
}

static int open_only_one(target *t) {
    DIR *dir = opendir("/proc");
    pid_t found[32];
    unsigned count = 0;
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (!isdigit((unsigned char)e->d_name[0]) || pid <= 0) continue;
        int fd = open_page(pid);
        if (fd < 0) continue;
        if (count == 0) {
            t->pid = pid;
            t->fd = fd;
        } else {
            (void)close(fd);
        }
        if (count < 32) found[count] = pid;
        count++;
    }
    if (dir) (void)closedir(dir);
    if (count == 1) return EXIT_DONE;
    if (count == 0) {
        say("no process here has a statistics page: start one with TSLAB_SHM=1, or give a URL");
        return EXIT_NO_TARGET;
    }
    say("%u processes have a statistics page; which one?", count);
    for (unsigned i = 0; i < count && i < 32; i++) {
        char program[64];
        program_of(found[i], program);
        fprintf(stderr, "  %8ld  %s\n", (long)found[i], program);
    }
    target_close(t);
    return EXIT_USAGE;
}

/* Whether /proc has the ids of another PID namespace than the one this tool is in. */
static bool is_proc_foreign(void) {
    char link[32];
    ssize_t n = readlink("/proc/self", link, sizeof link - 1);
    if (n <= 0) return n == 0 || errno == ENOENT;
    link[n] = 0;
    return strtol(link, NULL, 10) != (long)getpid();
}

enum { FLAG_EXITING = 4 }; /* PF_EXITING of the kernel */

/* The fields of /proc/PID/stat on the process's first thread: the state, the kernel's flags, and how many threads there
   are. */
static bool proc_stat(pid_t pid, char *state, unsigned *flags, long *threads) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    (void)ts_small_file_read(path, text, sizeof text);
    const char *rest = strrchr(text, ')'); /* a program's name may have any character */
    return rest && sscanf(rest, ") %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld", state, flags,
                          threads) == 3;
}

bool target_has_ended(const target *t) {
    struct pollfd ended = {t->pidfd, POLLIN, 0};
    char state;
    unsigned flags;
    long threads;
    if (t->pid == 0 || t->is_core) return false;
    if (t->pidfd >= 0) return poll(&ended, 1, 0) == 1;
    /* A first thread that has ended stays as Z while others run. */
    return !proc_stat(t->pid, &state, &flags, &threads) || (strchr("ZX", state) && threads <= 1);
}

/* A descriptor that tells the end of the process; -1: there is none. The system takes the id for one of this tool's PID
   namespace, which need not be that of /proc. */
static int open_pidfd(pid_t pid) {
    int fd = -1;
#ifdef SYS_pidfd_open
    char file[64], text[64];
    fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) return -1;
    snprintf(file, sizeof file, "fdinfo/%d", fd);
    if (proc_line(0, file, "Pid:", text, sizeof text) && strtol(text, NULL, 10) == (long)pid) return fd;
    (void)close(fd);
    fd = -1;
#else
    (void)pid;
#endif
    return fd;
}

/* Whether a process in which no page was found has ended. One that ends gives its files back some time before its end
   can be seen, and that is waited for; a first thread alone that ends looks the same, so not for long. */
static bool was_ending(pid_t pid) {
    target t = {.pid = pid, .fd = -1, .pidfd = -1};
    char state;
    unsigned flags;
    long threads;
    if (!proc_stat(pid, &state, &flags, &threads) || !(strchr("ZX", state) || (flags & FLAG_EXITING))) return false;
    t.pidfd = open_pidfd(pid);
    bool ended = target_has_ended(&t);
    for (unsigned looks = 0; !ended && looks < 100; looks++) {
        const struct timespec wait = {0, 10000000};
        (void)nanosleep(&wait, NULL);
        ended = target_has_ended(&t);
    }
    target_close(&t);
    return ended;
}

static int open_pid(target *t, const char *text) {
    char *end;
    errno = 0;
    long pid = strtol(text, &end, 10);
    if (errno || *end || pid <= 0 || pid > INT32_MAX) {
        say("'%s' is neither a process id nor a URL nor a core file", text);
        return EXIT_USAGE;
    }
    t->pid = (pid_t)pid;
    t->fd = open_page(t->pid);
    if (t->fd >= 0) return EXIT_DONE;
    char path[64];
    struct stat st;
    int error = errno;
    bool denied = error == EACCES || error == EPERM;
    snprintf(path, sizeof path, "/proc/%ld", pid);
    if (was_ending(t->pid))
        say("process %ld has ended", pid);
    else if (denied && geteuid() == 0)
        say("process %ld: its files cannot be looked at (%s), though this is root: it is of another namespace, or has "
            "rights that root has not here",
            pid, strerror(error));
    else if (denied)
        say("process %ld is another user's: a statistics page, if it has one, is for that user and root only", pid);
    else if (stat(path, &st) != 0)
        say("there is no process %ld", pid);
    else
        say("process %ld has no statistics page: it was not started with TSLAB_SHM=1, has made no allocator yet, or "
            "has closed the page's descriptor%s",
            pid,
            is_proc_foreign() ? "; /proc here is of another PID namespace: give the id that the process has there"
            : geteuid() != 0  ? " (then root can read it)"
                              : "");
    return EXIT_NO_TARGET;
}

static bool head_is_ours(const ts_page *head) {
    if (head->magic != TS_PAGE_MAGIC) {
        say("this is no statistics page");
        return false;
    }
    if (head->version == SLAB_STATS_VERSION && head->bytes == sizeof(ts_page)) return true;
    say("the page is of another version (%" PRIu32 ", %" PRIu32
        " bytes) than this tool (%u, %zu bytes); use the tool of "
        "the program's library",
        head->version, head->bytes, SLAB_STATS_VERSION, sizeof(ts_page));
    return false;
}

/* By reads, not by a mapping: a copy is needed anyway, and a file that shrinks cannot end this process. */
static bool read_at(int fd, void *to, size_t bytes, size_t at) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, (char *)to + done, bytes - done, (off_t)(at + done));
        if (n <= 0 && !(n < 0 && errno == EINTR)) return false;
        if (n > 0) done += (size_t)n;
    }
    return true;
}

/* A string ends in its field, and is fit to be shown. */
#define TAME(text) ((text)[sizeof(text) - 1] = 0, (void)text_tame((text), strlen(text), false))

static double tame_percent(double percent) { return percent >= 0 && percent <= 100 ? percent : 0; }

static void tame_strings(ts_view *v) {
    TAME(v->library);
    TAME(v->name);
    for (uint32_t i = 0; i < v->epoch_rows; i++) TAME(v->epoch[i].label);
    for (uint32_t i = 0; i < v->ended_rows; i++) TAME(v->ended[i].label);
    for (uint32_t i = 0; i < v->label_rows; i++) TAME(v->label[i].label);
    for (uint32_t i = 0; i < v->stack_rows; i++) TAME(v->stack[i].label);
    for (uint32_t i = 0; i < v->module_rows; i++) TAME(v->module[i].path);
    for (uint32_t i = 0; i < v->thread_rows; i++) TAME(v->thread[i].name);
    for (uint64_t i = 0; i < v->zones_rows; i++) TAME(v->zones[i].device);
    for (uint64_t i = 0; i < v->finding_count; i++) {
        ts_finding *f = &v->finding[i];
        TAME(f->id), TAME(f->label), TAME(f->what), TAME(f->evidence), TAME(f->advice);
    }
}

bool target_check_view(ts_view *v) {
    if (v->magic != TS_VIEW_MAGIC || v->bytes != sizeof *v || v->epoch_rows > TS_VIEW_EPOCHS ||
        v->ended_rows > TS_VIEW_ENDED || v->label_rows > TS_VIEW_LABELS + 1 || v->finding_count > TS_FINDINGS ||
        v->stack_rows > TS_VIEW_STACKS || v->module_rows > TS_VIEW_MODULES || v->zones_rows > TS_ZONES_ROWS ||
        v->node_rows > TS_NODE_ROWS || v->thread_rows > TS_VIEW_THREADS)
        return false;
    for (uint32_t i = 0; i < v->stack_rows; i++)
        if (v->stack[i].frame_count > SLAB_STACK_FRAMES) return false;
    tame_strings(v);
    v->global.recycle_rate_pct = tame_percent(v->global.recycle_rate_pct);
    for (uint32_t i = 0; i < TS_COUNT_KINDS; i++) v->cls[i].recycle_rate_pct = tame_percent(v->cls[i].recycle_rate_pct);
    for (uint32_t i = 0; i < v->label_rows; i++)
        if (v->label[i].growth_bytes_per_minute == INT64_MIN) v->label[i].growth_bytes_per_minute = -INT64_MAX;
    return true;
}

bool target_read_page(const target *t, ts_page_bank *out) {
    enum { HEAD = offsetof(ts_page, bank) };
    for (unsigned looks = 0; looks < 50; looks++) {
        ts_page head;
        memset(&head, 0, HEAD);
        if (!read_at(t->fd, &head, HEAD, t->page_at)) {
            say("the page of process %ld cannot be read: %s", (long)t->pid, strerror(errno));
            return false;
        }
        if (!head_is_ours(&head)) return false;
        uint64_t turn = head.turn, again;
        atomic_thread_fence(memory_order_acquire); /* the turn before its bank */
        bool whole =
            turn != 0 && read_at(t->fd, out, sizeof *out, t->page_at + HEAD + (turn & 1) * sizeof(ts_page_bank));
        atomic_thread_fence(
            memory_order_acquire); /* the bank before the second look; partner: the fence in write_page */
        whole = whole && read_at(t->fd, &again, sizeof again, t->page_at + offsetof(ts_page, turn)) && again == turn;
        if (whole && out->views <= TS_PAGE_ALLOCATORS) {
            for (uint32_t i = 0; whole && i < out->views; i++) {
                if (!target_check_view(&out->view[i])) whole = false;
                out->view[i].pid = (uint64_t)t->pid; /* as it is known here */
            }
            if (whole) return true;
        }
        const struct timespec wait = {0, 20000000};
        (void)nanosleep(&wait, NULL);
    }
    say(target_has_ended(t) ? "process %ld has ended" : "the page of process %ld has not been written", (long)t->pid);
    return false;
}

/* The offset of a process's time namespace to the monotonic clock, in ns. */
static int64_t clock_offset(pid_t pid) {
    char text[256];
    long long seconds = 0, ns = 0;
    if (proc_line(pid, "timens_offsets", "monotonic", text, sizeof text))
        (void)sscanf(text, "%lld %lld", &seconds, &ns);
    return seconds * 1000000000 + ns;
}

bool target_is_stale(const target *t, const ts_page_bank *bank, double *seconds) {
    struct timespec now;
    *seconds = 0;
    if (t->is_core) return false;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    ns += (uint64_t)(clock_offset(t->pid) - clock_offset(0)); /* as the process's clock is */
    uint64_t age = ns > bank->written_ns ? ns - bank->written_ns : 0;
    *seconds = (double)age / 1e9;
    return age > 8 * (uint64_t)TS_PAGE_INTERVAL_NS;
}

const ts_view *target_most(const ts_views *views) {
    const ts_view *most = views->at[0];
    for (unsigned i = 1; i < views->count; i++)
        if (views->at[i]->global.committed_bytes > most->global.committed_bytes) most = views->at[i];
    return most;
}

int target_choose(const ts_view *view, uint32_t count, uint32_t all, long allocator, ts_views *out) {
    out->count = 0;
    for (uint32_t i = 0; i < count; i++)
        if (allocator < 0 || view[i].number == (unsigned long)allocator) out->at[out->count++] = &view[i];
    if (out->count > 0) {
        if (allocator < 0 && all > count) say("%u of %u allocators, those that hold most", count, all);
        return EXIT_DONE;
    }
    if (allocator < 0)
        say("there is no allocator: the program has made none yet, or has freed them all");
    else
        say("the program has %u allocator%s, from 0: there is no %ld", all, all == 1 ? "" : "s", allocator);
    return allocator < 0 ? EXIT_NO_TARGET : EXIT_USAGE;
}

int target_read_views(const target *t, long allocator, ts_views *out, double *age) {
    static ts_page_bank bank;
    const struct timespec wait = {0, 20000000};
    for (unsigned looks = 0;; looks++) {
        if (!target_read_page(t, &bank)) return EXIT_NO_TARGET;
        /* A process that has just started makes its allocator while the page is written first. */
        if (bank.views > 0 || t->is_core || looks == 50 || target_has_ended(t)) break;
        (void)nanosleep(&wait, NULL);
    }
    if (target_has_ended(t)) {
        say("process %ld has ended", (long)t->pid);
        return EXIT_NO_TARGET;
    }
    if (!target_is_stale(t, &bank, age)) *age = 0;
    return target_choose(bank.view, bank.views, bank.allocators, allocator, out);
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

/* -1: it is no file. */
static int open_core(target *t, const char *path) {
    struct stat st;
    bool is_core;
    uint64_t head[3];
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return -1;
    t->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (t->fd < 0) {
        say("%s: %s", path, strerror(errno));
        return EXIT_NO_TARGET;
    }
    if (core_find_page(t->fd, &t->page_at, &is_core) && read_at(t->fd, head, sizeof head, t->page_at)) {
        t->is_core = true;
        t->pid = (pid_t)head[2];
        return EXIT_DONE;
    }
    if (is_core)
        say("%s has no statistics page: the program ran without TSLAB_SHM=1; gdb with tslab-gdb.py shows its epochs",
            path);
    else
        say("%s is no core file of this kind of machine", path);
    return EXIT_NO_TARGET;
}

int target_open(target *t, const char *text) {
    memset(t, 0, sizeof *t);
    t->fd = t->pidfd = -1;
    if (text && strncmp(text, "http://", 7) == 0) return endpoint_open(t, text);
    if (text && strstr(text, "://")) {
        say("'%s': only http:// is understood", text);
        return EXIT_USAGE;
    }
    int code = text && text[strspn(text, "0123456789")] ? open_core(t, text) : -1;
    if (code != -1) return code;
    code = text ? open_pid(t, text) : open_only_one(t);
    if (code == EXIT_DONE) t->pidfd = open_pidfd(t->pid);
    return code;
}

void target_close(target *t) {
    if (t->fd >= 0) (void)close(t->fd);
    if (t->pidfd >= 0) (void)close(t->pidfd);
    free(t->host);
    free(t->port);
    memset(t, 0, sizeof *t);
    t->fd = t->pidfd = -1;
}
