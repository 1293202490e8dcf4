/*
 * Names of functions.
 *
 * By the symbol tables of a program or library: .symtab, or .dynsym where that was stripped. An address has the name of
 * a function only if it lies inside of it, by the size that its symbol says. So a static function of a stripped library
 * has none, where the nearest exported name would be another function's.
 *
 * Of code that a program has made at run time by its perf map: /tmp/perf-PID.map, which node, the JVM and Python
 * (-X perf) write. Lines START BYTES NAME, hexadecimal. A later line stands before an earlier one: the memory has been
 * used again.
 */
#ifndef ELF_ELF_H
#define ELF_ELF_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct elf_place {
    uint64_t address; /* as the file has it */
    char *name;       /* as the symbol has it (mangled, of C++), of malloc; NULL: no function is there */
} elf_place;

/* Fills the names of places, which are in the order of their addresses and have none yet. A file that is no ELF file of
   this process's kind, or is damaged, names nothing. Reads the tables once, whatever the number of places. */
void elf_functions(const char *path, elf_place *place, size_t count);

/* The first place at or behind an address; count: none. */
size_t elf_first_from(const elf_place *place, size_t count, uint64_t address);

/* The map of a process, of malloc, terminated; NULL: it has none. pid 0: this process. In the file system of the
   process and by its own id there, as in a container; a file of another user is none of this process's. */
char *perf_map_read(pid_t pid, size_t *bytes);
/* Fills the names of places, which are in the order of their addresses. Changes no name of a place in no line. */
void perf_map_name(const char *map, elf_place *place, size_t count);

#endif
