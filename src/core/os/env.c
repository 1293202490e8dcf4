#include "os/env.h"

#include <stdlib.h>

#if defined(__linux__)
#include <sys/auxv.h>
bool ts_env_is_trusted(void) { return getauxval(AT_SECURE) == 0; }
#else
bool ts_env_is_trusted(void) { return true; }
#endif

const char *ts_env(const char *name) { return ts_env_is_trusted() ? getenv(name) : NULL; }
