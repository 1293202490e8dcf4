/*
 * Names of functions by the symbol tables of a program or library: .symtab, or .dynsym where that was stripped. An
 * address has the name of a function only if it lies inside of it, by the size that its symbol says. So a static
 * function of a stripped library has none, where the nearest exported name would be another function's.
 */
#ifndef ELF_FUNCTIONS_H
#define ELF_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef struct elf_place {
    uint64_t address; /* as the file has it */
    char *name;       /* as the symbol has it (mangled, of C++), of malloc; NULL: no function is there */
} elf_place;

/* Fills the names of places, which are in the order of their addresses and have none yet. A file that is no ELF file of
   this process's kind, or is damaged, names nothing. Reads the tables once, whatever the number of places. */
void elf_functions(const char *path, elf_place *place, size_t count);

#endif
