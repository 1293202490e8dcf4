/*
 * temporal-slab: a memory allocator that knows lifetimes.
 *
 * A program says which objects live together. They go into the same slabs, they can be freed together
 * in one step, which gives their memory to the next ones, or beyond a budget to the system, and the
 * allocator can say at any time which phase of the program holds how much.
 *
 *     EPOCH    a lifetime: objects are allocated in it, and die with it at the latest.
 *     DOMAIN   an epoch with a scope: entered, left, destroyed, nested; slab_alloc() allocates in the
 *              innermost one of the calling thread.
 *     HANDLE   a 64-bit value that names one object for ever; a stale one is never accepted.
 *
 * Threads: any thread may call any function at any time, unless the comment of the function says otherwise. Another
 * thread may be inside a call on an allocator that is freed: the allocator's own structures stay sound.
 * docs/threads.md: fibers that change their thread, and two copies of the library in one process.
 *
 * Errors: a function that returns a pointer or an EpochId fails with NULL or EPOCH_NONE, and sets errno. One that
 * returns bool fails with false, and sets errno where its comment names a value. No live allocator: EINVAL.
 * errno is left alone by: functions that succeed; frees that are refused; questions about objects; slab_handle_get,
 * epoch_domain_current, epoch_domain_allocator and epoch_domain_epoch.
 * Misuse is an answer, never a crash: any pointer and any handle can be passed to any function that takes one.
 *
 * The manual has the details: man 3 tslab. All limits: docs/limits.md.
 */
#ifndef TSLAB_TSLAB_H
#define TSLAB_TSLAB_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TSLAB_VERSION_MAJOR 0
#define TSLAB_VERSION_MINOR 1
#define TSLAB_VERSION_PATCH 0

/* noplt: a program calls the shared library through the address in its table, not through a jump to it: two to three
   instructions a call less (docs/decisions.md), and no look-up at the first call. With the static library the call is a
   plain one. GCC has the attribute; with clang, -fno-plt does the same. */
#if defined(__x86_64__) && defined(__has_attribute)
#if __has_attribute(noplt)
#define TSLAB_NOPLT __attribute__((noplt))
#endif
#endif
#ifndef TSLAB_NOPLT
#define TSLAB_NOPLT
#endif

#if defined(__GNUC__) || defined(__clang__)
#define TSLAB_API __attribute__((visibility("default"))) TSLAB_NOPLT
#else
#define TSLAB_API
#endif

/* Attributes for the compiler: arguments as printf's; a result that is not to be dropped, that is never NULL, that has
   so many bytes (by the numbers of arguments: one size, or two to be multiplied). With _FORTIFY_SOURCE it then stops
   writes beyond the size that was asked for. None is `malloc`: a handle, slab_walk() and a reset lead to the same
   object. */
#if defined(__GNUC__) || defined(__clang__)
#define TSLAB_PRINTF(text, first) __attribute__((format(printf, text, first)))
#define TSLAB_USED __attribute__((warn_unused_result))
#define TSLAB_NONNULL __attribute__((returns_nonnull))
#define TSLAB_SIZE(...) __attribute__((alloc_size(__VA_ARGS__)))
#else
#define TSLAB_PRINTF(text, first)
#define TSLAB_USED
#define TSLAB_NONNULL
#define TSLAB_SIZE(...)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* "MAJOR.MINOR.PATCH" of the library that is linked, which may be newer than these headers. */
TSLAB_API const char *slab_version(void) TSLAB_NONNULL;

typedef struct SlabAllocator SlabAllocator; /* opaque; compare only */
typedef struct EpochDomain EpochDomain;     /* opaque; compare only */
typedef uint64_t EpochId;                   /* unique in the process, never reused */
typedef uint64_t SlabHandle;                /* unique in the process, never reused */

#define EPOCH_NONE UINT64_C(0)       /* an EpochId */
#define SLAB_HANDLE_NONE UINT64_C(0) /* a SlabHandle */

/* ---- options ---------------------------------------------------------------------------------- */

/*
 * The fate of empty slabs: slabs in which no object is live and no slot waits in a thread's cache.
 * Under every policy these give back retained memory: slab_trim(), epoch_domain_reset(), slab_set_budget(), and an
 * allocation that meets the budget. More: man 3 tslab, OPTIONS.
 */
typedef enum SlabReclaimPolicy {
    SLAB_RECLAIM_BUDGET = 0,  /* keep up to retain_bytes, beside the threads' caches; give back the rest (default) */
    SLAB_RECLAIM_KEEP = 1,    /* keep all that is retained */
    SLAB_RECLAIM_AT_ONCE = 2, /* give back every slab at the moment it is empty */
} SlabReclaimPolicy;

/*
 * Transparent huge pages, process-wide: the first allocator that does not have the default decides.
 * They make large heaps faster, but then pages are resident that the program never touched: by default only where a
 * process grows above 20 MiB, mostly by small objects. More: docs/huge-pages.md.
 */
typedef enum SlabHugePages {
    SLAB_HUGE_DEFAULT = 0, /* by density: for new memory of a process that grows, and uses most of what it takes */
    SLAB_HUGE_ON = 1,      /* ask for them for all memory; where the system has none, or none left, pages are small */
    SLAB_HUGE_OFF = 2,     /* none, even if the system gives them unasked, or another allocator asks later */
} SlabHugePages;

/*
 * The effect of misuse besides its answer. Misuse is, for example, a free of a pointer to no live object, or a call on
 * another thread's domain (man 3 tslab, MISUSE, lists all). Questions such as slab_owns and slab_handle_get are none.
 * The line goes where all messages go (slab_set_message_sink), without allocating:
 *
 *     tslab: slab_free: pointer 0x7f1c3720c070: freed already (class 112, epoch 4194307 "request")
 */
typedef enum SlabOnMisuse {
    SLAB_MISUSE_IGNORE = 0, /* nothing (default) */
    SLAB_MISUSE_REPORT = 1, /* one line */
    SLAB_MISUSE_ABORT = 2,  /* one line, then abort() */
} SlabOnMisuse;

/* Whether AddressSanitizer (if the program is built with it) and Valgrind's memcheck learn of objects. Without them all
   of these are the same. Their reports say where an object was allocated and where its lifetime ended
   (docs/debugging.md). */
typedef enum SlabMemoryTools {
    SLAB_TOOLS_ON = 0,    /* of every object: use after free and overflow are reported (default) */
    SLAB_TOOLS_OFF = 1,   /* nothing: faster under these tools */
    SLAB_TOOLS_LEAKS = 2, /* as ON; AddressSanitizer also lists the live objects at the end of the process on stderr.
                             Memcheck reports leaks with ON, too */
} SlabMemoryTools;

/* On which NUMA node memory is to lie. Where the machine has one node, or the system refuses to say, all of these are
   the same. */
typedef enum SlabNuma {
    SLAB_NUMA_OFF =
        0, /* wherever the system puts it: on the node of the thread that first writes to it, as a rule (default) */
    SLAB_NUMA_LOCAL = 1, /* new memory is of the node that its thread runs on; freed memory goes back to its node */
    SLAB_NUMA_INTERLEAVE = 2, /* spread over all nodes, page by page */
} SlabNuma;

/*
 * Options of one allocator. Fill `size` with sizeof(SlabOptions). Members beyond the given size, and members left 0,
 * take their value from the environment variable, or else the default. Set-user-ID programs and the like do not look
 * at variables. Variables without a member:
 *
 *     TSLAB_SHM=1             show the statistics to other processes (stats.h)
 *     TSLAB_HTTP=ADDRESS      serve them by HTTP (http.h), to requests for localhost
 *     TSLAB_HTTP_HOSTS=NAMES  and for these names
 *     TSLAB_LOG=FILE          add the messages to a file (slab_set_message_sink)
 *
 * More: man 3 tslab, OPTIONS.
 */
typedef struct SlabOptions {
    size_t size;          /* sizeof(SlabOptions) of the caller */
    size_t retain_bytes;  /* TSLAB_RETAIN: the retain budget. Empty slabs go back when more than this is retained.
                             Default 32 MiB at the end of a phase; 160 MiB or a quarter of what is in use before, and
                             while the program takes back what went back; 4 MiB when it has needed no more for a
                             second. Beside it each thread keeps up to 2 MiB */
    int reclaim_policy;   /* TSLAB_RECLAIM=budget|keep|at_once: a SlabReclaimPolicy */
    uint32_t sample_rate; /* TSLAB_SAMPLE: time one in so many allocations, and one in so many frees; 0 none
                             (default), 1 all. Process-wide: the last allocator created with a value sets it.
                             No allocator has fast paths then */
    size_t reserve_bytes; /* TSLAB_RESERVE: populated at creation, as by slab_reserve(); default 0.
                             Creation succeeds without memory that cannot be had */
    size_t budget_bytes;  /* TSLAB_BUDGET: hard limit on committed memory; 0 none (default) */
    int huge_pages;       /* TSLAB_HUGE_PAGES=default|on|off: a SlabHugePages */
    int on_misuse;        /* TSLAB_ON_MISUSE=ignore|report|abort: a SlabOnMisuse */
    int poison_on_free;   /* TSLAB_POISON=0|1: fill what is free with 0xDB. Unless on_misuse is ignore, report what was
                             written to it when it is given out again. No fast paths then; default 0 */
    int record_rss;       /* TSLAB_RECORD_RSS=0|1: measure the process's resident memory before and after each
                             close and end of an epoch, about 35 us each in a small process; default 0 */
    int guard_spans;      /* TSLAB_GUARD=0|1: objects above 4096 bytes lie between inaccessible pages. Costs each five
                             or six system calls and 32 KiB of address space and budget; default 0 */
    int memory_tools;     /* TSLAB_TOOLS=on|off|leaks: a SlabMemoryTools. Under these tools slab_usable_size() is the
                             size asked for */
    size_t sample_stacks; /* TSLAB_SAMPLE_STACKS: keep the call stack of one allocation in so many bytes on average
                             while its object lives (slab_stacks()); 0 none (default). Allocations have no fast path
                             then. ENOMEM if there is no room for the table of samples: 4.4 MiB of addresses */
    int background;       /* TSLAB_BACKGROUND=0|1: a thread of the library calls slab_maintain() for this allocator
                             four times a second; default 0 (in libtslab-malloc: see malloc.h) */
    int strict;           /* TSLAB_STRICT=0|1: for the default allocator. slab_alloc() and its family outside of any
                             domain are NULL with EINVAL, and misuse; default 0 */
    int hints;            /* TSLAB_HINTS=0|1: one line on stderr a call site about what is no error but seldom meant.
                             Allocations have no fast path then; default 0 */
    int numa;             /* TSLAB_NUMA=off|local|interleave: a SlabNuma. Unless it is off, a thread asks for its node
                             where it needs a slab; default off */
} SlabOptions;

/* ---- allocators: independent of one another; any thread may use any of them -------------------- */

/* Makes an allocator with the options of the environment. Cost: microseconds.
   NULL with ENOMEM: no memory, or there are 4095 already (511 at least where the address space is limited). */
TSLAB_API SlabAllocator *slab_allocator_create(void) TSLAB_USED;
/* An allocator with these options; NULL: as slab_allocator_create. A member with a value that does not exist counts as
   0, and one line says so, once per process and member. NULL with EINVAL if options->size is less than a size_t;
   ENOMEM. */
TSLAB_API SlabAllocator *slab_allocator_create_ex(const SlabOptions *options) TSLAB_USED;
/* The allocator of the process, made on first use and never freed. NULL with ENOMEM. */
TSLAB_API SlabAllocator *slab_allocator_default(void);
/* Frees an allocator: every object, epoch and domain in it dies, and all its memory goes back to the system.
   Cleanups of its domains do not run: destroy the domains first where they must.
   NULL, the default allocator, and an allocator already freed: nothing happens. */
TSLAB_API void slab_allocator_free(SlabAllocator *allocator);

/* ---- objects ---------------------------------------------------------------------------------- */
/*
 * Functions that allocate:
 *   - Size 0 gives a unique object that can be freed.
 *   - Alignment is at least 16. In a churn epoch an object whose size is a power of two up to 16384 is aligned to it.
 *   - On failure they return NULL and set errno: ENOMEM (no memory, over the budget, or a size that cannot exist),
 *     EINVAL (bad argument, or unknown epoch) or ESTALE (the epoch is closed or destroyed).
 *   - Cost: 2 to 5 ns as a rule. They make a system call only to get a new slab when none is retained, or to give back
 *     1 MiB at most where more is retained than the budget.
 * More: man 3 tslab.
 */

/* Allocates in the current (rolling) epoch. */
TSLAB_API void *slab_malloc(SlabAllocator *allocator, size_t size) TSLAB_USED TSLAB_SIZE(2);
/* Allocates in the given epoch. */
TSLAB_API void *slab_malloc_epoch(SlabAllocator *allocator, size_t size, EpochId epoch) TSLAB_USED TSLAB_SIZE(2);
/* Allocates n * size bytes, zeroed. ENOMEM if the product overflows. */
TSLAB_API void *slab_calloc_epoch(SlabAllocator *allocator, size_t n, size_t size, EpochId epoch) TSLAB_USED
    TSLAB_SIZE(2, 3);
/* Allocates with an alignment: a power of two, otherwise EINVAL. Above 1 GiB: ENOMEM. */
TSLAB_API void *slab_aligned_epoch(SlabAllocator *allocator, size_t alignment, size_t size, EpochId epoch) TSLAB_USED
    TSLAB_SIZE(3);
/* Resizes an object, which stays in its epoch. It may move; then its alignment is 16, as with realloc of C.
   pointer NULL: slab_malloc. size 0: the smallest object.
   Cost: in a scope the last object of the thread there grows and shrinks where it is. Any other one that grows is
   copied, and its old place is used again with the whole slab only: small steps take the sum of all sizes.
   On failure NULL, and the old object is untouched: EINVAL not a live object of this allocator, ESTALE it would have
   to move and its epoch is closed, ENOMEM. */
TSLAB_API void *slab_realloc(SlabAllocator *allocator, void *pointer, size_t size) TSLAB_USED TSLAB_SIZE(3);
/* slab_realloc whose result has the alignment wherever it moves: a power of two, otherwise EINVAL; above 1 GiB: ENOMEM.
   An object that stays where it is has the alignment it had. pointer NULL: slab_aligned_epoch in the current epoch. */
TSLAB_API void *slab_realloc_aligned(SlabAllocator *allocator, void *pointer, size_t alignment, size_t size) TSLAB_USED
    TSLAB_SIZE(4);
/* Frees one object, also one that another thread allocated. NULL: true, nothing happens.
   false: not the start of a live object of this allocator. A stale pointer frees the new object that has its address.
   Two threads that free one pointer at the same instant may both get true. Where that can happen, use free_obj. */
TSLAB_API bool slab_free(SlabAllocator *allocator, void *pointer);
/* Bytes that may be used at pointer, at least the size asked for. 0: not a live object of this allocator.
   A compiler that checks sizes (_FORTIFY_SOURCE) allows the size asked for only. */
TSLAB_API size_t slab_usable_size(SlabAllocator *allocator, const void *pointer);
/* Whether pointer is the start of a live object of this allocator. */
TSLAB_API bool slab_owns(SlabAllocator *allocator, const void *pointer);
/* pointer NULL: slab_malloc_epoch in that epoch. Otherwise slab_realloc: the object stays in its own epoch. */
TSLAB_API void *slab_realloc_epoch(SlabAllocator *allocator, void *pointer, size_t size, EpochId epoch) TSLAB_USED
    TSLAB_SIZE(3);
/* slab_free in whichever allocator owns the object. NULL: true. false: no allocator of the process owns it. */
TSLAB_API bool slab_release(void *pointer);
/* Calls fn for every live object of the epoch, in no particular order, with its usable bytes. fn returns false to stop.
   Returns how many objects were shown. 0 with EINVAL: no such epoch or allocator, or fn is NULL.
   An object that another call allocates or frees meanwhile may be shown or not.
   Cost: some ns for each slab of the process, and some 50 ns an object. */
TSLAB_API size_t slab_walk(SlabAllocator *allocator, EpochId epoch, bool (*fn)(void *object, size_t bytes, void *arg),
                           void *arg);

/* ---- handles ---------------------------------------------------------------------------------- */
/*
 * A handle is a value: copy it, compare it, store it, keep it for ever. No two objects ever have the same handle.
 * It is no secret and has no type: a caller that can try a few values finds another live object. Give clients a random
 * key.
 * [63:42] slab (22 bits)  [41:18] generation (24)  [17:8] slot (10)  [7:2] class (6)  [1:0] format (2, = 2)
 * Of an object above 32 MiB the slot's bits are more bits of the slab. Of one behind the first 64 GiB the last eight
 * bits are, and the last two are 0 or 1.
 * Cost: in a slab of a churn epoch in which a handle was made, slab_free takes some 100 instructions more.
 */

/* slab_malloc_epoch that also stores the handle of the object. out NULL: EINVAL. */
TSLAB_API void *alloc_obj_epoch(SlabAllocator *allocator, size_t size, EpochId epoch, SlabHandle *out) TSLAB_USED
    TSLAB_SIZE(2);
/* Frees the object. false: the handle is stale, freed already, forged, or of another allocator.
   When several threads free one handle at the same instant, one gets true (an exception: docs/security.md).
   Cost: slab_free and one locked instruction. */
TSLAB_API bool free_obj(SlabAllocator *allocator, SlabHandle handle);
/* The object's address, good until the object is freed. NULL where free_obj would be false. */
TSLAB_API void *slab_handle_get(SlabAllocator *allocator, SlabHandle handle);
/* The handle of any live object, however it was allocated. SLAB_HANDLE_NONE if it is not one, or with ENOMEM. The first
   in a slab of another running thread waits for a call of that thread that is under way; where the system refuses
   membarrier it can fail with ENOTSUP. */
TSLAB_API SlabHandle slab_handle_of(SlabAllocator *allocator, const void *pointer);

/* ---- epochs ----------------------------------------------------------------------------------- */
/*
 * An epoch is ACTIVE, then CLOSING while it is closed and holds live objects, then CLOSED.
 * None of these functions waits for another thread that is in the middle of a call (exceptions: man 3 tslab).
 */

/* Flags of epoch_open (neither CHURN nor SCOPE: churn) and epoch_domain_create_ex (neither: scope). */
#define EPOCH_CHURN 1u /* size classes, and each slot is used again: for epochs that live long */
#define EPOCH_SCOPE 2u /* bump allocation, and a slab is used again only when it is empty: for short ones */
/* Flags of epoch_domain_create_ex only. */
#define EPOCH_DOMAIN_SHARED 4u /* any thread may enter, several at once */
#define EPOCH_DOMAIN_DRAIN 8u  /* the end of the domain closes the epoch; live objects live on until they are freed */
/* The malloc, calloc, new, ... of a thread inside allocate in the domain. It is CHURN unless EPOCH_SCOPE is given.
   Without libtslab-malloc in the process (malloc.h): ENOTSUP. */
#define EPOCH_DOMAIN_CAPTURE 16u

/* epoch_state */
#define EPOCH_ACTIVE 0  /* takes objects */
#define EPOCH_CLOSING 1 /* takes no objects; some are still live */
#define EPOCH_CLOSED 2  /* nothing is live; also: destroyed, or never an epoch of this allocator */
#define EPOCH_SPILLED 3 /* closing, and its memory is in zones: touching its objects faults (tslab/zones.h) */

#define SLAB_LABEL_BYTES 32 /* a label with its terminating zero */

/* The rolling epoch of the allocator, opened on first use. EPOCH_NONE with errno ENOMEM or EINVAL.
   If the program closes or destroys it, it stays the current one and refuses objects (ESTALE) until epoch_advance(). */
TSLAB_API EpochId epoch_current(SlabAllocator *allocator);
/* Closes the rolling epoch, opens the next and returns it.
   EPOCH_NONE with errno ENOMEM or EINVAL: the old one stays. */
TSLAB_API EpochId epoch_advance(SlabAllocator *allocator);
/* Opens an independent epoch. flags: EPOCH_CHURN or EPOCH_SCOPE. label: as slab_epoch_set_label.
   EPOCH_NONE with errno EINVAL or ENOMEM. Up to 4,194,303 may be open at once (32,767 with 32 bits).
   Cost: at most 256 bytes while it holds nothing. */
TSLAB_API EpochId epoch_open(SlabAllocator *allocator, const char *label, unsigned flags);
/* Closes: the epoch takes no new objects (ESTALE). Its empty slabs go back now; each other one goes back with its last
   object, to the allocator, and to the system by the reclaim policy. false: not an open epoch of this allocator;
   or with EBUSY the one of the process's malloc, which epoch_destroy does not end either.
   Cost: proportional to the slabs in the epoch; 0.3 to 0.8 us (8 at most) for each other thread that has memory in it;
   and the system's time for memory that goes back. */
TSLAB_API bool epoch_close(SlabAllocator *allocator, EpochId epoch);
/* Destroys: every live object dies now, and its pointers and handles are stale. The memory goes back by the reclaim
   policy. false: unknown, or gone already.
   No other thread may still write to an object of the epoch, nor be in slab_calloc_epoch, slab_realloc or slab_promote
   of one: the memory can be another object's at once.
   A domain's epoch that its thread is emptying or ending at this moment dies before that call of it returns.
   Cost: constant in the number of objects of up to 16 KiB (8 in a scope); some 20 ns for each larger one; the cost of
   epoch_close for other threads; and the system's work for memory above the retain budget. */
TSLAB_API bool epoch_destroy(SlabAllocator *allocator, EpochId epoch);
/* EPOCH_ACTIVE, EPOCH_CLOSING, EPOCH_CLOSED or EPOCH_SPILLED. */
TSLAB_API int epoch_state(SlabAllocator *allocator, EpochId epoch);
/* Replaces the label. NULL: no label. A label has at most 31 bytes and is cut at a character; bytes that are not UTF-8
   become '?'. false: unknown epoch. */
TSLAB_API bool slab_epoch_set_label(SlabAllocator *allocator, EpochId epoch, const char *label);

/* ---- domains ---------------------------------------------------------------------------------- */
/*
 * A domain is owned by the thread that created it, unless it is shared. A thread ends its domains, or hands them over,
 * before it ends: nobody can enter them later.
 * A function that fails sets errno: EPERM if only the thread of the domain may call it, EINVAL if the domain is
 * destroyed or is none.
 * More: man 3 tslab.
 */

/* A domain with its own scope epoch. allocator NULL: the default one. NULL with errno ENOMEM or EINVAL. */
TSLAB_API EpochDomain *epoch_domain_create(SlabAllocator *allocator) TSLAB_USED;
/* A domain with a label and flags: EPOCH_DOMAIN_SHARED, EPOCH_DOMAIN_DRAIN, EPOCH_DOMAIN_CAPTURE, and EPOCH_SCOPE
   (default, but for a capture) or EPOCH_CHURN. EINVAL for any other; ENOTSUP: a capture without libtslab-malloc.
   A churn domain of one thread does not use freed slots of its first 16 KiB of objects again. */
TSLAB_API EpochDomain *epoch_domain_create_ex(SlabAllocator *allocator, const char *label, unsigned flags) TSLAB_USED;
/* A domain around an epoch that exists and has none. allocator NULL: the default one.
   auto_close: the epoch is destroyed with the domain. Otherwise it outlives the domain, with its objects.
   NULL with errno: EINVAL unknown epoch, ESTALE closed, EBUSY it has a domain, or is the one of the process's malloc,
   ENOMEM. */
TSLAB_API EpochDomain *epoch_domain_wrap(SlabAllocator *allocator, EpochId epoch, bool auto_close) TSLAB_USED;
/* A child domain: it ends with its parent at the latest, before it. A reset of the parent ends its children, too.
   A child of a shared domain is shared; any other is of its parent's thread, and is handed over with it only.
   NULL with errno: EINVAL no such domain or flags, EPERM another thread's, ESTALE the parent is closed or ending,
   ENOMEM. */
TSLAB_API EpochDomain *epoch_domain_create_child(EpochDomain *parent, const char *label, unsigned flags) TSLAB_USED;
/* The parent. NULL: none, or not a domain. */
TSLAB_API EpochDomain *epoch_domain_parent(const EpochDomain *domain);
/* Gives a domain another parent, or none (NULL). false: EINVAL it would make a circle, the allocators differ, or only
   one of them is shared; EPERM; ESTALE one of them is ending; ENOMEM. */
TSLAB_API bool epoch_domain_move(EpochDomain *child, EpochDomain *parent);
/* epoch_domain_destroy with an answer, from any thread, which runs the cleanups. The domain's thread may have ended.
   false, and nothing has happened: EBUSY another thread is inside the domain or a child of it, or empties or ends one
   of them; EPERM from a cleanup of its own; EINVAL not a domain.
   No other thread may still use objects of it, as for epoch_destroy.
   Cost: as epoch_domain_destroy; a barrier for all threads more if it is shared or another thread's. */
TSLAB_API bool epoch_domain_end(EpochDomain *domain);
/* A hard limit on the memory that the domain and its children hold, in units of 16 KiB and one at least; 0: none.
   Any thread.
   Allocations beyond it are NULL with ENOMEM, and a line says which limit it was, once a second at most.
   A limit below the memory held now stops growth only. false: EINVAL not a domain, ENOMEM.
   It waits for no other thread. One that allocates in it at this moment may get a slab more, which counts afterwards.
   Cost: 64 bytes; the first call for an epoch costs a barrier for each thread that has memory in it. */
TSLAB_API bool epoch_domain_set_limit(EpochDomain *domain, size_t bytes);
/* As epoch_domain_set_limit, for an epoch. */
TSLAB_API bool epoch_set_limit(SlabAllocator *allocator, EpochId epoch, size_t bytes);
/* New memory of the epoch comes from a NUMA node while that has some, whatever the allocator's option numa says. Memory
   that the epoch holds stays where it is. node -1: as the option says, which holds before the first call. Any thread.
   false: EINVAL no open epoch of the allocator, or the process may have no memory on such a node; ENOTSUP the system
   knows no nodes, or refuses to place memory; ENOMEM.
   Cost: as epoch_set_limit. Allocations of the epoch that need a slab take a lock, and a domain of it ends more
   slowly. */
TSLAB_API bool epoch_bind(SlabAllocator *allocator, EpochId epoch, int node);
/* Bytes that count against the limit of the domain, those of its children included. 0: not a domain. Any thread. */
TSLAB_API size_t epoch_domain_held(EpochDomain *domain);
/* Makes it the innermost domain of this thread. Nests to any depth, also the same domain.
   false: EPERM another thread's domain, EINVAL not a domain, ESTALE its epoch is closed, ENOMEM.
   After ESTALE and ENOMEM a domain that was handed over is this thread's: enter it again, or destroy it. */
TSLAB_API bool epoch_domain_enter(EpochDomain *domain);
/* Leaves the innermost domain. false with EINVAL if domain is not the innermost one of this thread. */
TSLAB_API bool epoch_domain_exit(EpochDomain *domain);
/* Runs the cleanups newest first, then frees every object in it at once. NULL: nothing.
   If this thread is still inside, the cleanups run inside; then the domain is left on every level.
   Another thread's domain (not shared), or from one of its own cleanups: errno EPERM, and nothing happens.
   Cost: as epoch_destroy, and 3 to 4 ns for each domain that this thread is inside of. */
TSLAB_API void epoch_domain_destroy(EpochDomain *domain);
/* Closes the domain's epoch from any thread. false: EINVAL, or it is closed already. */
TSLAB_API bool epoch_domain_force_close(EpochDomain *domain);
/* Runs the cleanups, then empties the domain: every object in it dies. It stays entered, with the same EpochId.
   At most keep_bytes of its memory stay retained; the rest goes back to the system now, under every reclaim policy.
   false: EPERM, EINVAL (also: a wrapped epoch without auto_close), ESTALE closed: the cleanups have run, once for all.
   Cost: less than a new domain if keep_bytes covers the memory it held (SIZE_MAX always does). Otherwise the rest goes
   back from the retained memory of all threads of the allocator, with a look at each thread: 240 to 340 ns. The
   adaptive budget (retain_bytes) stays as it is. */
TSLAB_API bool epoch_domain_reset(EpochDomain *domain, size_t keep_bytes);
/* Registers a cleanup: fn(arg) at destroy or reset, newest first. It does not run when the allocator is freed.
   It may allocate in the domain, and use its objects, unless epoch_destroy() has killed them before.
   It must return: one that leaves by longjmp or an exception, or ends its thread, is misuse. Its thread can then end or
   reset the domain once more from where it was, and any thread once that one has ended; older cleanups run then. It is
   not cancelled.
   false: EPERM, EINVAL, ENOMEM. */
TSLAB_API bool epoch_domain_on_destroy(EpochDomain *domain, void (*fn)(void *), void *arg);
/* Takes back the newest cleanup with this function and argument. false: ENOENT there is none, EPERM, EINVAL.
   Cost: a look at each newer cleanup. */
TSLAB_API bool epoch_domain_off_destroy(EpochDomain *domain, void (*fn)(void *), void *arg);
/* A place in a domain, to go back to. A value: copy it, keep it. */
typedef struct SlabMark {
    uint64_t place, use;
} SlabMark;
/* Marks where the domain is now, and takes 16 bytes of it. For scope domains of one thread, in whose epoch no other
   thread allocates. false: EINVAL another domain, EPERM, ESTALE closed, ENOMEM. */
TSLAB_API bool epoch_domain_mark(EpochDomain *domain, SlabMark *mark);
/* Goes back to the mark: every object allocated in the domain since is dead. Children made since end first, then the
   cleanups registered since run, newest first. The newest 32 marks are good, this one included.
   false: EPERM; EINVAL not a good mark of this domain, or another thread allocates in the epoch.
   A handle of a dead object is stale for ever; a pointer is until a new object takes its place.
   Cost: a look at each slab taken since, and at each live object in it. */
TSLAB_API bool epoch_domain_rewind(EpochDomain *domain, SlabMark mark);
/* Gives the domain up: the next thread that enters it owns it. This thread must have left it, and it is no child
   (EPERM).
   The domain's memory goes along: the next owner allocates and frees in the same memory. So do its children. Their
   marks and the domain's are not good any more.
   Until then nobody owns it. epoch_domain_destroy does not end it. Any thread can close it (epoch_domain_force_close),
   end it (epoch_domain_end), or destroy its epoch. */
TSLAB_API bool epoch_domain_hand_over(EpochDomain *domain);
/* The innermost domain that this thread has entered and not left, also if it has ended meanwhile. NULL: none. */
TSLAB_API EpochDomain *epoch_domain_current(void);
/* The allocator and the epoch of a domain. NULL / EPOCH_NONE if it is not a domain. */
TSLAB_API SlabAllocator *epoch_domain_allocator(const EpochDomain *domain);
TSLAB_API EpochId epoch_domain_epoch(const EpochDomain *domain);
/* Allocates in the innermost domain of this thread; outside of any, in the default allocator's current epoch.
   NULL with errno ESTALE if that domain has been closed or destroyed: never an object of an outer one.
   In a scope domain objects are aligned to 16: slab_alloc_aligned for more. */
TSLAB_API void *slab_alloc(size_t size) TSLAB_USED TSLAB_SIZE(1);

/*
 * More objects of the innermost domain: where slab_alloc would put them, and with its errors.
 * Cost: as slab_alloc, and the writes to the object.
 */

/* n * size bytes, zeroed. ENOMEM if the product overflows. */
TSLAB_API void *slab_alloc_zero(size_t n, size_t size) TSLAB_USED TSLAB_SIZE(1, 2);
/* alignment: a power of two, otherwise EINVAL. Above 1 GiB: ENOMEM. */
TSLAB_API void *slab_alloc_aligned(size_t alignment, size_t size) TSLAB_USED TSLAB_SIZE(2);
/* pointer NULL: slab_alloc. Otherwise slab_realloc in whichever allocator owns the object: it stays in its own epoch.
   EINVAL: none owns it. */
TSLAB_API void *slab_alloc_resize(void *pointer, size_t size) TSLAB_USED TSLAB_SIZE(2);
/* A copy: of a text, of at most n bytes of a text and a terminating zero, of n bytes. */
TSLAB_API char *slab_alloc_strdup(const char *text) TSLAB_USED;
TSLAB_API char *slab_alloc_strndup(const char *text, size_t n) TSLAB_USED;
TSLAB_API void *slab_alloc_memdup(const void *from, size_t n) TSLAB_USED TSLAB_SIZE(2);
/* A formatted text. errno as vsnprintf sets it where the format is at fault. */
TSLAB_API char *slab_alloc_printf(const char *format, ...) TSLAB_PRINTF(1, 2) TSLAB_USED;
TSLAB_API char *slab_alloc_vprintf(const char *format, va_list arguments) TSLAB_PRINTF(1, 0) TSLAB_USED;
/* Allocates in the named domain, whether or not this thread is inside it. NULL with errno: EPERM another thread's
   domain, EINVAL not a domain, ESTALE its epoch is closed, ENOMEM. Cost: slab_alloc and a dozen instructions. */
TSLAB_API void *epoch_domain_alloc(EpochDomain *domain, size_t size) TSLAB_USED TSLAB_SIZE(2);
/* Moves one object into the domain (an outer one, usually): copies it there, frees it here, returns the new address.
   It keeps the alignment that it was asked for with, not one that it has by its class.
   NULL, and the object is untouched: EINVAL not a live object of the domain's allocator, EPERM, ESTALE, ENOMEM. */
TSLAB_API void *slab_promote(EpochDomain *to, void *pointer) TSLAB_USED;

/* ---- memory on demand ------------------------------------------------------------------------- */
/*
 * Retained memory is memory that holds nothing and has not gone back to the system. More: man 3 tslab.
 */

/* Populates bytes ahead, so that hot paths do not fault, and keeps them retained beyond the retain budget. They last
   until slab_trim(), an epoch_domain_reset() that gives memory back, or a budget that is met or set below the committed
   memory. They serve objects of up to 16384 bytes in churn epochs, and of up to 8192 in scopes (man 3 tslab has
   exceptions). It leaves some MiB of the memory that the process's cgroups and the machine have. It reads files of
   /proc and of cgroups, which a filter of system calls has to allow.
   false with ENOMEM: it keeps as much as it got (nothing, if there are no addresses for so much). */
TSLAB_API bool slab_reserve(SlabAllocator *allocator, size_t bytes);
/* Gives all that can be given back to the system now: retained memory of every thread, memory that idle threads hold of
   closed epochs, and unused pages in the calling thread's slabs. Memory that other live threads keep in their open
   epochs stays. Returns bytes, those of the allocator's own records not counted.
   Cost: some ns for each slab of this thread that is not full, a barrier for each thread (epoch_close), 0.5 to 2 us a
   system call. */
TSLAB_API size_t slab_trim(SlabAllocator *allocator);
/* A hard limit on committed bytes, in units of 16 KiB and one at least; 0: none. The first allocation that it refuses
   is told of in one line.
   If more is committed now, retained memory goes back first; beyond that the limit stops growth only. false: EINVAL. */
TSLAB_API bool slab_set_budget(SlabAllocator *allocator, size_t bytes);
/* Does due work, for max_ns nanoseconds at most, and one step: takes back memory from threads that have needed none
   since the last call, ends closed epochs that hold nothing, gives back memory above the retain budget. Once no thread
   has needed memory for 12 s, all that is retained goes back, but for what was reserved, unless the program gave a
   retain budget or a policy. Returns bytes given back; 0 with EINVAL: no such allocator. For programs at rest, without
   the option `background`. Cost with nothing to do: some 50 ns a thread. */
TSLAB_API size_t slab_maintain(SlabAllocator *allocator, uint64_t max_ns);
/* Changes the option sample_stacks in a running program: one sample in so many bytes on average, 0: none. Samples that
   were taken stay. The calling thread follows at once, any other at its next call that leaves the fast path.
   false: EINVAL, ENOMEM. */
TSLAB_API bool slab_set_sample_stacks(SlabAllocator *allocator, size_t bytes);
/* This thread lets go of all it caches, in every allocator.
   Cost: some 0.1 us for each open epoch in which it has memory, and a look at each slab in its bins. */
TSLAB_API void slab_thread_idle(void);

/* ---- messages --------------------------------------------------------------------------------- */
/*
 * The library says little: a wrong option or variable, misuse if on_misuse asks for it, a budget or limit that is
 * reached, and refusals by the system that matter. Each message is one line of up to 512 bytes and begins with "tslab:
 * ".
 */

/*
 * fn(line, bytes, arg) gets every message from now on, instead of standard error or the file of TSLAB_LOG.
 * fn NULL: standard error. The line ends with a newline, which bytes counts, and a zero.
 *
 *   - fn runs inside of the call that the message is about: in any thread, in several at once, and in a signal handler
 *     if that misuses the library. It may call any function of the library. It must return.
 *   - When slab_set_message_sink returns, the function before runs nowhere and is not called again: its argument can be
 *     freed. So it waits for calls that run: do not call it while holding a lock that fn waits for.
 *   - Called by fn itself it does not wait. It may not be called in a signal handler.
 *
 * More: man 3 tslab, MESSAGES.
 */
TSLAB_API void slab_set_message_sink(void (*fn)(const char *line, size_t bytes, void *arg), void *arg);
/* Sends a message of the program's own the same way: text up to its end or first newline, as one line. NULL: nothing.
   In signal handlers too. */
TSLAB_API void slab_message(const char *text);

#ifdef __cplusplus
}
#endif

#endif
