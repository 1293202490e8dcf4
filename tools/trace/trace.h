/*
 * Reads a recording of `tslab record` (docs/trace-format.md): its events in the order of time over all threads and
 * processes, its stacks and modules.
 *
 * Memory: each thread's current block, 128 bytes for each live object, each stack once, and 56 bytes for each block,
 * which holds up to 32768 events: 2 MB for a thousand million events. One thread at a time may use a trace.
 */
#ifndef TRACE_H
#define TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum trace_kind {
    TRACE_ALLOC = 1,     /* address, size, align, stack */
    TRACE_FREE,          /* address, size of the freed object, stack of the free */
    TRACE_REALLOC,       /* address, size, stack; from, from_size: before. In place: from == address */
    TRACE_PROCESS_START, /* address: pid, text: its command line. See trace_process for its parent */
    TRACE_PROCESS_END,   /* address: its status, as of waitpid */
    TRACE_THREAD_START,  /* address: its number of the system (gettid) */
    TRACE_THREAD_NAME,   /* text */
    TRACE_THREAD_END,
    TRACE_SCOPE_CREATE, /* scope, text: the label. Epochs and domains */
    TRACE_SCOPE_ENTER,  /* scope, stack: of a domain */
    TRACE_SCOPE_LEAVE,
    TRACE_SCOPE_RESET, /* its objects have died; it goes on */
    TRACE_SCOPE_CLOSE, /* takes no more objects */
    TRACE_SCOPE_END,   /* its objects have died */
    TRACE_WINDOW,      /* size 1: from here births are recorded, 0: from here they are not (--sample) */
    TRACE_LOST,        /* size: so many events of this thread found no room here */
    TRACE_KINDS
} trace_kind;

/* Fields that the kind does not name are 0. */
typedef struct trace_event {
    uint64_t time_ns; /* since the recording began */
    uint64_t address, size;
    uint64_t object; /* the number of the object, which its realloc keeps; never used again. 0: of an object whose birth
                        the trace does not have */
    uint64_t from, from_size;
    uint64_t scope;        /* of the object too, if it was allocated in an epoch or domain */
    uint64_t born_ns;      /* free, realloc: when the object was allocated */
    uint32_t process;      /* number: from 0 */
    uint32_t thread;       /* number: from 1, over all processes */
    uint32_t stack;        /* number; 0: none */
    uint32_t birth_stack;  /* free, realloc: of the allocation */
    uint32_t birth_thread; /* free, realloc */
    uint32_t text;         /* number; 0: none */
    uint16_t align;        /* that was asked for, as a power of two; 0: none */
    uint8_t kind;          /* a trace_kind */
} trace_event;

typedef struct trace_module {
    uint32_t image;              /* the address space that it is in; see trace_process */
    uint64_t start, end;         /* where its code was mapped */
    uint64_t offset;             /* of `start` in the file */
    uint64_t base;               /* address - base: as the symbols of the file have it */
    const char *build_id, *path; /* hexadecimal, or "" */
} trace_module;

/* An exec is the start of a process with the same pid: its parent is the one that it was before. */
typedef struct trace_process {
    uint32_t number, parent; /* parent: UINT32_MAX, if none */
    uint32_t image;          /* numbers from 1. A child of fork has its parent's */
    int pid;
    uint32_t command; /* text */
} trace_process;

typedef struct trace trace;

/* NULL: it cannot be read, or is no trace; the error says why. A trace that is cut off or damaged is opened. */
trace *trace_open(const char *path, char *error, size_t error_bytes);
void trace_close(trace *t);
/* The next event; false: there is none, or the rest is damaged. */
bool trace_next(trace *t, trace_event *out);
/* To the first event again. Objects and threads get the same numbers. false: no memory. */
bool trace_rewind(trace *t);

/* Why not all could be read, as "byte 4711: ...", or that the recorder itself was killed; NULL: all was. The reader
   stops at the first damage. Final after the last event. */
const char *trace_damage(const trace *t);
/* A line of the recording's own, such as "command", "sample", "start_realtime_ns", "machine"; NULL: it has none. */
const char *trace_about(const trace *t, const char *key);
/* How many events the file has, and how many bytes: of those blocks that are whole. A realloc is one event or two. */
uint64_t trace_event_count(const trace *t);
uint64_t trace_bytes(const trace *t);
/* Time of the last event, without reading them. */
uint64_t trace_end_ns(const trace *t);
/* Threads have the numbers 1 to this. */
uint32_t trace_thread_count(const trace *t);

const char *trace_text(const trace *t, uint32_t number);                /* "": none */
const trace_process *trace_process_of(const trace *t, uint32_t number); /* NULL: not known */
uint32_t trace_process_count(const trace *t);

/*
 * A stack is a node of a tree: the innermost frame, and the stack of its caller. So stacks that share their callers
 * share the nodes, and a number is one stack for the whole trace. Frames are return addresses.
 */
uint32_t trace_stack_count(const trace *t);                   /* numbers are 1 to this */
uint32_t trace_stack_caller(const trace *t, uint32_t stack);  /* 0: the outermost */
uint64_t trace_stack_address(const trace *t, uint32_t stack); /* the frame */
uint32_t trace_stack_image(const trace *t, uint32_t stack);   /* whose addresses they are */
/* Innermost first. Returns how many there are. */
size_t trace_stack_frames(const trace *t, uint32_t stack, uint64_t *frames, size_t capacity);

size_t trace_module_count(const trace *t);
const trace_module *trace_module_at(const trace *t, size_t i);
/* NULL: code in no file, such as that of a JIT. */
const trace_module *trace_module_of(const trace *t, uint32_t image, uint64_t address);

/* ---- names ----------------------------------------------------------------------------------------------------- */

typedef struct trace_place {
    uint32_t image;
    uint64_t address; /* of the call: the frame - 1 */
    char *function;   /* of malloc; NULL: not known */
    char *outer;      /* of malloc: the function that `function` is inlined into; NULL: it is in none */
    char *file;       /* of the source; of malloc; NULL: not known */
    unsigned line;    /* 0: not known */
} trace_place;

/* Names the places, in any order, each file once. The files' build ids must be those of the trace. Functions come from
   the trace itself (JIT), the symbol tables, and addr2line, which has the lines too. false: no memory. */
bool trace_name_places(const trace *t, trace_place *places, size_t count);
void trace_free_places(trace_place *places, size_t count);

#endif
