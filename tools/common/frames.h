/* What `tslab run --plan` has to know of a file: its build id, and how large the frames of its functions are. */
#ifndef FRAMES_H
#define FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAMES_ID = 65 };

typedef struct frames frames;

/* NULL: it is no ELF file of this process's kind. */
frames *frames_open(const char *path);
void frames_close(frames *f);
/* In hexadecimal digits; "": it has none. */
const char *frames_build_id(const frames *f);
/* The bytes from the place on the stack of this return address, in a function that is called, to that of the
   function's own. 0: they are not constant, or the file does not say (x86-64 only). */
uint32_t frames_up(const frames *f, uint64_t return_address);

#endif
