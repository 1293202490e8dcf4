/*
 * Heads and blocks of events. A block of events has a column for each field. A column is its width in bytes and then
 * that many planes: the lowest bytes of all values, the second ones, and so on. So equal bytes lie side by side for the
 * compressor, and a reader needs no loop over variable lengths.
 */
#include "trace/format.h"

#include <stdlib.h>
#include <string.h>

/* ---- checksums and heads ---------------------------------------------------------------------------------------- */

uint32_t format_crc(uint32_t crc, const void *bytes, size_t count) {
    static uint32_t table[8][256];
    static _Atomic bool is_ready;
    const unsigned char *b = bytes;
    if (!is_ready) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
            table[0][i] = c;
        }
        for (uint32_t i = 0; i < 256; i++)
            for (int k = 1; k < 8; k++) table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
        is_ready = true;
    }
    crc = ~crc;
    for (; count >= 8; count -= 8, b += 8) {
        uint32_t x = crc ^ ((uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
        crc = table[7][x & 255] ^ table[6][x >> 8 & 255] ^ table[5][x >> 16 & 255] ^ table[4][x >> 24] ^
              table[3][b[4]] ^ table[2][b[5]] ^ table[1][b[6]] ^ table[0][b[7]];
    }
    for (; count > 0; count--) crc = crc >> 8 ^ table[0][(crc ^ *b++) & 255];
    return ~crc;
}

static void put(unsigned char *out, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) out[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t get(const unsigned char *in, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)in[i] << 8 * i;
    return value;
}

void format_put_head(unsigned char out[FORMAT_HEAD_BYTES], const format_head *h) {
    put(out, FORMAT_MAGIC, 4);
    out[4] = FORMAT_VERSION;
    out[5] = h->kind;
    out[6] = h->codec;
    out[7] = 0;
    put(out + 8, h->stored_bytes, 4);
    put(out + 12, h->plain_bytes, 4);
    put(out + 16, h->count, 4);
    put(out + 20, h->thread, 4);
    put(out + 24, h->process, 4);
    put(out + 28, h->crc, 4);
    put(out + 32, h->first_ns, 8);
    put(out + 40, h->last_ns - h->first_ns, 4);
    put(out + 44, format_crc(0, out, 44), 4);
}

const char *format_get_head(const unsigned char in[FORMAT_HEAD_BYTES], format_head *h) {
    if (get(in, 4) != FORMAT_MAGIC) return "no block begins here";
    if (get(in + 44, 4) != format_crc(0, in, 44)) return "the head of a block is damaged";
    if (in[4] != FORMAT_VERSION) return "a block of another version of the format";
    h->kind = in[5];
    h->codec = in[6];
    h->stored_bytes = (uint32_t)get(in + 8, 4);
    h->plain_bytes = (uint32_t)get(in + 12, 4);
    h->count = (uint32_t)get(in + 16, 4);
    h->thread = (uint32_t)get(in + 20, 4);
    h->process = (uint32_t)get(in + 24, 4);
    h->crc = (uint32_t)get(in + 28, 4);
    h->first_ns = get(in + 32, 8);
    h->last_ns = h->first_ns + get(in + 40, 4);
    if (h->last_ns < h->first_ns || h->plain_bytes > FORMAT_BLOCK_BYTES || h->stored_bytes > FORMAT_BLOCK_BYTES ||
        (h->codec == CODEC_PLAIN && h->stored_bytes != h->plain_bytes) || h->codec > CODEC_ZSTD)
        return "the head of a block contradicts itself";
    if (h->kind == BLOCK_EVENTS && (h->count == 0 || h->count > FORMAT_EVENTS || h->thread == 0))
        return "the head of a block of events contradicts itself";
    return NULL;
}

/* ---- columns ---------------------------------------------------------------------------------------------------- */

enum column {
    COLUMN_KIND,
    COLUMN_TIME,  /* nanoseconds after the event before */
    COLUMN_BIRTH, /* address of a birth: difference to that of the birth before */
    COLUMN_BACK,  /* of a death: so many births back its object was born; 0: not in this block */
    COLUMN_DEATH, /* address of each death without one: difference to that of the one before */
    COLUMN_SIZE,
    COLUMN_STACK, /* of births and frees */
    COLUMN_ALIGN,
    COLUMN_A,
    COLUMN_B
};

typedef struct columns {
    uint64_t *at[FORMAT_COLUMNS];
    size_t count[FORMAT_COLUMNS];
    unsigned shift; /* all addresses are multiples of 1 << shift */
} columns;

static bool columns_init(columns *c, size_t count) {
    uint64_t *all = malloc(FORMAT_COLUMNS * count * sizeof *all);
    if (!all) return false;
    memset(c, 0, sizeof *c);
    for (unsigned k = 0; k < FORMAT_COLUMNS; k++) c->at[k] = all + k * count;
    return true;
}

static void columns_fini(columns *c) { free(c->at[0]); }

static void add(columns *c, enum column k, uint64_t value) { c->at[k][c->count[k]++] = value; }

size_t format_put_planes(unsigned char *out, const uint64_t *values, size_t count) {
    uint64_t all = 0;
    unsigned width = 0;
    unsigned char *o = out;
    for (size_t i = 0; i < count; i++) all |= values[i];
    while (width < 8 && all >> 8 * width) width++;
    *o++ = (unsigned char)width;
    for (unsigned plane = 0; plane < width; plane++)
        for (size_t i = 0; i < count; i++) *o++ = (unsigned char)(values[i] >> 8 * plane);
    return (size_t)(o - out);
}

const unsigned char *format_get_planes(const unsigned char *in, const unsigned char *end, uint64_t *out, size_t count) {
    if (in == end || *in > 8 || (size_t)(end - in) - 1 < *in * count) return NULL;
    unsigned width = *in++;
    memset(out, 0, count * sizeof *out);
    for (unsigned plane = 0; plane < width; plane++)
        for (size_t i = 0; i < count; i++) out[i] |= (uint64_t)*in++ << 8 * plane;
    return in;
}

static unsigned char *write_planes(const columns *c, size_t *bytes) {
    size_t most = 1;
    for (unsigned k = 0; k < FORMAT_COLUMNS; k++) most += 1 + 8 * c->count[k];
    unsigned char *out = malloc(most), *o = out;
    if (!out) return NULL;
    *o++ = (unsigned char)c->shift;
    for (unsigned k = 0; k < FORMAT_COLUMNS; k++) o += format_put_planes(o, c->at[k], c->count[k]);
    *bytes = (size_t)(o - out);
    return out;
}

/* ---- which column an event has ----------------------------------------------------------------------------------- */

static bool has_size(uint8_t kind) { return raw_is_birth(kind); }
static bool has_stack(uint8_t kind) {
    return raw_is_birth(kind) || kind == RAW_FREE || kind == RAW_SCOPE_CREATE || kind == RAW_SCOPE_ENTER;
}
static bool has_align(uint8_t kind) { return kind == RAW_ALIGNED || kind == RAW_SCOPED; }
static bool has_a(uint8_t kind) {
    return kind == RAW_SCOPED || (kind >= RAW_PROCESS_START && kind < RAW_WINDOW && kind != RAW_THREAD_NAME);
}
static bool has_b(uint8_t kind) {
    return kind == RAW_PROCESS_START || kind == RAW_THREAD_NAME || kind == RAW_SCOPE_CREATE || kind == RAW_WINDOW ||
           kind == RAW_LOST;
}

/* ---- the births of a block by address ---------------------------------------------------------------------------- */

enum { SLOTS = 4 * FORMAT_EVENTS };

typedef struct births {
    uint64_t address[SLOTS]; /* valid where `number` is not 0 */
    uint32_t number[SLOTS];  /* of the last birth there, from 1 */
} births;

static uint32_t *birth_at(births *b, uint64_t address) {
    size_t i = (size_t)((address >> 4) * 0x9e3779b97f4a7c15u >> 32) % SLOTS;
    while (b->number[i] && b->address[i] != address) i = (i + 1) % SLOTS;
    b->address[i] = address;
    return &b->number[i];
}

static unsigned common_shift(const raw_event *events, size_t count) {
    uint64_t all = 1u << 12;
    for (size_t i = 0; i < count; i++)
        if (raw_is_birth(events[i].kind) || raw_is_death(events[i].kind)) all |= events[i].address;
    return (unsigned)__builtin_ctzll(all);
}

static void add_event(columns *c, births *known, const raw_event *e, uint64_t *birth, uint64_t *death) {
    const uint64_t address = e->address >> c->shift;
    if (raw_is_birth(e->kind)) {
        add(c, COLUMN_BIRTH, format_fold(address - *birth));
        *birth = address;
        *birth_at(known, e->address) = (uint32_t)c->count[COLUMN_BIRTH];
    } else if (raw_is_death(e->kind)) {
        uint32_t *number = birth_at(known, e->address);
        add(c, COLUMN_BACK, *number ? c->count[COLUMN_BIRTH] - *number + 1 : 0);
        if (!*number) {
            add(c, COLUMN_DEATH, format_fold(address - *death));
            *death = address;
        }
    }
    if (has_size(e->kind)) add(c, COLUMN_SIZE, e->size);
    if (has_stack(e->kind)) add(c, COLUMN_STACK, e->stack);
    if (has_align(e->kind)) add(c, COLUMN_ALIGN, e->align_log2);
    if (has_a(e->kind)) add(c, COLUMN_A, e->kind == RAW_SCOPED ? e->scope : e->address);
    if (has_b(e->kind)) add(c, COLUMN_B, e->size);
}

unsigned char *format_pack_events(const raw_event *events, size_t count, size_t *bytes) {
    columns c;
    births *known = calloc(1, sizeof *known);
    unsigned char *out = NULL;
    uint64_t birth = 0, death = 0, before = events[0].time_ns;
    if (known && columns_init(&c, count)) {
        c.shift = common_shift(events, count);
        for (size_t i = 0; i < count; i++) {
            add(&c, COLUMN_KIND, events[i].kind);
            add(&c, COLUMN_TIME, events[i].time_ns - before);
            before = events[i].time_ns;
            add_event(&c, known, &events[i], &birth, &death);
        }
        out = write_planes(&c, bytes);
        columns_fini(&c);
    }
    free(known);
    return out;
}

/* ---- and back ---------------------------------------------------------------------------------------------------- */

static bool count_columns(columns *c, size_t events) {
    for (size_t i = 0; i < events; i++) {
        if (c->at[COLUMN_KIND][i] > UINT8_MAX) return false;
        uint8_t kind = (uint8_t)c->at[COLUMN_KIND][i];
        if (!raw_is_known(kind)) return false;
        c->count[COLUMN_BIRTH] += raw_is_birth(kind);
        c->count[COLUMN_BACK] += raw_is_death(kind);
        c->count[COLUMN_SIZE] += has_size(kind);
        c->count[COLUMN_STACK] += has_stack(kind);
        c->count[COLUMN_ALIGN] += has_align(kind);
        c->count[COLUMN_A] += has_a(kind);
        c->count[COLUMN_B] += has_b(kind);
    }
    return true;
}

static bool read_columns(columns *c, const unsigned char *in, const unsigned char *end, size_t events) {
    if (in == end || *in > 12) return false;
    c->shift = *in++;
    if (!(in = format_get_planes(in, end, c->at[COLUMN_KIND], events)) || !count_columns(c, events)) return false;
    c->count[COLUMN_TIME] = events;
    for (unsigned k = COLUMN_TIME; k < FORMAT_COLUMNS; k++) {
        if (k == COLUMN_DEATH)
            for (size_t i = 0; i < c->count[COLUMN_BACK]; i++) c->count[k] += c->at[COLUMN_BACK][i] == 0;
        if (!(in = format_get_planes(in, end, c->at[k], c->count[k]))) return false;
    }
    return in == end;
}

/* Addresses instead of differences. */
static void sum(uint64_t *at, size_t count) {
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++) at[i] = value += format_unfold(at[i]);
}

static bool take_event(const columns *c, size_t next[FORMAT_COLUMNS], raw_event *e) {
#define NEXT(k) (c->at[k][next[k]++])
    if (raw_is_birth(e->kind)) {
        e->address = NEXT(COLUMN_BIRTH) << c->shift;
    } else if (raw_is_death(e->kind)) {
        uint64_t back = NEXT(COLUMN_BACK);
        if (back > next[COLUMN_BIRTH]) return false;
        e->address = (back ? c->at[COLUMN_BIRTH][next[COLUMN_BIRTH] - back] : NEXT(COLUMN_DEATH)) << c->shift;
    }
    if (has_size(e->kind)) e->size = NEXT(COLUMN_SIZE);
    if (has_stack(e->kind)) e->stack = (uint32_t)NEXT(COLUMN_STACK);
    if (has_align(e->kind)) e->align_log2 = (uint8_t)(NEXT(COLUMN_ALIGN) & 63);
    if (has_a(e->kind)) *(e->kind == RAW_SCOPED ? &e->scope : &e->address) = NEXT(COLUMN_A);
    if (has_b(e->kind)) e->size = NEXT(COLUMN_B);
#undef NEXT
    return true;
}

bool format_unpack_events(const unsigned char *in, size_t bytes, uint64_t first_ns, raw_event *out, size_t count) {
    columns c;
    size_t next[FORMAT_COLUMNS] = {0};
    uint64_t time_ns = first_ns;
    if (!columns_init(&c, count)) return false;
    bool good = read_columns(&c, in, in + bytes, count);
    if (good) {
        sum(c.at[COLUMN_BIRTH], c.count[COLUMN_BIRTH]);
        sum(c.at[COLUMN_DEATH], c.count[COLUMN_DEATH]);
    }
    for (size_t i = 0; good && i < count; i++) {
        time_ns += c.at[COLUMN_TIME][i];
        out[i] = (raw_event){.time_ns = time_ns, .kind = (uint8_t)c.at[COLUMN_KIND][i]};
        good = take_event(&c, next, &out[i]);
    }
    columns_fini(&c);
    return good;
}
