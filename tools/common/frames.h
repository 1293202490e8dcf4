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
/* From the place on the stack of a return address to that of the return address of the function that it lies in: `up`
   bytes above the first, or above the frame pointer (rbp) if its lowest bit is set. The caller's frame pointer is
   `saved` bytes below the second, or unchanged if that is 0. up 0: not known (x86-64 only). */
typedef struct frames_step {
    uint16_t up, saved;
} frames_step;
frames_step frames_above(const frames *f, uint64_t return_address);

#endif
