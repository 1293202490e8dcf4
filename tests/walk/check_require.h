/* How a file of the deep walk states a requirement. The function that does so returns bool, and has the walk as
   `check`. */
#ifndef TS_WALK_CHECK_REQUIRE_H
#define TS_WALK_CHECK_REQUIRE_H

#include "walk/check_slabs.h"

#define FAIL(...) return ts_check_fail(check, __VA_ARGS__)
#define REQUIRE(cond, ...)                                     \
    do {                                                       \
        if (!(cond)) return ts_check_fail(check, __VA_ARGS__); \
    } while (0)

#endif
