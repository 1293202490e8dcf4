/*
 * The layout of a trace, as docs/trace-format.md has it, for the reader and the writer.
 */
#ifndef TRACE_FORMAT_H
#define TRACE_FORMAT_H

#include "record/event.h"

#include <stddef.h>

enum {
    FORMAT_MAGIC = 0x54534c54, /* "TLST" */
    FORMAT_VERSION = 1,
    FORMAT_HEAD_BYTES = 48,
    FORMAT_EVENTS = 32768,         /* at most, in a block */
    FORMAT_BLOCK_BYTES = 16 << 20, /* at most, of a block's contents */
    FORMAT_COLUMNS = 10
};

typedef enum format_block {
    BLOCK_ABOUT = 1, /* lines KEY=VALUE */
    BLOCK_EVENTS,
    BLOCK_STACKS,
    BLOCK_TEXTS,
    BLOCK_MODULES,
    BLOCK_PROCESSES,
    BLOCK_SYMBOLS,
    BLOCK_END,
    BLOCK_KINDS
} format_block;

typedef enum format_codec { CODEC_PLAIN, CODEC_ZSTD } format_codec;

/* The head of a block. */
typedef struct format_head {
    uint8_t kind, codec;
    uint32_t stored_bytes, plain_bytes, count;
    uint32_t thread; /* events: whose; stacks and texts: the number of the first */
    uint32_t process;
    uint64_t first_ns, last_ns; /* events: of the first and the last one */
    uint32_t crc;               /* of the stored values */
} format_head;

uint32_t format_crc(uint32_t crc, const void *bytes, size_t count); /* CRC-32 of zlib; begins with 0 */
void format_put_head(unsigned char out[FORMAT_HEAD_BYTES], const format_head *h);
/* NULL, or why it is none. */
const char *format_get_head(const unsigned char in[FORMAT_HEAD_BYTES], format_head *h);

/* A column: its width in bytes, then its planes. At most 1 + 8 * count bytes; returns how many. */
size_t format_put_planes(unsigned char *out, const uint64_t *values, size_t count);
/* Behind the column of so many values; NULL: there are not so many bytes. */
const unsigned char *format_get_planes(const unsigned char *in, const unsigned char *end, uint64_t *out, size_t count);
static inline uint64_t format_fold(uint64_t difference) {
    return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}
static inline uint64_t format_unfold(uint64_t value) { return value >> 1 ^ (0 - (value & 1)); }

/* The contents of a block of events; of malloc. At most FORMAT_EVENTS. NULL: no memory. */
unsigned char *format_pack_events(const raw_event *events, size_t count, size_t *bytes);
/* Into `count` events. false: the contents are damaged. */
bool format_unpack_events(const unsigned char *in, size_t bytes, uint64_t first_ns, raw_event *out, size_t count);

#endif
