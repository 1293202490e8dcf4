"""The models: the property of each, its runs, the violations it must find when a step is taken out, and the code it stands for.

runs: options of the exhaustive runs. controls: (step, options): with -DWITHOUT_step (for loom: that step weakened) the
checker has to find a violation. functions: the C functions whose steps are modelled; manifest.py watches their text.
"""

MODELS = [
    {
        "name": "foreign",
        "file": "tests/model/foreign.pml",
        "property": "No foreign free is lost and none works twice, on another object, or on one of a destroyed epoch; of the "
                    "frees of one handle one works, whoever owns it; a "
                    "slab is on one queue at most and is not handed on while it is; a late free finds nothing it can break.",
        "bound": "1 slab of 2 slots, 2 freeing threads (one object or two), 3 objects, 4 operations of the owner, 2 resets, "
                 "3 blocks, 1 destroy; sequentially consistent",
        "runs": [["-DOPS=4"], ["-DOPS=4", "-DTAGGED=0"]],
        "controls": [
            ("SECOND_READ", ["-DOPS=4"]), ("ERA", ["-DOPS=4"]), ("BIT_LOOKED_AT", ["-DOPS=4"]),
            ("TAG_AT_FREE", ["-DOPS=4", "-DTAGGED=0"]), ("FLAG_TEST", ["-DOPS=4"]), ("PUSH", ["-DOPS=4"]),
            ("FLAG_AT_RELEASE", ["-DOPS=4"]), ("COUNT", ["-DOPS=4"]), ("BITS_KEPT", ["-DOPS=4"]),
            ("TAG_AT_DRAIN", ["-DOPS=4", "-DTAGGED=0"]), ("STATE_FIRST", ["-DOPS=4"]),
            ("FLAG_OFF_FIRST", ["-DOPS=4"]), ("FLAG_AT_OWN_FREE", ["-DOPS=4"]), ("PENDING", ["-DOPS=4"]),
            ("BIT_AT_EXACT", ["-DOPS=4"]), ("COUNT_AT_EXACT", ["-DOPS=4"]), ("BIT_OFF_AT_EXACT", ["-DOPS=4"]),
            ("ZOMBIES", ["-DOPS=4"]), ("TAG", ["-DOPS=4"]), ("TAG", ["-DOPS=4", "-DTAGGED=0"]),
        ],
        "functions": {
            "src/core/cache/foreign.c": ["push", "queue_slab", "ts_foreign_free", "ts_foreign_queue", "ts_foreign_pending",
                                   "drain_churn", "drain_scope", "free_scope_bits", "take_bits_off", "ts_foreign_drain_some"],
            "src/core/cache/free.h": ["ts_foreign_open"],
            "src/core/slab/slab.h": ["ts_foreign_counted_on", "ts_foreign_is_first", "ts_slab_claim", "ts_slab_claim_clean",
                                "ts_slab_next_use", "ts_slab_clear_bits", "ts_slab_reset_scope"],
            "src/core/slab/slab.c": ["ts_slab_reset_churn"],
            "src/core/cache/bin.c": ["ts_bin_add", "release_slab", "ts_bin_free_bits"],
            "src/core/cache/scope.c": ["release_slab", "ts_scope_renew"],
            "src/core/cache/allocate.h": ["ts_scope_append", "ts_scope_next"],
            "src/core/object/free.c": ["free_own", "free_churn_own", "is_first"],
            "src/core/ownership/block.h": ["ts_block_kill"],
        },
    },
    {
        "name": "hold",
        "file": "tests/model/hold.pml",
        "property": "Close and trim against an owner that allocates without a fence, none of whom waits for it: no slot is lost or "
                    "there twice, no allocation after the close, the holder of a heap finds no half-changed list, and work that a "
                    "closer has to leave is done in the owner's next call, of any kind.",
        "bound": "1 heap, 1 block and another that stays open, 1 operation of the owner (each: fast allocation, fast free, slow "
                 "path) and one call more when the others are done, 1 close, 1 trim; total store order, a store buffer of 6",
        "runs": [[]],
        "controls": [(c, []) for c in (
            "BARRIER", "WAIT", "REVOKED", "REVOKED_AT_ENTER", "REVOKED_AT_CLAIM", "SECOND_BARRIER", "OPEN_AT_ALLOC",
            "SHUT_FIRST", "CALL", "CALLED_AGAIN", "LOOK_AT_DROP", "REVOKED_AT_BIND")] +
            [("KEY_FIRST", ["-DOPS=2"])],
        "functions": {
            "src/core/ownership/thread.h": ["ts_op_begin", "ts_op_end"],
            "src/core/ownership/block.h": ["ts_block_shut"],
            "src/core/ownership/ownership.h": ["ts_heap_enter", "ts_heap_try_enter", "ts_heap_notify_thread"],
            "src/core/ownership/heap.c": ["ts_heap_enter_revoked", "ts_heap_is_quiet", "set_revoked", "let_in", "revoke_heap",
                "hold_locked", "hold_heap", "ts_heap_hold", "ts_heap_notify", "ts_heap_drop", "ts_heap_bind", "ts_heap_bind_private"],
            "src/core/cache/life.c": ["note_answer", "work_off_visited", "ts_heap_run_posted", "answer_own", "ts_heap_drain_inbox", "visit_heap"],
            "src/core/cache/block.c": ["ts_block_flush_if_shut", "ts_heap_post_flush"],
            "src/core/epoch/end.c": ["shut_blocks", "flush_block", "ts_epoch_run_deferred"],
        },
    },
    {
        "name": "bump",
        "file": "tests/model/bump.pml",
        "property": "An allocation in a scope, whose bracket ends with the bump pointer: the thread that ends the block finds no "
                    "half-made object, none is made afterwards, the holder of the heap finds no half-changed list, and a thread "
                    "that sleeps after one can be held.",
        "bound": "1 heap, 1 block, 2 slabs of 2 objects, 3 operations of the owner (each: allocation, with a new slab if need "
                 "be; any other; leaving or entering the domain), 1 destroy, 1 visit; total store order, a store buffer of 6",
        "runs": [[]],
        "controls": [(c, []) for c in (
            "BARRIER", "BRACKET", "OPEN", "BUMP", "OP_AT_RENEW", "OPEN_AT_RENEW", "REVOKED_AT_RENEW")],
        "functions": {
            "src/core/ownership/thread.h": ["ts_op_begin_bump", "ts_is_in_op", "ts_set_scope"],
            "src/core/ownership/heap.c": ["revoke_heap"],
            "src/core/cache/allocate.h": ["ts_fast_bump"],
            "src/core/api/objects.c": ["alloc_missed", "alloc_renewing"],
            "src/core/object/find.h": ["ts_alloc_innermost", "ts_alloc_next_slab"],
        },
    },
    {
        "name": "look",
        "file": "tests/model/look.pml",
        "property": "A look of a thread at a pointer of its own, without an operation: an object that was dead when the look began is "
                    "not taken for live, for any use of its slab by then; one that lives is found while nobody else does anything.",
        "bound": "1 slab of 1 slot, 1 object, 3 operations of the owner (each: look, free), 1 foreign free, 1 trim, 1 close or "
                 "destroy, 1 next use of the slab; sequentially consistent",
        "runs": [[]],
        "controls": [(c, []) for c in ("KEY", "STATE", "SECOND_LOOK", "FLAG", "SHUT_FIRST", "CLAIM")],
        "functions": {
            "src/core/cache/free.h": ["ts_fast_look"],
            "src/core/cache/foreign.c": ["take_slab"],
            "src/core/cache/bin.c": ["release_slab"],
            "src/core/slab/slab.h": ["ts_slab_claim"],
        },
    },
    {
        "name": "exit",
        "file": "tests/model/exit.pml",
        "property": "A thread's end against foreign frees, adoption, destroy, trim and the heap's next thread: no queue and "
                    "no condemned block is left to nobody, a block is in one heap and ends once, and only its heap's holder "
                    "works on it; a heap with blocks is not given to a new thread.",
        "bound": "2 heaps, 1 block, 1 slab; owner, adopter, next thread and one freeing thread, or instead of the last two a "
                 "destroy and a trim; each thread exits or not; and the owner gives the block up, or not, without a next thread; "
                 "sequentially consistent",
        "runs": [["-DDESTROYS=0"], ["-DFREES=0", "-DNEWCOMER=0"], ["-DDESTROYS=0", "-DNEWCOMER=0", "-DGIVES=1"],
                 ["-DFREES=0", "-DNEWCOMER=0", "-DGIVES=1"]],
        "controls": [(c, ["-DDESTROYS=0"]) for c in (
            "SERIAL", "DRAIN_BY_PUSHER", "PASSING_ON", "SETTLE_AGAIN", "LAST_DRAIN", "STATE_AT_ADOPTION")] +
            [(c, ["-DFREES=0", "-DNEWCOMER=0"]) for c in (
                "CALL_AFTER_CONDEMNING", "LOOK_AT_DROP")] +
            [(c, ["-DDESTROYS=0", "-DNEWCOMER=0", "-DGIVES=1"]) for c in ("PASSING_ON_OWN", "DRAIN_BY_PUSHER")],
        "functions": {
            "src/core/cache/life.c": ["ts_heap_exit", "let_go", "ts_heap_run_posted", "visit_heap", "ts_run_deferred"],
            "src/core/ownership/heap.c": ["list_if_unused", "drop_heap", "ts_heap_drop", "make_heap", "ts_heap_make", "hold_heap",
                "ts_heap_notify"],
            "src/core/cache/block.c": ["ts_heap_post_end", "post", "push_left", "end_left", "ts_heap_end_posted_some",
                                 "ts_heap_end_list"],
            "src/core/cache/foreign.c": ["push_on", "ts_foreign_drain_for", "ts_foreign_drain_some"],
            "src/core/epoch/hand_over.c": ["ts_epoch_adopt_block", "disown_blocks", "ts_epoch_disown_blocks", "ts_epoch_disown"],
            "src/core/epoch/end.c": ["end_detached", "end_blocks"],
            "src/core/cache/orphan.c": ["move", "ts_block_disown", "ts_orphans_pass_on"],
        },
    },
    {
        "name": "epoch",
        "file": "tests/model/epoch.pml",
        "property": "An old id never reaches a later use of its record, no id comes back, nothing is taken apart while it is "
                    "pinned, an epoch is given back once, one that drains ends without killing a live object, and one "
                    "that has drained does end.",
        "bound": "1 record opened twice (and 3 times with 2 eras), 1 block, 3 operations of its owner (1), 1 close, 1 "
                 "destroy, ids learned at any time; sequentially consistent",
        "runs": [[], ["-DERAS=2", "-DOPENS=3", "-DOPS=1"]],
        "controls": [(c, []) for c in (
            "SECOND_LOOK", "NEXT_ERA", "PINS", "FLUSHED_FIRST", "FLUSHED", "STATE_AT_JOIN", "FINISH_AT_UNPIN",
            "LOOK_AT_RESET", "HAS_MORE")] +
            [("ERA_LIMIT", ["-DERAS=2", "-DOPENS=3", "-DOPS=1"])],
        "functions": {
            "src/core/region/table.h": ["ts_table_find_strided", "ts_table_next_id", "ts_table_publish", "ts_table_age",
                                   "ts_table_end"],
            "src/core/region/table.c": ["ts_table_take", "ts_table_free"],
            "src/core/epoch/epoch.h": ["ts_epoch_find_locked"],
            "src/core/epoch/blocks.h": ["ts_epoch_add_block", "ts_epoch_begin", "ts_epoch_first_scope", "ts_epoch_show_in_time",
                                   "ts_epoch_only_block", "ts_epoch_enter_only", "ts_epoch_kill_only_block",
                                   "ts_epoch_end_only", "ts_epoch_restart_block"],
            "src/core/domain/domain.c": ["ts_domain_make"],
            "src/core/domain/domain_end.c": ["lock_quiet", "end_usually", "ts_domain_destroy", "ts_domain_reset"],
            "src/core/epoch/epoch.c": ["find_active", "find_or_take_over", "join_unpublished", "ts_epoch_make", "ts_epoch_open", "ts_epoch_join_as"],
            "src/core/epoch/end.c": ["take_apart", "kill_locked", "ts_epoch_destroy", "ts_epoch_destroy_locked", "holds_nothing", "nothing_left", "ts_epoch_finish",
                                "ts_epoch_run_deferred", "ts_epoch_unpin", "ts_epoch_close", "ts_epoch_close_locked"],
            "src/core/cache/block.c": ["ts_block_flush"],
            "src/core/ownership/ownership.h": ["ts_heap_give_record", "ts_heap_keep_record"],
        },
    },
    {
        "name": "record",
        "file": "tests/model/record.pml",
        "property": "An allocator's record is given back once for each use, after its free, its last share and its last "
                    "retained or queued unit, and a share is of the use that it was asked for.",
        "bound": "1 record used twice, 3 threads that make and drop a share each, or settle, with any value given out "
                 "before, 1 unit on a queue; sequentially consistent",
        "runs": [["-DUSES=2"]],
        "controls": [(c, []) for c in (
            "PIN_OF_THE_LIVING_ONLY", "UNPIN_AFTER_THE_SHARE", "LOOK_AFTER_THE_PIN", "PIN_WHILE_GIVING",
            "LOOK_AT_ZERO")],
        "functions": {
            "src/core/supply/share.c": ["ts_heap_share", "ts_heap_drop_dead_shares"],
            "src/core/supply/record.c": ["ts_allocator_pin_use", "ts_allocator_unpin"],
            "src/core/api/runtime.c": ["ts_allocator_make", "ts_allocator_end"],
            "src/core/api/epochs.c": ["slab_allocator_free"],
        },
    },
    {
        "name": "lock",
        "file": "tests/model/lock.pml",
        "property": "One thread has the lock at a time, and nobody sleeps for ever once the others are done.",
        "bound": "3 threads that take it twice each (and 3 times), 1 wake-up for no reason; sequentially consistent",
        "runs": [[], ["-DTIMES=3"]],
        "controls": [(c, []) for c in ("WAITED_AFTER_SLEEP", "SECOND_LOOK", "WAKE", "VALUE")],
        "functions": {"src/core/os/os.h": ["ts_lock_take_free"],
                      "src/core/os/lock.c": ["take_waiting", "give"]},
    },
    {
        "name": "spill",
        "file": "tests/model/spill.pml",
        "property": "A slab that is away is freed in, dies and comes back: no free is lost or works twice, it ends once, with its last "
                    "object if that is freed while it is away, and goes to nobody before it is taken out.",
        "bound": "1 slab of 2 objects; its keeper lends and returns it once; its owner and another thread free one each, or two others the "
                 "same one; sequentially consistent",
        "runs": [[], ["-DDOUBLE"], ["-DLASTING"], ["-DLASTING", "-DDOUBLE"]],
        "controls": [(c, []) for c in ("TAKER", "HOLD", "PUSH", "WAIT")] + [(c, ["-DLASTING"]) for c in ("OWNERS_LOOK", "BIT_FIRST")],
        "functions": {
            "src/core/slab/lent.h": ["ts_is_lent", "ts_lend", "ts_take_lent"],
            "src/core/spill/spilled.c": ["ts_spilled_lend_slab", "take_out_slab", "hold_and_take_out"],
            "src/core/cache/foreign.c": ["ts_foreign_all_freed"],
            "src/core/object/free.c": ["free_once"],
            "src/core/spill/spill.c": ["ts_spill_return"],
        },
    },
    {
        "name": "enter",
        "file": "tests/model/enter.pml",
        "property": "A thread that enters a domain is inside of that one or refused, and counted in no other; none ends with another thread inside; EBUSY "
                    "is because of somebody; the record has one use at a time, and is not lost.",
        "bound": "1 record, 3 uses of it (shared or not), 2 threads with 3 operations each; stores of counts in a buffer of 3, the rest "
                 "sequentially consistent",
        "runs": [["-DOPS=3"], ["-DOPS=3", "-DFREES"]],
        "controls": [(c, ["-DOPS=3"]) for c in ("RETURN", "TAG", "LEFT", "EXCHANGE", "BARRIER", "LOOK_AT_OWNER", "LOOK_AT_BUSY",
                                                "ENDS_ALONE")] + [("LOOK_AT_ID", ["-DOPS=3", "-DFREES"])],
        "functions": {
            "src/core/domain/domain.c": ["begin_domain", "ts_domain_hand_over"],
            "src/core/domain/enter.c": ["count_in_shared", "count_in_own", "ts_domain_count_out", "take_own", "refuse_others",
                                        "enter_slowly", "ts_domain_enter", "leave"],
            "src/core/domain/domain_end.c": ["ts_domain_collect_returned", "last_owner", "end_use", "keep_own_record",
                                            "ts_domain_make_busy", "end_now"],
            "src/core/domain/cleanup.c": ["make_endable"],
            "src/core/domain/domain_tree.c": ["mark", "unmark", "is_another_inside", "mark_all", "ts_domain_end_other"],
            "src/core/domain/tree.c": ["ts_tree_owner", "ts_tree_wait"],
            "src/core/ownership/ownership.h": ["ts_heap_return_record"],
        },
    },
]

ORDERS = "tests/model/orders/src/main.rs"


def order(name, text, controls, functions):
    return {"name": "orders " + name, "file": ORDERS, "property": text, "bound": "see the function `%s`" % name,
            "runs": [[name]], "controls": [(c, [name]) for c in controls.split()], "functions": functions}


MODELS += [
    order("bracket", "in_op, revoked, open_id: the holder of a heap is alone with it, and sees every earlier change.",
          "barrier-at-owner barrier-at-visitor enter-acquire op-end-release shut revoke wait wait-acquire drop-release",
          {"src/core/ownership/thread.h": ["ts_op_begin", "ts_op_end"],
           "src/core/ownership/ownership.h": ["ts_heap_enter"],
           "src/core/ownership/heap.c": ["ts_heap_enter_revoked", "revoke_heap", "ts_heap_hold", "ts_heap_drop"]}),
    order("taken", "in_op, scope, bump: the thread that ends a scope block is alone with it, and sees every allocation.",
          "barrier-at-owner barrier-at-visitor shut begin-release bump-release bump-acquire scope-release scope-acquire look",
          {"src/core/ownership/thread.h": ["ts_op_begin_bump", "ts_is_in_op", "ts_set_scope"],
           "src/core/cache/allocate.h": ["ts_fast_bump"],
           "src/core/object/find.h": ["ts_alloc_innermost"]}),
    order("foreign", "Foreign bits, the FOREIGN flag and the queue: no free is lost.",
          "seq-at-free seq-at-drain flag-off-first",
          {"src/core/cache/foreign.c": ["ts_foreign_free", "ts_foreign_queue", "queue_slab", "ts_foreign_drain_some",
                                  "drain_churn", "drain_scope"], "src/core/cache/free.h": ["ts_foreign_open"]}),
    order("requeue", "A slab that is made HANDLED during a foreign free is queued all the same.", "handled-apart handled-stays look-again",
          {"src/core/cache/foreign.c": ["queue_slab"], "src/core/slab/slab.c": ["ts_slab_set_handled"]}),
    order("queue", "The links of the queue are written before they are followed.", "push-release drain-acquire",
          {"src/core/cache/foreign.c": ["push", "ts_foreign_drain_some"]}),
    order("exit", "A push on the queue of a heap whose thread ends: one of the two drains.", "seq-at-push seq-at-exit",
          {"src/core/cache/foreign.c": ["push_on", "ts_foreign_drain_for"],
           "src/core/cache/life.c": ["ts_heap_exit"],
           "src/core/cache/block.c": ["ts_heap_post_end", "ts_heap_end_posted_some"]}),
    order("tag", "A foreign free does not go on with the tag of a later use.", "tag-acquire tag-release looks",
          {"src/core/cache/foreign.c": ["ts_foreign_free"],
           "src/core/cache/free.h": ["ts_foreign_open"],
           "src/core/slab/slab.h": ["ts_slab_next_use", "ts_slab_claim", "ts_slab_claim_clean"],
           "src/core/cache/allocate.h": ["ts_scope_next"],
           "src/core/ownership/block.h": ["ts_block_kill"]}),
    order("pending", "An object whose foreign free is worked off is live to nobody.",
          "state-first bit-release bit-acquire bit-first",
          {"src/core/cache/foreign.c": ["ts_foreign_pending", "drain_churn", "drain_scope", "take_bits_off"], "src/core/diagnose/object.c": ["look", "look_slab"],
           "src/core/cache/bin.c": ["ts_bin_free_bits"]}),
    order("publish", "A thread that reads a new UNIT word sees the reset slab.", "word-acquire word-release",
          {"src/core/cache/bin.c": ["ts_bin_add"], "src/core/cache/allocate.h": ["ts_scope_append", "ts_scope_next"], "src/core/slab/slab.c": ["ts_slab_reset_churn"],
           "src/observe/snapshot.c": ["look_at_slabs"]}),
    order("look", "A look at one's own object takes no live bit of the slab's next use for one of this use, and no object that a close has taken in for live.",
          "reset-fence look-fence second-look flag-release word-acquire",
          {"src/core/cache/free.h": ["ts_fast_look"], "src/core/slab/slab.h": ["ts_slab_next_use"],
           "src/core/cache/allocate.h": ["ts_scope_next"], "src/core/cache/foreign.c": ["take_slab"]}),
    order("rolling", "A shut block is no longer found by slab_malloc.", "exchange second-look shut-release",
          {"src/core/object/alloc.c": ["make_rolling"], "src/core/epoch/end.c": ["shut_blocks"]}),
    order("handle", "A handle is made only of a use whose generation will move on.",
          "fence-at-handle fence-if-noted seq-at-reset second-look",
          {"src/core/diagnose/object.c": ["ts_object_handle", "look", "look_slab"],
           "src/core/slab/slab.h": ["ts_slab_next_generation"],
           "src/core/cache/allocate.h": ["ts_scope_next"],
           "src/core/ownership/block.h": ["ts_block_kill"]}),
    order("handled", "Every usual free of the owner that is not over when any thread makes a handle counts.",
          "barrier-at-owner barrier-at-holder op-end-release wait-acquire hold bit-first second-look",
          {"src/core/diagnose/object.c": ["make_handled", "ts_object_handle"],
           "src/core/slab/slab.c": ["ts_slab_set_handled", "ts_slab_note_handled"],
           "src/core/cache/free.h": ["ts_fast_free", "ts_fast_free_in"], "src/core/cache/bin.c": ["ts_bin_free_bits"],
           "src/core/ownership/heap.c": ["ts_heap_hold_of", "revoke_heap"]}),
    order("settled", "So does every such free where a thread makes one that finds the use HANDLED by another thread.",
          "all-count note-acquire note-release",
          {"src/core/diagnose/object.c": ["make_handled", "ts_object_handle"], "src/core/slab/slab.c": ["ts_slab_note_handled"]}),
    order("life", "A look by a stale handle does not take the next object of its slot for the old one, and a handle of that is not the next's.",
          "off-first count-first count-release count-acquire second-look live-release live-acquire",
          {"src/core/slab/slab.h": ["ts_slot_count", "ts_slab_generation"], "src/core/cache/free.h": ["ts_fast_free_in"],
           "src/core/cache/bin.c": ["count_lives", "take_live_bits"],
           "src/core/cache/allocate.h": ["ts_set_live", "ts_take_place"], "src/core/diagnose/object.c": ["look_churn", "ts_object_handle"]}),
    order("fold", "While a reset or a purge folds the generations of a slab, no stale handle is good.",
          "gen-first fold-fence slot-acquire slot-first",
          {"src/core/slab/slab.c": ["fold", "ts_slab_handled_generation", "ts_slab_fold_generations"],
           "src/core/slab/slab.h": ["ts_slab_generation"]}),
    order("open", "An epoch and its domain that begin while their allocator ends are ended by one of the two.",
          "fence-at-open fence-at-end",
          {"src/core/epoch/blocks.h": ["ts_epoch_show_in_time"],
           "src/core/domain/domain.c": ["ts_domain_make", "ts_domain_open", "made_too_late"],
           "src/core/domain/domain_end.c": ["ts_domain_end_begun", "ts_domain_destroy_all"],
           "src/core/epoch/end.c": ["ts_epoch_destroy_all"], "src/core/api/epochs.c": ["slab_allocator_free"], "src/core/api/runtime.c": ["ts_allocator_end", "end_all_in"]}),
    order("owner", "A thread that counts itself into a domain that was handed over is known to the owner that ends it.", "exchange",
          {"src/core/domain/enter.c": ["take_own"], "src/core/domain/domain_end.c": ["last_owner"]}),
    order("returned", "After another thread has ended a domain, the next user of its record sees the writes of its owner.",
          "take-acquire push-release state-acquire state-release",
          {"src/core/ownership/ownership.h": ["ts_heap_return_record"],
           "src/core/domain/domain_end.c": ["ts_domain_collect_returned"],
           "src/core/cache/life.c": ["ts_heap_exit"]}),
    order("domain", "The fields that are read of a domain belong to the id that is read then; and the record of its epoch is seen.",
          "begin-fence still-fence epoch-acquire",
          {"src/core/domain/domain.c": ["begin_domain"], "src/core/domain/domain_end.c": ["lock_quiet"],
           "src/core/domain/domain_parts.h": ["ts_domain_lock", "ts_domain_is_still"]}),
    order("table", "A thread that finds an id sees the record's fields.", "find-acquire publish-release",
          {"src/core/region/table.h": ["ts_table_find_strided", "ts_table_publish"]}),
    order("past", "A record of an ended epoch that is read while another is written over it is whole.",
          "mark mark-fence id-release id-acquire look-fence second-look",
          {"src/core/epoch/past.c": ["ts_past_begin", "write_past", "is_still", "read_past", "find_past"]}),
    order("ring", "Two threads that write the record of an ended epoch leave one record, whole.", "mark mark-acquire taken id-release",
          {"src/core/epoch/past.c": ["ts_past_begin", "write_past"]}),
    order("brief", "A brief record, which has one writer, is whole when it is read while another is written over it.",
          "mark mark-fence id-release id-acquire look-fence second-look",
          {"src/core/epoch/past.h": ["ts_brief_write"], "src/core/epoch/past.c": ["is_still", "find_brief"]}),
    order("after", "The memory after an end is not written into the record of another epoch.", "exchange taken",
          {"src/core/epoch/past.c": ["set_after", "ts_past_begin", "write_past"]}),
    order("flushed", "Flushed, and then no slabs, means that the epoch holds no memory.",
          "flushed-first flushed-acquire flushed-release",
          {"src/core/epoch/end.c": ["holds_nothing", "nothing_left"], "src/core/cache/block.c": ["ts_block_flush"]}),
    order("bump", "Below the end of a scope slab every start bit is seen.", "bump-acquire bump-release",
          {"src/core/cache/allocate.h": ["ts_fast_bump", "ts_scope_append"], "src/core/cache/scope.c": ["ts_scope_object_bytes"]}),
    order("magazine", "A magazine's counts are right while its owner empties it.",
          "note note-looked-at second-look note-release top-release clear-release direct-acquire top-acquire",
          {"src/core/cache/bin.c": ["ts_bin_magazine_counts", "ts_bin_forget_magazine"]}),
    order("sealed", "The bump word of a scope and one count tell how much was allocated in it.",
          "turn turn-looked-at second-look allocs-release bump-release allocs-acquire bump-acquire",
          {"src/core/cache/scope.c": ["ts_scope_allocs"], "src/core/cache/allocate.h": ["ts_scope_seal", "ts_scope_append", "ts_fast_bump"]}),
    order("words", "A claimed word tells how many of its slots were allocated.",
          "note word-fence claims-release claims-acquire word-acquire second-look bits-looked-at",
          {"src/core/cache/bin.c": ["ts_bin_word_allocs", "begin_word", "set_word", "ts_bin_take_word", "claim"],
           "src/core/cache/allocate.h": ["ts_fast_word"]}),
    order("blocks", "A walk of an epoch's blocks without its lock is of one moment, or knows that it is not.",
          "head-release head-acquire count-release count-acquire detach-fence relist-release walk-fence second-look",
          {"src/core/epoch/epoch.c": ["ts_epoch_read_blocks"],
           "src/core/epoch/blocks.h": ["ts_epoch_detach_blocks", "ts_epoch_list_block", "ts_epoch_restart_block"]}),
    order("last", "The slab of a last object that is freed while its epoch is closed is taken in.",
          "seq-at-push key-looked-at fence-at-flush second-drain",
          {"src/core/cache/foreign.c": ["ts_foreign_queue", "ts_foreign_give_closed", "ts_foreign_drain_flushed"],
           "src/core/cache/free.h": ["ts_foreign_open", "ts_foreign_freed"],
           "src/core/epoch/end.c": ["shut_blocks", "flush_block"], "src/core/cache/block.c": ["ts_block_flush_if_shut"]}),
    order("label", "A label that is read while another thread sets it is one of the two, whole.",
          "odd-turn odd-release even-release fence-before-old fence-before-next turn-acquire turn-looked-at epoch-looked-at look-fence second-look",
          {"src/core/epoch/label.c": ["ts_epoch_set_label", "ts_epoch_read_label"]}),
    order("cell", "A unit of the pool's cells has one owner, which sees the last one's writes.",
          "take-cas take-acquire fill-when-empty fill-release empty-exchange",
          {"src/core/region/cells.c": ["take_of_cell", "ts_cells_fill", "ts_cells_empty"]}),
    order("plan", "A thread that finds an entry of a plan finds it whole, and each node has one.",
          "claim-swap key-release find-acquire",
          {"src/malloc/plan.c": ["add"], "src/malloc/plan.h": ["tm_plan_find"]}),
]
