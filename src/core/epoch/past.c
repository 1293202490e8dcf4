/* The epochs that ended last: past.h says why this is right. */
/* Modelled in tests/model: orders. */
#include "epoch/past.h"

#include "epoch/blocks.h"
#include "os/os.h"
#include "supply/supply.h"

ts_past_ring *ts_past_ring_of(_Atomic(ts_past_ring *) *place) {
    ts_past_ring *ring = ts_load_acquire(place), *made;
    if (TS_LIKELY(ring != NULL)) return ring;
    made = ts_lines_take(TS_LINES_PAST, sizeof *made);
    /* release: a reader finds it whole; acquire: another thread made it */
    if (!made ||
        atomic_compare_exchange_strong_explicit(place, &ring, made, memory_order_acq_rel, memory_order_acquire))
        return made;
    ts_lines_give(TS_LINES_PAST, made);
    return ring;
}

/* Only the share's thread makes it. */
ts_brief_ring *ts_brief_ring_of(_Atomic(ts_brief_ring *) *place) {
    ts_brief_ring *ring = ts_load_relaxed(place);
    if (TS_LIKELY(ring != NULL)) return ring;
    ring = ts_lines_take(TS_LINES_BRIEF, sizeof *ring);
    ts_store_release(place, ring); /* a reader finds it whole */
    return ring;
}

ts_past *ts_past_begin(ts_past_ring *ring) {
    ts_past *p = &ring->at[atomic_fetch_add_explicit(&ring->next, 1, memory_order_relaxed) % TS_PAST];
    bool taken = atomic_exchange_explicit(&p->id, TS_PAST_TAKEN, memory_order_acquire) == TS_PAST_TAKEN; /* 1 */
    atomic_thread_fence(memory_order_release);                                                           /* 2 */
    return taken ? NULL : p;
}

static bool is_still(const _Atomic uint64_t *at, uint64_t id) {
    atomic_thread_fence(memory_order_acquire); /* 3 */
    return ts_load_relaxed(at) == id;
}

static bool read_past(const ts_past *p, uint64_t id, ts_past_note *out) {
    out->id = id;
    for (unsigned i = 0; i < TS_PAST_LABEL_WORDS; i++) out->label[i] = ts_load_relaxed(&p->label[i]);
    out->opened_ns = ts_load_relaxed(&p->opened_ns);
    out->closed_ns = ts_load_relaxed(&p->closed_ns);
    out->ended_ns = ts_load_relaxed(&p->ended_ns);
    out->returned_bytes = ts_load_relaxed(&p->returned_bytes);
    out->rss_before_kib = ts_load_relaxed(&p->rss_before_kib);
    out->rss_after_kib = ts_load_relaxed(&p->rss_after_kib);
    out->flags = ts_load_relaxed(&p->flags);
    return is_still(&p->id, id);
}

static bool find_past(const ts_past_ring *ring, uint64_t id, ts_past_note *out) {
    for (unsigned i = 0; ring && i < TS_PAST; i++)
        if (ts_load_acquire(&ring->at[i].id) == id) return read_past(&ring->at[i], id, out);
    return false;
}

static bool find_brief(const ts_brief_ring *ring, uint64_t id, ts_past_note *out) {
    for (unsigned i = 0; ring && i < TS_PAST; i++) {
        const ts_brief *b = &ring->at[i];
        if (ts_load_acquire(&b->id) != id) continue;
        *out = (ts_past_note){.id = id, .flags = EPOCH_SCOPE};
        out->opened_ns = ts_load_relaxed(&b->opened_ns);
        ts_tally held = {.slabs = ts_load_relaxed(&b->slabs), .pieces = ts_load_relaxed(&b->pieces)};
        out->returned_bytes = ts_tally_bytes(&held);
        return is_still(&b->id, id);
    }
    return false;
}

bool ts_past_find(ts_allocator *allocator, uint64_t id, ts_past_note *out) {
    if (id == 0 || id == TS_PAST_TAKEN) return false;
    if (find_past(ts_load_acquire(&allocator->past), id, out)) return true;
    for (const ts_share *s = ts_load_acquire(&allocator->shares); s; s = s->allocator_next)
        if (find_past(ts_load_acquire(&s->past), id, out) || find_brief(ts_load_acquire(&s->brief), id, out))
            return true;
    return false;
}

/* Into the list of the newest, if it is one of them. */
static unsigned insert(ts_past_note *out, unsigned count, unsigned most, const ts_past_note *note) {
    unsigned at = count;
    while (at > 0 && out[at - 1].ended_ns < note->ended_ns) at--;
    if (at == most) return count;
    if (count < most) count++;
    for (unsigned i = count - 1; i > at; i--) out[i] = out[i - 1];
    out[at] = *note;
    return count;
}

static unsigned add_newest(const ts_past_ring *ring, ts_past_note *out, unsigned count, unsigned most) {
    uint32_t next = ring ? ts_load_relaxed(&ring->next) : 0;
    for (uint32_t i = 1; ring && i <= most && i <= TS_PAST; i++) {
        const ts_past *p = &ring->at[(next - i) % TS_PAST];
        uint64_t id = ts_load_acquire(&p->id);
        ts_past_note note;
        if (id != 0 && id != TS_PAST_TAKEN && read_past(p, id, &note)) count = insert(out, count, most, &note);
    }
    return count;
}

unsigned ts_past_newest(ts_allocator *allocator, ts_past_note *out, unsigned most) {
    unsigned count = add_newest(ts_load_acquire(&allocator->past), out, 0, most);
    for (const ts_share *s = ts_load_acquire(&allocator->shares); s; s = s->allocator_next)
        count = add_newest(ts_load_acquire(&s->past), out, count, most);
    return count;
}

/* ---- resident memory after an end ------------------------------------------------------------------------ */

static bool set_after(ts_past_ring *ring, uint64_t id, uint32_t kib) {
    for (unsigned i = 0; ring && i < TS_PAST; i++) {
        uint64_t there = id;
        if (ts_load_relaxed(&ring->at[i].id) != id) continue;
        if (!atomic_compare_exchange_strong_explicit(&ring->at[i].id, &there, TS_PAST_TAKEN, memory_order_acquire,
                                                     memory_order_relaxed)) /* 4 */
            return false;
        atomic_thread_fence(memory_order_release); /* 2 */
        ts_store_relaxed(&ring->at[i].rss_after_kib, kib);
        ts_store_release(&ring->at[i].id, id);
        return true;
    }
    return false;
}

static uint32_t resident_kib(void) {
    uint64_t kib = ts_os->resident_bytes() >> 10;
    return kib < UINT32_MAX ? (uint32_t)kib : UINT32_MAX;
}

void ts_past_measure_before(void) { ts_thread.resident_kib = resident_kib(); }

void ts_past_measure(void) {
    uint64_t id = ts_thread.measured;
    ts_allocator *allocator = ts_allocator_find(ts_thread.measured_in);
    ts_thread.measured = 0;
    if (!allocator || !ts_allocator_read_begin(allocator, ts_thread.measured_in)) return;
    uint32_t kib = resident_kib();
    bool set = set_after(ts_load_acquire(&allocator->past), id, kib);
    for (const ts_share *s = ts_load_acquire(&allocator->shares); s && !set; s = s->allocator_next)
        set = set_after(ts_load_acquire(&s->past), id, kib);
    ts_allocator_read_end(allocator);
}

/* Not before the end is over. The note makes the thread settle then; of an epoch that is over it says no more. */
static void measure_later(const ts_epoch *epoch, const ts_allocator *allocator) {
    ts_thread.measured = ts_load_relaxed(&epoch->record.id);
    ts_thread.measured_in = ts_load_relaxed(&allocator->token);
    if (ts_thread.drained_count < TS_DRAINED) ts_thread.drained[ts_thread.drained_count++] = epoch->record.index;
}

/* ---- what is noted of an epoch --------------------------------------------------------------------------- */

uint32_t ts_epoch_held_kib(const ts_epoch *epoch) {
    uint64_t bytes = (uint64_t)ts_load_relaxed(&epoch->span_units) * TS_UNIT_BYTES;
    for (const ts_block *b = ts_load_relaxed(&epoch->blocks); b; b = ts_epoch_next_block(b))
        bytes += ts_block_held_bytes(b);
    return bytes >> 10 < UINT32_MAX ? (uint32_t)(bytes >> 10) : UINT32_MAX;
}

/* p: a record that was begun. measures: there was no close that measured, but this thread has. The memory that the
   epoch held at its close goes back with this end at the latest. */
static void write_past(ts_past *p, const ts_epoch *epoch, bool measures) {
    uint64_t opened = ts_load_relaxed(&epoch->open_since_ns), closed = ts_load_relaxed(&epoch->closed_at_ns);
    uint64_t now = ts_os->coarse_ns(), least = closed > opened ? closed : opened; /* times of a finer clock */
    uint32_t kib = closed ? ts_load_relaxed(&epoch->closed_kib) : ts_epoch_held_kib(epoch);
    for (unsigned i = 0; i < TS_PAST_LABEL_WORDS; i++)
        ts_store_relaxed(&p->label[i], ts_load_relaxed(&epoch->label[i]));
    ts_store_relaxed(&p->opened_ns, opened);
    ts_store_relaxed(&p->closed_ns, closed);
    ts_store_relaxed(&p->ended_ns, now > least ? now : least);
    ts_store_relaxed(&p->returned_bytes, (uint64_t)kib << 10);
    ts_store_relaxed(&p->rss_before_kib, measures ? ts_thread.resident_kib : ts_load_relaxed(&epoch->rss_before_kib));
    ts_store_relaxed(&p->rss_after_kib, ts_load_relaxed(&epoch->rss_after_kib));
    ts_store_relaxed(&p->flags, ts_load_relaxed(&epoch->flags));
    ts_store_release(&p->id, ts_load_relaxed(&epoch->record.id));
}

TS_NOINLINE void ts_epoch_note_end(const ts_epoch *epoch, const ts_block *only) {
    ts_allocator *allocator = ts_load_relaxed(&epoch->allocator);
    if (ts_load_relaxed(&epoch->state) == EPOCH_CLOSING) ts_fetch_add_relaxed(&allocator->draining, (uint64_t)-1);
    if (ts_load_relaxed(&allocator->record.id) == 0) return; /* nobody asks for its epochs any more */
    bool record_rss = allocator->settings.record_rss != 0;
    if (only && ts_epoch_is_plain(epoch) && !record_rss) {
        ts_brief_ring *brief = ts_brief_ring_of(&only->share->brief);
        if (brief) ts_epoch_note_brief(brief, epoch, only);
        return;
    }
    ts_past_ring *ring = ts_past_ring_of(only ? &only->share->past : &allocator->past);
    ts_past *past = ring ? ts_past_begin(ring) : NULL;
    bool measures = record_rss && ts_load_relaxed(&epoch->closed_at_ns) == 0;
    if (past) write_past(past, epoch, measures);
    if (past && measures) measure_later(epoch, allocator);
}
