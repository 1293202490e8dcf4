#include "malloc/process.h"

#include "api/api.h"
#include "malloc/capture.h"
#include "malloc/fork.h"
#include "malloc/hard.h"
#include "malloc/libc_heap.h"
#include "malloc/plan.h"
#include "malloc/spare.h"
#include "malloc/static.h"
#include "os/os.h"

#include <tslab/malloc.h>
#include <tslab_build.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

tm_target tm_process;
_Atomic bool tm_process_checks = true;

#ifdef TSLAB_MALLOC_STATIC
/* A program that has malloc of this archive has all of the archive. */
__attribute__((used)) static const tm_part *const parts = tm_static_parts;
#endif

/* ---- start ------------------------------------------------------------------------------------------------- */

/* Threads that come meanwhile, this one included, take from the spare: the making allocates nothing that has to stay.
   */
static _Atomic uint32_t making;

static bool is_refusal_dealt_with(void *p);

TS_COLD static void check_build(void) {
    if (strcmp(ts_private_build, TSLAB_BUILD) == 0) return;
    ts_text line = {.used = 0};
    ts_text_put(&line, "tslab: libtslab-malloc.so is of build " TSLAB_BUILD ", libtslab.so of build ");
    ts_text_put(&line, ts_private_build);
    ts_text_write(&line);
    _Exit(127);
}

SlabAllocator *tm_process_allocator(void) {
    SlabAllocator *allocator = tm_target_allocator(&tm_process);
    return TS_LIKELY(allocator != NULL) ? allocator : tm_target_allocator(&tm_hard);
}

static bool open_epoch(SlabAllocator *allocator) {
    EpochId epoch = epoch_open(allocator, "malloc", EPOCH_CHURN);
    if (epoch == EPOCH_NONE) return false;
    ts_private_keep(epoch);
    ts_store_relaxed(&tm_process.epoch, epoch);
    ts_store_relaxed(&tm_hard.epoch, epoch);
    return true;
}

/* The hard mode marks and looks by itself; tools that do so too would take its canaries for mistakes. */
static SlabAllocator *create(bool hard) {
    SlabOptions options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    if (hard) options.memory_tools = SLAB_TOOLS_OFF;
#ifdef TM_SEES_THREADS
    options.background = ts_private_background_later();
#endif
    return slab_allocator_create_ex(&options);
}

static bool is_served(SlabAllocator *allocator, uint32_t harden) {
    if (!open_epoch(allocator)) return false;
    if (!harden) {
        ts_private_serve(allocator);
        /* release: partner of tm_target_allocator */
        atomic_store_explicit(&tm_process.allocator, allocator, memory_order_release);
        return true;
    }
    if (!tm_hard_start(allocator, tm_target_epoch(&tm_process), harden)) return false;
    ts_store_relaxed(&tm_target_usual, &tm_process);
    return true;
}

TS_COLD static bool make(void) {
    check_build();
    tm_malloc_fork_start();
    if (!ts_private_start()) return false;
    uint32_t harden = ts_private_harden();
    SlabAllocator *allocator = create(harden != 0);
    if (!allocator) return false;
    ts_store_relaxed(&tm_process_checks, harden != 0 || ts_private_misuse_mode(allocator) != SLAB_MISUSE_IGNORE);
    ts_private_ask_before_refusal(allocator, is_refusal_dealt_with);
    if (is_served(allocator, harden)) return true;
    slab_allocator_free(allocator);
    return false;
}

bool tm_process_start(void) {
    if (tm_process_allocator()) return true;
    /* Before libc has its environment, it has read none of its own settings either. */
    if (!environ || atomic_exchange(&making, 1)) return false;
    int error = errno;
    bool made = make();
    if (!made) atomic_store(&making, 0);
    errno = error;
    return made;
}

/* At load, as the first call may come from a thread, or never. */
TS_AT_LOAD static void start_at_load(void) {
    if (!tm_process_start()) return;
    tm_libc_heap_start();
    tm_capture_start();
    tm_plan_start();
    ts_private_start_page();
}

/* ---- allocations that the first try has not given ---------------------------------------------------------------- */

static void *alloc(SlabAllocator *allocator, size_t alignment, size_t size, bool zero, tm_kind kind) {
    if (tm_is_hard()) return tm_hard_alloc(alignment, size, zero, kind);
    EpochId epoch = tm_target_epoch(&tm_process);
    if (alignment > 16) {
        void *p = slab_aligned_epoch(allocator, alignment, size, epoch);
        return p && zero ? memset(p, 0, size) : p;
    }
    return zero ? slab_calloc_epoch(allocator, 1, size, epoch) : slab_malloc_epoch(allocator, size, epoch);
}

TS_COLD void *tm_process_alloc_rest(size_t alignment, size_t size, bool zero, tm_kind kind) {
    int error = errno;
    if (tm_process_start()) {
        SlabAllocator *allocator = tm_process_allocator();
        void *p = alloc(allocator, alignment, size, zero, kind);
        if (!p && ts_private_has_heap()) {
            errno = ENOMEM;
            return NULL;
        }
        if (p) {
            errno = error;
            return p;
        }
    }
    void *p = tm_spare_alloc(alignment, size);
    if (!p) return NULL;
    errno = error;
    return zero ? memset(p, 0, size) : p;
}

void *tm_process_alloc_unusual(size_t alignment, size_t size, bool zero, tm_kind kind, const void *caller) {
    if (TS_UNLIKELY(tm_is_captured())) {
        /* An answer of the domain can leave two values of errno. 0 means the process's target. */
        int before = errno;
        void *p = tm_capture_alloc(alignment, size, zero, caller);
        if (p || errno != 0) return p;
        errno = before;
    }
    if (tm_is_hard()) {
        void *p = tm_hard_alloc(alignment, size, zero, kind);
        if (TS_LIKELY(p != NULL)) return p;
    }
    return tm_process_alloc_rest(alignment, size, zero, kind);
}

/* ---- pointers that are not the process's --------------------------------------------------------------------------
   */

/* Asked of every pointer that is no live object of the process's allocator. */
static bool is_refusal_dealt_with(void *p) {
    if (tm_spare_owns(p)) {
        if (tm_spare_free(p)) return true;
    } else {
        SlabAllocator *owner = ts_private_owner(p), *mine = tm_process_allocator();
        if (owner && owner != mine) {
            (void)slab_free(owner, p); /* which tells of misuse itself */
            return true;
        }
        if (!owner && tm_libc_heap_free(p)) return true;
    }
    ts_private_refuse(tm_process_allocator(), "free", p, NULL);
    return true;
}

TS_COLD static void free_early(void *p) {
    if (tm_spare_free(p)) return;
    if (tm_process_start())
        (void)slab_free(tm_process_allocator(), p);
    else
        ts_private_refuse(NULL, "free", p, NULL);
}

/* In the hard mode that is a part of it. */
static void tell_size(const char *call, const void *p, const char *why) {
    if (tm_is_hard())
        tm_hard_tell_size(call, p, why);
    else
        ts_private_tell(tm_process_allocator(), call, p, why);
}

static void check_plain_size(const char *call, const void *p, size_t size) {
    size_t bytes = tm_process_usable(p);
    /* What is no object the free itself tells of. */
    if (bytes != 0 && size > bytes && size != TM_SIZE_UNKNOWN)
        tell_size(call, p, "freed with a size that is larger than the object");
}

void tm_process_free_unusual(const char *call, void *p, tm_kind kind, size_t size) {
    if (!p) return;
    if (TS_UNLIKELY(!tm_is_hard())) {
        free_early(p);
    } else if (TS_UNLIKELY(tm_hard_free(call, p, kind, size) == TM_HARD_OTHER)) {
        check_plain_size(call, p, size);
        (void)slab_free(tm_process_allocator(), p);
    }
}

size_t tm_process_usable(const void *p) {
    SlabAllocator *mine = tm_process_allocator();
    if (tm_is_hard()) {
        size_t exactly;
        if (tm_hard_usable(p, &exactly) != TM_HARD_OTHER) return exactly;
    }
    size_t bytes = mine ? slab_usable_size(mine, p) : 0;
    if (TS_LIKELY(bytes != 0)) return bytes;
    if (tm_spare_owns(p)) return tm_spare_usable(p);
    SlabAllocator *owner = ts_private_owner(p);
    if (owner) return owner == mine ? 0 : slab_usable_size(owner, p);
    return tm_libc_heap_usable(p);
}

/* To where malloc would put it. */
static void *move(void *p, size_t size, size_t bytes, const void *caller) {
    void *q = tm_is_captured() ? tm_capture_alloc(16, size, false, caller) : NULL;
    if (!q) q = tm_process_alloc_rest(16, size, false, TM_BY_MALLOC);
    if (!q) return NULL;
    memcpy(q, p, size < bytes ? size : bytes);
    if (!tm_spare_free(p)) {
        SlabAllocator *owner = ts_private_owner(p);
        if (owner)
            (void)slab_free(owner, p);
        else
            (void)tm_libc_heap_free(p);
    }
    return q;
}

static bool is_spilled(SlabAllocator *owner, const void *p) {
    ts_private_place place;
    return ts_private_find(owner, p, &place) && epoch_state(owner, place.epoch) == EPOCH_SPILLED;
}

TS_COLD void *tm_process_realloc_rest(void *p, size_t size, const void *caller) {
    int error = errno;
    SlabAllocator *mine = tm_process_start() ? tm_process_allocator() : NULL;
    if (tm_is_hard()) {
        void *q;
        if (tm_hard_realloc(p, size, &q) != TM_HARD_OTHER) return q;
    }
    SlabAllocator *owner = ts_private_owner(p);
    if (owner) {
        errno = 0;
        void *q = ts_private_realloc(owner, p, size);
        if (q) {
            errno = error;
            return q;
        }
        if (errno == ESTALE && is_spilled(owner, p)) return NULL; /* in zones: it cannot be read */
    }
    size_t bytes = tm_process_usable(p);
    if (bytes == 0) {
        ts_private_refuse(mine, "realloc", p, NULL);
        errno = EINVAL;
        return NULL;
    }
    /* A live object that cannot be resized where it is: its epoch takes none any more, this thread takes none, or it
       is no object of the core. */
    if (owner && errno != ESTALE && ts_private_has_heap()) {
        errno = ENOMEM;
        return NULL;
    }
    errno = error;
    return move(p, size, bytes, caller);
}

static void check_size(const char *call, const void *p, size_t alignment, size_t size) {
    if ((uintptr_t)p % alignment != 0 && tm_process_usable(p) != 0)
        tell_size(call, p, "freed with an alignment that the object has not");
    else if (!tm_is_hard()) /* else the free compares them */
        check_plain_size(call, p, size);
}

TS_COLD void tm_process_free_sized(const char *call, void *p, tm_kind kind, size_t alignment, size_t size) {
    SlabAllocator *allocator = tm_target_allocator(&tm_process);
    if (p) check_size(call, p, alignment, size);
    if (allocator)
        (void)slab_free(allocator, p);
    else
        tm_process_free_unusual(call, p, kind, size);
}

/* ---- the library's own functions ----------------------------------------------------------------------------------
   */

SlabAllocator *slab_malloc_allocator(void) {
    if (tm_process_start()) return tm_process_allocator();
    errno = ENOMEM;
    return NULL;
}
