/*
 * The reader of traces on damaged files: bytes are changed, and the checksums made right again, so that they get past
 * these. It may say anything but must touch no memory that is not its own.
 *
 *     tools_trace_fuzz [ROUNDS]     random changes; or libFuzzer's entry, which is given a trace
 */
#include "trace/writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void put(unsigned char *out, uint32_t value) {
    for (unsigned i = 0; i < 4; i++) out[i] = (unsigned char)(value >> 8 * i);
}

static uint32_t get(const unsigned char *in) {
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

/* Makes the checksums of all blocks right. */
static void mend(unsigned char *all, size_t bytes) {
    for (size_t at = 0; bytes - at >= FORMAT_HEAD_BYTES;) {
        unsigned char *head = all + at;
        size_t stored = get(head + 8);
        put(head, FORMAT_MAGIC);
        head[4] = FORMAT_VERSION;
        if (at == 0) head[5] = BLOCK_ABOUT;
        if (stored > bytes - at - FORMAT_HEAD_BYTES) put(head + 8, (uint32_t)(stored = bytes - at - FORMAT_HEAD_BYTES));
        if (head[6] == 0) put(head + 12, (uint32_t)stored);
        put(head + 28, format_crc(0, head + FORMAT_HEAD_BYTES, stored));
        put(head + 44, format_crc(0, head, 44));
        at += FORMAT_HEAD_BYTES + stored;
    }
}

static uint64_t read_all(const char *path) {
    char error[160];
    uint64_t frames[4], sum = 0;
    trace_event e;
    trace *t = trace_open(path, error, sizeof error);
    if (!t) return 0;
    for (unsigned n = 0; n < 1000000 && trace_next(t, &e); n++) {
        sum += e.address + strlen(trace_text(t, e.text)) + trace_stack_frames(t, e.stack, frames, 4);
        sum += trace_stack_image(t, e.stack) + (trace_process_of(t, e.process) != NULL) + 1;
    }
    for (size_t i = 0; i < trace_module_count(t); i++) sum += strlen(trace_module_at(t, i)->path);
    sum += trace_rewind(t) && trace_next(t, &e);
    trace_close(t);
    return sum + 1;
}

static uint64_t one(const unsigned char *in, size_t bytes) {
    char path[64];
    uint64_t sum = 0;
    int fd = memfd_create("trace", 0);
    unsigned char *copy = malloc(bytes + 1);
    if (fd >= 0 && copy) {
        memcpy(copy, in, bytes);
        mend(copy, bytes);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (write(fd, copy, bytes) == (ssize_t)bytes) sum = read_all(path);
    }
    if (fd >= 0) (void)close(fd);
    free(copy);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *in, size_t bytes) { return (void)one(in, bytes), 0; }

#ifndef TRACE_FUZZ_ENGINE

static uint64_t next_random(void) {
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static size_t make_trace(unsigned char *out, size_t room) {
    char path[64], error[160];
    int fd = memfd_create("trace", 0);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    trace_writer *w = trace_writer_create(path, "command=fuzz\n", error, sizeof error);
    if (!w) return 0;
    (void)trace_writer_process(w, UINT32_MAX, 1, 1, "fuzz");
    trace_writer_module(w, &(trace_module){.image = 1, .start = 1, .end = 100, .build_id = "ab", .path = "/x"});
    for (uint64_t i = 1; i < 60; i++) {
        const uint64_t frames[2] = {i % 7, 100};
        const uint32_t stack = trace_writer_frames(w, 1, frames, 2);
        trace_writer_alloc(w, 0, 1 + i % 2, 10 * i, i << 4, i, stack);
        if (i % 3 == 0) trace_writer_realloc(w, 0, 1 + i % 2, 10 * i + 1, i << 4, i << 8, i, stack);
        if (i % 5 == 0) trace_writer_free(w, 0, 1 + i % 2, 10 * i + 2, i << 4, stack);
        const raw_event e = {
            .time_ns = 10 * i + 3, .kind = (uint8_t)(RAW_PROCESS_START + i % 13), .address = i, .size = i % 3};
        trace_writer_event(w, 0, 1, &e);
        if (i % 20 == 0) trace_writer_flush(w);
    }
    trace_writer_symbols(w, 0, "1 2 three\n", 10);
    (void)trace_writer_close(w, "status=0\n");
    ssize_t n = pread(fd, out, room, 0);
    (void)close(fd);
    return n > 0 ? (size_t)n : 0;
}

int main(int argc, char **argv) {
    static unsigned char whole[1 << 16], changed[1 << 16];
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000, opened = 0;
    size_t bytes = make_trace(whole, sizeof whole);
    if (bytes == 0 || one(whole, bytes) < 100) {
        (void)fprintf(stderr, "trace_fuzz: the trace cannot be read\n");
        return 1;
    }
    for (unsigned long i = 0; i < rounds; i++) {
        memcpy(changed, whole, bytes);
        for (uint64_t n = 1 + next_random() % 6; n > 0; n--)
            changed[next_random() % bytes] = (unsigned char)(next_random() >> (next_random() % 2 ? 56 : 62));
        opened += one(changed, next_random() % 8 ? bytes : next_random() % bytes) > 0;
    }
    (void)printf("%lu of %lu could be opened\n", opened, rounds);
    return opened < rounds / 10; /* else the changes are not worth anything */
}

#endif
