/*
 * Writes a trace (docs/trace-format.md), for `tslab record` and tests. Events of each thread are given in the order of
 * time; the threads in any order. One thread at a time may use a writer.
 *
 * A write that fails ends the file after its last whole block. trace_writer_error then says why, and later calls do
 * nothing.
 */
#ifndef TRACE_WRITER_H
#define TRACE_WRITER_H

#include "trace/format.h"
#include "trace/trace.h"

typedef struct trace_writer trace_writer;

/* about: lines KEY=VALUE, each with its end of line. NULL: the file cannot be written; the error says why. Its events
   are lost. */
trace_writer *trace_writer_create(const char *path, const char *about, char *error, size_t error_bytes);
const char *trace_writer_error(const trace_writer *w); /* NULL: none */
/* With `lines` KEY=VALUE at its end. false: not all is in the file. */
bool trace_writer_close(trace_writer *w, const char *lines);
/* Writes the events it holds. */
void trace_writer_flush(trace_writer *w);

/* The stack of this frame, called from `caller`. 0 as the caller: `address` is an image, the root of its stacks. The
   same number for the same stack. */
uint32_t trace_writer_stack(trace_writer *w, uint32_t caller, uint64_t address);
/* Innermost first. */
uint32_t trace_writer_frames(trace_writer *w, uint32_t image, const uint64_t *frames, size_t count);
uint32_t trace_writer_text(trace_writer *w, const char *text); /* the same number for the same text */
void trace_writer_module(trace_writer *w, const trace_module *m);
/* Returns its number. parent: UINT32_MAX, if none. Its events are given by trace_writer_event. */
uint32_t trace_writer_process(trace_writer *w, uint32_t parent, uint32_t image, int pid, const char *command);
/* A perf map: lines START SIZE NAME. */
void trace_writer_symbols(trace_writer *w, uint32_t process, const char *text, size_t bytes);

/* thread: from 1. An event with an earlier time than the one before of that thread gets the time of that. */
void trace_writer_event(trace_writer *w, uint32_t process, uint32_t thread, const raw_event *e);
void trace_writer_alloc(trace_writer *w, uint32_t process, uint32_t thread, uint64_t time_ns, uint64_t address,
                        uint64_t size, uint32_t stack);
void trace_writer_free(trace_writer *w, uint32_t process, uint32_t thread, uint64_t time_ns, uint64_t address,
                       uint32_t stack);
void trace_writer_realloc(trace_writer *w, uint32_t process, uint32_t thread, uint64_t time_ns, uint64_t from,
                          uint64_t address, uint64_t size, uint32_t stack);

uint64_t trace_writer_bytes(const trace_writer *w); /* so many are in the file */

#endif
