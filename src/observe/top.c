#include "observe/top.h"

#include <stdint.h>
#include <string.h>

static void *row_at(const ts_top *t, size_t i) { return (char *)t->rows + i * t->bytes; }

static void swap(const ts_top *t, size_t i, size_t k) {
    char *a = row_at(t, i), *b = row_at(t, k);
    uint64_t x, y;
    for (size_t at = 0; at < t->bytes; at += sizeof x) {
        memcpy(&x, a + at, sizeof x);
        memcpy(&y, b + at, sizeof y);
        memcpy(a + at, &y, sizeof y);
        memcpy(b + at, &x, sizeof x);
    }
}

/* Sinks row i of the first n to its place. */
static void sink(const ts_top *t, size_t i, size_t n) {
    for (size_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && t->before(row_at(t, c), row_at(t, c + 1))) c++;
        if (!t->before(row_at(t, i), row_at(t, c))) return;
        swap(t, i, c);
    }
}

static void make_heap(const ts_top *t) {
    for (size_t i = t->count / 2; i-- > 0;) sink(t, i, t->count);
}

bool ts_top_takes(const ts_top *t, const void *row) {
    return t->count < t->capacity || (t->capacity > 0 && t->before(row, t->rows));
}

void ts_top_put(ts_top *t, const void *row) {
    if (t->count < t->capacity) {
        memcpy(row_at(t, t->count++), row, t->bytes);
        if (t->count == t->capacity) make_heap(t);
    } else {
        memcpy(t->rows, row, t->bytes);
        sink(t, 0, t->count);
    }
}

void ts_top_sort(const ts_top *t) {
    make_heap(t);
    for (size_t n = t->count; n > 1; n--) {
        swap(t, 0, n - 1);
        sink(t, 0, n - 1);
    }
}
