/*
 * Where the library's messages go: to a function of the program, to the file that TSLAB_LOG names, or to standard
 * error. A message is one line.
 * Nothing here allocates, uses a stream, or waits for a lock. So a message can come from a signal handler, and from a
 * thread that was interrupted anywhere. The writing thread holds no lock of the library, because the program's
 * function may use the library. There are no cancellation points, and errno stays.
 */
#ifndef TS_OS_MESSAGE_H
#define TS_OS_MESSAGE_H

#include "base/attr.h"

typedef void ts_message_fn(const char *line, size_t bytes, void *arg);

/* Writes a whole line, with its newline, and a zero behind that. A line that the function itself causes goes to
   standard error. */
void ts_message_write(const char *line, size_t bytes);
/* Writes a line for a caller that may hold a lock: never to the function. */
void ts_message_write_locked(const char *line, size_t bytes);

/* Sets the function; NULL: standard error. Returns a ticket for ts_message_wait. One thread at a time. */
uint64_t ts_message_set_sink(ts_message_fn *fn, void *arg);
/* Waits until the function that the call with this ticket replaced runs in no thread. Inside of such a function it
   does nothing. */
void ts_message_wait(uint64_t ticket);
/* Sends lines to a file from this call on. A relative name belongs to the present directory. false: the name is too
   long. Once, and not beside another call that sets something. */
bool ts_message_set_file(const char *path);
/* Opens the file, if there is one, so that a fault is reported at once. */
void ts_message_try_file(void);
/* In a child of fork: other threads' calls of the function do not exist there. */
void ts_message_fork_child(void);

#endif
