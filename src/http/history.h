/*
 * The history of the served allocators since the server's start: an hour of it, the last five minutes closer. A thread
 * looks twice a second, less often where a look takes long, so that it uses two hundredths of a processor at most. Its
 * looks also feed the doctor's knowledge of growth.
 */
#ifndef TSLAB_HTTP_HISTORY_H
#define TSLAB_HTTP_HISTORY_H

#include <tslab/stats.h>

#include <stdbool.h>

/* of: which allocator is looked at; NULL: all of the process. */
void http_history_start(SlabAllocator *of);
/* Waits for the thread's end. */
void http_history_stop(void);
/* In a child of fork: the thread is not here. */
void http_history_in_child(void);
/* JSON, like snprintf. */
size_t http_history_render(char *buffer, size_t capacity);

#endif
