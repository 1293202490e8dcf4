/* Loops with the requests to malloc of one kind of program, and no other work: programs_bench.py runs them under one
   malloc after the other. */
#ifndef PROGRAMS_LOOPS_H
#define PROGRAMS_LOOPS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A loop frees the memory of its work before it returns. amount: of work, 1 is the least. Returns a sum that depends on
   all of it and is the same under every malloc. */
typedef uint64_t loop_run(unsigned amount);

loop_run loop_factor;   /* factors of numbers, on numbers of a few digits of their own memory each */
loop_run loop_logic;    /* logic minimisation: cubes in lists */
loop_run loop_fragment; /* objects that grow by phases, most of which die at random */
loop_run loop_large;    /* blocks of 32 KiB to 16 MiB */
loop_run loop_power;    /* sizes by a power law */
loop_run loop_server;   /* threads with tables of objects, which they hand on to the next thread */
loop_run loop_cross;    /* 8 to 16,000 bytes, allocated by one thread and freed by another */
loop_run loop_simple;   /* one size, in lists of up to a hundred objects */
loop_run loop_threads;  /* the same in four threads */
loop_run loop_produce;  /* 64 bytes, allocated by two threads and freed by two others */
loop_run loop_big;      /* blocks of 5 to 25 MB */

/* xorshift64* (Vigna) */
static inline uint64_t loop_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

/* Its first and last byte are written, and all pages between. */
static inline unsigned char *loop_take(size_t bytes, unsigned char mark) {
    unsigned char *p = malloc(bytes);
    if (!p) {
        fputs("loops: no memory\n", stderr);
        exit(1);
    }
    for (size_t at = 0; at < bytes; at += 4096) p[at] = mark;
    p[bytes - 1] = mark;
    return p;
}

static inline void loop_need(int so) {
    if (so) return;
    fputs("loops: an object has changed, or a thread cannot be made\n", stderr);
    exit(1);
}

#endif
