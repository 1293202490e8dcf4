/* The tests of locks where there is no futex: who waits naps. park.c is compiled once more, in place of the
   library's. */
#define TS_PARK_NAPS
#include "base/park.c" /* NOLINT: defines _GNU_SOURCE, so it comes first */

#include "lock_test.c"
