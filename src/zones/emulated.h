/*
 * The emulated zoned device: a file with the rules of a zoned namespace of NVMe.
 *
 *     header   4 KiB: its kind, its parameters, the process that has it open
 *     table    a record of 16 bytes for each zone: state and write pointer
 *     data     zone after zone, at their capacity; a multiple of 1 MiB from the start of the file
 *
 * A record is written to the file at once, so what was done is in the file when the process is killed. Data is written
 * before the write pointer moves past it. So a process killed in the middle of an append has appended all of it, or
 * nothing. (After a power cut anything may be in the file. The library reads nothing of it then.)
 *
 * The table has its blocks from the opening on: ENOSPC. Later errors are EIO of the call that meets them. A file that
 * somebody cuts answers EIO from then on, and so does a descriptor that the program has closed.
 */
#ifndef TS_ZONES_EMULATED_H
#define TS_ZONES_EMULATED_H

#include "zones/device.h"

/* Parameters of a device; 0: not given. */
typedef struct ts_emulated_parameters {
    uint64_t zones, zone_size, zone_capacity, max_open, max_active;
    unsigned given; /* bit per member, in this order */
} ts_emulated_parameters;

/* text: the part behind "emulated:". false with errno EINVAL or ENAMETOOLONG, and a line that names the mistake. */
bool ts_emulated_parse(const char *text, char *path, size_t path_bytes, ts_emulated_parameters *out);
/* Opens, or makes. NULL with errno, see slab_zones_open. */
ts_device *ts_emulated_open(const char *path, const ts_emulated_parameters *given);

/* ---- faults, for tests ------------------------------------------------------------------------------------------ */

typedef enum ts_emulated_call {
    TS_EMULATED_REPORT,
    TS_EMULATED_APPEND,
    TS_EMULATED_READ,
    TS_EMULATED_OPEN,
    TS_EMULATED_CLOSE,
    TS_EMULATED_FINISH,
    TS_EMULATED_RESET
} ts_emulated_call;

/* What happens to a call. */
typedef enum ts_emulated_fault {
    TS_FAULT_NONE,
    TS_FAULT_REFUSED,   /* EIO, nothing is done */
    TS_FAULT_TORN,      /* of an append: half of its blocks are written and count, and it answers EIO */
    TS_FAULT_LATE,      /* all is done, and the answer is EIO */
    TS_FAULT_READ_ONLY, /* the zone becomes read-only; EIO */
    TS_FAULT_OFFLINE    /* the zone goes offline; EIO */
} ts_emulated_fault;

/* Places in an append at which the test is asked to do something: to kill the process. Appends that are under way at
   the same time can be at HALF together; at the others one is alone. */
typedef enum ts_emulated_step { TS_STEP_OPENED, TS_STEP_HALF, TS_STEP_WRITTEN, TS_STEP_COUNTED } ts_emulated_step;

typedef struct ts_emulated_hooks {
    ts_emulated_fault (*fault)(void *arg, ts_emulated_call call, uint32_t zone);
    void (*step)(void *arg, ts_emulated_step step, uint32_t zone);
    void *arg;
} ts_emulated_hooks;
/* For all emulated devices of the process. Set while no call is under way. */
extern ts_emulated_hooks ts_emulated_hooks_now;

#endif
