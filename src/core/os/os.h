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
 * purge_anew   purges by mapping the range anew, for systems whose purge is not true (purge_probe.h). It costs more.
 * move         puts the pages of one committed range into another, in place of its own. The first range stays
 *              committed and reads as zero. The two do not overlap. false: refused, contents are as they were.
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
#ifndef TS_OS_OS_H
#define TS_OS_OS_H

#include "base/attr.h"

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

#endif
