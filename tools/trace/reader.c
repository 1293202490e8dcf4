/*
 * Opens a trace: reads the heads of all blocks, and the contents of all but those of events. The first block that is
 * not whole ends it.
 */
#include "trace/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef TRACE_ZSTD
#include <zstd.h>
#endif

bool trace_grow(void *array, size_t *capacity, size_t count, size_t bytes) {
    if (count < *capacity) return true;
    size_t more = *capacity ? 2 * *capacity : 64;
    void *old, *at;
    memcpy(&old, array, sizeof old);
    at = realloc(old, more * bytes);
    if (!at) return false;
    memcpy(array, &at, sizeof at);
    *capacity = more;
    return true;
}

void trace_set_damage(trace *t, uint64_t offset, const char *why) {
    if (!t->damage[0]) snprintf(t->damage, sizeof t->damage, "byte %" PRIu64 ": %s", offset, why);
}

/* ---- contents of a block ----------------------------------------------------------------------------------------- */

static bool read_at(int fd, uint64_t offset, void *out, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, (char *)out + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

static bool expand(unsigned char *out, size_t bytes, const unsigned char *in, const format_head *h, const char **why) {
#ifdef TRACE_ZSTD
    *why = "a block is damaged (zstd)";
    return ZSTD_decompress(out, bytes, in, h->stored_bytes) == bytes;
#else
    (void)out, (void)bytes, (void)in, (void)h;
    *why = "a block is compressed, and this reader was built without libzstd";
    return false;
#endif
}

unsigned char *trace_read_block(int fd, uint64_t offset, const format_head *h, const char **why) {
    unsigned char *in = malloc((size_t)h->stored_bytes + 1), *out = NULL;
    *why = "no memory";
    if (!in) return NULL;
    in[h->stored_bytes] = 0;
    if (!read_at(fd, offset, in, h->stored_bytes)) {
        *why = "the file ends within a block";
    } else if (format_crc(0, in, h->stored_bytes) != h->crc) {
        *why = "a block is damaged (checksum)";
    } else if (h->codec == CODEC_PLAIN) {
        *why = NULL;
        return in;
    } else if ((out = malloc((size_t)h->plain_bytes + 1)) != NULL) {
        out[h->plain_bytes] = 0;
        if (!expand(out, h->plain_bytes, in, h, why)) {
            free(out);
            out = NULL;
        }
    }
    free(in);
    if (out) *why = NULL;
    return out;
}

/* ---- the tables -------------------------------------------------------------------------------------------------- */

static const char *add_stacks(trace *t, const format_head *h, const unsigned char *in) {
    const unsigned char *end = in + h->plain_bytes;
    if (h->thread != t->stacks) return "stacks are missing";
    if (h->count > h->plain_bytes * (uint64_t)64 + 64) return "a block of stacks contradicts itself";
    uint64_t *back = calloc(2 * (size_t)h->count + 1, sizeof *back), *address = back + h->count, value = 0;
    const char *why = back ? NULL : "no memory";
    if (!why && (!(in = format_get_planes(in, end, back, h->count)) || !format_get_planes(in, end, address, h->count)))
        why = "a block of stacks is damaged";
    for (size_t i = 0; !why && i < h->count; i++) {
        size_t capacity = t->stack_capacity;
        if (back[i] >= t->stacks) {
            why = "a stack's caller is missing";
        } else if (!trace_grow(&t->stack_address, &t->stack_capacity, t->stacks, sizeof *t->stack_address) ||
                   !trace_grow(&t->stack_caller, &capacity, t->stacks, sizeof *t->stack_caller)) {
            why = "no memory";
        } else {
            value += format_unfold(address[i]);
            t->stack_caller[t->stacks] = back[i] ? (uint32_t)(t->stacks - back[i]) : 0;
            t->stack_address[t->stacks++] = value;
        }
    }
    free(back);
    return why;
}

static const char *add_texts(trace *t, const format_head *h, const unsigned char *in) {
    const char *at = (const char *)in, *end = at + h->plain_bytes;
    if (h->thread != t->texts) return "texts are missing";
    for (uint32_t i = 0; i < h->count; i++) {
        if (at >= end) return "a block of texts is damaged";
        if (!trace_grow(&t->text, &t->text_capacity, t->texts, sizeof *t->text) || !(t->text[t->texts] = strdup(at)))
            return "no memory";
        t->texts++;
        at += strlen(at) + 1;
    }
    return NULL;
}

static const char *add_module(trace *t, char *line) {
    trace_module m = {0};
    char *build_id = NULL, *path = NULL;
    int n = 0;
    if (sscanf(line, "%" SCNu32 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %n", &m.image, &m.start, &m.end,
               &m.offset, &m.base, &n) != 5 ||
        n == 0 || !(path = strchr(line + n, ' ')))
        return "a line of the modules is damaged";
    *path++ = 0;
    build_id = strdup(strcmp(line + n, "-") == 0 ? "" : line + n);
    path = strdup(path);
    m.build_id = build_id;
    m.path = path;
    if (!build_id || !path || !trace_grow(&t->module, &t->module_capacity, t->modules, sizeof *t->module)) {
        free(build_id);
        free(path);
        return "no memory";
    }
    t->module[t->modules++] = m;
    return NULL;
}

static const char *add_process(trace *t, char *line) {
    trace_process p = {0};
    if (sscanf(line, "%" SCNu32 " %" SCNu32 " %" SCNu32 " %d %" SCNu32, &p.number, &p.parent, &p.image, &p.pid,
               &p.command) != 5 ||
        p.number != t->processes)
        return "a line of the processes is damaged";
    if (!trace_grow(&t->process, &t->process_capacity, t->processes, sizeof *t->process)) return "no memory";
    t->process[t->processes++] = p;
    return NULL;
}

static const char *each_line(trace *t, char *text, const char *(*fn)(trace *, char *)) {
    const char *why = NULL;
    for (char *line = text, *next; !why && *line; line = next) {
        next = strchr(line, '\n');
        if (!next) return "a line is cut off";
        *next++ = 0;
        why = fn(t, line);
    }
    return why;
}

static const char *add_about(trace *t, char *line) {
    size_t n = strlen(line) + 1;
    char *more = realloc(t->about, t->about_bytes + n + 1);
    if (!more) return "no memory";
    memcpy(more + t->about_bytes, line, n);
    t->about = more;
    t->about_bytes += n;
    t->about[t->about_bytes] = 0;
    return NULL;
}

/* Takes the text. */
static const char *add_symbols(trace *t, const format_head *h, unsigned char *text) {
    if (!trace_grow(&t->symbols, &t->symbol_capacity, t->symbol_blocks, sizeof *t->symbols)) {
        free(text);
        return "no memory";
    }
    t->symbols[t->symbol_blocks++] = (trace_symbols){h->process, (char *)text};
    return NULL;
}

static const char *take_contents(trace *t, const format_head *h, unsigned char *in) {
    const char *why = NULL;
    if (h->kind == BLOCK_SYMBOLS) return add_symbols(t, h, in);
    if (h->kind == BLOCK_STACKS) why = add_stacks(t, h, in);
    if (h->kind == BLOCK_TEXTS) why = add_texts(t, h, in);
    if (h->kind == BLOCK_MODULES) why = each_line(t, (char *)in, add_module);
    if (h->kind == BLOCK_PROCESSES) why = each_line(t, (char *)in, add_process);
    if (h->kind == BLOCK_ABOUT || h->kind == BLOCK_END) why = each_line(t, (char *)in, add_about);
    t->has_end |= h->kind == BLOCK_END;
    free(in);
    return why;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static const char *add_events(trace *t, const format_head *h, uint64_t offset) {
    if (!trace_grow(&t->block, &t->block_capacity, t->blocks, sizeof *t->block)) return "no memory";
    t->block[t->blocks++] = (trace_block){offset, *h};
    t->events += h->count;
    if (h->thread > t->threads) t->threads = h->thread;
    if (h->last_ns > t->end_ns) t->end_ns = h->last_ns;
    return NULL;
}

/* The block at `offset`; its length, or 0 and *why. */
static uint64_t take_block(trace *t, uint64_t offset, uint64_t file_bytes, const char **why) {
    unsigned char raw[FORMAT_HEAD_BYTES];
    format_head h;
    *why = "the file ends within the head of a block";
    if (file_bytes - offset < sizeof raw || !read_at(t->fd, offset, raw, sizeof raw)) return 0;
    if ((*why = format_get_head(raw, &h)) != NULL) return 0;
    uint64_t at = offset + sizeof raw;
    *why = "the file ends within a block";
    if (file_bytes - at < h.stored_bytes) return 0;
    if (offset == 0 && h.kind != BLOCK_ABOUT) return *why = "it does not begin as a trace does", 0;
    if (h.kind == BLOCK_EVENTS) {
        *why = add_events(t, &h, at);
    } else if (h.kind < BLOCK_KINDS) {
        unsigned char *in = trace_read_block(t->fd, at, &h, why);
        if (!in) return 0;
        *why = take_contents(t, &h, in);
    }
    return *why ? 0 : sizeof raw + h.stored_bytes;
}

static int compare_blocks(const void *a, const void *b) {
    const trace_block *x = a, *y = b;
    if (x->head.thread != y->head.thread) return x->head.thread < y->head.thread ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static bool take_all(trace *t, char *error, size_t error_bytes) {
    struct stat s;
    const char *why = NULL;
    uint64_t offset = 0, n = 1;
    if (fstat(t->fd, &s) != 0) return snprintf(error, error_bytes, "%s", strerror(errno)), false;
    if (!S_ISREG(s.st_mode)) return snprintf(error, error_bytes, "it is no file that can be read at any place"), false;
    if (s.st_size == 0) return snprintf(error, error_bytes, "it is empty"), false;
    /* The numbers from 1: [0] is none. */
    if (!trace_grow(&t->stack_address, &t->stack_capacity, 0, sizeof *t->stack_address) ||
        !(t->stack_caller = calloc(t->stack_capacity, sizeof *t->stack_caller)) ||
        !trace_grow(&t->text, &t->text_capacity, 0, sizeof *t->text) || !(t->text[0] = strdup("")))
        return snprintf(error, error_bytes, "no memory"), false;
    t->stack_address[0] = 0;
    t->stacks = t->texts = 1;
    for (; offset < (uint64_t)s.st_size && n > 0; offset += n) n = take_block(t, offset, (uint64_t)s.st_size, &why);
    if (why && t->about == NULL) return snprintf(error, error_bytes, "it is no trace: %s", why), false;
    if (why)
        trace_set_damage(t, offset, why);
    else if (!t->has_end)
        trace_set_damage(t, offset, "the recorder was killed, or still records; the rest is missing");
    t->bytes = offset;
    if (t->blocks) qsort(t->block, t->blocks, sizeof *t->block, compare_blocks);
    return true;
}

trace *trace_open(const char *path, char *error, size_t error_bytes) {
    trace *t = calloc(1, sizeof *t);
    if (!t) return snprintf(error, error_bytes, "no memory"), NULL;
    t->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (t->fd < 0) {
        snprintf(error, error_bytes, "%s", strerror(errno));
    } else if (take_all(t, error, error_bytes)) {
        if (trace_begin(t)) return t;
        snprintf(error, error_bytes, "no memory");
    }
    trace_close(t);
    return NULL;
}

void trace_close(trace *t) {
    if (!t) return;
    trace_end_reading(t);
    for (size_t i = 0; i < t->texts && t->text; i++) free(t->text[i]);
    for (size_t i = 0; i < t->modules; i++) {
        free((char *)(uintptr_t)t->module[i].build_id);
        free((char *)(uintptr_t)t->module[i].path);
    }
    for (size_t i = 0; i < t->symbol_blocks; i++) free(t->symbols[i].text);
    free(t->symbols);
    free(t->about);
    free(t->block);
    free(t->stack_address);
    free(t->stack_caller);
    free(t->text);
    free(t->module);
    free(t->process);
    if (t->fd >= 0) (void)close(t->fd);
    free(t);
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */

const char *trace_damage(const trace *t) { return t->damage[0] ? t->damage : NULL; }

const char *trace_about(const trace *t, const char *key) {
    size_t n = strlen(key);
    for (const char *line = t->about; line && *line; line += strlen(line) + 1)
        if (strncmp(line, key, n) == 0 && line[n] == '=') return line + n + 1;
    return NULL;
}

uint64_t trace_event_count(const trace *t) { return t->events; }
uint64_t trace_bytes(const trace *t) { return t->bytes; }
uint64_t trace_end_ns(const trace *t) { return t->end_ns; }
uint32_t trace_thread_count(const trace *t) { return t->threads; }
const char *trace_text(const trace *t, uint32_t number) { return number < t->texts ? t->text[number] : ""; }
uint32_t trace_process_count(const trace *t) { return (uint32_t)t->processes; }

const trace_process *trace_process_of(const trace *t, uint32_t number) {
    return number < t->processes ? &t->process[number] : NULL;
}

uint32_t trace_stack_count(const trace *t) { return (uint32_t)t->stacks - 1; }

/* A node without a caller is no frame: its address is the number of its image. */
static bool is_frame(const trace *t, uint32_t stack) { return stack < t->stacks && t->stack_caller[stack] != 0; }

uint32_t trace_stack_caller(const trace *t, uint32_t stack) {
    return is_frame(t, stack) && is_frame(t, t->stack_caller[stack]) ? t->stack_caller[stack] : 0;
}

uint64_t trace_stack_address(const trace *t, uint32_t stack) {
    return is_frame(t, stack) ? t->stack_address[stack] : 0;
}

uint32_t trace_stack_image(const trace *t, uint32_t stack) {
    while (is_frame(t, stack)) stack = t->stack_caller[stack];
    return stack < t->stacks ? (uint32_t)t->stack_address[stack] : 0;
}

size_t trace_stack_frames(const trace *t, uint32_t stack, uint64_t *frames, size_t capacity) {
    size_t n = 0;
    for (; is_frame(t, stack); stack = t->stack_caller[stack], n++)
        if (n < capacity) frames[n] = t->stack_address[stack];
    return n;
}

size_t trace_module_count(const trace *t) { return t->modules; }
const trace_module *trace_module_at(const trace *t, size_t i) { return i < t->modules ? &t->module[i] : NULL; }

const trace_module *trace_module_of(const trace *t, uint32_t image, uint64_t address) {
    for (size_t i = t->modules; i-- > 0;) {
        const trace_module *m = &t->module[i];
        if (m->image == image && address - m->start < m->end - m->start) return m;
    }
    return NULL;
}
