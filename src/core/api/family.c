/* The calls that name no allocator: in the innermost domain, or in whatever allocator owns the object; and in a named
   domain. */
#include "api/runtime.h"
#include "diagnose/diagnose.h"

#include "cache/allocate.h"
#include "cache/cache.h"
#include "domain/domain_parts.h"
#include "object/find.h"
#include "object/object.h"
#include "observe/observe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A debug build reports allocations outside of every domain, unless TSLAB_HINTS=0 says not to. */
#ifdef TSLAB_DEBUG
#define TS_TELLS_OUTSIDE 1
#else
#define TS_TELLS_OUTSIDE 0
#endif

/* caller: of slab_alloc or one of its family. NULL with errno. */
SlabAllocator *ts_outside_of_domains(const void *caller) {
    SlabAllocator *allocator = slab_allocator_default();
    const ts_allocator *a = allocator ? ts_allocator_find(ts_token(allocator)) : NULL;
    if (!a) return NULL;
    if (TS_UNLIKELY(a->settings.strict)) {
        ts_misuse_call(ts_token(allocator), "slab_alloc", "outside of any domain (TSLAB_STRICT=1)", false, caller);
        return ts_fail_null(EINVAL);
    }
    if (ts_hints(a) || (TS_TELLS_OUTSIDE && !a->settings.hints_given))
        ts_hint("slab_alloc", "outside of any domain: the object lives until it is freed", caller);
    return allocator;
}

/* ---- in the innermost domain ---------------------------------------------------------------------------- */

TS_NOINLINE static void *alloc_outside(size_t size, const void *caller) {
    SlabAllocator *allocator = ts_outside_of_domains(caller);
    return allocator ? slab_malloc(allocator, size) : NULL;
}

/* slab_alloc, by a function that goes on afterwards: its own place is none that a hint may name. */
TS_ALWAYS_INLINE void *alloc_for(size_t size, const void *caller) {
    return TS_LIKELY(ts_thread.domain != NULL) ? slab_alloc(size) : alloc_outside(size, caller);
}

/* Where slab_alloc allocates. caller: where the program goes on, for a hint. */
static void *alloc_innermost(size_t alignment, size_t size, bool zero, const void *caller) {
    const ts_domain_scope *top = ts_thread.domain;
    if (!top) {
        SlabAllocator *allocator = ts_outside_of_domains(caller);
        return allocator ? ts_alloc_current(ts_token(allocator), alignment, size, zero) : NULL;
    }
    void *p = ts_alloc_aligned(top->allocator, alignment, size, top->epoch, zero);
    if (!p && errno == EINVAL) errno = ESTALE; /* the allocator has ended, and the domain with it */
    return p;
}

/* Larger than what is cleared in place, or no case for the fast path. */
TS_ENTRY TS_NOINLINE static void *zero_other(size_t bytes) {
    ts_op_end(&ts_thread);
    /* Spans come zero from the system if they can: below, it is known whether they did. */
    if (TS_UNLIKELY(bytes > TS_QUARTER_BYTES)) return alloc_innermost(16, bytes, true, TS_CALLER());
    void *p = alloc_for(bytes, TS_CALLER());
    return TS_LIKELY(p != NULL) ? memset(p, 0, bytes) : NULL;
}

#define CLEARED_IN_PLACE 64u

TS_ALWAYS_INLINE void *clear_granules(char *from, char *end) {
    memset(from, 0, 16);
    memset(end - 16, 0, 16);
    if (end - from <= 32) return from;
    memset(from + 16, 0, 16);
    memset(end - 32, 0, 16);
    return from;
}

/* As slab_alloc. A small object is cleared here, with all of its granules. */
TS_ENTRY void *slab_alloc_zero(size_t n, size_t size) {
    size_t bytes;
    if (TS_UNLIKELY(__builtin_mul_overflow(n, size, &bytes))) return ts_fail_null(ENOMEM);
    size_t last = (bytes - 1) | 15;
    if (TS_UNLIKELY(last >= CLEARED_IN_PLACE)) return zero_other(bytes);
    char *p = ts_alloc_innermost(&ts_thread, last, false, 0);
    return TS_LIKELY(p != NULL) ? clear_granules(p, p + last + 1) : zero_other(bytes);
}

TS_ENTRY TS_NOINLINE static void *aligned_other(size_t alignment, size_t size) {
    if (!ts_is_pow2(alignment)) return ts_fail_null(EINVAL);
    if (alignment <= 16) return slab_alloc(size);
    if (alignment > (size_t)1 << 30) return ts_fail_null(ENOMEM);
    return alloc_innermost(alignment, size, false, TS_CALLER());
}

/* Some bytes are skipped first, or it is another case. */
TS_ENTRY TS_NOINLINE static void *aligned_behind(size_t alignment, size_t size) {
    ts_tls *tls = &ts_thread;
    size_t bytes = (size + 15) & ~(size_t)15;
    bool small = ts_is_pow2(alignment) && ts_scope_may_align(alignment, bytes) &&
                 alignment <= ts_load_relaxed(&ts_aligned_most); /* else the slow path notes it */
    ts_op_begin(tls);                                            /* ends the caller's */
    ts_scope_block *block = ts_load_relaxed(&tls->scope);
    void *p = NULL;
    if (TS_LIKELY(small) && TS_LIKELY(ts_is_other_relaxed_64(&block->b.open_id, TS_ID_NEVER)))
        p = ts_scope_bump_aligned(block, alignment, bytes);
    ts_op_end(tls);
    return TS_LIKELY(p != NULL) ? p : aligned_other(alignment, size);
}

/* As slab_alloc, whose next object happens to lie right. */
TS_ENTRY void *slab_alloc_aligned(size_t alignment, size_t size) {
    void *p = ts_alloc_innermost(&ts_thread, (size - 1) | 15, true, alignment);
    return TS_LIKELY(p != NULL) ? p : aligned_behind(alignment, size);
}

TS_ENTRY void *slab_alloc_memdup(const void *from, size_t n) {
    void *p = alloc_for(n, TS_CALLER());
    return p && n ? memcpy(p, from, n) : p;
}

TS_ENTRY char *slab_alloc_strndup(const char *text, size_t n) {
    const char *end = memchr(text, 0, n);
    size_t length = end ? (size_t)(end - text) : n;
    char *p = length < SIZE_MAX ? alloc_for(length + 1, TS_CALLER()) : NULL;
    if (!p) return NULL;
    memcpy(p, text, length);
    p[length] = 0;
    return p;
}

TS_ENTRY char *slab_alloc_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *p = alloc_for(bytes, TS_CALLER());
    return p ? memcpy(p, text, bytes) : NULL;
}

/* Most texts are short: they are written once, and copied. */
static char *print(const char *format, va_list arguments, const void *caller) {
    char text[256];
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(text, sizeof text, format, arguments);
    char *p = length < 0 ? NULL : alloc_for((size_t)length + 1, caller);
    if (p && (size_t)length < sizeof text)
        memcpy(p, text, (size_t)length + 1);
    else if (p)
        (void)vsnprintf(p, (size_t)length + 1, format, again);
    va_end(again);
    return p;
}

TS_ENTRY char *slab_alloc_vprintf(const char *format, va_list arguments) {
    return print(format, arguments, TS_CALLER());
}

TS_ENTRY char *slab_alloc_printf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *p = print(format, arguments, TS_CALLER());
    va_end(arguments);
    return p;
}

/* ---- in a named domain ----------------------------------------------------------------------------------- */

/* Another case than the usual one; the domain is the calling thread's, or shared. */
TS_ENTRY TS_NOINLINE static void *domain_alloc_other(uint64_t id, size_t size) {
    const ts_domain *d = ts_domain_mine(id, "epoch_domain_alloc");
    if (!d) return NULL;
    ts_thread.named = d;
    ts_domain_fields f = ts_domain_read(id);
    return f.token ? slab_malloc_epoch(ts_public(f.token), size, f.epoch) : ts_fail_null(EINVAL);
}

/* The usual domain: this thread's own, whose scope block it has used last by the id of its epoch or the domain, and
   that it has named last. */
TS_ENTRY void *epoch_domain_alloc(EpochDomain *domain, size_t size) {
    ts_tls *tls = &ts_thread;
    uint64_t id = (uintptr_t)domain, bump, next;
    const ts_domain *d = tls->named;
    if (TS_UNLIKELY(!d)) return domain_alloc_other(id, size);
    if (TS_UNLIKELY(ts_load_acquire(&d->owner) != tls->serial)) return domain_alloc_other(id, size);
    EpochId epoch =
        ts_load_acquire(&d->epoch); /* acquire: the id is looked at after both; partner of the fence in begin_domain */
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&d->record.id, id))) return domain_alloc_other(id, size);
    ts_op_begin(tls);
    ts_scope_block *scope = tls->last;
    if (TS_UNLIKELY(ts_is_other_relaxed_64(&scope->b.open_id, epoch)) ||
        TS_UNLIKELY(!ts_fast_has_room(scope, size, &bump, &next))) {
        ts_op_end(tls);
        return domain_alloc_other(id, size);
    }
    void *p = ts_fast_bump(scope, bump, next);
    ts_op_end(tls);
    return p;
}

/* ---- in whichever allocator owns it ---------------------------------------------------------------------- */

TS_COLD static bool owned_by_none(const char *call, const void *p) {
    ts_misuse_free(TS_ANY_ALLOCATOR, call, p, NULL, NULL);
    return false;
}

TS_ENTRY bool slab_release(void *p) {
    if (TS_UNLIKELY(p == NULL)) return true;
    uintptr_t token = ts_object_owner(p);
    if (TS_UNLIKELY(token == 0)) return owned_by_none("slab_release", p);
    return slab_free(ts_public(token), p);
}

TS_ENTRY void *slab_alloc_resize(void *p, size_t size) {
    if (p == NULL) return slab_alloc(size);
    uintptr_t token = ts_object_owner(p);
    if (TS_LIKELY(token != 0)) return slab_realloc(ts_public(token), p, size);
    (void)owned_by_none("slab_alloc_resize", p);
    return ts_fail_null(EINVAL);
}

TS_ENTRY void *slab_realloc_epoch(SlabAllocator *allocator, void *p, size_t size, EpochId epoch) {
    return p ? slab_realloc(allocator, p, size) : slab_malloc_epoch(allocator, size, epoch);
}

size_t slab_walk(SlabAllocator *allocator, EpochId epoch, bool (*fn)(void *, size_t, void *), void *arg) {
    ts_allocator *a = ts_allocator_find(ts_token(allocator));
    if (!a || !fn || !ts_epoch_find(a, epoch)) return ts_fail(EINVAL);
    return ts_epoch_walk(ts_token(allocator), epoch, fn, arg);
}
