/*
 * Where the library's lines go: to a function of the program, to the file that TSLAB_LOG names, or to standard error.
 * Nothing here allocates, uses a stream, or waits for a lock: a line can come from a signal handler, and from a thread
 * that was interrupted anywhere. Lines are written by who holds no lock of the library, as the function may use it.
 * No cancellation points; errno stays.
 */
#ifndef TS_BASE_MESSAGE_H
#define TS_BASE_MESSAGE_H

#include "base/attr.h"

typedef void ts_message_fn(const char *line, size_t bytes, void *arg);

/* A whole line, with its newline, and a zero behind that. One that the function itself causes goes to standard error. */
void ts_message_write(const char *line, size_t bytes);
/* The same for who can be holding a lock: never to the function. */
void ts_message_write_locked(const char *line, size_t bytes);

/* fn NULL: standard error. Returns a ticket for ts_message_wait. One thread at a time. */
uint64_t ts_message_set_sink(ts_message_fn *fn, void *arg);
/* Until the function that the call with this ticket replaced is running in no thread. Nothing inside of such a function. */
void ts_message_wait(uint64_t ticket);
/* Lines go to the file from now on; a relative name is of the present directory. false: it is too long. Once, and not
   beside another call that sets something. */
bool ts_message_set_file(const char *path);
/* Opens the file, if there is one and it was not tried yet: what is wrong is said at once. */
void ts_message_try_file(void);
/* Other threads' calls of the function are not in the child. */
void ts_message_fork_child(void);

#endif
