/* Reads JSON that this project writes: each value with its path, in the order of the text. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stddef.h>

enum { JSON_PATH = 256 };

/* Called for each text, number and word (true, false, null) with its path, as "sites.3.epoch", and its text; of a text
   without its quotes and escapes. Returns whether to go on. */
typedef bool json_value(void *arg, const char *path, const char *value);

/* NULL: all was read; else what is wrong, as "byte 17 is no JSON". The file has 64 MiB at most. */
const char *json_read(const char *file, json_value *value, void *arg);

#endif
