#include "os/env.h"

#include <stdlib.h>
#include <sys/auxv.h>

bool ts_env_is_trusted(void) { return getauxval(AT_SECURE) == 0; }
const char *ts_env(const char *name) { return ts_env_is_trusted() ? getenv(name) : NULL; }
