/*
 * Which functions have turns: calls, or rounds of a loop, at whose ends the objects die that were allocated in them.
 *
 * An *instance* is a function F as it is called from one stack. Its *sites* are the calls that F makes there. A *visit*
 * of a site is a row of events below it with no other event of the thread between. Where a site is visited again and
 * again, its visits cut the time of a thread into *rounds*: from the beginning of each visit to the next one, or from
 * end to end; the return of F ends the last one. An object that was allocated in the instance belongs to the round of
 * its birth, and *escapes* if it dies in a later one. If few do, a round is a turn of F.
 *
 * Three readings of the trace: births and visits; deaths, by round, for the sites that may cut turns; escapes of the
 * best.
 * Memory: some 100 bytes for each node of the tree of stacks and thread. It does not grow with the events.
 */
#ifndef ADVISE_TURNS_H
#define ADVISE_TURNS_H

#include "trace/trace.h"

#include <stdbool.h>

/* Times in nanoseconds, measured on this machine. */
typedef struct turn_costs {
    double malloc_free; /* a pair of the process's malloc */
    double scope_alloc; /* an allocation in a domain with SCOPE */
    double domain;      /* create, enter, leave and end */
    /* Of libtslab-malloc in a domain that captures and drains; all 0: it is not installed. */
    double captured_pair, captured_domain;
} turn_costs;

enum { TURN_LAGS = 4, TURN_ENTRIES = 4 };

/* A function outside of libc that allocates in a turn: a wrapper of malloc, or the user itself. */
typedef struct turn_entry {
    uint32_t stack; /* a node in it, with most of its objects */
    uint64_t objects;
} turn_entry;

typedef struct turn {
    uint32_t function;               /* of turns.function */
    uint32_t stack;                  /* a node in the function: the site that cuts */
    bool at_end;                     /* rounds go from end to end of its visits */
    bool is_loop;                    /* a round of a loop in the function; else a call of it */
    uint64_t count;                  /* turns */
    uint64_t births, bytes;          /* allocated in the function */
    uint64_t reallocs;               /* made in it */
    uint64_t enters;                 /* of domains, in it */
    uint64_t covered, covered_bytes; /* of them, died in their round */
    uint64_t lag[TURN_LAGS];         /* died so many rounds later, plus one; the last one: more */
    double held_byte_seconds;        /* from deaths to the ends of the rounds */
    uint64_t held_peak;              /* bytes that one thread would hold longer at most */
    double saved_ns;                 /* in all */
    int parent;                      /* number in turns.best; -1: none */
    turn_entry entry[TURN_ENTRIES];  /* most objects first; objects 0: there are no more */
} turn;

/* Objects of a turn that escape it; or such that die in it, by their frees alone. */
typedef struct turn_escape {
    uint32_t turn;               /* number in turns.best */
    uint32_t stack, freed;       /* of the allocation, 0: of all that die in the turn; of the free, 0: never */
    uint32_t named, freed_named; /* the same without wrappers of malloc and free */
    uint64_t objects, bytes;
    uint64_t lag[TURN_LAGS]; /* died so many rounds later, plus one; the last one: more */
    uint64_t oldest_ns;
} turn_escape;

typedef enum turn_life {
    LIFE_SHORT,
    LIFE_RUN,       /* a third of the run or more */
    LIFE_CACHE,     /* a fiftieth */
    LIFE_GENERATION /* ends a constant number of turns later */
} turn_life;

/* Objects of one call in a function, through the same wrappers. */
typedef struct turn_site {
    uint32_t stack; /* of one of them */
    uint32_t row;   /* while rows are merged */
    uint32_t named; /* the stack without wrappers of malloc */
    turn_life life;
    unsigned turns_later;                      /* of a generation */
    uint32_t turn_stack;                       /* the site whose visits are its turns; 0: it is no generation */
    uint64_t rounds;                           /* how many these are */
    bool is_covered;                           /* they die in the turns of the first boundary */
    uint64_t objects, bytes, live, live_bytes; /* live: at the end of the trace */
    uint64_t late;                             /* died when all but a thousandth was born: the program cleans up */
    double life_seconds;                       /* of all objects together; of live ones to the end */
    double byte_seconds;
} turn_site;

typedef struct turn_function {
    uint32_t image, module; /* module: number + 1; 0: none */
    uint64_t start;         /* address in the image */
} turn_function;

typedef struct turns {
    turn *best; /* best first; without those that are the same turn of another function */
    size_t count;
    bool too_small, too_large; /* a boundary is left out, as its turns are so */
    turn_escape *escape;       /* by turn, most objects first */
    size_t escapes;
    turn_escape *freed; /* where objects die in their turn: by turn, most objects first */
    size_t freeds;
    turn_site *site; /* most byte-seconds first */
    size_t sites;
    turn_function *function; /* [0] is none */
    size_t functions;
    uint32_t *function_of; /* by stack */
    uint32_t *row_of;      /* by stack: its place in site */
    struct placement *placement;
    uint64_t births, bytes, deaths, unknown_deaths, peak_bytes, duration_ns;
    uint64_t enters, scoped; /* of domains; objects in epochs and domains */
    uint32_t enter_stack;    /* that enters most; 0: none */
} turns;

/* NULL: no memory. progress: called now and then with the share that is done, or NULL. */
turns *turns_find(trace *t, const turn_costs *costs, void (*progress)(double share));
void turns_free(turns *a);

void turn_site_add(turn_site *to, const turn_site *from);
void turn_escape_add(turn_escape *to, const turn_escape *from);
/* Most byte-seconds first; by turn, most objects first. */
void turn_sites_sort(turn_site *site, size_t count);
void turn_escapes_sort(turn_escape *row, size_t count);

#endif
