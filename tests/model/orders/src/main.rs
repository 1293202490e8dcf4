//! The memory orders of the protocols, checked by loom: every interleaving, and every value that a load may return under
//! its order.
//!
//! usage: orders MODEL [WITHOUT]
//!     prints the number of executions. With WITHOUT, that step is weakened; a violation ends the program with 101.
//!
//! loom treats a seq_cst access as acquire and release. So each seq_cst access of the C code stands here with a seq_cst
//! fence (after a write, before a load): as strong as C11 makes the pair that the protocol is about, but the fence orders the
//! other accesses of the thread too. barrier_all (membarrier) is a seq_cst fence on both sides. loom does not let a
//! load return a value that is stored later. It leaves the order of two stores to a word open unless happens-before gives it,
//! even where one is an exchange that did not find the other: there, the other is an exchange here too (rolling).

use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{fence, AtomicU64};
use loom::sync::Arc;
use loom::thread;

struct Steps {
    without: Option<String>,
}

impl Steps {
    fn lacks(&self, step: &str) -> bool {
        self.without.as_deref() == Some(step)
    }
    /// The order of a step, relaxed if the step is the one left out.
    fn order(&self, step: &str, order: Ordering) -> Ordering {
        if self.lacks(step) {
            Relaxed
        } else {
            order
        }
    }
    fn fence(&self, step: &str) {
        if !self.lacks(step) {
            fence(SeqCst);
        }
    }
}

fn word(value: u64) -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(value))
}

struct Bin(UnsafeCell<u64>);
unsafe impl Send for Bin {}
unsafe impl Sync for Bin {}
impl Bin {
    /// Two threads in here at once, or one that has not seen what the other did: loom reports it.
    fn touch(&self) {
        self.0.with_mut(|p| unsafe { *p += 1 });
    }
}

/// in_op, revoked, open_id: the owner's fast path and ts_heap_enter against ts_heap_hold and ts_heap_drop.
fn bracket(s: &'static Steps) {
    let (in_op, open, revoked) = (word(0), word(1), word(0));
    let bin = Arc::new(Bin(UnsafeCell::new(0)));
    let owner = {
        let (in_op, open, revoked, bin) = (in_op.clone(), open.clone(), revoked.clone(), bin.clone());
        thread::spawn(move || {
            for slow in [false, true] {
                in_op.store(1, Relaxed);
                s.fence("barrier-at-owner");
                let mine = if slow {
                    revoked.load(s.order("enter-acquire", Acquire)) == 0
                } else {
                    open.load(Relaxed) == 1
                };
                if mine {
                    bin.touch();
                }
                in_op.store(0, s.order("op-end-release", Release));
            }
        })
    };
    if !s.lacks("shut") {
        open.store(0, Relaxed);
    }
    if !s.lacks("revoke") {
        revoked.store(1, Release);
    }
    s.fence("barrier-at-visitor");
    if s.lacks("wait") || in_op.load(s.order("wait-acquire", Acquire)) == 0 {
        bin.touch();
    }
    revoked.store(0, s.order("drop-release", Release));
    owner.join().unwrap();
}

/// The bracket of slab_alloc, which ends with the bump pointer or with another scope, against ts_is_in_op.
fn taken(s: &'static Steps) {
    const NONE: u64 = 1; // the thread's scope: none, with a bump of 0
    let (in_op, open, bump, scope) = (word(0), word(1), word(16), word(0));
    let bin = Arc::new(Bin(UnsafeCell::new(0)));
    let owner = {
        let (in_op, open, bump) = (in_op.clone(), open.clone(), bump.clone());
        let (scope, bin) = (scope.clone(), bin.clone());
        thread::spawn(move || {
            for _ in 0..2 {
                let at = bump.load(Relaxed);
                in_op.store(at, s.order("begin-release", Release));
                s.fence("barrier-at-owner");
                if open.load(Relaxed) == 1 {
                    bin.touch();
                    bump.store(at + 16, s.order("bump-release", Release));
                }
            }
            scope.store(NONE, s.order("scope-release", Release));
        })
    };
    if !s.lacks("shut") {
        open.store(0, Relaxed);
    }
    s.fence("barrier-at-visitor");
    let at = in_op.load(Acquire);
    let over = at == 0 || {
        let block = scope.load(s.order("scope-acquire", Acquire));
        let now = if block == NONE { 0 } else { bump.load(s.order("bump-acquire", Acquire)) };
        now != at
    };
    if over || s.lacks("look") {
        bin.touch();
    }
    owner.join().unwrap();
}

const FOREIGN: u64 = 1;
const HANDLED: u64 = 2;

/// Steps 5 to 7 and a to e of foreign.c, on one slab: no free is lost. Two threads free, one drains.
fn foreign(s: &'static Steps) {
    let (unit, bits, queue) = (word(0), word(0), word(0));
    let freed = word(0);
    let free = |bit: u64| {
        let (unit, bits, queue) = (unit.clone(), bits.clone(), queue.clone());
        move || {
            bits.fetch_or(bit, AcqRel); // 5
            s.fence("seq-at-free");
            if unit.load(Acquire) == 0 && unit.compare_exchange(0, FOREIGN, AcqRel, Acquire).is_ok() {
                assert_eq!(queue.swap(1, AcqRel), 0); // 7
            }
        }
    };
    let drain = {
        let (unit, bits, queue, freed) = (unit.clone(), bits.clone(), queue.clone(), freed.clone());
        move || {
            if queue.swap(0, AcqRel) == 0 {
                return;
            }
            let take = || {
                let x = bits.load(Acquire); // c
                freed.fetch_or(x, Relaxed); // d
                bits.fetch_and(!x, AcqRel); // e
            };
            if s.lacks("flag-off-first") {
                take();
            }
            unit.fetch_and(!FOREIGN, AcqRel); // b
            s.fence("seq-at-drain");
            if !s.lacks("flag-off-first") {
                take();
            }
        }
    };
    let one = thread::spawn(free(1));
    let two = thread::spawn(free(2));
    drain();
    one.join().unwrap();
    two.join().unwrap();
    drain();
    assert_eq!(freed.load(Relaxed), 3, "a free is lost");
}

/// queue_slab while another thread makes the use HANDLED, between steps 1 and 6: the slab is queued all the same, once.
fn requeue(s: &'static Steps) {
    let (unit, queue) = (word(0), word(0));
    let maker = {
        let unit = unit.clone();
        thread::spawn(move || {
            let now = unit.load(Relaxed); // ts_slab_set_handled
            let _ = unit.compare_exchange(now, now | HANDLED, AcqRel, Acquire).or_else(|now| unit.compare_exchange(now, now | HANDLED, AcqRel, Acquire));
        })
    };
    let u = unit.load(Acquire) & !FOREIGN; // 1
    let mut now = unit.load(Acquire);
    let apart = if s.lacks("handled-apart") { 0 } else { HANDLED };
    while (now ^ u) & !apart == 0 {
        let next = if s.lacks("handled-stays") { u } else { now } | FOREIGN;
        match unit.compare_exchange(now, next, AcqRel, Acquire) {
            Ok(_) => {
                assert_eq!(queue.swap(1, AcqRel), 0, "queued twice"); // 7
                break;
            }
            Err(other) if s.lacks("look-again") => {
                now = other | FOREIGN;
            }
            Err(other) => now = other,
        }
    }
    maker.join().unwrap();
    assert_eq!(queue.load(Acquire), 1, "a free is lost");
    assert_eq!(unit.load(Acquire), FOREIGN | HANDLED);
}

/// push and the exchange of ts_foreign_drain: the links of the queue, two slabs.
fn queue(s: &'static Steps) {
    let (head, next) = (word(0), [word(9), word(9), word(9)]);
    let push = |slab: u64| {
        let (head, next) = (head.clone(), next.clone());
        move || {
            let mut h = head.load(Relaxed);
            loop {
                next[slab as usize].store(h, Relaxed);
                match head.compare_exchange(h, slab, s.order("push-release", Release), Relaxed) {
                    Ok(_) => return,
                    Err(now) => h = now,
                }
            }
        }
    };
    let mut seen = 0;
    let mut drain = || {
        let mut slab = head.swap(0, s.order("drain-acquire", Acquire));
        while slab != 0 {
            seen += slab;
            slab = next[slab as usize].load(Relaxed);
            assert!(slab < 3, "a link that was not yet written");
        }
    };
    let one = thread::spawn(push(1));
    let two = thread::spawn(push(2));
    drain();
    one.join().unwrap();
    two.join().unwrap();
    drain();
    assert_eq!(seen, 3);
}

/// ts_heap_exit against push_on; ts_heap_post_end and the look after it have the same shape.
fn exit(s: &'static Steps) {
    let (state, queue) = (word(0), word(0));
    let pusher = {
        let (state, queue) = (state.clone(), queue.clone());
        thread::spawn(move || {
            queue.swap(1, AcqRel);
            s.fence("seq-at-push");
            state.load(Acquire) == 1 // then the pusher drains
        })
    };
    state.store(1, Release);
    s.fence("seq-at-exit");
    let found = queue.load(Acquire) == 1;
    assert!(pusher.join().unwrap() || found, "nobody drains");
}

/// Conclusion 5 of foreign.c: the tag that a foreign free goes on with is not that of a later use.
fn tag(s: &'static Steps) {
    let (unit, era, tag) = (word(1), word(1), word(1));
    let freer = {
        let (unit, era, tag) = (unit.clone(), era.clone(), tag.clone());
        thread::spawn(move || {
            let u = unit.load(Acquire);
            let t = tag.load(s.order("tag-acquire", Acquire));
            if u == 0 || (!s.lacks("looks") && (unit.load(Acquire) != u || era.load(Acquire) != u)) {
                return;
            }
            assert_eq!(t, u, "the tag of another use");
        })
    };
    era.swap(2, AcqRel); // ts_block_kill
    unit.swap(0, AcqRel); // ts_slab_claim
    tag.store(2, s.order("tag-release", Release)); // ts_slab_next_use
    unit.store(2, Release); // ts_bin_add
    freer.join().unwrap();
}

/// Conclusion 6 of foreign.c: while a foreign free of an object is worked off, nobody finds it live.
fn pending(s: &'static Steps) {
    let (bits, live) = (word(1), word(1));
    let owner = {
        let (bits, live) = (bits.clone(), live.clone());
        thread::spawn(move || {
            if s.lacks("state-first") {
                bits.fetch_and(0, AcqRel);
            }
            live.store(0, Release); // d
            if !s.lacks("state-first") {
                bits.fetch_and(0, s.order("bit-release", AcqRel)); // e
            }
        })
    };
    let early = s.lacks("bit-first").then(|| live.load(Acquire));
    if bits.load(s.order("bit-acquire", Acquire)) == 0 {
        let found = early.unwrap_or_else(|| live.load(Acquire));
        assert_eq!(found, 0, "bit off, and still live");
    }
    owner.join().unwrap();
}

/// ts_slab_reset_churn and ts_bin_add: a thread that reads the new UNIT word sees the reset slab.
fn publish(s: &'static Steps) {
    let (unit, live) = (word(0), word(7));
    let reader = {
        let (unit, live) = (unit.clone(), live.clone());
        thread::spawn(move || {
            if unit.load(s.order("word-acquire", Acquire)) == 1 {
                assert_eq!(live.load(Acquire), 0, "a live bit of the last use");
            }
        })
    };
    live.store(0, Relaxed);
    unit.store(1, s.order("word-release", Release));
    reader.join().unwrap();
}

/// ts_fast_look: a live bit of the slab's next use is not taken for one of this; and an object that a close has taken in is not live.
fn look(s: &'static Steps) {
    const FLAG: u64 = 2;
    let (unit, live, next) = (word(0), word(0), word(0));
    let taker = {
        let (unit, live, next) = (unit.clone(), live.clone(), next.clone());
        thread::spawn(move || {
            unit.swap(1, AcqRel); // ts_slab_claim
            if !s.lacks("reset-fence") {
                fence(Release); // ts_slab_next_use
            }
            next.store(1, Relaxed);
            live.store(1, Relaxed);
        })
    };
    let first = unit.load(Relaxed);
    let found = live.load(Relaxed);
    if !s.lacks("look-fence") {
        fence(Acquire);
    }
    let same = s.lacks("second-look") || unit.load(Relaxed) == first;
    assert!(!(first == 0 && found == 1 && same), "the object of another use");
    taker.join().unwrap();

    let (unit, key) = (word(FLAG), word(1));
    let closer = {
        let (unit, key) = (unit.clone(), key.clone());
        thread::spawn(move || {
            key.store(0, Relaxed); // ts_block_shut
            unit.fetch_and(!FLAG, s.order("flag-release", AcqRel)); // b
        })
    };
    let flagged = unit.load(s.order("word-acquire", Acquire));
    assert!(flagged != 0 || key.load(Relaxed) == 0, "an object that was freed");
    closer.join().unwrap();
}

/// make_rolling against shut_blocks: a block that is shut is nobody's rolling one.
fn rolling(s: &'static Steps) {
    let (open, rolling) = (word(1), word(0));
    let owner = {
        let (open, rolling) = (open.clone(), rolling.clone());
        thread::spawn(move || {
            if open.load(Relaxed) != 1 {
                return;
            }
            rolling.swap(5, s.order("exchange", AcqRel));
            if !s.lacks("second-look") && open.load(Relaxed) != 1 {
                rolling.store(0, Relaxed);
            }
        })
    };
    open.store(0, Relaxed);
    rolling.swap(0, s.order("shut-release", Release)); // a store; see the top
    owner.join().unwrap();
    assert_eq!(rolling.fetch_or(0, AcqRel), 0, "a shut block is found by slab_malloc");
}

/// ts_object_handle against ts_slab_next_generation: a handle is made only of a use whose generation will move on. Two threads make
/// one of the same slab, of which the second can find the note of the first.
fn handle(s: &'static Steps) {
    let (handled, era) = (word(0), word(1));
    let make = |handled: Arc<AtomicU64>, era: Arc<AtomicU64>| {
        thread::spawn(move || {
            let noted = handled.load(Relaxed) == 1;
            if !noted {
                handled.store(1, Relaxed);
            }
            if !(noted && s.lacks("fence-if-noted")) {
                s.fence("fence-at-handle");
            }
            s.lacks("second-look") || era.load(Acquire) == 1
        })
    };
    let makers = [make(handled.clone(), era.clone()), make(handled.clone(), era.clone())];
    era.swap(2, AcqRel); // the UNIT word (ts_slab_claim); a block may be killed by a plain store before it
    s.fence("seq-at-reset");
    let moves_on = handled.load(Acquire) == 1;
    let made = makers.map(|maker| maker.join().unwrap());
    assert!(!made.contains(&true) || moves_on, "a handle whose generation comes again");
}

/// ts_object_handle against the usual frees of the owner, which go on while another thread holds its heap: every free that is not over
/// when a handle is made counts. `live` is the number of the life there, 0: none.
fn handled(s: &'static Steps) {
    let (in_op, unit) = (word(0), word(0));
    let (live, slot) = (word(1), word(0));
    let owner = {
        let (in_op, unit, live, slot) = (in_op.clone(), unit.clone(), live.clone(), slot.clone());
        thread::spawn(move || {
            in_op.store(1, Relaxed);
            s.fence("barrier-at-owner");
            live.store(0, Release);
            if unit.load(Relaxed) & HANDLED != 0 {
                slot.store(1, Release);
            }
            live.store(2, Release);
            in_op.store(0, s.order("op-end-release", Release));
        })
    };
    let look = || (live.load(Acquire), slot.load(Acquire));
    let first = look();
    if !s.lacks("bit-first") {
        unit.fetch_or(HANDLED, AcqRel);
    }
    s.fence("barrier-at-holder");
    let quiet = s.lacks("hold") || in_op.load(s.order("wait-acquire", Acquire)) == 0;
    if s.lacks("bit-first") {
        unit.fetch_or(HANDLED, AcqRel);
    }
    let (life, generation) = if s.lacks("second-look") { first } else { look() };
    owner.join().unwrap();
    let counted = slot.load(Relaxed) == 1;
    let made = quiet && life != 0 && generation == first.1;
    assert!(!made || life == 2 || counted, "a free that does not count, though a handle was made");
}

/// The same, of a thread that finds the use HANDLED by another, and does not hold the heap.
fn settled(s: &'static Steps) {
    let (in_op, unit, note) = (word(0), word(0), word(0));
    let (live, slot) = (word(1), word(0));
    let owner = {
        let (in_op, unit, live, slot) = (in_op.clone(), unit.clone(), live.clone(), slot.clone());
        thread::spawn(move || {
            in_op.store(1, Relaxed);
            fence(SeqCst);
            live.store(0, Release);
            if unit.load(Relaxed) & HANDLED != 0 {
                slot.store(1, Release);
            }
            live.store(2, Release);
            in_op.store(0, Release);
        })
    };
    let holder = {
        let (in_op, unit, note) = (in_op.clone(), unit.clone(), note.clone());
        thread::spawn(move || {
            unit.fetch_or(HANDLED, AcqRel);
            fence(SeqCst);
            if in_op.load(Acquire) == 0 {
                note.store(1, s.order("note-release", Release)); // ts_slab_note_handled
            }
        })
    };
    let is_handled = unit.load(Acquire) & HANDLED != 0;
    if is_handled && (s.lacks("all-count") || note.load(s.order("note-acquire", Acquire)) == 1) {
        let (life, generation) = (live.load(Acquire), slot.load(Acquire));
        owner.join().unwrap();
        let counted = slot.load(Relaxed) == 1;
        assert!(life != 1 || generation == 1 || counted, "a free that does not count, though a handle was made");
    } else {
        owner.join().unwrap();
    }
    holder.join().unwrap();
}

/// ts_slot_count and the next allocation against a look by a stale handle, which does not take the next object for the last one, and
/// against the two looks that make a handle, which do not take the last one for the next.
fn life(s: &'static Steps) {
    let (live, slot) = (word(1), word(0));
    let owner = {
        let (live, slot) = (live.clone(), slot.clone());
        thread::spawn(move || {
            let count = || slot.store(1, s.order("count-release", Release));
            if s.lacks("off-first") {
                count();
            }
            live.store(0, Release);
            if !s.lacks("off-first") && !s.lacks("count-first") {
                count();
            }
            live.store(2, s.order("live-release", Release)); // ts_set_live
            if s.lacks("count-first") {
                count();
            }
        })
    };
    let look = || (live.load(s.order("live-acquire", Acquire)), slot.load(s.order("count-acquire", Acquire)));
    let first = look();
    let second = if s.lacks("second-look") { first } else { look() };
    assert!(first.0 != 2 || first.1 != 0, "the next object with the generation of the last");
    assert!(first.1 != second.1 || second != (1, 1), "the last object with the generation of the next");
    owner.join().unwrap();
}

/// `fold` in a reset, or before a purge, against ts_slab_generation: the sum is never that of an older object. A handle of 10 is
/// stale: its slot has counted one life.
fn fold(s: &'static Steps) {
    let (gen, slot) = (word(10), word(1));
    let taker = {
        let (gen, slot) = (gen.clone(), slot.clone());
        thread::spawn(move || {
            if s.lacks("gen-first") {
                slot.store(0, Relaxed);
                fence(Release);
            }
            gen.store(12, Relaxed);
            if !s.lacks("fold-fence") {
                fence(Release);
            }
            slot.store(0, Relaxed);
        })
    };
    let early = s.lacks("slot-first").then(|| gen.load(Relaxed));
    let lives = slot.load(s.order("slot-acquire", Acquire));
    let sum = lives + early.unwrap_or_else(|| gen.load(Relaxed));
    assert_ne!(sum, 10, "a stale handle is good again");
    taker.join().unwrap();
}

/// ts_epoch_open, ts_domain_make and ts_domain_open against slab_allocator_free with ts_epoch_destroy_all and, after that,
/// ts_domain_destroy_all. The fences are fences, or the two sides of a barrier_all (ts_domain_make).
fn open(s: &'static Steps) {
    let (allocator, domain, epoch) = (word(1), word(0), word(0));
    let opener = {
        let (allocator, domain, epoch) = (allocator.clone(), domain.clone(), epoch.clone());
        thread::spawn(move || {
            domain.store(1, Release); // ts_table_publish, as the next
            epoch.store(1, Release);
            s.fence("fence-at-open");
            allocator.load(Relaxed) != 1 // then it ends both itself
        })
    };
    let _ = allocator.compare_exchange(1, 0, AcqRel, Acquire);
    s.fence("fence-at-end");
    let found = epoch.load(Acquire) == 1 && domain.load(Acquire) == 1;
    assert!(opener.join().unwrap() || found, "an epoch or a domain of no allocator");
}

const NOBODY: u64 = 8;
const ENDING: u64 = 9;

/// take_own, in ts_domain_enter, against last_owner, in the end of a domain by another thread: a thread that counts itself in is known as its owner.
fn owner(s: &'static Steps) {
    let (id, owner) = (word(1), word(NOBODY));
    let enterer = {
        let (id, owner) = (id.clone(), owner.clone());
        thread::spawn(move || {
            owner.compare_exchange(NOBODY, 1, AcqRel, Relaxed).is_ok() && id.load(Relaxed) == 1
        })
    };
    id.store(0, Release); // ts_table_end
    let last = if s.lacks("exchange") { owner.load(Relaxed) } else { owner.swap(ENDING, AcqRel) };
    assert!(!enterer.join().unwrap() || last == 1, "its owner writes to a record that is in use again");
}

/// ts_heap_return_record against ts_domain_collect_returned and ts_heap_exit: the next user of the record comes after the owner's writes, and after
/// the end of its last use.
fn returned(s: &'static Steps) {
    const LIVE: u64 = 1;
    let (state, list) = (word(LIVE), word(0));
    let (inside, ended) = (Arc::new(Bin(UnsafeCell::new(0))), Arc::new(Bin(UnsafeCell::new(0))));
    let owner = {
        let (state, list, inside, ended) = (state.clone(), list.clone(), inside.clone(), ended.clone());
        thread::spawn(move || {
            inside.touch(); // it counted itself in, and out again
            if list.swap(0, s.order("take-acquire", Acquire)) != 0 {
                ended.touch();
                inside.touch();
            }
            state.store(0, s.order("state-release", SeqCst));
        })
    };
    ended.touch();
    if state.load(s.order("state-acquire", Acquire)) != LIVE {
        inside.touch();
    } else {
        let _ = list.compare_exchange(0, 1, s.order("push-release", Release), Relaxed);
    }
    owner.join().unwrap();
}

/// begin_domain against ts_domain_is_still, ts_domain_lock and lock_quiet: the fields read of a domain whose record gets its next use are of the
/// id that is read after it; and the record of the epoch, which may be a new one, is seen.
fn domain(s: &'static Steps) {
    let (id, owner, epoch, entry) = (word(1), word(1), word(1), word(0));
    let other = {
        let (id, owner, epoch, entry) = (id.clone(), owner.clone(), epoch.clone(), entry.clone());
        thread::spawn(move || {
            entry.store(1, Relaxed);
            id.store(0, Release);
            if !s.lacks("begin-fence") {
                fence(Release);
            }
            owner.store(2, Relaxed);
            epoch.store(2, Release);
            id.store(2, Release);
        })
    };
    let of = epoch.load(s.order("epoch-acquire", Acquire));
    let whose = owner.load(Relaxed);
    if of == 2 {
        assert_eq!(entry.load(Relaxed), 1, "the record of its epoch as it was before");
    }
    if !s.lacks("still-fence") {
        fence(Acquire);
    }
    if id.load(Relaxed) == 1 {
        assert_eq!((of, whose), (1, 1), "the epoch or the owner of another domain");
    }
    other.join().unwrap();
}

/// ts_table_publish and ts_table_find_strided: a thread that finds an id sees the record's fields.
fn table(s: &'static Steps) {
    let id = word(0);
    let fields = Arc::new(Bin(UnsafeCell::new(0)));
    let finder = {
        let (id, fields) = (id.clone(), fields.clone());
        thread::spawn(move || {
            if id.load(s.order("find-acquire", Acquire)) == 1 {
                fields.touch();
            }
        })
    };
    fields.touch();
    id.store(1, s.order("publish-release", Release));
    finder.join().unwrap();
}

type Past = (Arc<AtomicU64>, Arc<AtomicU64>, Arc<AtomicU64>);
const TAKEN: u64 = 9;

/// ts_past_begin and write_past: the id, and two fields.
fn write_past(s: &'static Steps, (id, first, second): &Past, mine: u64) {
    if !s.lacks("mark") {
        let was = id.swap(TAKEN, s.order("mark-acquire", Acquire));
        if was == TAKEN && !s.lacks("taken") {
            return; // another thread writes it
        }
    }
    write_fields(s, (id, first, second), mine);
}

fn write_fields(s: &'static Steps, (id, first, second): (&AtomicU64, &AtomicU64, &AtomicU64), mine: u64) {
    if !s.lacks("mark-fence") {
        fence(Release);
    }
    first.store(mine, Relaxed);
    second.store(mine, Relaxed);
    id.store(mine, s.order("id-release", Release));
}

/// ts_brief_write: one thread writes, so it stores the mark.
fn write_brief(s: &'static Steps, (id, first, second): &Past, mine: u64) {
    if !s.lacks("mark") {
        id.store(TAKEN, Relaxed);
    }
    write_fields(s, (id, first, second), mine);
}

/// write_past against read_past: a record that is read while another is written over it is whole.
fn past(s: &'static Steps) {
    read_beside(s, write_past);
}

/// ts_brief_write against find_brief: the same.
fn brief(s: &'static Steps) {
    read_beside(s, write_brief);
}

fn read_beside(s: &'static Steps, write: fn(&'static Steps, &Past, u64)) {
    let record: Past = (word(1), word(1), word(1));
    let writer = {
        let record = record.clone();
        thread::spawn(move || write(s, &record, 2))
    };
    let (id, first, second) = &record;
    let found = id.load(s.order("id-acquire", Acquire));
    if found != TAKEN {
        let fields = (first.load(Relaxed), second.load(Relaxed));
        if !s.lacks("look-fence") {
            fence(Acquire);
        }
        if s.lacks("second-look") || id.load(Relaxed) == found {
            assert_eq!(fields, (found, found), "a half of another record");
        }
    }
    writer.join().unwrap();
}

/// write_past against write_past: the record that two threads have written is of one of them. (loom cannot tell which id comes last.)
fn ring(s: &'static Steps) {
    let record: Past = (word(1), word(1), word(1));
    let writer = {
        let record = record.clone();
        thread::spawn(move || write_past(s, &record, 2))
    };
    write_past(s, &record, 3);
    writer.join().unwrap();
    assert_eq!(record.1.load(Relaxed), record.2.load(Relaxed), "halves of two records");
}

/// set_after against write_past: the memory after an end is not written into another epoch's record.
fn after(s: &'static Steps) {
    let record: Past = (word(1), word(1), word(1));
    let writer = {
        let record = record.clone();
        thread::spawn(move || write_past(s, &record, 2))
    };
    let (id, _, second) = &record;
    let taken = if s.lacks("exchange") {
        id.load(Acquire) == 1
    } else {
        id.compare_exchange(1, TAKEN, s.order("exchange-acquire", Acquire), Relaxed).is_ok()
    };
    if taken {
        second.store(1, Relaxed);
        id.store(1, Release);
    }
    writer.join().unwrap();
    assert_eq!(record.1.load(Relaxed), second.load(Relaxed), "halves of two records");
}

/// ts_block_flush against nothing_left: flushed, and then no slabs, means that nothing is left.
fn flushed(s: &'static Steps) {
    let (slabs, flushed) = (word(0), word(0));
    let owner = {
        let (slabs, flushed) = (slabs.clone(), flushed.clone());
        thread::spawn(move || {
            slabs.store(1, Relaxed); // an operation that began before the close
            flushed.store(1, s.order("flushed-release", Release));
        })
    };
    let early = s.lacks("flushed-first").then(|| slabs.load(Relaxed));
    if flushed.load(s.order("flushed-acquire", Acquire)) == 1 {
        assert_eq!(early.unwrap_or_else(|| slabs.load(Relaxed)), 1, "a slab is overlooked");
    }
    owner.join().unwrap();
}

/// ts_fast_bump against ts_scope_object_bytes: below bump, every start bit is seen.
fn bump(s: &'static Steps) {
    let (start, bump) = (word(0), word(0));
    let owner = {
        let (start, bump) = (start.clone(), bump.clone());
        thread::spawn(move || {
            for object in 0..2 {
                start.store(start.load(Relaxed) | 1 << object, Relaxed);
                bump.store(object + 1, s.order("bump-release", Release));
            }
        })
    };
    let end = bump.load(s.order("bump-acquire", Acquire));
    let bits = start.load(Relaxed);
    assert_eq!(bits & ((1 << end) - 1), (1 << end) - 1, "an object without a start");
    owner.join().unwrap();
}

/// ts_bin_magazine_counts against ts_bin_forget_magazine: the count of frees in a bin is never shown lower than it is, nor counted
/// twice, while its magazine is emptied.
fn magazine(s: &'static Steps) {
    const NOTE: u64 = 255;
    let (top, direct) = (word(10 << 8 | 4), word(5 << 8)); // 10 popped, 4 in it, 5 freed directly: 19
    let owner = {
        let (top, direct) = (top.clone(), direct.clone());
        thread::spawn(move || {
            top.store(11 << 8 | 3, Relaxed); // a pop
            if !s.lacks("note") {
                direct.store(8 << 8 | 3, s.order("note-release", Release));
            }
            top.store(11 << 8, s.order("top-release", Release));
            direct.store(8 << 8, s.order("clear-release", Release));
            // A push: 20. In C11 a later store of the same thread is of the release sequence; loom knows exchanges only.
            top.fetch_add(1, Relaxed);
        })
    };
    let mut before = 19;
    for _ in 0..2 {
        let mut frees = 0;
        for _ in 0..3 {
            let e = direct.load(s.order("direct-acquire", Acquire));
            let t = top.load(s.order("top-acquire", Acquire));
            let noted = e & NOTE != 0;
            let depth = if noted && !s.lacks("note-looked-at") { 0 } else { t & 255 };
            frees = (t >> 8) + depth + (e >> 8);
            if noted || s.lacks("second-look") || direct.load(Relaxed) == e {
                break;
            }
        }
        assert!(frees >= before && frees <= 20, "{frees} frees after {before}");
        before = frees;
    }
    owner.join().unwrap();
}

/// ts_scope_allocs against ts_fast_bump, ts_scope_seal and ts_scope_append: the count of allocations in a scope is never shown lower than it
/// was, nor higher than it is, while one slab after the other is sealed.
fn sealed(s: &'static Steps) {
    const COUNT: u64 = 2047;
    let turned = u64::from(!s.lacks("turn"));
    let (allocs, bump) = (word(10 << 1), word(2)); // 10 in slabs before, 2 in this one: 12
    let owner = {
        let (allocs, bump) = (allocs.clone(), bump.clone());
        thread::spawn(move || {
            bump.store(3, Release); // 13
            allocs.store(13 << 1 | turned, s.order("allocs-release", Release));
            bump.store(turned << 11 | 1, s.order("bump-release", Release)); // 14
            allocs.store(14 << 1, s.order("allocs-release", Release));
            bump.store(1, s.order("bump-release", Release)); // 15
        })
    };
    let mut before = 12;
    for _ in 0..2 {
        let mut found = 0;
        for _ in 0..3 {
            let a = allocs.load(s.order("allocs-acquire", Acquire));
            let b = bump.load(s.order("bump-acquire", Acquire));
            if !s.lacks("second-look") && allocs.load(Relaxed) != a {
                continue;
            }
            let same = a & 1 == b >> 11 || s.lacks("turn-looked-at");
            found = (a >> 1) + if same { b & COUNT } else { 0 };
            break;
        }
        assert!(found >= before && found <= 15, "{found} after {before}");
        before = found;
    }
    owner.join().unwrap();
}

/// ts_bin_word_allocs against set_word and ts_fast_word: the count of allocations from claimed words is never shown lower than it was, nor
/// higher than it is.
fn words(s: &'static Steps) {
    let (claims, bits) = (word(100 << 8 | 2), word(0b10)); // one of two is allocated: 101
    let owner = {
        let (claims, bits) = (claims.clone(), bits.clone());
        thread::spawn(move || {
            bits.store(0, Relaxed); // 102
            if !s.lacks("note") {
                claims.store(102 << 8, Relaxed);
            }
            if !s.lacks("word-fence") {
                fence(Release);
            }
            bits.store(0b11, Relaxed);
            claims.store(102 << 8 | 2, s.order("claims-release", Release));
            bits.store(0b10, Relaxed); // 103
        })
    };
    let mut before = 101;
    for _ in 0..2 {
        let c = claims.load(s.order("claims-acquire", Acquire));
        let w = bits.load(s.order("word-acquire", Acquire));
        let now = claims.load(Relaxed);
        let of_this_claim = now == c || s.lacks("second-look");
        let of_word = if of_this_claim && (now & 255 != 0 || s.lacks("bits-looked-at")) {
            (now & 255) as i64 - i64::from(w.count_ones())
        } else {
            0
        };
        let allocated = (now >> 8) as i64 + of_word;
        assert!(allocated >= before && allocated <= 103, "{allocated} after {before}");
        before = allocated;
    }
    owner.join().unwrap();
}

/// ts_epoch_read_blocks against ts_epoch_list_block, ts_epoch_detach_blocks and ts_epoch_restart_block: a walk that finds the
/// same count afterwards has seen the list of one moment, and its blocks as they were in this epoch, before its reset or after.
fn blocks(s: &'static Steps) {
    const UNWRITTEN: u64 = 9;
    const LIVE: u64 = 5;
    let (head, detached) = (word(1), word(0));
    let next = [word(0), word(0), word(UNWRITTEN)]; // block 1 is in the list, block 2 comes
    let uses = [word(0), word(1), word(0)]; // 1: of this epoch
    let tally = word(LIVE); // of block 1, which goes on after the reset; block 2 ends
    let owner = {
        let (head, detached, next, uses) = (head.clone(), detached.clone(), next.clone(), uses.clone());
        let tally = tally.clone();
        thread::spawn(move || {
            uses[2].store(1, Relaxed);
            next[2].store(1, Relaxed);
            head.store(2, s.order("head-release", Release));
            head.store(0, Relaxed);
            detached.store(1, s.order("count-release", Release));
            if !s.lacks("detach-fence") {
                fence(Release);
            }
            uses[2].store(2, Relaxed);
            tally.store(0, Relaxed);
            head.store(1, s.order("relist-release", Release));
        })
    };
    let count = detached.load(s.order("count-acquire", Acquire));
    let mut block = head.load(s.order("head-acquire", Acquire));
    let (mut walked, mut mine, mut live) = (0, true, 0);
    while block != 0 {
        assert_ne!(block, UNWRITTEN, "a link that was not yet written");
        mine &= uses[block as usize].load(Relaxed) == 1;
        live += if block == 1 { tally.load(Relaxed) } else { 0 };
        block = next[block as usize].load(Relaxed);
        walked += 1;
    }
    if !s.lacks("walk-fence") {
        fence(Acquire);
    }
    if s.lacks("second-look") || detached.load(Relaxed) == count {
        assert!(mine, "a block in another use");
        assert!(count == 0 || walked < 2, "the old list under the new count");
        assert_eq!(live, if count == 0 && walked > 0 { LIVE } else { 0 }, "what died, under the new count, or half of it");
    }
    owner.join().unwrap();
}

/// ts_epoch_set_label, of an epoch and then of another that has the same lock, against one look of ts_epoch_read_label at the first one:
/// it takes one whole label of that.
fn label(s: &'static Steps) {
    const MINE: u64 = 0;
    const ANOTHER: u64 = 1;
    let (turn, of) = (word(0), word(ANOTHER));
    let (now, before) = ([word(0), word(0)], [word(9), word(8)]);
    let writer = {
        let (turn, of, now, before) = (turn.clone(), of.clone(), now.clone(), before.clone());
        thread::spawn(move || {
            for whose in [MINE, ANOTHER] {
                if !s.lacks("fence-before-old") {
                    fence(Release);
                }
                of.store(whose, Relaxed);
                for i in 0..2 {
                    before[i].store(if whose == MINE { 0 } else { 7 }, Relaxed);
                }
                if !s.lacks("odd-turn") {
                    turn.store(2 * whose + 1, s.order("odd-release", Release));
                }
                if !s.lacks("fence-before-next") {
                    fence(Release);
                }
                if whose == MINE {
                    for i in 0..2 {
                        now[i].store(1, Relaxed);
                    }
                }
                turn.store(2 * whose + 2, s.order("even-release", Release));
            }
        })
    };
    let at = turn.load(s.order("turn-acquire", Acquire));
    let is_set = at % 2 == 1 && (s.lacks("epoch-looked-at") || of.load(Relaxed) == MINE);
    let whole = if is_set && !s.lacks("turn-looked-at") { &before } else { &now };
    let seen: Vec<_> = whole.iter().map(|w| w.load(Relaxed)).collect();
    if !s.lacks("look-fence") {
        fence(Acquire);
    }
    if s.lacks("second-look") || turn.load(Relaxed) == at {
        let label = if at < 2 { 0 } else { 1 };
        assert_eq!(seen, [label, label], "another label than the turn's, or a mixture");
    }
    writer.join().unwrap();
}

/// ts_foreign_open and ts_foreign_give_closed against flush_block: the slab of a last object that is freed while its epoch
/// is closed is taken in by one of the two.
fn last(s: &'static Steps) {
    let (key, queue, flushed) = (word(1), word(0), word(0));
    fn drain(queue: &AtomicU64) {
        if queue.load(Acquire) != 0 {
            queue.swap(0, AcqRel);
        }
    }
    let freer = {
        let (key, queue, flushed) = (key.clone(), queue.clone(), flushed.clone());
        thread::spawn(move || {
            queue.swap(1, AcqRel);
            s.fence("seq-at-push");
            if !s.lacks("key-looked-at") && key.load(Acquire) == 0 && flushed.load(Acquire) == 1 {
                drain(&queue);
            }
        })
    };
    key.store(0, Relaxed); // shut_blocks
    drain(&queue);
    flushed.store(1, Release);
    s.fence("fence-at-flush");
    if !s.lacks("second-drain") {
        drain(&queue);
    }
    freer.join().unwrap();
    assert_eq!(queue.load(Acquire), 0, "a slab waits for its owner");
}

/// The cells of the pool: take_of_cell by two threads, one of which gives its unit back, against ts_cells_fill and ts_cells_empty of
/// the holder of the lock, here of one cell with two units.
fn cell(s: &'static Steps) {
    const NEXT: u64 = (1 << 32) - 1; // first + 1, units - 1
    let cell = word(0);
    let free = Arc::new(loom::sync::Mutex::new(3u64)); // a bit a unit
    let records = Arc::new([Bin(UnsafeCell::new(0)), Bin(UnsafeCell::new(0))]);
    let take = move |cell: &AtomicU64| -> Option<u64> {
        let mut seen = cell.load(Relaxed);
        while seen as u32 != 0 {
            if s.lacks("take-cas") {
                cell.store(seen + NEXT, Relaxed);
                return Some(seen >> 32);
            }
            match cell.compare_exchange(seen, seen + NEXT, s.order("take-acquire", Acquire), Relaxed) {
                Ok(_) => return Some(seen >> 32),
                Err(now) => seen = now,
            }
        }
        None
    };
    let fill = move |cell: &AtomicU64, free: &mut u64| {
        if *free != 0 && (s.lacks("fill-when-empty") || cell.load(Relaxed) as u32 == 0) {
            let (first, units) = (u64::from(free.trailing_zeros()), u64::from(free.count_ones()));
            *free = 0;
            cell.store(first << 32 | units, s.order("fill-release", Release));
        }
    };
    let takers: Vec<_> = [true, false]
        .into_iter()
        .map(|gives| {
            let (cell, free, records) = (cell.clone(), free.clone(), records.clone());
            thread::spawn(move || {
                let unit = take(&cell)?;
                records[unit as usize].touch();
                if gives {
                    let mut free = free.lock().unwrap();
                    *free |= 1 << unit;
                    fill(&cell, &mut free);
                    return None;
                }
                Some(unit)
            })
        })
        .collect();
    for unit in 0..2 {
        records[unit].touch(); // its last use, given back under the lock
    }
    fill(&cell, &mut free.lock().unwrap());
    {
        let mut free = free.lock().unwrap(); // ts_cells_empty
        let rest = if s.lacks("empty-exchange") {
            let rest = cell.load(Relaxed);
            cell.store(0, Relaxed);
            rest
        } else {
            cell.swap(0, Relaxed)
        };
        for unit in 0..rest & 3 {
            *free |= 1 << ((rest >> 32) + unit);
        }
    }
    let taken: Vec<_> = takers.into_iter().filter_map(|taker| taker.join().unwrap()).collect();
    let mut have = *free.lock().unwrap();
    for unit in taken {
        assert_eq!(have & 1 << unit, 0, "a unit with two owners");
        have |= 1 << unit;
    }
    let rest = cell.load(Relaxed);
    for unit in 0..rest & 3 {
        let bit = 1 << ((rest >> 32) + unit);
        assert_eq!(have & bit, 0, "a unit with two owners");
        have |= bit;
    }
    assert_eq!(have, 3, "a unit that nobody has");
}

/// The table of a plan: `add` of two threads whose keys begin at one slot, against tm_plan_find of a third.
fn plan(s: &'static Steps) {
    const CLAIMED: u64 = 9;
    let keys = Arc::new([word(0), word(0)]);
    let entries = Arc::new([Bin(UnsafeCell::new(0)), Bin(UnsafeCell::new(0))]);
    let writers: Vec<_> = [1, 2]
        .into_iter()
        .map(|key| {
            let (keys, entries) = (keys.clone(), entries.clone());
            thread::spawn(move || {
                let claim = |at: usize| match s.lacks("claim-swap") {
                    true if keys[at].load(Relaxed) != 0 => false,
                    true => {
                        keys[at].store(CLAIMED, Relaxed);
                        true
                    }
                    false => keys[at].compare_exchange(0, CLAIMED, SeqCst, Acquire).is_ok(),
                };
                let at = usize::from(!claim(0));
                assert!(at == 0 || claim(1), "a slot that nobody has");
                entries[at].0.with_mut(|p| unsafe { *p = key });
                keys[at].store(key, s.order("key-release", Release));
            })
        })
        .collect();
    for at in 0..2 {
        match keys[at].load(s.order("find-acquire", Acquire)) {
            0 => break,
            1 => entries[at].0.with(|p| assert_eq!(unsafe { *p }, 1, "another's entry")),
            _ => continue,
        }
    }
    for writer in writers {
        writer.join().unwrap();
    }
    let have = keys[0].load(Relaxed) + keys[1].load(Relaxed);
    assert_eq!(have, 3, "a node without an entry");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let models: [(&str, fn(&'static Steps)); 35] = [
        ("bracket", bracket),
        ("taken", taken),
        ("foreign", foreign),
        ("requeue", requeue),
        ("queue", queue),
        ("exit", exit),
        ("tag", tag),
        ("pending", pending),
        ("publish", publish),
        ("look", look),
        ("rolling", rolling),
        ("handle", handle),
        ("handled", handled),
        ("settled", settled),
        ("life", life),
        ("fold", fold),
        ("open", open),
        ("owner", owner),
        ("returned", returned),
        ("domain", domain),
        ("table", table),
        ("past", past),
        ("ring", ring),
        ("brief", brief),
        ("after", after),
        ("flushed", flushed),
        ("bump", bump),
        ("magazine", magazine),
        ("sealed", sealed),
        ("words", words),
        ("blocks", blocks),
        ("label", label),
        ("last", last),
        ("cell", cell),
        ("plan", plan),
    ];
    let model = arguments.first().and_then(|name| models.iter().find(|m| m.0 == name));
    let Some(&(_, model)) = model else {
        eprintln!("orders: no such model: {:?}", arguments.first());
        std::process::exit(2);
    };
    let steps: &'static Steps = Box::leak(Box::new(Steps { without: arguments.get(1).cloned() }));
    let executions = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counter = executions.clone();
    loom::model(move || {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        model(steps);
    });
    println!("executions {}", executions.load(std::sync::atomic::Ordering::Relaxed));
}
