/* The environment. */
#ifndef TS_OS_ENV_H
#define TS_OS_ENV_H

#include "base/attr.h"

#include <stdbool.h>

/* Whether who starts the program has all of its rights, where the system tells (else, as with setuid, he gets no say in how it manages
   its memory, and no thread or descriptor in it). */
TS_HIDDEN bool ts_env_is_trusted(void);
/* As getenv; NULL where it is not trusted. */
TS_HIDDEN const char *ts_env(const char *name);

#endif
