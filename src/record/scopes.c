/*
 * The functions of libtslab, where the program uses it: objects in epochs and domains, and what becomes of these. A
 * scope is an epoch; a domain has the number of its own. Calls of the library to itself are not seen: the end of a
 * domain stands for those of its children.
 */
#define _GNU_SOURCE
#include "record/inside.h"
#include "record/next.h"

#include <tslab/tslab.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* `next`: the library's function. `is_in`: this call is recorded. */
#define HOOK(type, name, parameters)          \
    type(*next) parameters;                   \
    static type(*found) parameters;           \
    if (UNLIKELY(!found)) NEXT(found, #name); \
    next = found

static EpochId epoch_of(const EpochDomain *domain) {
    HOOK(EpochId, epoch_domain_epoch, (const EpochDomain *));
    return next(domain);
}

static uint64_t scope_of_domain(const EpochDomain *domain) { return domain ? epoch_of(domain) : 0; }

static uint64_t scope_here(void) {
    HOOK(EpochDomain *, epoch_domain_current, (void));
    return scope_of_domain(next());
}

static uint64_t scope_now(SlabAllocator *allocator) {
    HOOK(EpochId, epoch_current, (SlabAllocator *));
    return next(allocator);
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

#define BIRTH(name, parameters, types, values, size, align, scope) \
    EXPORT void *name parameters {                                 \
        HOOK(void *, name, types);                                 \
        if (!record_begin_birth()) return next values;             \
        void *p = next values;                                     \
        if (p) record_birth(p, size, align, scope, true);          \
        record_end();                                              \
        return p;                                                  \
    }

BIRTH(slab_malloc, (SlabAllocator * a, size_t size), (SlabAllocator *, size_t), (a, size), size, 0, scope_now(a))
BIRTH(slab_malloc_epoch, (SlabAllocator * a, size_t size, EpochId e), (SlabAllocator *, size_t, EpochId), (a, size, e),
      size, 0, e)
BIRTH(slab_calloc_epoch, (SlabAllocator * a, size_t n, size_t size, EpochId e),
      (SlabAllocator *, size_t, size_t, EpochId), (a, n, size, e), n *size, 0, e)
BIRTH(slab_aligned_epoch, (SlabAllocator * a, size_t align, size_t size, EpochId e),
      (SlabAllocator *, size_t, size_t, EpochId), (a, align, size, e), size, align, e)
BIRTH(slab_alloc, (size_t size), (size_t), (size), size, 0, scope_here())
BIRTH(slab_alloc_zero, (size_t n, size_t size), (size_t, size_t), (n, size), n *size, 0, scope_here())
BIRTH(slab_alloc_aligned, (size_t align, size_t size), (size_t, size_t), (align, size), size, align, scope_here())
BIRTH(slab_alloc_memdup, (const void *from, size_t n), (const void *, size_t), (from, n), n, 0, scope_here())
BIRTH(epoch_domain_alloc, (EpochDomain * d, size_t size), (EpochDomain *, size_t), (d, size), size, 0,
      scope_of_domain(d))
BIRTH(alloc_obj_epoch, (SlabAllocator * a, size_t size, EpochId e, SlabHandle *out),
      (SlabAllocator *, size_t, EpochId, SlabHandle *), (a, size, e, out), size, 0, e)

#define TEXT_BIRTH(name, parameters, types, values)                   \
    EXPORT char *name parameters {                                    \
        HOOK(char *, name, types);                                    \
        if (!record_begin_birth()) return next values;                \
        char *p = next values;                                        \
        if (p) record_birth(p, strlen(p) + 1, 0, scope_here(), true); \
        record_end();                                                 \
        return p;                                                     \
    }

TEXT_BIRTH(slab_alloc_strdup, (const char *text), (const char *), (text))
TEXT_BIRTH(slab_alloc_strndup, (const char *text, size_t n), (const char *, size_t), (text, n))
TEXT_BIRTH(slab_alloc_vprintf, (const char *format, va_list arguments), (const char *, va_list), (format, arguments))

EXPORT char *slab_alloc_printf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *p = slab_alloc_vprintf(format, arguments);
    va_end(arguments);
    return p;
}

/* As realloc: with nothing to resize it is a birth. */
#define RESIZE(name, parameters, types, values, pointer, size, scope)                    \
    EXPORT void *name parameters {                                                       \
        HOOK(void *, name, types);                                                       \
        const bool is_in = pointer ? record_begin_death(pointer) : record_begin_birth(); \
        if (!is_in) return next values;                                                  \
        const bool is_told = pointer && record_leave(pointer);                           \
        void *q = next values;                                                           \
        if (is_told) record_arrive(q ? q : pointer, q ? size : 0);                       \
        if (q && !pointer) record_birth(q, size, 0, scope, true);                        \
        record_end();                                                                    \
        return q;                                                                        \
    }

RESIZE(slab_realloc, (SlabAllocator * a, void *p, size_t size), (SlabAllocator *, void *, size_t), (a, p, size), p,
       size, scope_now(a))
RESIZE(slab_realloc_aligned, (SlabAllocator * a, void *p, size_t align, size_t size),
       (SlabAllocator *, void *, size_t, size_t), (a, p, align, size), p, size, scope_now(a))
RESIZE(slab_realloc_epoch, (SlabAllocator * a, void *p, size_t size, EpochId e),
       (SlabAllocator *, void *, size_t, EpochId), (a, p, size, e), p, size, e)
RESIZE(slab_alloc_resize, (void *p, size_t size), (void *, size_t), (p, size), p, size, scope_here())

/* A free that is refused is none: so the event comes after the call, with the time before it. */
#define DEATH(name, parameters, types, values, pointer)      \
    EXPORT bool name parameters {                            \
        HOOK(bool, name, types);                             \
        void *const object = pointer;                        \
        if (!record_begin_death(object)) return next values; \
        const uint64_t time_ns = record_now();               \
        const bool done = next values;                       \
        if (done) record_death_at(object, time_ns);          \
        record_end();                                        \
        return done;                                         \
    }

static void *of_handle(SlabAllocator *allocator, SlabHandle handle) {
    HOOK(void *, slab_handle_get, (SlabAllocator *, SlabHandle));
    return next(allocator, handle);
}

DEATH(slab_free, (SlabAllocator * a, void *p), (SlabAllocator *, void *), (a, p), p)
DEATH(slab_release, (void *p), (void *), (p), p)
DEATH(free_obj, (SlabAllocator * a, SlabHandle h), (SlabAllocator *, SlabHandle), (a, h), of_handle(a, h))

/* ---- epochs and domains ------------------------------------------------------------------------------------------ */

static void tell(uint8_t kind, uint64_t scope, const char *label) {
    if (!record_begin()) return;
    record_scope(kind, scope, label);
    record_end();
}

EXPORT EpochId epoch_open(SlabAllocator *a, const char *label, unsigned flags) {
    HOOK(EpochId, epoch_open, (SlabAllocator *, const char *, unsigned));
    EpochId e = next(a, label, flags);
    if (e != EPOCH_NONE) tell(RAW_SCOPE_CREATE, e, label);
    return e;
}

EXPORT EpochId epoch_advance(SlabAllocator *a) {
    HOOK(EpochId, epoch_advance, (SlabAllocator *));
    const uint64_t before = scope_now(a);
    EpochId e = next(a);
    if (e == EPOCH_NONE) return e;
    tell(RAW_SCOPE_CLOSE, before, NULL);
    tell(RAW_SCOPE_CREATE, e, NULL);
    return e;
}

EXPORT bool epoch_close(SlabAllocator *a, EpochId e) {
    HOOK(bool, epoch_close, (SlabAllocator *, EpochId));
    const bool done = next(a, e);
    if (done) tell(RAW_SCOPE_CLOSE, e, NULL);
    return done;
}

EXPORT bool epoch_destroy(SlabAllocator *a, EpochId e) {
    HOOK(bool, epoch_destroy, (SlabAllocator *, EpochId));
    const bool done = next(a, e);
    if (done) tell(RAW_SCOPE_END, e, NULL);
    return done;
}

static EpochDomain *created(EpochDomain *d, const char *label) {
    if (d) tell(RAW_SCOPE_CREATE, scope_of_domain(d), label);
    return d;
}

EXPORT EpochDomain *epoch_domain_create(SlabAllocator *a) {
    HOOK(EpochDomain *, epoch_domain_create, (SlabAllocator *));
    return created(next(a), NULL);
}

EXPORT EpochDomain *epoch_domain_create_ex(SlabAllocator *a, const char *label, unsigned flags) {
    HOOK(EpochDomain *, epoch_domain_create_ex, (SlabAllocator *, const char *, unsigned));
    return created(next(a, label, flags), label);
}

EXPORT EpochDomain *epoch_domain_create_child(EpochDomain *parent, const char *label, unsigned flags) {
    HOOK(EpochDomain *, epoch_domain_create_child, (EpochDomain *, const char *, unsigned));
    return created(next(parent, label, flags), label);
}

EXPORT bool epoch_domain_enter(EpochDomain *d) {
    HOOK(bool, epoch_domain_enter, (EpochDomain *));
    const bool done = next(d);
    if (!done) return false;
    if (record_self.depth++ == 0) record_turn();
    tell(RAW_SCOPE_ENTER, scope_of_domain(d), NULL);
    return true;
}

EXPORT bool epoch_domain_exit(EpochDomain *d) {
    HOOK(bool, epoch_domain_exit, (EpochDomain *));
    const uint64_t scope = scope_of_domain(d);
    const bool done = next(d);
    if (!done) return false;
    if (record_self.depth) record_self.depth--;
    tell(RAW_SCOPE_LEAVE, scope, NULL);
    return true;
}

EXPORT void epoch_domain_destroy(EpochDomain *d) {
    HOOK(void, epoch_domain_destroy, (EpochDomain *));
    const uint64_t scope = scope_of_domain(d);
    next(d);
    if (scope) tell(RAW_SCOPE_END, scope, NULL);
}

#define ENDS(name, parameters, types, values, kind) \
    EXPORT bool name parameters {                   \
        HOOK(bool, name, types);                    \
        const uint64_t scope = scope_of_domain(d);  \
        const bool done = next values;              \
        if (done && scope) tell(kind, scope, NULL); \
        return done;                                \
    }

ENDS(epoch_domain_end, (EpochDomain * d), (EpochDomain *), (d), RAW_SCOPE_END)
ENDS(epoch_domain_force_close, (EpochDomain * d), (EpochDomain *), (d), RAW_SCOPE_END)
ENDS(epoch_domain_reset, (EpochDomain * d, size_t keep), (EpochDomain *, size_t), (d, keep), RAW_SCOPE_RESET)
