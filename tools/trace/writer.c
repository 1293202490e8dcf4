#include "trace/writer.h"

#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef TRACE_ZSTD
#include <zstd.h>
#endif

#define STACKS_AT_ONCE 65536u
#define LONGEST_BLOCK_NS UINT32_MAX

typedef struct pending {
    char *text;
    size_t bytes, capacity;
    uint32_t count;
} pending;

typedef struct thread {
    raw_event *events;
    size_t count, capacity;
    uint32_t process;
    uint64_t last_ns;
} thread;

/* Open addressing: a number, or 0. */
typedef struct numbers {
    uint32_t *slot;
    size_t slots;
} numbers;

struct trace_writer {
    int fd;
    uint64_t bytes;
    char error[160];
    thread *threads;
    size_t thread_count;
    uint64_t *stack_address; /* all of them, by number: [0] is none */
    uint32_t *stack_caller, stacks, stacks_written;
    size_t stack_capacity;
    numbers stack_numbers, text_numbers;
    char **text; /* by number */
    uint32_t texts, texts_written;
    size_t text_capacity;
    pending modules, processes;
    uint32_t process_count;
#ifdef TRACE_ZSTD
    ZSTD_CCtx *zstd;
#endif
};

__attribute__((format(printf, 2, 3))) static void fail(trace_writer *w, const char *format, ...) {
    va_list arguments;
    if (w->error[0]) return;
    va_start(arguments, format);
    vsnprintf(w->error, sizeof w->error, format, arguments);
    va_end(arguments);
}

const char *trace_writer_error(const trace_writer *w) { return w->error[0] ? w->error : NULL; }
uint64_t trace_writer_bytes(const trace_writer *w) { return w->bytes; }

/* Room for one more. */
static bool room(trace_writer *w, void *array, size_t *capacity, size_t count, size_t bytes) {
    if (count < *capacity) return true;
    size_t more = *capacity ? 2 * *capacity : 64;
    void *old, *at;
    memcpy(&old, array, sizeof old);
    at = realloc(old, more * bytes);
    if (!at) return fail(w, "no memory"), false;
    memcpy(array, &at, sizeof at);
    *capacity = more;
    return true;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void write_all(trace_writer *w, const unsigned char *bytes, size_t count) {
    for (size_t done = 0; done < count;) {
        ssize_t n = write(w->fd, bytes + done, count - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            fail(w, "%s", n == 0 ? "nothing can be written" : strerror(errno));
            if (ftruncate(w->fd, (off_t)w->bytes) != 0) return; /* a reader finds the end of the last block itself */
            return;
        }
        done += (size_t)n;
    }
    w->bytes += count;
}

static size_t compress_into(trace_writer *w, unsigned char *out, size_t room_bytes, const void *in, size_t bytes) {
#ifdef TRACE_ZSTD
    size_t n = bytes < 64 ? 0 : ZSTD_compressCCtx(w->zstd, out, room_bytes, in, bytes, 3);
    if (n != 0 && !ZSTD_isError(n) && n < bytes) return n;
#endif
    (void)w, (void)out, (void)room_bytes, (void)in, (void)bytes;
    return 0;
}

/* h: kind, count, thread, process and times. One write, so that a full disk leaves no half block that looks whole. */
static void put_block(trace_writer *w, format_head *h, const void *in, size_t bytes) {
    if (w->error[0]) return;
    if (bytes > FORMAT_BLOCK_BYTES) {
        fail(w, "a block is too large");
        return;
    }
    unsigned char *out = malloc(FORMAT_HEAD_BYTES + bytes + 64);
    if (!out) {
        fail(w, "no memory");
        return;
    }
    size_t n = compress_into(w, out + FORMAT_HEAD_BYTES, bytes + 64, in, bytes);
    h->codec = n ? CODEC_ZSTD : CODEC_PLAIN;
    if (!n && bytes) memcpy(out + FORMAT_HEAD_BYTES, in, bytes);
    h->plain_bytes = (uint32_t)bytes;
    h->stored_bytes = (uint32_t)(n ? n : bytes);
    h->crc = format_crc(0, out + FORMAT_HEAD_BYTES, h->stored_bytes);
    format_put_head(out, h);
    write_all(w, out, FORMAT_HEAD_BYTES + h->stored_bytes);
    free(out);
}

static void put_text(trace_writer *w, format_block kind, uint32_t process, const char *text, size_t bytes) {
    format_head h = {.kind = (uint8_t)kind, .process = process};
    put_block(w, &h, text, bytes);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void put_some_stacks(trace_writer *w, uint32_t first, uint32_t count) {
    uint64_t *back = malloc(2 * (size_t)count * sizeof *back), *address = back + count, before = 0;
    unsigned char *out = malloc(2 + 16 * (size_t)count);
    if (!back || !out) fail(w, "no memory");
    for (uint32_t i = 0; back && out && i < count; i++) {
        uint64_t difference = w->stack_address[first + i] - before;
        before = w->stack_address[first + i];
        address[i] = format_fold(difference);
        back[i] = w->stack_caller[first + i] ? first + i - w->stack_caller[first + i] : 0;
    }
    if (back && out) {
        format_head h = {.kind = BLOCK_STACKS, .thread = first, .count = count};
        size_t bytes = format_put_planes(out, back, count);
        bytes += format_put_planes(out + bytes, address, count);
        put_block(w, &h, out, bytes);
    }
    free(back);
    free(out);
}

static void put_texts(trace_writer *w) {
    format_head h = {.kind = BLOCK_TEXTS, .thread = w->texts_written, .count = w->texts - w->texts_written};
    size_t bytes = 0, at = 0;
    if (h.count == 0) return;
    for (uint32_t i = w->texts_written; i < w->texts; i++) bytes += strlen(w->text[i]) + 1;
    char *all = malloc(bytes);
    if (!all) fail(w, "no memory");
    for (uint32_t i = w->texts_written; all && i < w->texts; i++) {
        size_t n = strlen(w->text[i]) + 1;
        memcpy(all + at, w->text[i], n);
        at += n;
    }
    if (all) put_block(w, &h, all, bytes);
    free(all);
    w->texts_written = w->texts;
}

static void put_pending(trace_writer *w, format_block kind, pending *p) {
    if (p->bytes) put_text(w, kind, 0, p->text, p->bytes);
    p->bytes = 0;
}

/* Before any event that refers to them. */
static void put_tables(trace_writer *w) {
    for (uint32_t n; w->stacks_written < w->stacks; w->stacks_written += n) {
        n = w->stacks - w->stacks_written;
        if (n > STACKS_AT_ONCE) n = STACKS_AT_ONCE;
        put_some_stacks(w, w->stacks_written, n);
    }
    put_texts(w);
    put_pending(w, BLOCK_MODULES, &w->modules);
    put_pending(w, BLOCK_PROCESSES, &w->processes);
}

__attribute__((format(printf, 3, 4))) static void add_line(trace_writer *w, pending *p, const char *format, ...) {
    char *line = NULL;
    va_list arguments;
    va_start(arguments, format);
    int n = vasprintf(&line, format, arguments);
    va_end(arguments);
    if (n < 0) {
        fail(w, "no memory");
        return;
    }
    for (int i = 0; i + 1 < n; i++)
        if (line[i] == '\n') line[i] = '?';
    if (p->bytes + (size_t)n > p->capacity) {
        char *more = realloc(p->text, p->capacity = 2 * p->capacity + (size_t)n);
        if (!more) fail(w, "no memory");
        if (more) p->text = more;
    }
    if (!w->error[0]) memcpy(p->text + p->bytes, line, (size_t)n);
    if (!w->error[0]) p->bytes += (size_t)n;
    free(line);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static uint64_t hash_stack(uint32_t caller, uint64_t address) {
    uint64_t h = (address ^ (uint64_t)caller << 40) * 0x9e3779b97f4a7c15u + caller;
    return h ^ h >> 29;
}

static uint64_t hash_text(const char *text) {
    uint64_t hash = 1469598103934665603u;
    for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return hash ^ hash >> 32;
}

static uint64_t hash_of(const trace_writer *w, const numbers *n, uint32_t i) {
    return n == &w->text_numbers ? hash_text(w->text[i]) : hash_stack(w->stack_caller[i], w->stack_address[i]);
}

static void place(const trace_writer *w, numbers *n, uint32_t number) {
    size_t k = hash_of(w, n, number) & (n->slots - 1);
    while (n->slot[k]) k = (k + 1) & (n->slots - 1);
    n->slot[k] = number;
}

/* Enters the last one, `count` with it. */
static void enter(trace_writer *w, numbers *n, uint32_t count) {
    if (2 * (size_t)count >= n->slots) {
        size_t more = n->slots ? 2 * n->slots : 1024;
        uint32_t *slot = calloc(more, sizeof *slot);
        if (!slot) {
            fail(w, "no memory");
            return;
        }
        free(n->slot);
        n->slot = slot;
        n->slots = more;
        for (uint32_t i = 1; i < count; i++) place(w, n, i);
    }
    place(w, n, count);
}

uint32_t trace_writer_stack(trace_writer *w, uint32_t caller, uint64_t address) {
    numbers *n = &w->stack_numbers;
    if (w->error[0] || caller >= w->stacks) return 0;
    for (size_t k = n->slots ? hash_stack(caller, address) & (n->slots - 1) : 0; n->slots && n->slot[k];
         k = (k + 1) & (n->slots - 1))
        if (w->stack_address[n->slot[k]] == address && w->stack_caller[n->slot[k]] == caller) return n->slot[k];
    size_t capacity = w->stack_capacity;
    if (!room(w, &w->stack_address, &capacity, w->stacks, sizeof *w->stack_address) ||
        !room(w, &w->stack_caller, &w->stack_capacity, w->stacks, sizeof *w->stack_caller))
        return 0;
    w->stack_address[w->stacks] = address;
    w->stack_caller[w->stacks] = caller;
    enter(w, n, w->stacks);
    return w->stacks++;
}

uint32_t trace_writer_frames(trace_writer *w, uint32_t image, const uint64_t *frames, size_t count) {
    uint32_t stack = trace_writer_stack(w, 0, image);
    while (count-- > 0) stack = trace_writer_stack(w, stack, frames[count]);
    return stack;
}

uint32_t trace_writer_text(trace_writer *w, const char *text) {
    numbers *n = &w->text_numbers;
    if (w->error[0]) return 0;
    for (size_t k = n->slots ? hash_text(text) & (n->slots - 1) : 0; n->slots && n->slot[k];
         k = (k + 1) & (n->slots - 1))
        if (strcmp(w->text[n->slot[k]], text) == 0) return n->slot[k];
    if (!room(w, &w->text, &w->text_capacity, w->texts, sizeof *w->text)) return 0;
    w->text[w->texts] = strdup(text);
    if (!w->text[w->texts]) return fail(w, "no memory"), 0;
    enter(w, n, w->texts);
    return w->texts++;
}

void trace_writer_module(trace_writer *w, const trace_module *m) {
    const char *id = m->build_id && m->build_id[0] ? m->build_id : "-";
    add_line(w, &w->modules, "%" PRIu32 " %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 " %s %s\n", m->image, m->start,
             m->end, m->offset, m->base, id, m->path ? m->path : "");
}

uint32_t trace_writer_process(trace_writer *w, uint32_t parent, uint32_t image, int pid, const char *command) {
    add_line(w, &w->processes, "%" PRIu32 " %" PRIu32 " %" PRIu32 " %d %" PRIu32 "\n", w->process_count, parent, image,
             pid, trace_writer_text(w, command));
    return w->process_count++;
}

void trace_writer_symbols(trace_writer *w, uint32_t process, const char *text, size_t bytes) {
    while (bytes > 0 && !w->error[0]) { /* whole lines */
        size_t n = bytes < FORMAT_BLOCK_BYTES / 2 ? bytes : FORMAT_BLOCK_BYTES / 2;
        while (n < bytes && n > 0 && text[n - 1] != '\n') n--;
        if (n == 0) return;
        put_text(w, BLOCK_SYMBOLS, process, text, n);
        text += n;
        bytes -= n;
    }
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void flush_thread(trace_writer *w, uint32_t number) {
    thread *t = &w->threads[number - 1];
    size_t bytes;
    if (t->count == 0) return;
    put_tables(w);
    unsigned char *out = format_pack_events(t->events, t->count, &bytes);
    if (!out) {
        fail(w, "no memory");
    } else {
        format_head h = {.kind = BLOCK_EVENTS,
                         .count = (uint32_t)t->count,
                         .thread = number,
                         .process = t->process,
                         .first_ns = t->events[0].time_ns,
                         .last_ns = t->events[t->count - 1].time_ns};
        put_block(w, &h, out, bytes);
    }
    free(out);
    t->count = 0;
}

static thread *thread_of(trace_writer *w, uint32_t number) {
    while (w->thread_count < number) {
        size_t more = w->thread_count ? 2 * w->thread_count : 16;
        thread *threads = realloc(w->threads, more * sizeof *threads);
        if (!threads) return fail(w, "no memory"), NULL;
        memset(threads + w->thread_count, 0, (more - w->thread_count) * sizeof *threads);
        w->threads = threads;
        w->thread_count = more;
    }
    return &w->threads[number - 1];
}

void trace_writer_event(trace_writer *w, uint32_t process, uint32_t number, const raw_event *e) {
    thread *t = number && !w->error[0] ? thread_of(w, number) : NULL;
    if (!t) return;
    raw_event copy = *e;
    if (copy.time_ns < t->last_ns) copy.time_ns = t->last_ns;
    if (t->count == FORMAT_EVENTS || (t->count && t->process != process) ||
        (t->count && copy.time_ns - t->events[0].time_ns > LONGEST_BLOCK_NS))
        flush_thread(w, number);
    if (!room(w, &t->events, &t->capacity, t->count, sizeof *t->events)) return;
    t->process = process;
    t->last_ns = copy.time_ns;
    t->events[t->count++] = copy;
}

void trace_writer_alloc(trace_writer *w, uint32_t process, uint32_t number, uint64_t time_ns, uint64_t address,
                        uint64_t size, uint32_t stack) {
    raw_event e = {.time_ns = time_ns, .address = address, .size = size, .stack = stack, .kind = RAW_ALLOC};
    trace_writer_event(w, process, number, &e);
}

void trace_writer_free(trace_writer *w, uint32_t process, uint32_t number, uint64_t time_ns, uint64_t address,
                       uint32_t stack) {
    raw_event e = {.time_ns = time_ns, .address = address, .stack = stack, .kind = RAW_FREE};
    trace_writer_event(w, process, number, &e);
}

void trace_writer_realloc(trace_writer *w, uint32_t process, uint32_t number, uint64_t time_ns, uint64_t from,
                          uint64_t address, uint64_t size, uint32_t stack) {
    raw_event out = {.time_ns = time_ns, .address = from, .kind = RAW_OUT};
    raw_event in = {.time_ns = time_ns, .address = address, .size = size, .stack = stack, .kind = RAW_IN};
    trace_writer_event(w, process, number, &out);
    trace_writer_event(w, process, number, &in);
}

void trace_writer_flush(trace_writer *w) {
    put_tables(w);
    for (uint32_t i = 0; i < w->thread_count; i++) flush_thread(w, i + 1);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void fini(trace_writer *w) {
    for (uint32_t i = 0; i < w->thread_count; i++) free(w->threads[i].events);
    for (uint32_t i = 0; w->text && i < w->texts; i++) free(w->text[i]);
    free(w->threads);
    free(w->text);
    free(w->stack_address);
    free(w->stack_caller);
    free(w->stack_numbers.slot);
    free(w->text_numbers.slot);
    free(w->modules.text);
    free(w->processes.text);
#ifdef TRACE_ZSTD
    ZSTD_freeCCtx(w->zstd);
#endif
    if (w->fd >= 0) (void)close(w->fd);
    free(w);
}

static bool init(trace_writer *w) {
    size_t capacity = 0;
    if (!room(w, &w->stack_address, &capacity, 0, sizeof *w->stack_address) ||
        !room(w, &w->stack_caller, &w->stack_capacity, 0, sizeof *w->stack_caller) ||
        !room(w, &w->text, &w->text_capacity, 0, sizeof *w->text) || !(w->text[0] = strdup("")))
        return false;
    w->stack_address[0] = w->stack_caller[0] = 0;
    w->stacks = w->stacks_written = w->texts = w->texts_written = 1;
#ifdef TRACE_ZSTD
    w->zstd = ZSTD_createCCtx();
    if (!w->zstd) return false;
#endif
    return true;
}

static bool is_file(int fd) {
    struct stat s;
    return fstat(fd, &s) == 0 && S_ISREG(s.st_mode);
}

trace_writer *trace_writer_create(const char *path, const char *about, char *error, size_t error_bytes) {
    trace_writer *w = calloc(1, sizeof *w);
    if (!w) return snprintf(error, error_bytes, "no memory"), NULL;
    w->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        snprintf(error, error_bytes, "%s", strerror(errno));
    } else if (flock(w->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        snprintf(error, error_bytes, "another recording is being written to it");
    } else if (is_file(w->fd) && ftruncate(w->fd, 0) != 0) {
        snprintf(error, error_bytes, "%s", strerror(errno));
    } else if (!init(w)) {
        snprintf(error, error_bytes, "no memory");
    } else {
        put_text(w, BLOCK_ABOUT, 0, about, strlen(about));
        if (!w->error[0]) return w;
        snprintf(error, error_bytes, "%s", w->error);
    }
    fini(w);
    return NULL;
}

bool trace_writer_close(trace_writer *w, const char *lines) {
    trace_writer_flush(w);
    put_text(w, BLOCK_END, 0, lines, strlen(lines));
    if (w->fd >= 0 && close(w->fd) != 0) fail(w, "%s", strerror(errno));
    w->fd = -1;
    bool whole = !w->error[0];
    fini(w);
    return whole;
}
