#define _GNU_SOURCE
#include "os/env.h"

#include <stdlib.h>

const char *ts_env(const char *name) {
#if defined(__linux__)
    return secure_getenv(name);
#else
    return getenv(name);
#endif
}
