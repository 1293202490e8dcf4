/*
 * The operations of a trace, ready to be played: a file that the player maps.
 *
 * Each thread has a stream of operations. Objects lie in *slots*, which later objects take again. The order between
 * threads is kept by two rules. Where two operations on a slot that follow each other are of different threads, the
 * later one waits for the earlier one: `turn` counts these hand-overs. And the operations of all threads together are
 * cut into *windows*: a thread begins its operations of a window when all threads have done theirs of the one before
 * the last. Both follow the order of the trace, so no cycle of waits is possible.
 *
 * The first thread plays in the main thread, and starts the others.
 */
#ifndef REPLAY_OPS_H
#define REPLAY_OPS_H

#include "replay/buckets.h"

#include <stdbool.h>
#include <stdint.h>

enum { OPS_MAGIC = 0x5453504c, OPS_WINDOW = 4096, OPS_SAMPLES = 240, OPS_SAMPLES_MOST = OPS_SAMPLES + 16 };

typedef enum op_kind {
    OP_ALLOC = 1, /* slot, size, align */
    OP_FREE,      /* slot */
    OP_REALLOC,   /* slot, size */
    OP_START,     /* slot: a thread */
    OP_SAMPLE,    /* slot: number of the sample */
    OP_TURN,      /* a turn of the plan begins: the thread enters a domain of its own. size 1: one that captures, and
                     lets go at its end of what is still used */
    OP_TURN_END,
    OP_WINDOW /* slot: the window that begins, UINT32_MAX: none; turn: the one that ends, plus one; 0: none */
} op_kind;

typedef struct op {
    uint64_t size : 40, align_log2 : 6, kind : 4;
    uint64_t scoped : 1; /* of an object in the domain of a turn: its free is not made, as the turn's end does it */
    uint64_t waits : 1, tells : 1; /* for the thread before, the next one */
    uint32_t slot, turn;
} op;

typedef struct ops_stream {
    uint64_t first, count; /* of the file's operations */
} ops_stream;

/* At the beginning of the file. Then follow the streams, the threads in each window (uint32_t), and the operations. */
typedef struct ops_head {
    uint32_t magic, threads, slots, windows;
    uint64_t streams_at, windows_at, ops_at, bytes;
} ops_head;

typedef enum play_mode {
    PLAY_PROBE,   /* nothing: is the allocator the one that is meant? */
    PLAY_NOTHING, /* no memory is allocated: the time of the player itself */
    PLAY_TIME,
    PLAY_MEASURE /* the time of each call, and resident memory */
} play_mode;

enum { PLAY_WRONG_ALLOCATOR = 9, PLAY_NO_MEMORY = 10, PLAY_BROKEN = 11 };

/* What the player writes to standard output. */
typedef struct play_result {
    uint64_t time_ns, cpu_ns;
    uint64_t allocs, frees, reallocs;
    uint64_t final_bytes;
    uint64_t resident[OPS_SAMPLES_MOST]; /* by sample */
    buckets alloc_ns, free_ns;           /* a realloc is in neither */
} play_result;

/* The process becomes the player. Returns its exit status. library: the file of the allocator. */
int play(int ops_fd, play_mode mode, const char *library);

#endif
