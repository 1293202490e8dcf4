#include "pattern.h"

#include "rng.h"

#include <string.h>

/* Byte i of a pattern is byte i % 8 of mix(key + i / 8): ranges are written eight bytes at a time. */
static uint64_t word_at(uint64_t key, size_t index) { return (key + index) * 0x9e3779b97f4a7c15u ^ (key >> 7); }

static void fill_range(unsigned char *bytes, size_t from, size_t to, uint64_t key) {
    while (from < to) {
        uint64_t word = word_at(key, from / 8);
        size_t skip = from % 8;
        size_t length = 8 - skip < to - from ? 8 - skip : to - from;
        memcpy(bytes + from, (const unsigned char *)&word + skip, length);
        from += length;
    }
}

static bool check_range(const unsigned char *bytes, size_t from, size_t to, uint64_t key) {
    while (from < to) {
        uint64_t word = word_at(key, from / 8);
        size_t skip = from % 8;
        size_t length = 8 - skip < to - from ? 8 - skip : to - from;
        if (memcmp(bytes + from, (const unsigned char *)&word + skip, length) != 0) {
            return false;
        }
        from += length;
    }
    return true;
}

void sup_pattern_fill(void *object, size_t size, uint64_t key) {
    if (size <= SUP_PATTERN_WHOLE) {
        fill_range(object, 0, size, key);
        return;
    }
    fill_range(object, 0, SUP_PATTERN_END, key);
    fill_range(object, size - SUP_PATTERN_END, size, key);
}

bool sup_pattern_check_prefix(const void *object, size_t size, size_t kept, uint64_t key) {
    if (kept > size) {
        kept = size;
    }
    if (size <= SUP_PATTERN_WHOLE) {
        return check_range(object, 0, kept, key);
    }
    size_t head = kept < SUP_PATTERN_END ? kept : SUP_PATTERN_END;
    if (!check_range(object, 0, head, key)) {
        return false;
    }
    return kept <= size - SUP_PATTERN_END || check_range(object, size - SUP_PATTERN_END, kept, key);
}

bool sup_pattern_check(const void *object, size_t size, uint64_t key) {
    return sup_pattern_check_prefix(object, size, size, key);
}

static bool zero_range(const unsigned char *bytes, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

bool sup_zero_check(const void *object, size_t size) {
    if (size <= SUP_PATTERN_WHOLE) {
        return zero_range(object, 0, size);
    }
    return zero_range(object, 0, SUP_PATTERN_END) && zero_range(object, size - SUP_PATTERN_END, size);
}
