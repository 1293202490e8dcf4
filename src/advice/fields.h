/*
 * The one list of all figures. From it come the JSON keys, the names of the metrics, the text view and docs/stats.md
 * (tools/stats_docs/stats_docs.c, compared by a test). figures.c and a test (unit/observe/conservation_test.c) compare
 * it with the structures.
 *
 *     X(field, type, scope, unit, metric, meaning, worry)
 *
 * field   its name in the structure, and its JSON key.
 * type    COUNTER only rises. GAUGE goes both ways.
 * scope   CLASS is counted per class; WHOLE once per allocator, and given in every class.
 * unit    COUNT, BYTES, SLABS (units of 16 KiB), NS, PERCENT, ID, RATIO (kept in thousandths, shown as a number).
 * metric  its name after temporal_slab_, without _total; "" where no metric of its own makes sense.
 * meaning, worry  what it says, and when it says that something is wrong. "" if it never does by itself.
 */
#ifndef TS_ADVICE_FIELDS_H
#define TS_ADVICE_FIELDS_H

typedef enum ts_field_type { TS_COUNTER, TS_GAUGE } ts_field_type;
typedef enum ts_field_scope { TS_SCOPE_CLASS, TS_SCOPE_WHOLE } ts_field_scope;
typedef enum ts_field_unit { TS_COUNT, TS_BYTES, TS_SLABS, TS_NS, TS_PERCENT, TS_ID, TS_RATIO } ts_field_unit;

/* clang-format off */
/* PerfCounters. */
#define TS_STATS_PERF(X)                                                                                               \
    X(slow_path_hits, COUNTER, CLASS, COUNT, "",                                                                       \
      "Allocations that found nothing free in the thread's magazine and slabs and needed a slab looked for.",          \
      "Many more than the slabs that the objects fill: epochs of few objects; see the doctor's slow_paths.")           \
    X(new_slab_count, COUNTER, CLASS, SLABS, "slabs_allocated", "Slabs taken into use.",                               \
      "Rising in a steady state: something grows, or slabs go back and forth; see empty_slab_recycled.")               \
    X(slow_path_cache_miss, COUNTER, CLASS, SLABS, "slow_path_cache_misses",                                           \
      "Slabs of fresh memory, with its page faults: no retained slab was there.",                                      \
      "Rising in a steady state: raise retain_bytes, or call slab_reserve.")                                           \
    X(slow_path_epoch_closed, COUNTER, WHOLE, COUNT, "slow_path_epoch_closed",                                         \
      "Allocations refused because the epoch was not active.",                                                         \
      "Any: the program allocates in epochs that it has closed.")                                                      \
    X(list_move_partial_to_full, COUNTER, CLASS, SLABS, "list_moves_partial_to_full",                                  \
      "Slabs whose last free slot was claimed; of scopes, slabs followed by another one.", "")                         \
    X(list_move_full_to_partial, COUNTER, CLASS, SLABS, "list_moves_full_to_partial",                                  \
      "Full slabs of which a slot came back, or whose epoch ended; of churn epochs only.", "")                         \
    X(current_partial_null, COUNTER, CLASS, COUNT, "current_partial_null",                                             \
      "Allocations that no slab of the thread served, but the slab of a thread that has ended.", "")                   \
    X(current_partial_full, COUNTER, CLASS, COUNT, "current_partial_full",                                             \
      "Allocations that found all slabs of the thread full, and then a slot in them that another thread had freed.",   \
      "")

#define TS_STATS_COUNTERS(X)                                                                                           \
    TS_STATS_PERF(X)                                                                                                   \
    X(empty_slab_recycled, COUNTER, CLASS, SLABS, "slabs_recycled",                                                    \
      "Slabs that became empty, or whose epoch ended.", "")                                                            \
    X(empty_slab_overflowed, COUNTER, WHOLE, SLABS, "slabs_overflowed",                                                \
      "Units given back to the system, because the retained cache was over its budget, at a trim, or by policy.",      \
      "Rising as fast as slow_path_cache_miss: memory goes back and is fetched again; raise retain_bytes.")            \
    X(madvise_calls, COUNTER, WHOLE, COUNT, "madvise_calls", "Purge calls to the system.",                             \
      "Hundreds a second: raise retain_bytes, or reclaim_policy is at_once.")                                          \
    X(madvise_bytes, COUNTER, WHOLE, BYTES, "madvise_bytes", "Bytes purged.", "")                                      \
    X(madvise_failures, COUNTER, WHOLE, COUNT, "madvise_failures", "Purges that the system refused.",                  \
      "Any: locked memory (mlockall), or a system that is short of map entries. The memory stays resident.")           \
    X(epoch_close_calls, COUNTER, WHOLE, COUNT, "epoch_close_calls",                                                   \
      "Epochs closed by epoch_close, epoch_advance or epoch_domain_force_close.", "")                                  \
    X(epoch_close_scanned_slabs, COUNTER, WHOLE, SLABS, "epoch_close_scanned_slabs", "Slabs that closing looked at.",  \
      "")                                                                                                              \
    X(epoch_close_recycled_slabs, COUNTER, WHOLE, SLABS, "epoch_close_recycled_slabs",                                 \
      "Slabs that closing found empty and took back.",                                                                 \
      "Far below the scanned ones: objects outlive their phase and keep its slabs.")                                   \
    X(epoch_close_total_ns, COUNTER, WHOLE, NS, "epoch_close_seconds", "Time spent closing epochs, purges included.",  \
      "Per call above a millisecond: purges; raise retain_bytes.")                                                     \
    X(lock_fast_acquire, COUNTER, WHOLE, COUNT, "lock_fast_acquires",                                                  \
      "Locks of the allocator (rolling epoch, retained cache) got at once. No fast path takes one.", "")               \
    X(lock_contended, COUNTER, WHOLE, COUNT, "lock_contended",                                                         \
      "Locks of the allocator (rolling epoch, retained cache) waited for.",                                            \
      "More than a hundredth of lock_fast_acquire: threads share one retained cache that is too small.")               \
    X(foreign_free_cas_retries, COUNTER, WHOLE, COUNT, "foreign_free_cas_retries",                                     \
      "Foreign frees that met another writer of the same word and tried again.",                                       \
      "More than a tenth of foreign_frees: several threads free neighbouring objects of another thread.")              \
    X(foreign_frees, COUNTER, CLASS, COUNT, "foreign_frees",                                                           \
      "Objects freed by a thread that does not own their slab; including those that the owner has not yet collected "  \
      "(but for those of an epoch that was destroyed before, if no look counted them).",                               \
      "Most of all frees: each is an atomic operation; let the thread that allocates free.")                           \
    X(allocated_objects_total, COUNTER, CLASS, COUNT, "allocated_objects", "Objects ever allocated.", "")              \
    X(freed_objects_total, COUNTER, CLASS, COUNT, "freed_objects",                                                     \
      "Objects ever freed, one by one or by the end of their epoch.", "")                                              \
    X(rejected_frees_total, COUNTER, WHOLE, COUNT, "rejected_frees",                                                   \
      "Frees, handles and reallocs answered false: not a live object of this allocator.",                              \
      "Any: a double free or a stale pointer in the program. Set TSLAB_ON_MISUSE=report or abort to find it.")

#define TS_STATS_GAUGES(X)                                                                                             \
    X(live_objects, GAUGE, CLASS, COUNT, "live_objects", "Objects allocated and not freed.",                           \
      "Rising without end: see which epoch label holds them.")                                                         \
    X(live_bytes, GAUGE, CLASS, BYTES, "live_bytes", "Bytes of their slots.",                                          \
      "Far below committed_bytes for long: few objects keep many slabs.")                                              \
    X(committed_bytes, GAUGE, CLASS, BYTES, "slab_bytes",                                                              \
      "Of a class: slabs in use. In the global structure: slabs in use and retained ones, which is what the budget "   \
      "limits; there the metric is committed_bytes.",                                                                  \
      "Near budget_bytes: allocations will fail with ENOMEM.")                                                         \
    X(cache_size, GAUGE, WHOLE, SLABS, "cache_slabs", "Retained empty slabs.", "")                                     \
    X(cache_capacity, GAUGE, WHOLE, SLABS, "cache_capacity_slabs",                                                     \
      "The retain budget in slabs as it is now; each thread keeps up to 128 more. 0: at_once, 2^64 - 1: keep.", "")    \
    X(total_partial_slabs, GAUGE, CLASS, SLABS, "partial_slabs", "Slabs with a free slot.",                            \
      "Most of all slabs while little is live: fragmentation by objects that outlive their neighbours.")               \
    X(total_full_slabs, GAUGE, CLASS, SLABS, "full_slabs", "Slabs without a free slot.", "")

#define TS_STATS_RATE(X)                                                                                               \
    X(recycle_rate_pct, GAUGE, CLASS, PERCENT, "",                                                                     \
      "100 * recycled / (recycled + overflowed); 0 if neither.", "Below 90 in a steady state: raise retain_bytes.")

/* In SlabClassStats and SlabGlobalStats alike; recycle_rate_pct is a double, the others are uint64_t. */
#define TS_STATS_SHARED(X) TS_STATS_COUNTERS(X) TS_STATS_GAUGES(X) TS_STATS_RATE(X)

/* SlabGlobalStats alone has these. */
#define TS_STATS_GLOBAL(X)                                                                                             \
    X(current_epoch, GAUGE, WHOLE, ID, "", "The rolling epoch; 0 before its first use.", "")                           \
    X(active_epoch_count, GAUGE, WHOLE, COUNT, "active_epochs", "Epochs that are open.",                               \
      "Rising without end: epochs or domains are opened and never closed.")                                            \
    X(closing_epoch_count, GAUGE, WHOLE, COUNT, "closing_epochs", "Epochs that are closed and still hold objects.",    \
      "Rising without end: each holds objects that somebody forgot.")                                                  \
    X(resident_bytes, GAUGE, WHOLE, BYTES, "rss_bytes", "Resident memory of the whole process, measured at the "       \
      "snapshot.",                                                                                                     \
      "Far above committed_bytes: the memory is not temporal-slab's.")                                                 \
    X(metadata_bytes, GAUGE, WHOLE, BYTES, "metadata_bytes", "Accessible memory of tables, in the whole process.",     \
      "More than a tenth of committed_bytes, with handles more than a fifth: very many epochs or threads, or "         \
      "alignments of MiB, which skip addresses.")                                                                      \
    X(reserved_bytes, GAUGE, WHOLE, BYTES, "reserved_bytes", "Address space of the whole process. No memory by "       \
      "itself.", "")                                                                                                   \
    X(budget_bytes, GAUGE, WHOLE, BYTES, "budget_bytes", "The hard limit; 0: none.", "")                               \
    X(retained_bytes, GAUGE, WHOLE, BYTES, "retained_bytes", "Retained empty slabs in bytes, and left_bytes.", "")     \
    X(stack_samples_taken, COUNTER, WHOLE, COUNT, "stack_samples", "Call stacks taken by the option "                  \
      "sample_stacks.", "")                                                                                            \
    X(stack_samples_dropped, COUNTER, WHOLE, COUNT, "stack_samples_dropped",                                           \
      "Call stacks dropped because 64 places in a row had samples of live objects.",                                   \
      "Any: the sums by stack are too low; raise sample_stacks.")                                                      \
    X(process_lock_waits, COUNTER, WHOLE, COUNT, "process_lock_waits",                                                 \
      "Waits for any lock of the core, in the whole process: those of epochs, heaps and the region included.",         \
      "Rising by thousands a second: threads open, close and destroy epochs, or start and end, all at once.")          \
    X(epoch_left_total, COUNTER, WHOLE, COUNT, "epoch_left",                                                           \
      "How often the end of an epoch left its memory to a thread that was in the middle of a call: one for each "      \
      "such thread. "                                                                                                  \
      "It goes back in that thread's next call, in a later close, or in slab_trim.", "")                               \
    X(left_bytes, GAUGE, WHOLE, BYTES, "left_bytes",                                                                   \
      "Slabs of epochs that have ended which such threads have yet to take apart; part of retained_bytes.",            \
      "For long: a thread has lost its processor in the middle of a call, and does not get it back.")                  \
    X(region_bytes, GAUGE, WHOLE, BYTES, "region_bytes",                                                               \
      "Address space for objects of up to 32 MiB, of the whole process; larger ones have their own where there is "    \
      "room.", "")                                                                                                     \
    X(region_used_bytes, GAUGE, WHOLE, BYTES, "region_used_bytes",                                                     \
      "How much of that is taken, retained memory included.",                                                          \
      "Near region_bytes: allocations fail with ENOMEM.")                                                              \
    X(allocation_failures_total, COUNTER, WHOLE, COUNT, "allocation_failures",                                         \
      "Allocations that failed with ENOMEM: no memory, beyond the budget, or beyond a limit.",                         \
      "Any: the program did not get what it asked for.")

/* SlabEpochStats; state, flags, label and class_index are written apart. No epoch id is ever a label of a metric:
   the metrics are sums by label. */
#define TS_STATS_EPOCH(X)                                                                                              \
    X(epoch_id, GAUGE, WHOLE, ID, "", "The epoch's id; never used again.", "")                                         \
    X(epoch_era, GAUGE, WHOLE, COUNT, "", "How often the record of the epoch has been used.", "")                      \
    X(open_since_ns, GAUGE, WHOLE, NS, "", "Monotonic clock when it was opened; of a domain, some milliseconds "       \
      "early.", "")                                                                                                    \
    X(age_ns, GAUGE, WHOLE, NS, "", "Time since then.", "Beyond the longest phase of the program, with live objects.") \
    X(closing_for_ns, GAUGE, WHOLE, NS, "", "Time since its close; 0 while it is active.",                             \
      "A minute, with live objects: they were forgotten.")                                                             \
    X(live_objects, GAUGE, CLASS, COUNT, "", "Objects allocated in it and not freed.", "")                             \
    X(alloc_count, GAUGE, CLASS, COUNT, "", "The same figure as live_objects.", "")                                    \
    X(live_bytes, GAUGE, CLASS, BYTES, "", "Bytes of their slots.", "")                                                \
    X(allocated_objects_total, COUNTER, CLASS, COUNT, "",                                                              \
      "Objects ever allocated in it, since it was opened or reset. Once it drains, without those of threads whose "    \
      "objects are all freed.",                                                                                        \
      "")                                                                                                              \
    X(freed_objects_total, COUNTER, CLASS, COUNT, "", "Objects ever freed in it.", "")                                 \
    X(slab_count, GAUGE, CLASS, SLABS, "", "Units of 16 KiB in use.", "")                                              \
    X(partial_slab_count, GAUGE, CLASS, SLABS, "", "Units in use with a free slot.", "")                               \
    X(full_slab_count, GAUGE, CLASS, SLABS, "", "Units in use without a free slot; spans have none.", "")              \
    X(estimated_rss_bytes, GAUGE, CLASS, BYTES, "", "slab_count in bytes: an upper bound of what is resident.",        \
      "Many times live_bytes: objects that stay keep whole slabs.")                                                    \
    X(reclaimable_slab_count, GAUGE, CLASS, SLABS, "",                                                                 \
      "Slabs without a live object. They go back at the close, at slab_trim, or when their thread goes on.", "")       \
    X(reclaimable_bytes, GAUGE, CLASS, BYTES, "", "Slabs without a live object, in bytes.", "")                        \
    X(rss_before_close, GAUGE, WHOLE, BYTES, "",                                                                       \
      "Resident memory of the process before its close, or its end without one; 0 unless the option "                  \
      "record_rss is on.", "")                                                                                         \
    X(rss_after_close, GAUGE, WHOLE, BYTES, "", "Resident memory of the process after its close.",                     \
      "Not below the one before: the phase's objects live "                                                            \
      "on.")                                                                                                           \
    X(parent_epoch_id, GAUGE, WHOLE, ID, "", "Epoch of the domain whose child its domain is; 0: of none.", "")         \
    X(limit_bytes, GAUGE, WHOLE, BYTES, "", "Limit on its memory and that of its children; 0: none.", "")              \
    X(limit_failures_total, COUNTER, WHOLE, COUNT, "", "Allocations that this limit refused.",                         \
      "Rising: the work is larger than its limit, or what it has is not freed.")                                       \
    X(returned_bytes, GAUGE, WHOLE, BYTES, "",                                                                         \
      "Slabs that it held at its close and has given back since, to the allocator or the system. Without a close: "    \
      "at its end.",                                                                                                   \
      "Little, long after the close: objects stay behind.")                                                            \
    X(ended_for_ns, GAUGE, WHOLE, NS, "", "Time since its end; 0: it has not ended.", "")

/* SlabThreadStats: one thread, or in JSON and metrics all threads there ever were. */
#define TS_STATS_SAMPLES(X)                                                                                            \
    X(alloc_samples, COUNTER, WHOLE, COUNT, "alloc_samples", "Allocations timed: one in sample_rate.", "")             \
    X(alloc_wall_ns_sum, COUNTER, WHOLE, NS, "alloc_wall_seconds", "Their time on the clock.", "")                     \
    X(alloc_cpu_ns_sum, COUNTER, WHOLE, NS, "alloc_cpu_seconds", "Their time on the processor.", "")                   \
    X(alloc_wait_ns_sum, COUNTER, WHOLE, NS, "alloc_wait_seconds", "wall - cpu: time in which the thread did not "     \
      "run.",                                                                                                          \
      "Most of wall: the tail is the scheduler's or the system's, not the allocator's.")                               \
    X(alloc_wall_ns_max, GAUGE, WHOLE, NS, "alloc_wall_max_seconds",                                                   \
      "The longest timed allocation, on the clock.", "")                                                               \
    X(alloc_cpu_ns_max, GAUGE, WHOLE, NS, "alloc_cpu_max_seconds", "The longest timed allocation, on the processor.",  \
      "Above 100 us: page faults; see slow_path_cache_miss.")                                                          \
    X(free_samples, COUNTER, WHOLE, COUNT, "free_samples", "Frees timed: one in sample_rate.", "")                     \
    X(free_wall_ns_sum, COUNTER, WHOLE, NS, "free_wall_seconds", "Their time on the clock.", "")                       \
    X(free_cpu_ns_sum, COUNTER, WHOLE, NS, "free_cpu_seconds", "Their time on the processor.", "")                     \
    X(free_wait_ns_sum, COUNTER, WHOLE, NS, "free_wait_seconds", "wall - cpu.", "As with allocations.")                \
    X(free_wall_ns_max, GAUGE, WHOLE, NS, "free_wall_max_seconds", "The longest timed free, on the clock.", "")        \
    X(free_cpu_ns_max, GAUGE, WHOLE, NS, "free_cpu_max_seconds", "The longest timed free, on the processor.",          \
      "Above 100 us: purges; see madvise_calls.")

/* Sums over the epochs of one label: the structure ts_label_stats, and `labels` in JSON. */
#define TS_STATS_LABEL(X)                                                                                              \
    X(active_epochs, GAUGE, WHOLE, COUNT, "epochs", "Epochs by label and state.", "")                                  \
    X(closing_epochs, GAUGE, WHOLE, COUNT, "epochs", "Closed epochs with this label that still hold objects.", "")     \
    X(active_age_ns, GAUGE, WHOLE, NS, "epoch_age_seconds",                                                            \
      "Age of the oldest epoch that holds live objects; 0 if none does.",                                              \
      "Beyond the longest phase of that name.")                                                                        \
    X(closing_age_ns, GAUGE, WHOLE, NS, "epoch_age_seconds", "Age of the oldest closed epoch that holds live "         \
      "objects.", "")                                                                                                  \
    X(closing_for_ns, GAUGE, WHOLE, NS, "epoch_closing_seconds",                                                       \
      "Longest time since the close of an epoch that holds live objects.",                                             \
      "A minute: that phase leaks.")                                                                                   \
    X(active_live_objects, GAUGE, WHOLE, COUNT, "epoch_live_objects", "Live objects of the epochs.", "")               \
    X(closing_live_objects, GAUGE, WHOLE, COUNT, "epoch_live_objects", "Live objects of the closed epochs.",           \
      "Rising: that phase leaks.")                                                                                     \
    X(active_live_bytes, GAUGE, WHOLE, BYTES, "epoch_live_bytes", "Bytes of these objects' slots.", "")                \
    X(closing_live_bytes, GAUGE, WHOLE, BYTES, "epoch_live_bytes", "Bytes of the slots of the closed epochs.",         \
      "Rising.")                                                                                                       \
    X(active_rss_bytes, GAUGE, WHOLE, BYTES, "epoch_estimated_rss_bytes", "Slabs of the epochs in bytes.", "")         \
    X(closing_rss_bytes, GAUGE, WHOLE, BYTES, "epoch_estimated_rss_bytes", "Slabs of the closed epochs in bytes.",     \
      "Rising.")                                                                                                       \
    X(spilled_epochs, GAUGE, WHOLE, COUNT, "epochs", "Closed epochs whose memory is in zones; not among the closed "   \
      "ones here.", "")                                                                                                \
    X(spilled_live_objects, GAUGE, WHOLE, COUNT, "epoch_live_objects", "Their live objects.", "")                      \
    X(spilled_live_bytes, GAUGE, WHOLE, BYTES, "epoch_live_bytes", "Bytes of these objects' slots.", "")               \
    X(spilled_bytes, GAUGE, WHOLE, BYTES, "epoch_spilled_bytes", "Slabs of spilled epochs, which take no memory.", "")

/* SlabNodeStats, beside `node`. COUNTED: each row of `nodes` in JSON has them, too, and so have the
   metrics with the label `node`. The system is asked for the others, page by page. */
#define TS_STATS_NODE_COUNTED(X)                                                                                       \
    X(committed_bytes, GAUGE, WHOLE, BYTES, "node_committed_bytes",                                                    \
      "Slabs in use and retained ones that were asked for from the node; of memory spread over all nodes, its share.", \
      "")                                                                                                              \
    X(remote_frees_total, COUNTER, WHOLE, COUNT, "node_remote_frees",                                                  \
      "Objects of this node freed by threads that run on another; counted when the slab's owner collects "             \
      "them, by the node of the thread that freed first there.",                                                       \
      "Most of all frees: the threads that allocate and those that free are on different nodes.")
#define TS_STATS_NODE_ASKED(X)                                                                                         \
    X(resident_bytes, GAUGE, WHOLE, BYTES, "",                                                                         \
      "Resident memory of the allocator, without the units that threads retain for themselves.", "")                   \
    X(foreign_bytes, GAUGE, WHOLE, BYTES, "", "Asked for from this node, and resident on another.",                    \
      "A tenth of committed_bytes: the node has no memory left.")
#define TS_STATS_NODE(X) TS_STATS_NODE_COUNTED(X) TS_STATS_NODE_ASKED(X)

/* Zones that are open, as libtslab-zones writes them: the structure ts_zones_stats, and `zones` in JSON. Those of
   the states are one metric with the label `state`. */
#define TS_STATS_ZONE_STATES(X)                                                                                        \
    X(empty_zones, GAUGE, WHOLE, COUNT, "zones",                                                                       \
      "Zones by state: empty, active (begun and not full), full, failed.",                                             \
      "Near 0: epoch_spill will fail with ENOSPC.")                                                                    \
    X(active_zones, GAUGE, WHOLE, COUNT, "zones", "Zones that are begun and not full; the device has them open or "    \
      "closed.", "")                                                                                                   \
    X(full_zones, GAUGE, WHOLE, COUNT, "zones", "Zones that take no more until they are reset.", "")                   \
    X(failed_zones, GAUGE, WHOLE, COUNT, "zones", "Zones that are read-only, offline, or given up after an error.",    \
      "Any: the device wears out.")
#define TS_STATS_ZONE_FIGURES(X)                                                                                       \
    X(zones, GAUGE, WHOLE, COUNT, "", "Zones of the device.", "")                                                      \
    X(shared_zones, GAUGE, WHOLE, COUNT, "zones_shared", "Zones with slabs of more than one epoch.", "")               \
    X(waiting_zones, GAUGE, WHOLE, COUNT, "zones_waiting",                                                             \
      "Zones without a slab that is needed: the next calls on the zones reset them.", "")                              \
    X(spilled_epochs, GAUGE, WHOLE, COUNT, "zones_spilled_epochs", "Epochs whose slabs are there now.", "")            \
    X(spilled_bytes, GAUGE, WHOLE, BYTES, "zones_spilled_bytes", "Bytes of these slabs.", "")                          \
    X(kept_bytes, GAUGE, WHOLE, BYTES, "zones_kept_bytes", "What has stayed in memory of these epochs: the first "     \
      "slabs of small scopes, up to 1 KiB each.", "")                                                                  \
    X(appended_bytes, COUNTER, WHOLE, BYTES, "zones_appended_bytes", "Written to the device; what a failed spill "     \
      "wrote included.", "")                                                                                           \
    X(payload_bytes, COUNTER, WHOLE, BYTES, "zones_payload_bytes", "Bytes of the slabs that were spilled.", "")        \
    X(padding_bytes, COUNTER, WHOLE, BYTES, "zones_padding_bytes", "What zones had left that were finished before "    \
      "they were full.",                                                                                               \
      "Rising as fast as the payload: more lifetimes than the device has active zones.")                               \
    X(reset_zones_total, COUNTER, WHOLE, COUNT, "zones_resets", "Zones that were reset, those of the opening "         \
      "apart.", "")                                                                                                    \
    X(reset_filled_bytes_total, COUNTER, WHOLE, BYTES, "zones_reset_filled_bytes",                                     \
      "Bytes in zones at their reset.", "")                                                                            \
    X(reclaimed_zones, COUNTER, WHOLE, COUNT, "zones_reclaimed", "Zones that the opening found written, and "          \
      "emptied.", "")                                                                                                  \
    X(spills_total, COUNTER, WHOLE, COUNT, "zones_spills", "Epochs spilled.", "")                                      \
    X(loads_total, COUNTER, WHOLE, COUNT, "zones_loads", "Epochs loaded.", "")                                         \
    X(reads_total, COUNTER, WHOLE, COUNT, "zones_reads", "Objects read by slab_zones_read.", "")                       \
    X(errors_total, COUNTER, WHOLE, COUNT, "zones_errors", "Calls that the device refused.", "Any: the device fails.") \
    X(zone_bytes, GAUGE, WHOLE, BYTES, "zones_zone_bytes", "Size of a zone.", "")                                      \
    X(capacity_bytes, GAUGE, WHOLE, BYTES, "zones_capacity_bytes", "Bytes of a zone that can be written.", "")         \
    X(write_amplification, GAUGE, WHOLE, RATIO, "zones_write_amplification",                                           \
      "(appended_bytes + padding_bytes) / payload_bytes; 0: nothing was spilled.",                                     \
      "Above 1.1: spills fail half way, or zones are finished early.")                                                 \
    X(fill_at_reset, GAUGE, WHOLE, RATIO, "zones_fill_at_reset",                                                       \
      "reset_filled_bytes_total / (reset_zones_total * capacity_bytes): how full zones were at their reset; 0: "       \
      "none was.",                                                                                                     \
      "Far below 1: many devices fill up what is missing themselves.")
#define TS_STATS_ZONES(X) TS_STATS_ZONE_STATES(X) TS_STATS_ZONE_FIGURES(X)

/* SlabStackSample; state, label, frame_count and frames are written apart. */
#define TS_STATS_STACK(X)                                                                                              \
    X(epoch_id, GAUGE, WHOLE, ID, "", "The epoch; 0: several with that label and state.", "")                          \
    X(samples, GAUGE, WHOLE, COUNT, "",                                                                                \
      "Sampled objects that are live: the estimates are off by one in the square root of it.",                         \
      "Below 10: the estimates say little; lower sample_stacks.")                                                      \
    X(live_objects, GAUGE, WHOLE, COUNT, "", "Live objects with that stack, estimated.", "Rising: these lines leak.")  \
    X(live_bytes, GAUGE, WHOLE, BYTES, "", "Bytes of their slots, estimated.", "Rising.")
/* clang-format on */

#endif
