/*
 * The contract with the operating system: one table of functions, and one file per system. Tests put another table in
 * place to refuse any call. All sizes and addresses are multiples of page_bytes.
 *
 * No call of the table changes errno, whatever its answer. The upper layers go on after a refusal, and a call of theirs
 * that succeeds leaves errno alone. Functions beside the table that do change it say so.
 *
 * page_bytes   bytes of a page: a power of two from 4 to 64 KiB; constant.
 * reserve      address space that costs no memory and may not be touched. It has no huge pages, whatever the system
 *              does by itself, and no core dump shows it. NULL: refused.
 * commit       makes a reserved range readable and writable. Its bytes are zero, and core dumps show it. false:
 *              refused, the range is as it was.
 * protect      makes a committed range inaccessible; its bytes are lost or kept. commit undoes it, and then they need
 *              not be zero. false: refused, the range is accessible or not.
 * freeze       makes a committed range read-only, so that neither strict overcommit nor a limit on data counts it, and
 *              core dumps do not show it. Its bytes stay. commit undoes it. false: refused, the range is as it was.
 * hide         on: makes a committed range inaccessible within its mapping, so that it costs none of the mappings
 *              that the system limits. Its bytes are lost. off: makes a range accessible, whether it was hidden or
 *              not; hidden pages read as zero. false: refused; a range of one page is as it was. A call with 0 bytes
 *              asks whether the system can hide.
 * release      gives a reservation back, or a part of one that was never used.
 * purge        gives the pages of a committed range back to the system now, parts of huge ones too. The range stays
 *              committed and reads as zero. false: refused, contents are as they were.
 * purge_anew   purges by mapping the range anew, for systems whose purge is not true (purge_probe.c). It costs more.
 * move         puts the pages of one committed range into another, in place of its own. The first range stays
 *              committed and reads as zero. The two do not overlap. What was asked for by huge_pages stays with each.
 *              false: refused, the first range is as it was, and the bytes of the second are lost or kept.
 * populate     makes the pages of a committed range resident without changing their contents. false: refused.
 * huge_pages   asks for (true) or refuses (false) huge pages in a range. A hint.
 * barrier_all  when it returns true, every other thread of the process has passed a full memory barrier since the
 *              call began. false: the system has no such thing.
 * wall_ns, cpu_ns   monotonic time, and this thread's processor time, as fine as the system has them.
 * coarse_ns         the time of wall_ns some milliseconds ago at most, never ahead of it; cheap to read.
 * resident_bytes    resident memory of the process, measured; 0 if the system does not say.
 * room_bytes        memory that the process can have beside what is resident, before a limit of its cgroups or the
 *                   machine ends it; UINT64_MAX: the system does not say. Some 50 us.
 * yield        lets another thread run.
 * nodes        the NUMA nodes of which the process may have memory: the ids of the first `most`, rising, perhaps with
 *              gaps. Returns their number; 0: the system does not say, or has no such thing.
 * node_here    the node that the calling thread runs on, with memory or without; -1: the system does not say.
 * bind         takes new memory of a committed range from this node while the node has some, else from another.
 *              TS_NODE_EACH: page by page from all of `nodes` in turn. TS_NODE_ANY: as without a bind. Pages that
 *              exist stay. false: refused, the range is as it was.
 * nodes_of     the node of each of `count` pages, by an address in it; -1: the page has no memory, or the system does
 *              not say. false: refused, nothing was written.
 */
/* Modelled in tests/model: lock. */
#ifndef TS_OS_OS_H
#define TS_OS_OS_H

#include "base/base.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TS_NODE_ANY (-1)
#define TS_NODE_EACH (-2)

typedef struct ts_os_table {
    size_t (*page_bytes)(void);
    void *(*reserve)(size_t bytes);
    bool (*commit)(void *at, size_t bytes);
    bool (*protect)(void *at, size_t bytes);
    bool (*freeze)(void *at, size_t bytes);
    bool (*hide)(void *at, size_t bytes, bool on);
    void (*release)(void *at, size_t bytes);
    bool (*purge)(void *at, size_t bytes);
    bool (*purge_anew)(void *at, size_t bytes);
    bool (*move)(void *from, void *to, size_t bytes);
    bool (*populate)(void *at, size_t bytes);
    void (*huge_pages)(void *at, size_t bytes, bool on);
    bool (*barrier_all)(void);
    uint64_t (*wall_ns)(void);
    uint64_t (*coarse_ns)(void);
    uint64_t (*cpu_ns)(void);
    uint64_t (*resident_bytes)(void);
    uint64_t (*room_bytes)(void);
    void (*yield)(void);
    unsigned (*nodes)(int *ids, unsigned most);
    int (*node_here)(void);
    bool (*bind)(void *at, size_t bytes, int node);
    bool (*nodes_of)(void *const *at, size_t count, int *node);
} ts_os_table;

/* The table in use. Written only before the first allocation, and by tests that run alone. */
extern TS_HIDDEN const ts_os_table *ts_os;
/* The table of this system. */
extern TS_HIDDEN const ts_os_table ts_os_native;

static inline size_t ts_os_page_bytes(void) { return ts_os->page_bytes(); }
/* Memory of the library's own, zeroed, by the table: no lock, no malloc. NULL: refused. And gives it back; NULL is
   fine. */
void *ts_os_map(size_t bytes);
void ts_os_unmap(void *at, size_t bytes);
/* The name and value of the limit of the process that refused the last reservation, as far as the system says. NULL:
   no limit did. */
const char *ts_os_limit_met(uint64_t *bytes);
/* Whether the system limits the data of the process (RLIMIT_DATA): private memory that can be written. */
bool ts_os_data_is_limited(void);
/* Address space of the process; 0: the system does not say. */
uint64_t ts_os_address_space_bytes(void);
/* Bytes that one object may have: memory and swap space of the machine. So the system refuses what it never could back,
   but only where it reserves (vm.overcommit_memory 0), which a region has done before. SIZE_MAX: it does not say, or
   refuses nothing (1). */
size_t ts_os_most_bytes(void);
/* Registers the callbacks of the upper layers; once each. exit_fn runs on a thread that called
   ts_os_thread_started and ends. false: the system has no room for it. */
bool ts_os_register_exit(void (*exit_fn)(void *));
bool ts_os_register_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
/* Whether the calling thread is the only one of the process, for certain. */
bool ts_os_is_alone(void);
/* Makes the calling thread run the exit callback when it ends: after the other destructors of its first round,
   or of the round that it is in. false: refused; also in the last round, where some tools have taken the thread's state
   away. A thread that was first here in a later round is not refused: this layer cannot tell how many came before.
   No callback comes if this is the last round, in the destructor of a key above the callback's (os_linux.c). */
bool ts_os_thread_started(void);
/* Whether the thread library has run all destructors of the calling thread, and takes the thread itself apart: with
   glibc since 2.34. */
bool ts_os_thread_is_over(void);
/* The exit callback calls it first: it counts the rounds of the thread's destructors, and asks for the callback of the
   next. */
void ts_os_thread_ends(void);
/* Keeps the library that holds this code loaded, because ending threads and forks call it. Caller holds no lock: the
   loader has one. */
void ts_os_stay_loaded(void);
/* Once: calls fn in a thread whose access the system refuses, with the address. true: the access is done again. false:
   the handler that was there before gets the fault, and this one is gone. */
bool ts_os_on_fault(bool (*fn)(const void *at));

/* Whether the user that starts the program has all of its rights, where the system tells. A program with setuid has
   more rights. There the environment decides nothing about memory, and opens no descriptor. */
TS_HIDDEN bool ts_env_is_trusted(void);
/* getenv, but NULL where the environment is not trusted. */
TS_HIDDEN const char *ts_env(const char *name);

/* ---- assertions ------------------------------------------------------------------------------------------------- */

#ifndef TSLAB_ASSERT
#define TSLAB_ASSERT 0
#endif

void ts_assert_failed(const char *text, const char *file, int line);

#define ts_assert(level, cond)                                                                            \
    do {                                                                                                  \
        if ((level) <= TSLAB_ASSERT && TS_UNLIKELY(!(cond))) ts_assert_failed(#cond, __FILE__, __LINE__); \
    } while (0)

/* ---- the text of a message -------------------------------------------------------------------------------------- */

#define TS_TEXT_BYTES 512u

typedef struct ts_text {
    char text[TS_TEXT_BYTES + 1];
    size_t used;
} ts_text;

void ts_text_put(ts_text *line, const char *text);
/* Adds at most `most` bytes of a text in quotation marks. Quotation marks and backslashes in it get a backslash.
   Control characters, and bytes that are not UTF-8, become '?'. */
void ts_text_quoted(ts_text *line, const char *text, size_t most);
/* Adds a text with words in it, as printf does, of three kinds: %s, PRIu64, and # with PRIx64, which begins with 0x. */
void ts_text_add(ts_text *line, const char *format, ...) TS_PRINTF(2, 3);
/* Adds a newline, and a zero behind it. */
void ts_text_end(ts_text *line);
/* Ends the line and writes it. Caller holds no lock, because a function of the program may be called. errno is as
   before. */
void ts_text_write(ts_text *line);
/* Writes a line of its own: "tslab: ", and what ts_text_add adds. */
void ts_tell(const char *format, ...) TS_PRINTF(1, 2);

/* ---- locks ------------------------------------------------------------------------------------------------------ */

typedef enum ts_rank {
    TS_RANK_TREE = 1,  /* parents and children of domains (domain/tree.h) */
    TS_RANK_ALLOCATOR, /* one allocator: its rolling epoch, its list of shares */
    TS_RANK_EPOCH,     /* stripe of epochs: their states, blocks and spans */
    TS_RANK_HEAP,      /* what one heap owns, for threads other than the heap's */
    TS_RANK_REGISTRY,  /* list of heaps, free heaps */
    TS_RANK_RETAINED,  /* retained units that the threads of one allocator share */
    TS_RANK_TABLE,     /* free lists of metadata */
    TS_RANK_GROWTH,    /* the untouched end of a part of the region */
    TS_RANK_POOL,      /* free units of the region */
    TS_RANK_ACCOUNT,   /* what limited epochs hold (supply/account.h) */
} ts_rank;

enum { TS_LOCK_FREE, TS_LOCK_HELD, TS_LOCK_WAITED };

typedef struct ts_lock {
    _Atomic uint32_t word;          /* TS_LOCK_* */
    ts_rank rank;                   /* constant after init */
    _Atomic uint64_t fast_acquired; /* guarded by the lock; read by any thread */
    _Atomic uint64_t contended;     /* guarded by the lock; read by any thread */
} ts_lock;

/* How often a thread of the process waited for any of these locks. */
extern TS_HIDDEN _Atomic uint64_t ts_lock_waits;
/* A thread that had to wait calls it, once it has the lock. Set once; NULL: there is none. relaxed: it is code, which
   is there before anything runs. */
typedef void ts_lock_waited_fn(void);
extern TS_HIDDEN _Atomic(ts_lock_waited_fn *) ts_lock_waited;
/* The same for a thread that repeats a compare-and-swap, with how often. */
typedef void ts_cas_repeated_fn(uint64_t times);
extern TS_HIDDEN _Atomic(ts_cas_repeated_fn *) ts_cas_repeated;

void ts_lock_init(ts_lock *lock, ts_rank rank);
/* For the next use of a record. No thread has or wants the lock. */
void ts_lock_reset_counts(ts_lock *lock);
void ts_lock_acquire(ts_lock *lock);
/* As ts_lock_acquire, but does not count a lock that was free: for a lock that no statistics tell of. */
void ts_lock_acquire_uncounted(ts_lock *lock);
void ts_lock_release(ts_lock *lock);
/* false: another thread has it. That does not count as a wait. */
bool ts_lock_try(ts_lock *lock);
/* For fork, which takes every lock: equal ranks one after the other, without counting. Floors with locks of their own
   call either of the two for each of them (ts_*_for_locks). */
typedef void ts_lock_fn(ts_lock *lock);
void ts_lock_acquire_for_fork(ts_lock *lock);
void ts_lock_release_for_fork(ts_lock *lock);

/* Takes a lock that is free. acquire: partner of the release in lock.c. */
TS_ALWAYS_INLINE bool ts_lock_take_free(ts_lock *lock) {
    uint32_t word = TS_LOCK_FREE;
    return TS_LIKELY(atomic_compare_exchange_strong_explicit(&lock->word, &word, TS_LOCK_HELD, memory_order_acquire,
                                                             memory_order_relaxed));
}

/* ---- call stacks ------------------------------------------------------------------------------------------------ */

#define TS_OS_PATH_BYTES 240u

typedef struct ts_os_module {
    uint64_t base;       /* an address of the code less base is the address in its file */
    uint64_t start, end; /* the mapped range */
    const char *path;    /* "" : unknown */
    bool is_program;     /* not a library */
} ts_os_module;

/* Prepares ts_os_stack; may allocate and load a library. Once; the caller holds no lock. */
void ts_os_stack_prepare(void);
/* In a child of fork whose parent had other threads. */
void ts_os_stack_fork_child(void);
/* The return addresses of the calling thread from its innermost frame on, at most `capacity`. Returns how many; 0: the
   system cannot tell. Does not allocate after ts_os_stack_prepare. Caller holds no lock, because it may take the
   loader's lock. */
unsigned ts_os_stack(void **frames, unsigned capacity);
/* The number by which the system knows the calling thread; 0: not known. */
uint32_t ts_os_thread_number(void);
/* The name of the calling thread, as the system shows it, ended by a zero; "": it has none. */
#define TS_OS_THREAD_NAME_BYTES 16u
void ts_os_thread_name(char name[TS_OS_THREAD_NAME_BYTES]);
/* The name of the thread with this number in the process. false: there is no such thread, or it cannot be seen. */
bool ts_os_name_of_thread(uint32_t number, char name[TS_OS_THREAD_NAME_BYTES]);
/* Whether the program was started by a loader, and may load libraries; else it is linked statically. */
bool ts_os_has_loader(void);
/* Shows every program and library that is loaded, under the loader's lock. */
void ts_os_modules(void (*fn)(void *arg, const ts_os_module *module), void *arg);

/* ---- where messages go ------------------------------------------------------------------------------------------ */

typedef void ts_message_fn(const char *line, size_t bytes, void *arg);

/* Writes a whole line, with its newline, and a zero behind that. A line that the function itself causes goes to
   standard error. */
void ts_message_write(const char *line, size_t bytes);
/* Writes a line for a caller that may hold a lock: never to the function. */
void ts_message_write_locked(const char *line, size_t bytes);

/* Sets the function; NULL: standard error. Returns a ticket for ts_message_wait. One thread at a time. */
uint64_t ts_message_set_sink(ts_message_fn *fn, void *arg);
/* Waits until the function that the call with this ticket replaced runs in no thread. Inside of such a function it
   does nothing. */
void ts_message_wait(uint64_t ticket);
/* Sends lines to a file from this call on. A relative name belongs to the present directory. false: the name is too
   long. Once, and not beside another call that sets something. */
bool ts_message_set_file(const char *path);
/* Opens the file, if there is one, so that a fault is reported at once. */
void ts_message_try_file(void);
/* In a child of fork: other threads' calls of the function do not exist there. */
void ts_message_fork_child(void);

/* ---- sleeping --------------------------------------------------------------------------------------------------- */

/* Sleeps, unless the word has changed by then. Returns when it was woken, or for no reason. */
void ts_park(_Atomic uint32_t *word, uint32_t while_it_is);
/* Sleeps some 50 us, and the delay that the system adds. It is for waiting for a thread that wakes no sleeper. A
   yield would not do: it gives the processor to no thread of lower priority (SCHED_FIFO), and the other thread may
   have one. */
void ts_nap(void);
/* Wakes one thread that sleeps at the word, if there is one. The caller has changed the word before. */
void ts_unpark(_Atomic uint32_t *word);

/* ---- room for memory -------------------------------------------------------------------------------------------- */

/* How much memory the process can have, and how much more. */

/* What the process can still make resident: the least of what the machine has available and of what its cgroups leave;
   *what says which, in words. UINT64_MAX: the system does not say. Reads /proc and /sys; no lock, no malloc. */
uint64_t ts_room_bytes(const char **what);
/* The least memory limit of its cgroups; UINT64_MAX: none. */
uint64_t ts_room_limit(void);

/* ---- the library's threads -------------------------------------------------------------------------------------- */

typedef enum ts_own_thread { TS_PAGE_THREAD, TS_BACKGROUND_THREAD, TS_OWN_THREADS } ts_own_thread;

/* Starts a thread that does `work`, and again after each `interval_ns`. false: errno says why. */
bool ts_own_thread_start(ts_own_thread which, void (*work)(void), uint32_t interval_ns);
/* In a child of fork, where the thread does not exist. */
void ts_own_thread_forget(ts_own_thread which);

/* Ends all of these threads, and returns when they have ended. false: there was none. Caller holds no lock. */
bool ts_own_threads_rest(void);
/* Lets them begin again. Once for each ts_own_threads_rest that was true. */
void ts_own_threads_go_on(void);

/* ---- the program's last thread ---------------------------------------------------------------------------------- */

/*
 * The end of the program with its last thread, beside the library's own threads. The argument is in last_thread.c.
 */

/* Before a thread of the library's own is made: blocks all signals, which are for the program's threads. *before: the
   mask of the calling thread (a sigset_t), for behind it. */
void ts_own_signals_block(void *before);

/* So many threads more are the library's own; less: negative. A thread is there when it is counted, and is counted no
   more when it ends. */
void ts_own_threads_count(int more);

/* Each of the library's threads calls it now and then: if no thread of the program is left, the program ends. */
void ts_last_thread_look(void);

/* The leader is the thread whose id is the process's. `ts_last_thread_leads`: the calling thread is it, in a child of
   fork. The calling thread calls `begins` when its end has become certain to call `ends`. */
void ts_last_thread_leads(void);
void ts_last_thread_begins(void);
void ts_last_thread_ends(void);

/* ---- purge probe ------------------------------------------------------------------------------------------------ */

typedef enum ts_purge_kind {
    TS_PURGE_TRUE,    /* or there was no memory to find out with */
    TS_PURGE_BY_MAPS, /* purge is not true; purge_anew is, and takes its place */
    TS_PURGE_NEVER,   /* neither is true: every purge is refused */
} ts_purge_kind;

/* Tries purge and move on memory of its own, and puts functions that are true into the table. Called before the first
   purge; some 10 us. */
ts_purge_kind ts_os_probe_purge(ts_os_table *table);

#endif
