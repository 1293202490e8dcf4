/* The holders of memory, as rows of tslab top. */
#ifndef TSLAB_HOLDERS_H
#define TSLAB_HOLDERS_H

#include "observe/observe.h"

#include <sys/types.h>

/*
 * Shows nothing where the view has no sampled stacks. alone: it is the only view that is shown. files_of: the process
 * in whose file system the program's files are, 0: this one's. The names of functions are looked up once for each
 * address; one program at a time.
 */
void holders_show(const ts_view *view, bool alone, pid_t files_of,
                  void (*line)(void *arg, const char *text, bool is_title), void *arg);

#endif
