/*
 * The memory that `tslab record` shares with the programs that it records. The tool makes it (memfd), and each program
 * maps it by the name in the variable _TSLAB_RECORD. Programs put events into rings, and stacks into one table; the
 * tool takes them out and writes the file. So what a program has put there is written even if it is killed at once.
 *
 * 1. A ring has one writer, the thread that owns the slot, and one reader, the tool. Whoever claims a slot owns it.
 * 2. A node of the stack table has its fields before its state is NODE_READY, and then never changes.
 * 3. A program that finds the tool gone records no more, and goes on.
 */
#ifndef RECORD_SHARED_H
#define RECORD_SHARED_H

#include "record/event.h"

#include <stdatomic.h>

enum {
    RECORD_VERSION = 1,
    RECORD_SLOTS = 1024,    /* threads at once */
    RECORD_RING = 16384,    /* events; a power of two */
    RECORD_NODES = 1 << 22, /* of the stack table; a power of two */
    RECORD_FRAMES = 256,    /* at most, of a stack */
    RECORD_NOTE_BYTES = 32, /* of a text in one event */
    RECORD_THREAD_NAME = 16
};

#define RECORD_VARIABLE "_TSLAB_RECORD" /* libtslab knows those that begin with TSLAB_, and says so of others */

/* Kinds in a ring that the file does not have. */
enum {
    NOTE_PROCESS = 64, /* a text: "PARENT IMAGE PID PPID COMMAND". size: its bytes; it follows, each part a NOTE_TEXT */
    NOTE_MODULES,      /* a text: lines as of the file */
    NOTE_TEXT,         /* RECORD_NOTE_BYTES of a text, from `time_ns` on */
    NOTE_NAME          /* RECORD_THREAD_NAME bytes from `address` on: the thread has this name */
};
/* RAW_SCOPE_CREATE has the bytes of a label as `size`, which follows as a text. */

/* Calls of futex between processes; some compilers (musl's) come without the kernel's headers. */
enum { RECORD_FUTEX_WAIT = 0, RECORD_FUTEX_WAKE = 1 };

enum slot_state { SLOT_FREE, SLOT_OWNED, SLOT_LEFT /* by a thread that has ended; the tool frees it */ };

typedef struct record_slot {
    _Atomic uint32_t state;
    _Atomic uint32_t thread;            /* number; written by the owner before the first event */
    _Atomic uint32_t process;           /* number; likewise */
    _Atomic uint32_t busy;              /* the owner is in a hook */
    _Alignas(64) _Atomic uint64_t head; /* events that were put in: by the owner */
    _Alignas(64) _Atomic uint64_t tail; /* and taken out: by the tool */
    _Atomic uint32_t room;              /* futex of the owner, which waits for room; the tool raises it */
    _Alignas(64) raw_event ring[RECORD_RING];
} record_slot;

enum node_state { NODE_FREE, NODE_CLAIMED, NODE_READY };

/* Its number is its place + 1. */
typedef struct record_node {
    _Atomic uint32_t state;
    uint32_t caller; /* 0: the root of an image, whose number is the address */
    uint64_t address;
} record_node;

enum record_sample { SAMPLE_ALL, SAMPLE_TIME, SAMPLE_TURNS };

typedef struct record_shared {
    uint32_t version, bytes; /* of this structure */
    int32_t tool_pid;
    _Atomic int32_t root_pid;                    /* of the program that the tool starts */
    uint32_t with_children;                      /* record other processes too */
    uint64_t start_ns;                           /* CLOCK_MONOTONIC */
    uint32_t sample;                             /* a record_sample */
    uint32_t turn_on, turn_of;                   /* SAMPLE_TURNS: the first turn_on of each turn_of turns */
    _Atomic uint32_t window;                     /* SAMPLE_TIME: 1: births are recorded. By the tool */
    _Atomic uint32_t is_over;                    /* the tool takes nothing more */
    _Atomic uint32_t processes, images, threads; /* numbers given */
    _Atomic uint32_t has_own_malloc;             /* a program that calls a malloc of its own */
    _Atomic uint32_t full_slots;                 /* threads that found no slot */
    _Atomic uint64_t lost_stacks;
    _Atomic uint64_t turns;
    _Atomic uint32_t work; /* futex of the tool */
    _Atomic uint32_t tool_sleeps;
    record_node node[RECORD_NODES];
    record_slot slot[RECORD_SLOTS];
} record_shared;

#endif
