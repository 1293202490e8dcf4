/*
 * From the memory that recorded programs share with the tool (record/shared.h) to the file.
 */
#ifndef TSLAB_DRAIN_H
#define TSLAB_DRAIN_H

#include "record/shared.h"
#include "trace/writer.h"

#include <sys/types.h>

typedef struct drain drain;

/* NULL: no memory. */
drain *drain_create(record_shared *memory, trace_writer *writer);
void drain_free(drain *d);
/* Takes the events of the rings; returns how many. */
size_t drain_take(drain *d);
/* Windows of time that begin or end: an event of the recorder. */
void drain_window(drain *d, uint64_t time_ns, bool on);
/* Takes the end of processes that have ended. root_status: as of waitpid, if it is known (status_known). Returns how
   many processes still run. */
size_t drain_reap(drain *d, pid_t root, bool status_known, int root_status);
uint64_t drain_events(const drain *d); /* so many in all */
uint64_t drain_threads(const drain *d);

#endif
