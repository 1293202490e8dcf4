/* The steps of tslab run and tslab record before they start a program. */
#ifndef TSLAB_LAUNCH_H
#define TSLAB_LAUNCH_H

#include <limits.h>
#include <stdbool.h>

enum { EXIT_DONE = 0, EXIT_USAGE = 2, EXIT_CANNOT = 126, EXIT_NOT_FOUND = 127 };

/* Says it on standard error, and returns the code. */
__attribute__((format(printf, 2, 3))) int launch_fail(int code, const char *format, ...);
/* The library by its path, if it is beside this tool, installed or in the tree it was built in; else by its name. -1:
   done; else an exit code. */
int launch_find_library(const char *name, char out[PATH_MAX]);
/* In front of libraries that are preloaded already. */
bool launch_preload(const char *library);
/* Whether the program, which is looked for in PATH, is linked statically. */
bool launch_is_static(const char *name);

#endif
