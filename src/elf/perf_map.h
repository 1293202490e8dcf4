/*
 * Names of functions that a program has made at run time, by its perf map: /tmp/perf-PID.map, which node, the JVM and
 * Python (-X perf) write. Lines START BYTES NAME, hexadecimal. A later line stands before an earlier one: the memory
 * has been used again.
 */
#ifndef ELF_PERF_MAP_H
#define ELF_PERF_MAP_H

#include "elf/functions.h"

#include <sys/types.h>

/* The map of a process, of malloc, terminated; NULL: it has none. pid 0: this process. In the file system of the
   process and by its own id there, as in a container; a file of another user is none of this process's. */
char *perf_map_read(pid_t pid, size_t *bytes);
/* Fills the names of places, which are in the order of their addresses. Changes no name of a place in no line. */
void perf_map_name(const char *map, elf_place *place, size_t count);

#endif
