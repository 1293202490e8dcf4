/*
 * A trace that is being read, for reader.c, events.c and names.c.
 */
#ifndef TRACE_INSIDE_H
#define TRACE_INSIDE_H

#include "trace/format.h"
#include "trace/trace.h"

typedef struct trace_block {
    uint64_t offset; /* of its contents */
    format_head head;
} trace_block;

typedef struct trace_object {
    uint64_t address; /* 0: the slot is empty */
    uint64_t number, size, scope, born_ns;
    uint32_t process, stack, thread;
} trace_object;

typedef struct trace_objects {
    trace_object *slot;
    size_t slots, count; /* slots: a power of two */
} trace_objects;

/* Where the reader is in the blocks of a thread. */
typedef struct trace_cursor {
    uint32_t thread;
    size_t block, end; /* of trace.block; block: the one at hand */
    raw_event *events; /* of that block; NULL: it is not read yet */
    size_t next;
    trace_object moving; /* between RAW_OUT and RAW_IN; address 0: none */
} trace_cursor;

typedef struct trace_symbols {
    uint32_t process;
    char *text; /* of a perf map, terminated */
} trace_symbols;

struct trace {
    int fd;
    char damage[160];
    uint64_t events, bytes, end_ns;
    bool has_end;
    char *about; /* lines, each terminated by 0; after the last one another 0 */
    size_t about_bytes;
    trace_block *block; /* of events: by thread, and in the order of the file */
    size_t blocks, block_capacity;
    uint64_t *stack_address; /* [0] is of no stack */
    uint32_t *stack_caller;
    size_t stacks, stack_capacity;
    char **text;
    size_t texts, text_capacity;
    trace_module *module;
    size_t modules, module_capacity;
    trace_process *process;
    size_t processes, process_capacity;
    bool *has_ended; /* processes */
    trace_symbols *symbols;
    size_t symbol_blocks, symbol_capacity;
    uint32_t threads;
    trace_cursor *cursor;
    size_t cursors;
    size_t *heap; /* of cursors, the one with the earliest event first */
    size_t heap_count;
    trace_objects objects;
    uint64_t last_object;
};

/* Room for one more element. false: no memory. */
bool trace_grow(void *array, size_t *capacity, size_t count, size_t bytes);
/* The contents of a block; of malloc, terminated by a 0 that does not count. NULL, and *why. */
unsigned char *trace_read_block(int fd, uint64_t offset, const format_head *h, const char **why);
void trace_set_damage(trace *t, uint64_t offset, const char *why);
/* Cursors at the first event. */
bool trace_begin(trace *t);
void trace_end_reading(trace *t);

#endif
