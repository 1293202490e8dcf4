/* Allocators, epochs, domains, memory on demand: arguments checked, then one call below. */
/* Modelled in tests/model: record, orders. */
#include "api/api.h"
#include "api/runtime.h"
#include "cache/cache.h"
#include "epoch/epoch.h"
#include "ownership/ownership.h"
#include "supply/supply.h"

#include "diagnose/diagnose.h"
#include "domain/domain.h"
#include "object/object.h"
#include "observe/observe.h"
#include "os/os.h"

#include <errno.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *slab_version(void) {
    return TEXT(TSLAB_VERSION_MAJOR) "." TEXT(TSLAB_VERSION_MINOR) "." TEXT(TSLAB_VERSION_PATCH);
}

/* ---- allocators -------------------------------------------------------------------------------------------- */

SlabAllocator *slab_allocator_create_ex(const SlabOptions *options) {
    ts_settings settings;
    bool first;
    if (!ts_settings_resolve(options, &settings) || !ts_runtime_start(&first)) return NULL;
    ts_allocator *a = ts_allocator_make(&settings);
    if (first) ts_private_start_page(); /* a reader finds the allocator in its first bank */
    return a ? ts_public(ts_load_relaxed(&a->token)) : NULL;
}

SlabAllocator *slab_allocator_create(void) { return slab_allocator_create_ex(NULL); }

SlabAllocator *slab_allocator_default(void) {
    uintptr_t token = ts_load_acquire(&ts_default_token); /* partner: the exchange below */
    if (TS_LIKELY(token != 0)) return ts_public(token);
    SlabAllocator *made = slab_allocator_create();
    if (!made) return NULL;
    /* Two threads may both make one; the second is freed again. */
    if (ts_cas_seq(&ts_default_token, &token, ts_token(made))) return made;
    ts_allocator *extra = ts_allocator_find(ts_token(made));
    ts_store_release(&extra->record.id, 0);
    ts_allocator_end(extra);
    return ts_public(token);
}

void slab_allocator_free(SlabAllocator *allocator) {
    uintptr_t token = ts_token(allocator);
    if (token == 0 || token == ts_load_acquire(&ts_default_token)) return;
    if (token == ts_load_acquire(&ts_refusals.token)) return; /* the process's malloc */
    ts_allocator *a = ts_allocator_find(token);
    if (!a) return;
    /* One of several that free it at once goes on; from here on its value is stale everywhere. */
    uint64_t id = token;
    if (!ts_cas_seq(&a->record.id, &id, 0)) return;
    ts_allocator_end(a);
}

/* ---- epochs -------------------------------------------------------------------------------------------- */

EpochId epoch_current(SlabAllocator *allocator) {
    ts_allocator *a = ts_api_find(allocator);
    return a ? ts_epoch_current(a, ts_token(allocator)) : EPOCH_NONE;
}

EpochId epoch_advance(SlabAllocator *allocator) {
    ts_allocator *a = ts_api_find(allocator);
    return a ? ts_epoch_advance(a, ts_token(allocator)) : EPOCH_NONE;
}

/* Says why these flags were refused, if it was for them. of_domain: those of domains are known, too. */
TS_COLD static void tell_flags(const SlabAllocator *allocator, const char *call, unsigned flags, bool of_domain,
                               const void *caller) {
    int error = errno;
    const char *why = NULL;
    if (error == ENOTSUP)
        why = "EPOCH_DOMAIN_CAPTURE without libtslab-malloc in the process";
    else if (error != EINVAL)
        return;
    else if (flags & ~(TS_EPOCH_KINDS | TS_DOMAIN_FLAGS))
        why = "a flag that does not exist";
    else if (!of_domain && (flags & TS_DOMAIN_FLAGS))
        why = "a flag that is for domains only";
    else if ((flags & TS_EPOCH_KINDS) == TS_EPOCH_KINDS)
        why = "EPOCH_CHURN and EPOCH_SCOPE together";
    else if (flags & EPOCH_DOMAIN_SHARED)
        why = "a shared child of a domain that is not";
    if (why) ts_misuse_call(ts_token(allocator), call, why, error == ENOTSUP, caller);
    errno = error;
}

EpochId epoch_open(SlabAllocator *allocator, const char *label, unsigned flags) {
    ts_allocator *a = ts_api_find(allocator);
    EpochId id = a ? ts_epoch_open(a, ts_token(allocator), label, flags, ts_epoch_first(a)) : EPOCH_NONE;
    if (TS_UNLIKELY(id == EPOCH_NONE)) tell_flags(allocator, "epoch_open", flags, false, TS_CALLER());
    return id;
}

/* The allocator of an epoch that may be ended, or handed over; NULL with errno. Threads do not look whether the epoch
   of the process's malloc has ended, nor whether a block there still is theirs (private_objects.c). */
static ts_allocator *find_to_end(const SlabAllocator *allocator, EpochId epoch) {
    ts_allocator *a = ts_api_find(allocator);
    if (TS_LIKELY(epoch != ts_load_relaxed(&ts_kept_epoch)) || epoch == EPOCH_NONE) return a;
    return ts_fail_null(EBUSY);
}

bool epoch_close(SlabAllocator *allocator, EpochId epoch) {
    ts_allocator *a = find_to_end(allocator, epoch);
    return a && ts_epoch_close(a, epoch);
}

bool epoch_destroy(SlabAllocator *allocator, EpochId epoch) {
    ts_allocator *a = find_to_end(allocator, epoch);
    return a && ts_epoch_destroy(a, epoch);
}

int epoch_state(SlabAllocator *allocator, EpochId epoch) {
    ts_allocator *a = ts_api_find(allocator);
    ts_epoch *e = a ? ts_epoch_find(a, epoch) : NULL;
    if (!e) return EPOCH_CLOSED;
    int state = (int)ts_load_relaxed(&e->state);
    if (!ts_epoch_is_still(e, epoch)) return EPOCH_CLOSED;
    if (state != EPOCH_CLOSING) return state;
    ts_epoch_run_deferred(); /* what others have left to this thread may be all that is left in it */
    ts_epoch_finish(e, epoch);
    bool is_away = ts_load_acquire(&e->is_away);
    return !ts_epoch_find(a, epoch) ? EPOCH_CLOSED : is_away ? EPOCH_SPILLED : EPOCH_CLOSING;
}

bool slab_epoch_set_label(SlabAllocator *allocator, EpochId epoch, const char *label) {
    ts_allocator *a = ts_api_find(allocator);
    ts_epoch *e = a ? ts_epoch_find(a, epoch) : NULL;
    if (!e) return false;
    ts_epoch_acquire(e);
    bool same = ts_load_relaxed(&e->record.id) == epoch && ts_load_relaxed(&e->allocator) == a;
    if (same) ts_epoch_set_label(e, label);
    ts_epoch_release(e);
    return same;
}

/* ---- domains -------------------------------------------------------------------------------------------- */

static uint64_t domain_id(const EpochDomain *domain) { return (uintptr_t)domain; }
static EpochDomain *domain_public(uint64_t id) { return (EpochDomain *)(uintptr_t)id; }

EpochDomain *epoch_domain_create_ex(SlabAllocator *allocator, const char *label, unsigned flags) {
    if (!allocator) allocator = slab_allocator_default();
    ts_allocator *a = allocator ? ts_api_find(allocator) : NULL;
    uint64_t id = a ? ts_domain_open(a, ts_token(allocator), label, flags) : 0;
    if (TS_UNLIKELY(id == 0)) tell_flags(allocator, "epoch_domain_create_ex", flags, true, TS_CALLER());
    return domain_public(id);
}

EpochDomain *epoch_domain_create_child(EpochDomain *parent, const char *label, unsigned flags) {
    uint64_t id = ts_domain_create_child(domain_id(parent), label, flags);
    SlabAllocator *allocator = TS_UNLIKELY(id == 0) ? epoch_domain_allocator(parent) : NULL;
    if (allocator) tell_flags(allocator, "epoch_domain_create_child", flags, true, TS_CALLER());
    return domain_public(id);
}

EpochDomain *epoch_domain_parent(const EpochDomain *domain) { return domain_public(ts_tree_parent(domain_id(domain))); }

bool epoch_domain_move(EpochDomain *child, EpochDomain *parent) {
    return ts_domain_move(domain_id(child), domain_id(parent));
}

bool epoch_set_limit(SlabAllocator *allocator, EpochId epoch, size_t bytes) {
    ts_allocator *a = ts_api_find(allocator);
    return a && ts_limit_set(a, epoch, bytes);
}

bool epoch_domain_set_limit(EpochDomain *domain, size_t bytes) {
    ts_domain_fields f = ts_domain_read(domain_id(domain));
    return f.token ? epoch_set_limit(ts_public(f.token), f.epoch, bytes) : ts_fail(EINVAL);
}

size_t epoch_domain_held(EpochDomain *domain) {
    ts_domain_fields f = ts_domain_read(domain_id(domain));
    ts_allocator *a = ts_allocator_find(f.token);
    return a ? ts_limit_held(a, f.epoch) : 0;
}

bool epoch_domain_end(EpochDomain *domain) { return ts_domain_end(domain_id(domain)); }

EpochDomain *epoch_domain_create(SlabAllocator *allocator) {
    if (!allocator) allocator = slab_allocator_default();
    uint64_t id = ts_domain_make(ts_token(allocator));
    return TS_LIKELY(id != 0) ? domain_public(id) : epoch_domain_create_ex(allocator, NULL, 0);
}

EpochDomain *epoch_domain_wrap(SlabAllocator *allocator, EpochId epoch, bool auto_close) {
    if (!allocator) allocator = slab_allocator_default();
    ts_allocator *a = allocator ? find_to_end(allocator, epoch) : NULL; /* a domain can end it, and hand it over */
    if (!a) return NULL;
    return domain_public(ts_domain_wrap(a, ts_token(allocator), epoch, auto_close ? TS_EPOCH_ENDS : TS_EPOCH_STAYS));
}

bool epoch_domain_enter(EpochDomain *domain) { return ts_domain_enter(domain_id(domain)); }
bool epoch_domain_exit(EpochDomain *domain) { return ts_domain_exit(domain_id(domain)); }

void epoch_domain_destroy(EpochDomain *domain) {
    if (domain) ts_domain_destroy(domain_id(domain));
}

bool epoch_domain_force_close(EpochDomain *domain) { return ts_domain_force_close(domain_id(domain)); }

bool epoch_domain_reset(EpochDomain *domain, size_t keep_bytes) {
    return ts_domain_reset(domain_id(domain), keep_bytes);
}

bool epoch_domain_on_destroy(EpochDomain *domain, void (*fn)(void *), void *arg) {
    return ts_domain_on_destroy(domain_id(domain), fn, arg);
}

bool epoch_domain_off_destroy(EpochDomain *domain, void (*fn)(void *), void *arg) {
    return ts_domain_off_destroy(domain_id(domain), fn, arg);
}

bool epoch_domain_mark(EpochDomain *domain, SlabMark *mark) { return ts_mark_make(domain_id(domain), mark); }
bool epoch_domain_rewind(EpochDomain *domain, SlabMark mark) { return ts_mark_rewind(domain_id(domain), mark); }

bool epoch_domain_hand_over(EpochDomain *domain) { return ts_domain_hand_over(domain_id(domain)); }

EpochDomain *epoch_domain_current(void) { return ts_thread.domain ? domain_public(ts_thread.domain->domain) : NULL; }

SlabAllocator *epoch_domain_allocator(const EpochDomain *domain) {
    return ts_public(ts_domain_read(domain_id(domain)).token);
}
EpochId epoch_domain_epoch(const EpochDomain *domain) { return ts_domain_read(domain_id(domain)).epoch; }

TS_ENTRY void *slab_promote(EpochDomain *to, void *p) { return ts_domain_promote(domain_id(to), p); }

/* ---- memory on demand ----------------------------------------------------------------------------------- */

static uint64_t units_of(size_t bytes) { return bytes / TS_UNIT_BYTES + (bytes % TS_UNIT_BYTES != 0); }

bool slab_reserve(SlabAllocator *allocator, size_t bytes) {
    ts_allocator *a = ts_api_find_pinned(allocator);
    if (!a) return false;
    bool done = ts_allocator_reserve(a, units_of(bytes));
    int error = errno;
    ts_allocator_unpin(a);
    errno = error;
    return done;
}

size_t slab_trim(SlabAllocator *allocator) {
    ts_allocator *a = ts_api_find_pinned(allocator);
    if (!a) return 0;
    ts_store_relaxed(&a->reserved_units, 0);
    /* All that goes back during the call, by whichever way. */
    uint64_t before = ts_load_relaxed(&a->madvise_bytes);
    if (ts_thread.heap) ts_heap_let_go(ts_thread.heap, a);
    ts_allocator_trim(a);
    if (ts_thread.heap) ts_hollow_purge(ts_thread.heap, a);
    ts_epoch_run_deferred();
    ts_records_purge(true);
    size_t given = (size_t)(ts_load_relaxed(&a->madvise_bytes) - before);
    ts_allocator_unpin(a);
    return given;
}

size_t slab_maintain(SlabAllocator *allocator, uint64_t max_ns) {
    ts_allocator *a = ts_api_find_pinned(allocator);
    if (!a) return 0;
    uint64_t now = ts_os->wall_ns(), before = ts_load_relaxed(&a->madvise_bytes);
    ts_allocator_maintain(a, max_ns < UINT64_MAX - now ? now + max_ns : UINT64_MAX);
    ts_epoch_finish_over(a);
    ts_decay_run(max_ns < UINT64_MAX - now ? now + max_ns : UINT64_MAX);
    ts_epoch_run_deferred();
    size_t given = (size_t)(ts_load_relaxed(&a->madvise_bytes) - before);
    ts_allocator_unpin(a);
    return given;
}

bool slab_set_sample_stacks(SlabAllocator *allocator, size_t bytes) {
    ts_allocator *a = ts_api_find_pinned(allocator);
    if (!a) return false;
    bool done = bytes == 0 || ts_stacks_start();
    if (done) {
        ts_stacks_set_rate(a, bytes);
        if (ts_thread.heap) ts_sample_look(ts_thread.heap);
    }
    ts_allocator_unpin(a);
    if (!done) errno = ENOMEM;
    return done;
}

bool slab_set_budget(SlabAllocator *allocator, size_t bytes) {
    ts_allocator *a = ts_api_find_pinned(allocator);
    if (!a) return false;
    ts_store_relaxed(&a->budget_bytes, bytes);
    ts_store_relaxed(&a->budget_told, 0);
    uint64_t units = ts_allocator_budget_units(a);
    if (units && ts_load_relaxed(&a->committed_units) > units) {
        ts_store_relaxed(&a->reserved_units, 0); /* it goes back with the rest */
        ts_allocator_trim(a);
        ts_epoch_run_deferred();
    }
    ts_allocator_unpin(a);
    return true;
}

void slab_thread_idle(void) {
    ts_heap *heap = ts_thread.heap;
    if (heap) ts_domain_collect_any_returned(heap);
    if (heap) ts_heap_idle(heap);
    ts_epoch_run_deferred();
}
