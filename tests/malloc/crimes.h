/*
 * Small crimes against an allocator. Each is committed in a process of its own, by a program that goes on afterwards as
 * if nothing had happened: it looks at its other objects, frees them all, allocates again, and ends.
 */
#ifndef MALLOC_CRIMES_H
#define MALLOC_CRIMES_H

#include <stdbool.h>
#include <stddef.h>

/* The report of a process that was not stopped on its crime. */
enum {
    CRIME_HARMLESS = 0,
    CRIME_DONE = 3
}; /* its exit status; DONE: another object suffered, or something was learnt */

/* Crimes that the hard mode may not notice. */
typedef enum crime_kind {
    CRIME_STOPPED,  /* it does not pass */
    CRIME_READS,    /* reads */
    CRIME_INDEXED,  /* writes some bytes away, which may be another object's */
    CRIME_REUSED,   /* writes to a place that has another object by then */
    CRIME_CONTENTS, /* reads old bytes of memory: nothing is there */
    CRIME_AT_EXIT,  /* writes around a live object: told at the end, and stopped under TSLAB_ON_MISUSE=abort */
    CRIME_MISMATCH  /* frees by the wrong function, or with a wrong size: refused where that part is named */
} crime_kind;

typedef struct crime {
    const char *name;
    void (*commit)(size_t bytes);
    crime_kind kind;
} crime;

extern const crime crimes[];
extern const size_t crime_count;

/* Commits it and ends the process. */
_Noreturn void crime_run(const crime *c, size_t bytes);

#endif
