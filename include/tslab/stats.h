/*
 * Statistics of temporal-slab. docs/stats.md explains every field: unit, meaning, when to worry.
 *
 * The counters are the ones that the allocator works by. Each thread writes its own; who asks gets their sum.
 * These identities hold exactly at a quiet point, when no other thread is inside a call:
 *     allocated_objects_total - freed_objects_total == live_objects     per class, per epoch, and in all
 *     live_bytes <= committed_bytes
 *     committed_bytes == (bytes of slabs in use) + retained_bytes
 * While other threads run, the first holds in each structure, counters never go back, and none is above the truth.
 * More: man 3 tslab.
 *
 * Threads: any, at any time. No lock is taken that an allocation can wait for.
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
    uint64_t slow_path_hits;             /* allocations that needed a slab looked for */
    uint64_t new_slab_count;             /* slabs taken into use */
    uint64_t slow_path_cache_miss;       /* of these, found in no retained cache: fresh memory */
    uint64_t slow_path_epoch_closed;     /* allocations refused: the epoch was not active (whole allocator) */
    uint64_t list_move_partial_to_full;  /* slabs whose last free slot was claimed; scope slabs used up */
    uint64_t list_move_full_to_partial;  /* of churn epochs, full no more: a slot came back, or the end */
    uint64_t current_partial_null;       /* allocations that no slab of the thread served, but one of an ended thread */
    uint64_t current_partial_full;       /* allocations that found all slabs of the thread full, while other threads
                                            had freed in them */
    uint64_t empty_slab_recycled;        /* slabs in use no more: empty, or of an epoch that has ended */
    uint64_t empty_slab_overflowed;      /* units given back to the system (whole allocator) */
    uint64_t madvise_calls;              /* purge calls (whole allocator) */
    uint64_t madvise_bytes;              /* bytes purged */
    uint64_t madvise_failures;           /* purges that the system refused */
    uint64_t epoch_close_calls;          /* epochs closed by a call: epoch_close, epoch_advance,
                                            epoch_domain_force_close (whole allocator) */
    uint64_t epoch_close_scanned_slabs;  /* slabs looked at by them */
    uint64_t epoch_close_recycled_slabs; /* of these, empty and taken back */
    uint64_t epoch_close_total_ns;       /* time in them */
    uint64_t lock_fast_acquire;          /* slow-path locks got at once (whole allocator) */
    uint64_t lock_contended;             /* slow-path locks waited for */
    uint64_t foreign_free_cas_retries;   /* foreign frees that met another writer of the same word */
    uint64_t foreign_frees;              /* objects freed by a thread that does not own their slab */
    uint64_t live_objects;
    uint64_t live_bytes;      /* slots of live objects */
    uint64_t committed_bytes; /* slabs in use */
    uint64_t allocated_objects_total;
    uint64_t freed_objects_total;  /* including those freed by a destroy */
    uint64_t rejected_frees_total; /* frees, handles and reallocs answered false (whole allocator) */
    uint64_t cache_size;           /* retained empty slabs (whole allocator) */
    uint64_t cache_capacity;       /* retain budget in slabs, as it is now; 0 with at_once, UINT64_MAX with keep */
    uint64_t total_partial_slabs;  /* slabs with a slot free */
    uint64_t total_full_slabs;     /* slabs with none */
    double recycle_rate_pct;       /* 100 * recycled / (recycled + overflowed); 0 if neither */
} SlabClassStats;
/* "(whole allocator)": counted once per allocator. slab_stats_class gives that figure in every class, slab_stats_global
   gives it once. */

typedef struct SlabEpochStats {
    uint32_t version;
    uint32_t class_index; /* as asked for */
    uint64_t object_size; /* bytes of a slot of that class; 0 where sizes are mixed */
    EpochId epoch_id;
    uint64_t epoch_era; /* how often the epoch's record has been used */
    int32_t state;      /* EPOCH_ACTIVE, EPOCH_CLOSING, EPOCH_CLOSED, EPOCH_SPILLED */
    uint32_t flags;     /* EPOCH_CHURN or EPOCH_SCOPE */
    char label[SLAB_LABEL_BYTES];
    uint64_t open_since_ns; /* monotonic clock; of a domain of one thread it may be some milliseconds early */
    uint64_t age_ns;        /* of one that has ended: from its opening to its end; 0: its end was not timed */
    uint64_t live_objects;
    uint64_t alloc_count; /* the same figure as live_objects */
    uint64_t live_bytes;
    uint64_t allocated_objects_total; /* of a draining epoch without those of threads whose objects are all freed */
    uint64_t freed_objects_total;     /* likewise */
    uint64_t slab_count;              /* units of 16 KiB in use */
    uint64_t partial_slab_count;
    uint64_t full_slab_count;
    uint64_t estimated_rss_bytes;    /* slab_count in bytes: an upper bound of what is resident */
    uint64_t reclaimable_slab_count; /* slabs without a live object */
    uint64_t reclaimable_bytes;
    uint64_t rss_before_close; /* bytes; 0 unless the option record_rss is on. Of one that was destroyed without a
                                  close: before its end, and after it */
    uint64_t rss_after_close;
    uint64_t closing_for_ns; /* since its close; 0 while it is active. Of one that has ended: how long it drained */
    EpochId parent_epoch_id; /* of the domain whose child its domain is; EPOCH_NONE: of none */
    uint64_t limit_bytes;    /* 0: none; see epoch_set_limit */
    uint64_t limit_failures_total; /* allocations refused by that limit */
    uint64_t returned_bytes;       /* slabs that it held at its close and has given back since; of one that was
                                      destroyed without a close, all that it held */
    uint64_t ended_for_ns;         /* since its end; 0: it has not ended. Since its opening, where that was not timed */
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
    uint64_t committed_bytes; /* slabs in use and retained ones: what the budget limits */
    uint64_t allocated_objects_total;
    uint64_t freed_objects_total;
    uint64_t rejected_frees_total;
    uint64_t cache_size;
    uint64_t cache_capacity;
    uint64_t total_partial_slabs;
    uint64_t total_full_slabs;
    double recycle_rate_pct;
    uint64_t resident_bytes;        /* of the whole process, measured now */
    uint64_t metadata_bytes;        /* accessible for tables, of the whole process; less of it is resident */
    uint64_t reserved_bytes;        /* address space, of the whole process; no memory by itself */
    uint64_t budget_bytes;          /* 0: none */
    uint64_t retained_bytes;        /* retained empty slabs, and left_bytes */
    uint64_t stack_samples_taken;   /* call stacks, by the option sample_stacks */
    uint64_t stack_samples_dropped; /* of these, without a place in the table */
    uint64_t process_lock_waits;    /* for any lock of the core, in the whole process */
    uint64_t
        epoch_left_total;  /* how often the end of an epoch left memory to a thread that was in the middle of a call */
    uint64_t left_bytes;   /* slabs of epochs that have ended, which such a thread has yet to take apart */
    uint64_t region_bytes; /* address space for objects of up to 32 MiB, of the whole process */
    uint64_t region_used_bytes;         /* of it, taken */
    uint64_t allocation_failures_total; /* with ENOMEM: no memory, beyond the budget or a limit */
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
    uint64_t committed_bytes;    /* slabs in use and retained ones that were asked for from the node (the option numa,
                                    epoch_bind); of those that are spread over all nodes, its share */
    uint64_t resident_bytes;     /* what the system says is there of all the allocator's memory; not counted is
                                    what each thread keeps retained for itself, 2 MiB at most */
    uint64_t foreign_bytes;      /* asked for from this node, and resident on another */
    uint64_t remote_frees_total; /* objects of this node that were freed by threads which run on another. Counted when
                                    the slab's owner collects them, by the node of who freed first there */
} SlabNodeStats;

#define SLAB_STACK_FRAMES 24

/* The live objects of one call stack, estimated from the samples of the option sample_stacks. */
typedef struct SlabStackSample {
    uint32_t version;
    uint32_t frame_count;
    EpochId epoch_id;  /* EPOCH_NONE: of several epochs with that label */
    int32_t state;     /* of the epochs: EPOCH_ACTIVE or EPOCH_CLOSING */
    uint32_t reserved; /* 0 */
    char label[SLAB_LABEL_BYTES];
    uint64_t samples;      /* sampled objects that are live: the estimates' error is about 1 / sqrt(samples) */
    uint64_t live_objects; /* estimated */
    uint64_t live_bytes;   /* estimated, as in SlabEpochStats */
    uint64_t frames[SLAB_STACK_FRAMES]; /* return addresses, innermost first, from the caller of this library on; the
                                             call is before the address. Outer frames beyond the count are left out. */
} SlabStackSample;

/* All objects that one call stack ever allocated, freed since or not, estimated from the same samples. */
typedef struct SlabStackTotal {
    uint32_t version;
    uint32_t frame_count;         /* 0: what found no room, all stacks together; the label is then "(dropped)" */
    char label[SLAB_LABEL_BYTES]; /* of the epochs at that time; "(other)": there were too many labels */
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
   whole epoch. An ended one has the state EPOCH_CLOSED and no live figures. Its end is timed to some milliseconds; not
   timed is that of a domain without a label that only its own thread was in. Some that ended before may be known,
   too. */
TSLAB_API bool slab_stats_epoch(SlabAllocator *allocator, uint32_t cls, EpochId epoch, SlabEpochStats *out);
TSLAB_API SlabThreadStats slab_stats_thread(void);
TSLAB_API bool get_perf_counters(SlabAllocator *allocator, uint32_t cls, PerfCounters *out);
/* The same for structures of another length. bytes: of *out. A program compiled with an older or newer header gets the
   members that both know, and 0 in those that this library does not know. The macros at the end of this header make the
   names above mean these; the functions of those names fill the structures as they were in version 0.1. */
TSLAB_API bool get_perf_counters_sized(SlabAllocator *allocator, uint32_t cls, PerfCounters *out, size_t bytes);
TSLAB_API bool slab_stats_global_sized(SlabAllocator *allocator, SlabGlobalStats *out, size_t bytes);
TSLAB_API bool slab_stats_class_sized(SlabAllocator *allocator, uint32_t cls, SlabClassStats *out, size_t bytes);
TSLAB_API bool slab_stats_epoch_sized(SlabAllocator *allocator, uint32_t cls, EpochId epoch, SlabEpochStats *out,
                                      size_t bytes);
/* false: out is NULL. */
TSLAB_API bool slab_stats_thread_sized(SlabThreadStats *out, size_t bytes);
/* Of a node: an id as the system has it. false: EINVAL no live allocator, out is NULL, or the process may have no
   memory on such a node; ENOTSUP the system knows no nodes. Not in signal handlers.
   Cost: the system is asked for every page of the allocator: some 0.2 s a GiB. */
TSLAB_API bool slab_stats_node(SlabAllocator *allocator, int node, SlabNodeStats *out);
TSLAB_API bool slab_stats_node_sized(SlabAllocator *allocator, int node, SlabNodeStats *out, size_t bytes);
/* The open and draining epochs, oldest first, at most capacity of them. Returns how many there are.
   Domains that several threads made within milliseconds are in any order. */
TSLAB_API size_t slab_epochs(SlabAllocator *allocator, EpochId *out, size_t capacity);

/*
 * Which lines allocated what is live, by the samples of the option sample_stacks. One row for each stack, label and
 * state of the epoch, most bytes first, at most capacity of them. epoch EPOCH_NONE: all epochs.
 * Returns how many rows there are; 0: none, no such allocator (EINVAL), or no memory for the moment (ENOMEM).
 * out may be NULL if capacity is 0. The estimates are unbiased; they are too low if samples had no room
 * (stack_samples_dropped).
 * Threads: any, at any time, in a signal handler too; no lock is taken. Cost: 0.1 us for each sample.
 */
TSLAB_API size_t slab_stacks(SlabAllocator *allocator, EpochId epoch, SlabStackSample *out, size_t capacity);
/*
 * Which lines allocated how much since sampling began, freed since or not. One row for each stack and label, in no
 * order, at most capacity of them. The figures only rise. The process has room for 4096 stacks.
 * Returns how many rows there are; 0: none, or no such allocator (EINVAL).
 * Threads: as slab_stacks. Cost: a look at 4096 places.
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
/* The same metrics as slab_stats_prometheus in the format OpenMetrics. */
TSLAB_API size_t slab_stats_openmetrics(SlabAllocator *allocator, char *buffer, size_t capacity);
/* JSON of the `limit` largest or oldest epochs, with all their fields. */
TSLAB_API size_t slab_stats_epochs_json(SlabAllocator *allocator, SlabEpochOrder order, size_t limit, char *buffer,
                                        size_t capacity);
/* What is wrong, in words, worst first; each with its evidence and advice. The findings are in the JSON too.
   What grows is found with TSLAB_SHM=1. Without it the first call of this function or slab_stats_json begins a history,
   and each later call of a renderer adds to it. */
TSLAB_API size_t slab_stats_doctor(SlabAllocator *allocator, char *buffer, size_t capacity);
/* The largest sampled stacks, as slab_stacks, as text and as JSON (the part `stacks` of slab_stats_json). Each address
   has its program or library and its place in the file. */
TSLAB_API size_t slab_stacks_text(SlabAllocator *allocator, char *buffer, size_t capacity);
TSLAB_API size_t slab_stacks_json(SlabAllocator *allocator, char *buffer, size_t capacity);
/* The snapshot as the page of TSLAB_SHM=1 has it, for the project's own tools of the same version. It is not text: at
   most capacity bytes. Returns its size. */
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
