/* The events of a trace, as the recorded program hands them over and as the file has them (docs/trace-format.md). */
#ifndef RECORD_EVENT_H
#define RECORD_EVENT_H

#include <stdbool.h>
#include <stdint.h>

/* Events as the file has them. Up to RAW_IN they have the columns of memory, the others `a` and `b`. */
typedef enum raw_kind {
    RAW_ALLOC = 1,          /* address, size, stack */
    RAW_ALIGNED,            /* and align */
    RAW_SCOPED,             /* and align and scope, which has the column `a` */
    RAW_FREE,               /* address, stack */
    RAW_OUT,                /* the object at this address is being resized: nobody has it */
    RAW_IN,                 /* and is here: address, size, stack */
    RAW_PLAIN_KINDS,        /* all that follow are as trace_kind has them: */
    RAW_PROCESS_START = 16, /* a pid, b text */
    RAW_PROCESS_END,        /* a status */
    RAW_THREAD_START,       /* a number of the system */
    RAW_THREAD_NAME,        /* b text */
    RAW_THREAD_END,
    RAW_SCOPE_CREATE, /* a scope, b text */
    RAW_SCOPE_ENTER,  /* a scope */
    RAW_SCOPE_LEAVE,  /* a scope */
    RAW_SCOPE_RESET,  /* a scope */
    RAW_SCOPE_CLOSE,  /* a scope */
    RAW_SCOPE_END,    /* a scope */
    RAW_WINDOW,       /* b 0 or 1 */
    RAW_LOST,         /* b events */
    RAW_KINDS
} raw_kind;

typedef struct raw_event {
    uint64_t time_ns;
    uint64_t address; /* or a */
    uint64_t size;    /* or b */
    uint64_t scope;
    uint32_t stack;
    uint8_t kind; /* a raw_kind */
    uint8_t align_log2;
} raw_event;

static inline bool raw_is_birth(uint8_t kind) {
    return kind == RAW_ALLOC || kind == RAW_ALIGNED || kind == RAW_SCOPED || kind == RAW_IN;
}
static inline bool raw_is_death(uint8_t kind) { return kind == RAW_FREE || kind == RAW_OUT; }
static inline bool raw_is_known(uint8_t kind) {
    return raw_is_birth(kind) || raw_is_death(kind) || (kind >= RAW_PROCESS_START && kind < RAW_KINDS);
}

#endif
