/* The environment. */
#ifndef TS_OS_ENV_H
#define TS_OS_ENV_H

#include "base/attr.h"

/* As getenv; NULL in a program that has more rights than who starts it (setuid), where the system tells: he gets no say in how it
   manages its memory, and no thread or descriptor in it. */
TS_HIDDEN const char *ts_env(const char *name);

#endif
