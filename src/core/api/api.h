/*
 * The interface of the core for the project's own libraries, beside the public one, with the functions of
 * spill/spill.h, observe/zones.c and advice/advice.h that are TS_PRIVATE, too. libtslab.so exports it under the version
 * node TSLAB_PRIVATE. It is no promise to other programs, nor from one build to the next. A library that uses it first
 * compares ts_private_build with its own TSLAB_BUILD.
 */
#ifndef TS_API_API_H
#define TS_API_API_H

#include "base/base.h"

#include <tslab/tslab.h>

/* TSLAB_BUILD of the core: a hash of its sources. */
TS_PRIVATE extern const char ts_private_build[];

/* Starts the core without the steps that may allocate by malloc: the page of statistics, and keeping the library
   loaded. It is for the process's malloc, which is never unloaded. false: errno is ENOMEM. */
TS_PRIVATE bool ts_private_start(void);
/* The page of statistics, if TSLAB_SHM asks for it. May allocate by malloc. */
TS_PRIVATE void ts_private_start_page(void);

/* Sets a function that is asked before slab_free refuses a pointer for this allocator. It returns whether it has
   dealt with the pointer. One allocator of the process has one; it is set before the allocator is used. */
TS_PRIVATE void ts_private_ask_before_refusal(SlabAllocator *allocator, bool (*refused)(void *p));
/* Sets the function that is told where the calling thread's malloc is to allocate: the innermost domain that
   captures, or allocator NULL in none. There can be such domains only after this call. Called once. */
TS_PRIVATE void ts_private_capture(void (*changed)(SlabAllocator *allocator, EpochId epoch));
/* Between these two calls the domains of the calling thread capture nothing: memory that our own libraries allocate
   by malloc outlives them. No domain is entered or left in between. */
TS_PRIVATE bool ts_private_capture_pause(void);
TS_PRIVATE void ts_private_capture_go_on(const bool *paused);
/* A pause from here to the end of the C block. */
#define TS_OWN_MEMORY \
    const bool paused_ __attribute__((cleanup(ts_private_capture_go_on), unused)) = ts_private_capture_pause()
/* The allocator in whose memory p lies, at the start of an object or not; NULL: none. A hint while other threads free
   it. */
TS_PRIVATE SlabAllocator *ts_private_owner(const void *p);
/* Whether p lies in the data of the region. */
TS_PRIVATE bool ts_private_is_data(const void *p);
/* The epoch of the process's malloc: epoch_close and epoch_destroy refuse to end it. Once, before the next. */
TS_PRIVATE void ts_private_keep(EpochId epoch);
/* malloc in that epoch: an object from this thread's block there, or a large one, if ts_private_malloc_epoch has made
   the block known. Where there is none, the answer is that of rest. ts_private_malloc_epoch is slab_malloc_epoch
   else. */
typedef void *ts_private_rest(size_t size, const void *caller);
TS_PRIVATE TSLAB_NOPLT void *ts_private_malloc(size_t size, ts_private_rest *rest, const void *caller);
TS_PRIVATE void *ts_private_malloc_epoch(SlabAllocator *allocator, size_t size, EpochId epoch);
/* The next ts_private_malloc of this thread asks rest. */
TS_PRIVATE void ts_private_elsewhere(void);
/* From now on ts_private_free is slab_free for that allocator. Before that it asks rest, but for NULL. */
typedef void ts_private_free_rest(void *p);
TS_PRIVATE void ts_private_serve(SlabAllocator *allocator);
TS_PRIVATE TSLAB_NOPLT void ts_private_free(void *p, ts_private_free_rest *rest);
/* slab_realloc of a pointer that is not NULL. A pointer that is no live object does not count as misuse. */
TS_PRIVATE TSLAB_NOPLT void *ts_private_realloc(SlabAllocator *allocator, void *p, size_t size);
/* A refused free of p, by a call of that name: counted, told, stopped, as the allocator's options say. why: the
   reason; NULL: it is found out. */
TS_PRIVATE void ts_private_refuse(SlabAllocator *allocator, const char *call, const void *p, const char *why);
/* Reports misuse by a call that was not refused. why: the text about p. */
TS_PRIVATE void ts_private_tell(SlabAllocator *allocator, const char *call, const void *p, const char *why);
/* ts_private_tell that ends no program. */
TS_PRIVATE void ts_private_report(SlabAllocator *allocator, const char *call, const void *p, const char *why);
/* What misuse of the allocator does: a SlabOnMisuse. */
TS_PRIVATE int ts_private_misuse_mode(SlabAllocator *allocator);
/* ---- for libtslab-zones ---- */

/* Whether the piece of a spill that begins at this unit is not dead. And the address of a unit. */
TS_PRIVATE bool ts_private_spill_wants(uint32_t unit);
TS_PRIVATE void *ts_private_unit_address(uint32_t unit);
/* The live object that a handle names. ts_private_object_of returns false if there is none. */
typedef struct ts_private_object {
    EpochId epoch;
    const char *address;
    uint32_t unit;
    uint32_t offset; /* bytes from the start of the unit */
    size_t bytes;
    bool stays; /* its memory stays when its epoch is lent: unit is no piece of a spill */
} ts_private_object;
TS_PRIVATE bool ts_private_object_of(SlabAllocator *allocator, SlabHandle handle, ts_private_object *out);

/* Registers the handlers of fork, if that is not done yet. `outer_hooks` takes locks that other threads may hold while
   they wait for ours. It is called before ours are taken, and after ours were released. A fork of the only thread
   does not call it, nor does a fork inside of another one of that thread. */
typedef enum ts_fork_when { TS_FORK_BEGINS, TS_FORK_PARENT, TS_FORK_CHILD } ts_fork_when;
typedef void ts_fork_outer_hooks(ts_fork_when when);
TS_PRIVATE void ts_private_fork_outer_hooks(ts_fork_outer_hooks *outer_hooks);

/* The process may have this much address space from this call on. Reserved addresses that were not used go back
   (shrink.c). */
TS_PRIVATE void ts_private_limit_address_space(uint64_t bytes);

/* The memory that the process may write is limited from this call on, and free memory does not count any more. And
   whether it is limited. */
TS_PRIVATE void ts_private_limit_data(void);
TS_PRIVATE bool ts_private_is_data_limited(void);

/* Whether the calling thread has a heap, without which it can take objects of no size class. */
TS_PRIVATE bool ts_private_has_heap(void);

/* Gives the next allocator of this thread the option `background`, once the process has a second thread. false: the
   environment decides, or is not to be listened to. */
TS_PRIVATE bool ts_private_background_later(void);
/* The process has a second thread. Caller holds nothing. */
TS_PRIVATE void ts_private_thread_made(void);

/* The library's own threads end, for a system call that needs a process of one thread, and begin again. false: there
   were none. */
TS_PRIVATE bool ts_private_threads_rest(void);
TS_PRIVATE void ts_private_threads_go_on(void);

/* For threads of a library above the core: as in os/os.h. *before: a sigset_t. */
TS_PRIVATE void ts_private_signals_block(void *before);
TS_PRIVATE void ts_private_threads_count(int more);
TS_PRIVATE void ts_private_last_thread_look(void);

/* The code of a library above the core, which sampled stacks leave out. */
TS_PRIVATE void ts_private_own_code(const void *start, size_t bytes);

/* The parts of the hard mode that TSLAB_HARDEN names. */
typedef enum ts_harden {
    TS_HARDEN_CANARY = 1,
    TS_HARDEN_QUARANTINE = 2,
    TS_HARDEN_GUARD = 4,
    TS_HARDEN_KINDS = 8,
    TS_HARDEN_SIZED = 16,
    /* All of them by TSLAB_HARDEN=1: kinds and sizes that are not named are reported, and do not stop the program. */
    TS_HARDEN_ONE = 32,
    TS_HARDEN_ABORT = 64 /* TSLAB_ON_MISUSE=abort is asked for, and not the default */
} ts_harden;
/* A ts_harden; 0: not hard. */
TS_PRIVATE uint32_t ts_private_harden(void);
/* TSLAB_PLAN (malloc/plan.h); NULL: it is not set, or not to be listened to. */
TS_PRIVATE const char *ts_private_plan(void);
/* A live object of the allocator, by its start. */
typedef struct ts_private_place {
    size_t bytes; /* bytes of its slot, or of its span without guards; constant while it lives */
    EpochId epoch;
    uint32_t use; /* number of the use of its slab */
    bool span; /* in memory of its own, a span or a slab of one object, which begins on a multiple of TS_PRIVATE_UNIT */
} ts_private_place;
/* The number of the slab's use, for a live object that no other thread frees meanwhile. */
TS_PRIVATE uint32_t ts_private_use(const void *p);
/* Whether p is a live object of a slab in which only the calling thread allocates. */
TS_PRIVATE bool ts_private_is_own(SlabAllocator *allocator, const void *p);
/* Finds a live object by its start; p may be any pointer. false: p is none. Some 40 instructions, except for spans. */
TS_PRIVATE bool ts_private_find(SlabAllocator *allocator, const void *p, ts_private_place *place);
/* Whether the core fills free memory and looks at it (TSLAB_POISON). */
TS_PRIVATE bool ts_private_fills(SlabAllocator *allocator);
/* Bytes of the slot that slab_malloc_epoch gives an object of a churn epoch; 0: it gives memory of its own. */
TS_PRIVATE size_t ts_private_slot_bytes(SlabAllocator *allocator, size_t size);
#define TS_PRIVATE_UNIT ((size_t)16 << 10)
/* An allocation of so many bytes has failed: how many of `freeable` bytes have to be freed before it can succeed. They
   are as many as the region or the budget lack, as of a moment ago; where neither lacks any, as many as it wants of the
   system, and all where the room for it is in pieces. 0: they are too few. */
TS_PRIVATE size_t ts_private_useful_bytes(SlabAllocator *allocator, size_t bytes, size_t freeable);
/* The data of the region; *bytes: its size. All objects of the core lie in it from this call on: none is OUTER or
   FAR any more. */
TS_PRIVATE char *ts_private_region(size_t *bytes);

#endif
