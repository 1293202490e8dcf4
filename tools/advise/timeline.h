/* Live bytes over the time of a trace, of the sites that hold most and of all others. */
#ifndef ADVISE_TIMELINE_H
#define ADVISE_TIMELINE_H

#include "advise/show.h"

enum { TIMELINE_BINS = 240, TIMELINE_BANDS = SHOWN_BANDS + 1 /* the last one: all others */ };

/* Each bin has the moment in it at which most was live. */
typedef struct timeline {
    uint64_t live[TIMELINE_BINS][TIMELINE_BANDS];
    uint64_t peak;
} timeline;

/* Reads the trace once more. false: no memory. */
bool timeline_make(timeline *l, const advice *a);

#endif
