/*
 * The bytes that a test writes into an object, so that a second owner of the same bytes is seen. Objects up to
 * SUP_PATTERN_WHOLE bytes are written whole, larger ones at both ends only: gigabytes stay virtual.
 */
#ifndef SUP_PATTERN_H
#define SUP_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SUP_PATTERN_WHOLE 4096u
#define SUP_PATTERN_END 256u

void sup_pattern_fill(void *object, size_t size, uint64_t key);
bool sup_pattern_check(const void *object, size_t size, uint64_t key);
/* The object had `size` bytes of the pattern; whether the part of it that lies in the first `kept` bytes is
   there. For a realloc. */
bool sup_pattern_check_prefix(const void *object, size_t size, size_t kept, uint64_t key);
/* Whether the bytes that sup_pattern_fill would write are all zero. */
bool sup_zero_check(const void *object, size_t size);

#endif
