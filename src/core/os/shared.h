/* Memory of this process that others can read: a file without a name, which they find at /proc/PID/fd. */
#ifndef TS_OS_SHARED_H
#define TS_OS_SHARED_H

#include "os/own_file.h"

#include <stddef.h>

typedef struct ts_shared {
    void *at; /* NULL: none */
    size_t bytes;
    ts_own_file file;
} ts_shared;

/* Zeroed; no other process can write it or change its size. name: as /proc shows it. false: errno says why; EFBIG:
   ulimit -f allows no file of its size. */
bool ts_shared_make(ts_shared *shared, const char *name, size_t bytes);
/* In a child of fork, too: the parent's stays. */
void ts_shared_end(ts_shared *shared);

#endif
