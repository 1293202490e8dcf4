/* The first rows of many, by an order: kept while all are looked at, and put in order at the end. */
#ifndef TS_OBSERVE_TOP_H
#define TS_OBSERVE_TOP_H

#include <stdbool.h>
#include <stddef.h>

/* A heap whose last row is on top, once there are `capacity`. */
typedef struct ts_top {
    void *rows;
    size_t bytes; /* of a row, which is of words of 8 */
    size_t capacity, count;
    bool (*before)(const void *a, const void *b);
} ts_top;

/* Whether the row, of which only what `before` reads has to be there, is among the first so far. Then it can be put. */
bool ts_top_takes(const ts_top *top, const void *row);
void ts_top_put(ts_top *top, const void *row);
/* Puts the rows in order; also rows that were written without ts_top_put. */
void ts_top_sort(const ts_top *top);

#endif
