/* The environment. */
#ifndef TS_OS_ENV_H
#define TS_OS_ENV_H

#include "base/attr.h"

#include <stdbool.h>

/* Whether the user that starts the program has all of its rights, where the system tells. A program with setuid has
   more rights. There the environment decides nothing about memory, and opens no descriptor. */
TS_HIDDEN bool ts_env_is_trusted(void);
/* getenv, but NULL where the environment is not trusted. */
TS_HIDDEN const char *ts_env(const char *name);

#endif
