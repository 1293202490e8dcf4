/* The library's lines, through slab_message; and a number of a text. */
#ifndef TS_ZONES_SAY_H
#define TS_ZONES_SAY_H

#include <stdbool.h>
#include <stdint.h>

/* "tslab: zones: ..."; keeps errno. */
__attribute__((format(printf, 1, 2))) void ts_zones_say(const char *format, ...);
/* Digits, and K, M or G behind them. false: it is something else, or too large. */
bool ts_zones_number(const char *text, const char *end, uint64_t *out);

#endif
