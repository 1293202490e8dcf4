/* The process that has a device open: this one, or another one by what it left in a header. */
#ifndef TS_ZONES_OWNER_H
#define TS_ZONES_OWNER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ts_owner {
    char boot[40];    /* the boot id of the machine, a text */
    uint64_t process; /* 0: nobody */
    uint64_t started; /* of the process, in ticks since the boot: a process id comes again, this with it does not */
} ts_owner;

/* This process. A figure that the system does not say is 0. */
void ts_owner_self(ts_owner *out);
/* Whether that process runs now. */
bool ts_owner_is_alive(const ts_owner *owner);

#endif
