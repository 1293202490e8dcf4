#include "spill/state_words.h"

#include "base/bits.h"

#include <string.h>

#define HEAD 4u

/* Bits one behind the other, lowest first. */
typedef struct writer {
    uint8_t *at;
    uint64_t word;
    unsigned bits; /* of the word */
} writer;

static void put_bits(writer *w, uint32_t value, unsigned bits) {
    w->word |= (uint64_t)value << w->bits;
    for (w->bits += bits; w->bits >= 8; w->bits -= 8, w->word >>= 8) *w->at++ = (uint8_t)w->word;
}

/* Where the next byte would be. */
static const uint8_t *end_bits(const writer *w) {
    if (w->bits == 0) return w->at;
    *w->at = (uint8_t)w->word;
    return w->at + 1;
}

typedef struct reader {
    const uint8_t *at;
    uint64_t word;
    unsigned bits;
} reader;

static uint32_t get_bits(reader *r, unsigned bits) {
    for (; r->bits < bits; r->bits += 8) r->word |= (uint64_t)*r->at++ << r->bits;
    uint32_t value = (uint32_t)(r->word & (((uint64_t)1 << bits) - 1));
    r->word >>= bits;
    r->bits -= bits;
    return value;
}

/* Eight bytes at a time, atomically: others look meanwhile (spill/packed.h says what becomes of what they see). */
typedef union states {
    uint64_t word[TS_STATES_COARSE / 4];
    uint16_t state[TS_STATES_COARSE];
} states;

static void read_states(uint32_t unit, states *to) {
    const ts_state64 *words = (const ts_state64 *)(const void *)ts_unit_states(unit, false);
    for (unsigned i = 0; i < TS_STATES_COARSE / 4; i++) to->word[i] = ts_load_relaxed(&words[i]);
}

static void write_states(uint32_t unit, const states *from) {
    ts_state64 *words = (ts_state64 *)(void *)ts_unit_states(unit, false);
    for (unsigned i = 0; i < TS_STATES_COARSE / 4; i++) ts_store_relaxed(&words[i], from->word[i]);
}

/* ---- churn ------------------------------------------------------------------------------------------------------- */

static unsigned entry_of_slot(unsigned cls, unsigned slot) { return slot * ts_class_bytes[cls] / 16; }
static unsigned granule_of_slot(unsigned cls, unsigned slot) {
    return (unsigned)ts_granule(false, entry_of_slot(cls, slot));
}

static size_t pack_churn(uint32_t unit, unsigned cls, uint8_t *out) {
    uint32_t least = UINT32_MAX, most = 0, slot_state[TS_STATES_COARSE];
    unsigned slots = ts_classes.slots[cls], bits = 0;
    states all;
    read_states(unit, &all);
    for (unsigned slot = 0; slot < slots; slot++) {
        uint32_t s = slot_state[slot] = all.state[granule_of_slot(cls, slot)], g = ts_state_generation(s);
        if (g < least) least = g;
        if (g > most) most = g;
    }
    while ((most - least) >> bits != 0) bits++;
    writer w = {out + HEAD, 0, 0};
    out[0] = (uint8_t)cls;
    out[1] = (uint8_t)bits;
    out[2] = (uint8_t)least;
    out[3] = (uint8_t)(least >> 8);
    for (unsigned slot = 0; slot < slots; slot++) put_bits(&w, slot_state[slot] & TS_STATE_LIVE, 1);
    for (unsigned slot = 0; slot < slots; slot++) put_bits(&w, ts_state_generation(slot_state[slot]) - least, bits);
    return (size_t)(end_bits(&w) - out);
}

static void unpack_churn(uint32_t unit, const uint8_t *in) {
    states all;
    unsigned cls = in[0], bits = in[1], slots = ts_classes.slots[cls];
    uint32_t least = in[2] | (uint32_t)in[3] << 8;
    reader r = {in + HEAD, 0, 0};
    for (unsigned i = 0; i < TS_STATES_COARSE; i++)
        all.state[i] = TS_STATE_USABLE; /* as a reset leaves what is no slot */
    for (unsigned slot = 0; slot < slots; slot++)
        all.state[granule_of_slot(cls, slot)] =
            (uint16_t)((entry_of_slot(cls, slot) & 3) << TS_STATE_START_SHIFT | get_bits(&r, 1));
    for (unsigned slot = 0; slot < slots; slot++)
        all.state[granule_of_slot(cls, slot)] |=
            (uint16_t)((least + get_bits(&r, bits)) << TS_STATE_GEN_SHIFT ^ TS_STATE_USABLE);
    write_states(unit, &all);
}

/* ---- scope ------------------------------------------------------------------------------------------------------- */

static size_t pack_scope(uint32_t unit, uint8_t *out) {
    const ts_scope_bits *bits = ts_slab_scope_bits(unit);
    uint64_t start[16], freed[16], before = 0, any = 0;
    uint32_t differ = 0;
    uint8_t *at = out + HEAD;
    for (unsigned i = 0; i < 16; i++) {
        start[i] = ts_load_relaxed(&bits->start[i]);
        freed[i] = ts_load_relaxed(&bits->freed[i]);
        any |= freed[i];
        if (start[i] != before) {
            differ |= 1u << i;
            memcpy(at, &start[i], 8);
            at += 8;
        }
        before = start[i];
    }
    out[0] = TS_PACKED_SCOPE;
    out[1] = any != 0;
    out[2] = (uint8_t)differ;
    out[3] = (uint8_t)(differ >> 8);
    writer w = {at, 0, 0};
    for (unsigned i = 0; any != 0 && i < 16; i++)
        for (uint64_t left = start[i]; left; left &= left - 1) put_bits(&w, freed[i] >> ts_ctz64(left) & 1, 1);
    return (size_t)(end_bits(&w) - out);
}

static void unpack_scope(uint32_t unit, const uint8_t *in) {
    states all = {{0}};
    uint64_t *start = all.word, *freed = all.word + 16, before = 0;
    uint32_t differ = in[2] | (uint32_t)in[3] << 8;
    const uint8_t *at = in + HEAD;
    for (unsigned i = 0; i < 16; i++) {
        if (differ >> i & 1) {
            memcpy(&before, at, 8);
            at += 8;
        }
        start[i] = before;
    }
    reader r = {at, 0, 0};
    for (unsigned i = 0; in[1] && i < 16; i++)
        for (uint64_t left = start[i]; left; left &= left - 1) freed[i] |= (uint64_t)get_bits(&r, 1) << ts_ctz64(left);
    write_states(unit, &all);
}

size_t ts_slab_pack(uint32_t unit, unsigned cls, uint8_t out[TS_PACKED_MOST]) {
    return cls == TS_PACKED_SCOPE ? pack_scope(unit, out) : pack_churn(unit, cls, out);
}

void ts_slab_unpack(uint32_t unit, const uint8_t *packed) {
    if (packed[0] == TS_PACKED_SCOPE)
        unpack_scope(unit, packed);
    else
        unpack_churn(unit, packed);
}
