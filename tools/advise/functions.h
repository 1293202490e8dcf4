/* Where functions begin, by the table of an image that unwinders search. Stripped files have it, too. */
#ifndef ADVISE_FUNCTIONS_H
#define ADVISE_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef struct starts {
    uint64_t *start; /* rising, as the file has them */
    size_t count;
} starts;

/* Of a file of this machine's kind; count 0: it has no such table, or cannot be read. The caller frees start. */
starts starts_of(const char *path);
/* The last start at or before the address; 0: none. */
uint64_t start_before(const starts *s, uint64_t address);

#endif
