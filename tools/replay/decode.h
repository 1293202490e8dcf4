/* From a trace to the file of operations that the player plays (ops.h). */
#ifndef REPLAY_DECODE_H
#define REPLAY_DECODE_H

#include "replay/ops.h"
#include "replay/plan.h"
#include "trace/trace.h"

typedef struct decoded_sample {
    uint64_t time_ns, operations, live_bytes; /* of the trace, where the sample is taken */
} decoded_sample;

typedef struct decoded {
    int fd; /* of the operations; -1: none */
    uint32_t process, threads;
    uint64_t allocs, frees, reallocs;
    uint64_t dropped; /* of frees: those that the ends of turns make */
    uint64_t turns;
    uint64_t left_out; /* objects in epochs and domains, and deaths of objects whose birth the trace does not have */
    uint64_t lost;     /* events that the recorder had no room for */
    uint64_t live_peak_bytes, live_end_bytes;
    decoded_sample sample[OPS_SAMPLES_MOST];
    uint32_t samples;
} decoded;

/* Of the process that allocates most. plan: whose turns are domains; NULL: none. captures: such as capture and drain,
   and each free is made; else objects that die in a turn are allocated in its domain, and their frees are left out.
   Returns NULL, or why not. The caller closes fd. */
const char *decode_trace(trace *t, const replay_plan *plan, bool captures, decoded *out);

#endif
