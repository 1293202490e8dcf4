/*
 * Statistics of temporal-slab. docs/stats.md explains every field: unit, meaning, when to worry.
 *
 * Each thread counts for itself; a reader gets the sums. While no other thread is inside a call, these hold exactly:
 *     allocated_objects_total - freed_objects_total == live_objects     per class, per epoch, and in all
 *     live_bytes <= committed_bytes
 *     committed_bytes == (bytes of slabs in use) + retained_bytes
 * While other threads run, the first holds within each structure, no counter decreases, and none exceeds the truth.
 * More: man 3 tslab.
 *
 * Threads: any, at any time. No allocation waits for a reader.
 *
 * Signal handlers: all functions but slab_stats_node, and slab_stats_json, slab_stats_doctor, slab_stats_view,
 * slab_stacks_text and slab_stacks_json, which show places in programs and may take the loader's lock. An alternate
 * stack needs 32 KiB.
 *
 * Cost (figures in docs/stats.md): slab_stats_class and slab_stats_global are proportional to the threads and open
 * epochs of the process, and to the memory it ever used at once. slab_stats_epoch is proportional to the threads that
 * allocated in the epoch, and to that memory. slab_stats_global also reads /proc: about 35 us in a small process.
 */
#ifndef TSLAB_STATS_H
#define TSLAB_STATS_H

#include <tslab/tslab.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLAB_STATS_VERSION 1u

/* Classes for slab_stats_class and slab_stats_epoch, besides 0 .. slab_class_count() - 1. SLAB_CLASS_SCOPE: slabs of
   mixed sizes, which scope epochs have, and churn epochs for their first objects. SLAB_CLASS_SPAN: large objects. The
   size classes and these two sum up to the whole.
   slab_stats_epoch counts a live object in its size class, also in a slab of mixed sizes. Once freed there it counts
   in SLAB_CLASS_SCOPE, as the slab's bytes do. slab_stats_class counts all objects of such slabs in
   SLAB_CLASS_SCOPE. */
#define SLAB_ALL_CLASSES UINT32_MAX
#define SLAB_CLASS_SCOPE (UINT32_MAX - 1u)
#define SLAB_CLASS_SPAN (UINT32_MAX - 2u)

/* The first eight counters of SlabClassStats, and a sum: why operations left the fast path. */
typedef struct PerfCounters {
    uint32_t version;
    uint64_t slow_path_hits;
    uint64_t new_slab_count;
    uint64_t slow_path_cache_miss;
    uint64_t slow_path_epoch_closed;
    uint64_t list_move_partial_to_full;
    uint64_t list_move_full_to_partial;
    uint64_t current_partial_null;
    uint64_t current_partial_full;
    uint64_t current_partial_miss; /* the sum of the last two: a thread had no free slot at hand, and one was there */
} PerfCounters;

typedef struct SlabClassStats {
    uint32_t version;
    uint32_t class_index;
    uint64_t object_size;                /* bytes of a slot; 0 where sizes are mixed */
    uint64_t slow_path_hits;             /* allocations that had to search for a slab */
    uint64_t new_slab_count;             /* slabs taken into use */
    uint64_t slow_path_cache_miss;       /* the part of new_slab_count with fresh memory: no retained slab was left */
    uint64_t slow_path_epoch_closed;     /* allocations refused because the epoch was not active (whole allocator) */
    uint64_t list_move_partial_to_full;  /* slabs whose last free slot was claimed; scope slabs used up */
    uint64_t list_move_full_to_partial;  /* full churn slabs that got a free slot, or whose epoch ended */
    uint64_t current_partial_null;       /* allocations that a slab of an ended thread served, as no own slab could */
    uint64_t current_partial_full;       /* allocations that found all slabs of the thread full, while other threads
                                            had freed in them */
    uint64_t empty_slab_recycled;        /* slabs that left use: empty, or their epoch ended */
    uint64_t empty_slab_overflowed;      /* units given back to the system (whole allocator) */
    uint64_t madvise_calls;              /* purge calls (whole allocator) */
    uint64_t madvise_bytes;              /* bytes purged */
    uint64_t madvise_failures;           /* purges that the system refused */
    uint64_t epoch_close_calls;          /* epochs closed by a call: epoch_close, epoch_advance,
                                            epoch_domain_force_close (whole allocator) */
    uint64_t epoch_close_scanned_slabs;  /* slabs looked at by them */
    uint64_t epoch_close_recycled_slabs; /* the part of these that was empty and taken back */
    uint64_t epoch_close_total_ns;       /* time in them */
    uint64_t lock_fast_acquire;          /* slow-path locks that were free (whole allocator) */
    uint64_t lock_contended;             /* slow-path locks waited for */
    uint64_t foreign_free_cas_retries;   /* retries of foreign frees after another write to the word */
    uint64_t foreign_frees;              /* objects freed by a thread that does not own their slab */
    uint64_t live_objects;
    uint64_t live_bytes;      /* slots of live objects */
    uint64_t committed_bytes; /* slabs in use */
    uint64_t allocated_objects_total;
    uint64_t freed_objects_total;  /* including those freed by a destroy */
    uint64_t rejected_frees_total; /* frees, handles and reallocs answered false (whole allocator) */
    uint64_t cache_size;           /* retained empty slabs (whole allocator) */
    uint64_t cache_capacity;       /* retain budget now, in slabs; 0 with at_once, UINT64_MAX with keep */
    uint64_t total_partial_slabs;  /* slabs with a free slot */
    uint64_t total_full_slabs;     /* slabs with none */
    double recycle_rate_pct;       /* 100 * recycled / (recycled + overflowed); 0 if neither */
} SlabClassStats;
/* "(whole allocator)": counted once per allocator. slab_stats_class repeats that figure in every class. */

typedef struct SlabEpochStats {
    uint32_t version;
    uint32_t class_index; /* as asked for */
    uint64_t object_size; /* bytes of a slot of that class; 0 where sizes are mixed */
    EpochId epoch_id;
    uint64_t epoch_era; /* how often the epoch's record has been used */
    int32_t state;      /* EPOCH_ACTIVE, EPOCH_CLOSING, EPOCH_CLOSED, EPOCH_SPILLED */
    uint32_t flags;     /* EPOCH_CHURN or EPOCH_SCOPE */
    char label[SLAB_LABEL_BYTES];
    uint64_t open_since_ns; /* monotonic clock; up to some milliseconds early for a domain of one thread */
    uint64_t age_ns;        /* after the end: from opening to end, or 0 if the end was not timed */
    uint64_t live_objects;
    uint64_t alloc_count; /* equals live_objects */
    uint64_t live_bytes;
    uint64_t allocated_objects_total; /* while it drains, without threads whose objects are all freed */
    uint64_t freed_objects_total;     /* with the same exception */
    uint64_t slab_count;              /* units of 16 KiB in use */
    uint64_t partial_slab_count;
    uint64_t full_slab_count;
    uint64_t estimated_rss_bytes;    /* slab_count in bytes: an upper bound of resident bytes */
    uint64_t reclaimable_slab_count; /* slabs without a live object */
    uint64_t reclaimable_bytes;
    uint64_t rss_before_close; /* bytes; 0 without the option record_rss. Of an epoch destroyed without a close:
                                  before and after the destroy */
    uint64_t rss_after_close;
    uint64_t closing_for_ns;       /* since its close; 0 while active; after the end: how long it drained */
    EpochId parent_epoch_id;       /* of its domain's parent; EPOCH_NONE: no parent */
    uint64_t limit_bytes;          /* 0: none; see epoch_set_limit */
    uint64_t limit_failures_total; /* allocations refused by that limit */
    uint64_t returned_bytes;       /* slabs held at its close and given back since; after a destroy without a
                                      close, all slabs it held */
    uint64_t ended_for_ns;         /* since its end, or since its opening if the end was not timed; 0: not ended */
} SlabEpochStats;

typedef struct SlabGlobalStats {
    uint32_t version;
    uint32_t class_count;
    EpochId current_epoch; /* the rolling epoch, EPOCH_NONE before its first use */
    uint64_t active_epoch_count;
    uint64_t closing_epoch_count;
    uint64_t slow_path_hits;
    uint64_t new_slab_count;
    uint64_t slow_path_cache_miss;
    uint64_t slow_path_epoch_closed;
    uint64_t list_move_partial_to_full;
    uint64_t list_move_full_to_partial;
    uint64_t current_partial_null;
    uint64_t current_partial_full;
    uint64_t empty_slab_recycled;
    uint64_t empty_slab_overflowed;
    uint64_t madvise_calls;
    uint64_t madvise_bytes;
    uint64_t madvise_failures;
    uint64_t epoch_close_calls;
    uint64_t epoch_close_scanned_slabs;
    uint64_t epoch_close_recycled_slabs;
    uint64_t epoch_close_total_ns;
    uint64_t lock_fast_acquire;
    uint64_t lock_contended;
    uint64_t foreign_free_cas_retries;
    uint64_t foreign_frees;
    uint64_t live_objects;
    uint64_t live_bytes;
    uint64_t committed_bytes; /* slabs in use and retained: the budget limits this */
    uint64_t allocated_objects_total;
    uint64_t freed_objects_total;
    uint64_t rejected_frees_total;
    uint64_t cache_size;
    uint64_t cache_capacity;
    uint64_t total_partial_slabs;
    uint64_t total_full_slabs;
    double recycle_rate_pct;
    uint64_t resident_bytes;            /* of the whole process, measured now */
    uint64_t metadata_bytes;            /* accessible for tables, whole process; less is resident */
    uint64_t reserved_bytes;            /* address space, whole process; no memory by itself */
    uint64_t budget_bytes;              /* 0: none */
    uint64_t retained_bytes;            /* retained empty slabs, and left_bytes */
    uint64_t stack_samples_taken;       /* call stacks, by the option sample_stacks */
    uint64_t stack_samples_dropped;     /* the part of these that found the table full */
    uint64_t process_lock_waits;        /* waits for any lock of the core, whole process */
    uint64_t epoch_left_total;          /* ends of epochs that left memory to a thread in the middle of a call */
    uint64_t left_bytes;                /* slabs of ended epochs that such threads have yet to take apart */
    uint64_t region_bytes;              /* address space for objects of up to 32 MiB, whole process */
    uint64_t region_used_bytes;         /* the part of region_bytes in use */
    uint64_t allocation_failures_total; /* with ENOMEM: no memory, or beyond the budget or a limit */
} SlabGlobalStats;

/* Times of the calling thread in nanoseconds, from the operations that the option sample_rate picks.
   wait = wall - cpu: time in which the thread did not run. */
typedef struct SlabThreadStats {
    uint32_t version;
    uint32_t sample_rate;
    uint64_t alloc_samples;
    uint64_t alloc_wall_ns_sum;
    uint64_t alloc_cpu_ns_sum;
    uint64_t alloc_wait_ns_sum;
    uint64_t alloc_wall_ns_max;
    uint64_t alloc_cpu_ns_max;
    uint64_t free_samples;
    uint64_t free_wall_ns_sum;
    uint64_t free_cpu_ns_sum;
    uint64_t free_wait_ns_sum;
    uint64_t free_wall_ns_max;
    uint64_t free_cpu_ns_max;
} SlabThreadStats;
typedef SlabThreadStats ThreadStats;

/* An allocator's memory by NUMA node. */
typedef struct SlabNodeStats {
    uint32_t version;
    int32_t node;
    uint64_t committed_bytes;    /* slabs in use and retained that were requested from the node (the option numa,
                                    epoch_bind); for interleaved memory, the node's share */
    uint64_t resident_bytes;     /* of the allocator's memory, as the system reports it; without the retained memory
                                    of each thread, 2 MiB at most */
    uint64_t foreign_bytes;      /* requested from this node, and resident on another */
    uint64_t remote_frees_total; /* objects of this node that threads on other nodes freed. Counted when the slab's
                                    owner collects them, by the node of the first thread that freed there */
} SlabNodeStats;

#define SLAB_STACK_FRAMES 24

/* The live objects of one call stack, estimated from the samples of the option sample_stacks. */
typedef struct SlabStackSample {
    uint32_t version;
    uint32_t frame_count;
    EpochId epoch_id;  /* EPOCH_NONE: several epochs with that label */
    int32_t state;     /* of the epochs: EPOCH_ACTIVE or EPOCH_CLOSING */
    uint32_t reserved; /* 0 */
    char label[SLAB_LABEL_BYTES];
    uint64_t samples;      /* sampled live objects; the relative error of the estimates is about 1 / sqrt(samples) */
    uint64_t live_objects; /* estimated */
    uint64_t live_bytes;   /* estimated, as in SlabEpochStats */
    uint64_t frames[SLAB_STACK_FRAMES]; /* return addresses, innermost first, from the caller of this library on.
                                             Outer frames beyond the count are left out. */
} SlabStackSample;

/* All objects that one call stack ever allocated, live or freed, estimated from the same samples. */
typedef struct SlabStackTotal {
    uint32_t version;
    uint32_t frame_count;         /* 0: all stacks that found no room; the label is then "(dropped)" */
    char label[SLAB_LABEL_BYTES]; /* of the epochs at that time; "(other)": new ones, where 2048 were there */
    uint64_t samples;
    uint64_t objects; /* estimated */
    uint64_t bytes;   /* estimated, of their slots */
    uint64_t frames[SLAB_STACK_FRAMES];
} SlabStackTotal;

/* Size classes, smallest first. slab_class_size: bytes; 0 for an index out of range.
   slab_class_of: the class that serves a size in a churn epoch; -1 above the largest class: such objects are spans.
   (With SLAB_RECLAIM_AT_ONCE or guard_spans, objects above 4096 bytes are spans, too.) */
TSLAB_API size_t slab_class_count(void);
TSLAB_API uint32_t slab_class_size(uint32_t cls);
TSLAB_API int slab_class_of(size_t size);

/* Fill the structure. false: no live allocator, unknown class or epoch, or out is NULL. */
TSLAB_API bool slab_stats_global(SlabAllocator *allocator, SlabGlobalStats *out);
TSLAB_API bool slab_stats_class(SlabAllocator *allocator, uint32_t cls, SlabClassStats *out);
/* An epoch that is open or draining, or one of the last 256 of the allocator that have ended. cls SLAB_ALL_CLASSES: the
   whole epoch. An ended epoch has the state EPOCH_CLOSED and no live figures. Its end is timed to some milliseconds,
   except for a domain without a label that only its own thread entered. Some older epochs may be known, too. */
TSLAB_API bool slab_stats_epoch(SlabAllocator *allocator, uint32_t cls, EpochId epoch, SlabEpochStats *out);
TSLAB_API SlabThreadStats slab_stats_thread(void);
TSLAB_API bool get_perf_counters(SlabAllocator *allocator, uint32_t cls, PerfCounters *out);
/* As above, for a caller compiled with another version of this header: fills at most `bytes` of *out, and sets members
   that this library does not know to 0. Macros at the end of this header map the names above to these functions; the
   functions of those names fill the structures of version 0.1. */
TSLAB_API bool get_perf_counters_sized(SlabAllocator *allocator, uint32_t cls, PerfCounters *out, size_t bytes);
TSLAB_API bool slab_stats_global_sized(SlabAllocator *allocator, SlabGlobalStats *out, size_t bytes);
TSLAB_API bool slab_stats_class_sized(SlabAllocator *allocator, uint32_t cls, SlabClassStats *out, size_t bytes);
TSLAB_API bool slab_stats_epoch_sized(SlabAllocator *allocator, uint32_t cls, EpochId epoch, SlabEpochStats *out,
                                      size_t bytes);
/* false: out is NULL. */
TSLAB_API bool slab_stats_thread_sized(SlabThreadStats *out, size_t bytes);
/* node: the system's id. false: EINVAL no live allocator, out is NULL, or the process may have no memory on that node;
   ENOTSUP the system has no nodes. Not in signal handlers. Cost: one query for each page, some 0.2 s a GiB. */
TSLAB_API bool slab_stats_node(SlabAllocator *allocator, int node, SlabNodeStats *out);
TSLAB_API bool slab_stats_node_sized(SlabAllocator *allocator, int node, SlabNodeStats *out, size_t bytes);
/* The open and draining epochs, oldest first, at most capacity of them. Returns how many there are.
   Domains that several threads made within milliseconds are in any order. */
TSLAB_API size_t slab_epochs(SlabAllocator *allocator, EpochId *out, size_t capacity);

/*
 * The stacks that allocated the live objects, from the samples of the option sample_stacks. One row for each stack,
 * label and state of the epoch, most bytes first, at most capacity rows. epoch EPOCH_NONE: all epochs.
 * Returns how many rows there are; 0: none, no such allocator (EINVAL), or no memory for the moment (ENOMEM).
 * out may be NULL if capacity is 0. The estimates are unbiased; they are too low if samples had no room
 * (stack_samples_dropped).
 * Threads: any, at any time, in a signal handler too; no lock is taken. Cost: 0.1 us for each sample.
 */
TSLAB_API size_t slab_stacks(SlabAllocator *allocator, EpochId epoch, SlabStackSample *out, size_t capacity);
/*
 * The stacks of all allocations since sampling began, live or freed. One row for each stack and label, in no order, at
 * most capacity rows. The figures only rise. The process has room for 4096 stacks.
 * Returns how many rows there are; 0: none, or no such allocator (EINVAL).
 * Threads: as slab_stacks. Cost: proportional to 4096 table entries.
 */
TSLAB_API size_t slab_stack_totals(SlabAllocator *allocator, SlabStackTotal *out, size_t capacity);

typedef enum SlabEpochOrder {
    SLAB_EPOCHS_LARGEST = 0, /* by slab_count */
    SLAB_EPOCHS_OLDEST = 1,
} SlabEpochOrder;

/* Renderers write text as snprintf does: at most capacity bytes, always with a terminating zero if capacity is not 0.
   They return the length of the whole text. buffer may be NULL if capacity is 0. They use neither stdio nor malloc.
   0: no live allocator (EINVAL), or no memory for the snapshot, which is mapped for the moment (ENOMEM). */
TSLAB_API size_t slab_stats_json(SlabAllocator *allocator, char *buffer, size_t capacity);
TSLAB_API size_t slab_stats_prometheus(SlabAllocator *allocator, char *buffer, size_t capacity);
TSLAB_API size_t slab_stats_text(SlabAllocator *allocator, char *buffer, size_t capacity);
/* The metrics of slab_stats_prometheus in the OpenMetrics format. */
TSLAB_API size_t slab_stats_openmetrics(SlabAllocator *allocator, char *buffer, size_t capacity);
/* JSON of the `limit` largest or oldest epochs, with all their fields. */
TSLAB_API size_t slab_stats_epochs_json(SlabAllocator *allocator, SlabEpochOrder order, size_t limit, char *buffer,
                                        size_t capacity);
/* Findings in words, worst first, each with its evidence and advice. The JSON has them, too. Growth is found with
   TSLAB_SHM=1, and where libtslab-http serves the allocator. Without them the first call of this function or
   slab_stats_json begins a history, and each later call of a renderer adds to it. */
TSLAB_API size_t slab_stats_doctor(SlabAllocator *allocator, char *buffer, size_t capacity);
/* The largest sampled stacks, as slab_stacks, as text and as JSON (`stacks` in slab_stats_json). Each address has
   its program or library and its offset in the file. */
TSLAB_API size_t slab_stacks_text(SlabAllocator *allocator, char *buffer, size_t capacity);
TSLAB_API size_t slab_stacks_json(SlabAllocator *allocator, char *buffer, size_t capacity);
/* The binary snapshot of the page of TSLAB_SHM=1, for the project's own tools of the same version: at most capacity
   bytes. Returns its size. */
TSLAB_API size_t slab_stats_view(SlabAllocator *allocator, char *buffer, size_t capacity);
/* The live allocators of the process, at most capacity of them. Returns how many there are. */
TSLAB_API size_t slab_allocators(SlabAllocator **out, size_t capacity);
/* Writes slab_stats_text to a file descriptor. Can be called in a signal handler.
   false with errno: no live allocator, no memory for the snapshot, or a write failed.
   Cost: about 3.7 MB mapped for the moment, 5 MB more with sample_stacks. */
TSLAB_API bool slab_stats_dump_fd(SlabAllocator *allocator, int fd);

#ifndef TSLAB_BUILDS
static inline SlabThreadStats slab_stats_thread_here(void) {
    SlabThreadStats stats;
    (void)slab_stats_thread_sized(&stats, sizeof stats);
    return stats;
}
#define slab_stats_global(allocator, out) slab_stats_global_sized((allocator), (out), sizeof(SlabGlobalStats))
#define slab_stats_class(allocator, cls, out) slab_stats_class_sized((allocator), (cls), (out), sizeof(SlabClassStats))
#define slab_stats_epoch(allocator, cls, epoch, out) \
    slab_stats_epoch_sized((allocator), (cls), (epoch), (out), sizeof(SlabEpochStats))
#define get_perf_counters(allocator, cls, out) get_perf_counters_sized((allocator), (cls), (out), sizeof(PerfCounters))
#define slab_stats_thread() slab_stats_thread_here()
#define slab_stats_node(allocator, node, out) slab_stats_node_sized((allocator), (node), (out), sizeof(SlabNodeStats))
#endif

#ifdef __cplusplus
}
#endif

#endif
