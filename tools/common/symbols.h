/*
 * Lines of the source in the place of addresses, by addr2line (binutils), which is run as a child process for each
 * file.
 */
#ifndef SYMBOLS_H
#define SYMBOLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The text with "FUNCTION, FILE:LINE" in the place of "PATH+0xADDRESS" in each line "      at PATH+0xADDRESS" whose
 * file is here and says it; a line more for each function that is inlined there. The addresses are return addresses:
 * the line is the call's. pid: the process in whose file system the paths are, 0: this one's. Where there is no
 * addr2line that is said once, on stderr, and the lines stay. The caller frees the answer; NULL: no memory.
 */
char *symbols_resolve(const char *text, pid_t pid);

typedef struct symbols_place {
    uint64_t address; /* a return address, as the file has it */
    char *lines;      /* "FUNCTION at FILE:LINE\n", one for each that is inlined there, the innermost first; NULL: not
                         known. FILE is "??" where the file has no lines. Of malloc */
} symbols_place;

/* The lines of places in a file, which have none yet. */
void symbols_of_file(const char *file, symbols_place *places, size_t count);

#endif
