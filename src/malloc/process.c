#include "malloc/process.h"

#include "api/private.h"
#include "base/line.h"
#include "malloc/capture.h"
#include "malloc/libc_heap.h"
#include "malloc/spare.h"

#include <tslab/malloc.h>
#include <tslab_build.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

ts_target ts_process;
_Atomic bool ts_process_checks;

/* ---- start ------------------------------------------------------------------------------------------------- */

/* Whoever comes meanwhile, this thread included, takes from the spare: the making allocates nothing that has to stay.
   */
static _Atomic uint32_t making;

static bool is_refusal_dealt_with(void *p);

TS_COLD static void check_build(void) {
    if (strcmp(ts_private_build, TSLAB_BUILD) == 0) return;
    ts_line line = {.used = 0};
    ts_line_text(&line, "tslab: libtslab-malloc.so is of build " TSLAB_BUILD ", libtslab.so of build ");
    ts_line_text(&line, ts_private_build);
    ts_line_write(&line);
    _Exit(127);
}

static bool open_epoch(SlabAllocator *allocator) {
    EpochId epoch = epoch_open(allocator, "malloc", EPOCH_CHURN);
    if (epoch != EPOCH_NONE) ts_store_relaxed(&ts_process.epoch, epoch);
    return epoch != EPOCH_NONE;
}

TS_COLD static bool make(void) {
    check_build();
    if (!ts_private_start()) return false;
    SlabAllocator *allocator = slab_allocator_create();
    if (!allocator) return false;
    if (!open_epoch(allocator)) {
        slab_allocator_free(allocator);
        return false;
    }
    ts_store_relaxed(&ts_process_checks, ts_private_misuse_mode(allocator) != SLAB_MISUSE_IGNORE);
    ts_private_ask_before_refusal(allocator, is_refusal_dealt_with);
    /* release: partner of ts_target_allocator */
    atomic_store_explicit(&ts_process.allocator, allocator, memory_order_release);
    return true;
}

bool ts_process_start(void) {
    if (ts_target_allocator(&ts_process)) return true;
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
    if (!ts_process_start()) return;
    ts_capture_start();
    ts_private_start_page();
}

/* ---- allocations that the first try has not given ---------------------------------------------------------------- */

static void *alloc(SlabAllocator *allocator, size_t alignment, size_t size, bool zero) {
    EpochId epoch = ts_target_epoch(&ts_process);
    if (alignment > 16) {
        void *p = slab_aligned_epoch(allocator, alignment, size, epoch);
        return p && zero ? memset(p, 0, size) : p;
    }
    return zero ? slab_calloc_epoch(allocator, 1, size, epoch) : slab_malloc_epoch(allocator, size, epoch);
}

/* The program has closed or destroyed the epoch: there is another from now on. Two threads may both open one; both
   serve. */
TS_COLD static void *alloc_anew(SlabAllocator *allocator, size_t alignment, size_t size, bool zero) {
    return open_epoch(allocator) ? alloc(allocator, alignment, size, zero) : NULL;
}

TS_COLD void *ts_process_alloc_rest(size_t alignment, size_t size, bool zero) {
    int error = errno;
    if (ts_process_start()) {
        SlabAllocator *allocator = ts_target_allocator(&ts_process);
        void *p = alloc(allocator, alignment, size, zero);
        if (!p && (errno == ESTALE || errno == EINVAL)) p = alloc_anew(allocator, alignment, size, zero);
        if (!p && ts_private_has_heap()) {
            errno = ENOMEM;
            return NULL;
        }
        if (p) {
            errno = error;
            return p;
        }
    }
    void *p = ts_spare_alloc(alignment, size);
    if (!p) return NULL;
    errno = error;
    return zero ? memset(p, 0, size) : p;
}

/* ---- pointers that are not the process's --------------------------------------------------------------------------
   */

/* Asked of every pointer that is no live object of the process's allocator. */
static bool is_refusal_dealt_with(void *p) {
    if (ts_spare_owns(p)) {
        if (ts_spare_free(p)) return true;
    } else {
        SlabAllocator *owner = ts_private_owner(p), *mine = ts_target_allocator(&ts_process);
        if (owner && owner != mine) {
            (void)slab_free(owner, p); /* which tells of misuse itself */
            return true;
        }
        if (!owner && ts_libc_heap_free(p)) return true;
    }
    ts_private_refuse(ts_target_allocator(&ts_process), "free", p);
    return true;
}

TS_COLD void ts_process_free_early(void *p) {
    if (!p || ts_spare_free(p)) return;
    if (ts_process_start())
        (void)is_refusal_dealt_with(p);
    else
        ts_private_refuse(NULL, "free", p);
}

size_t ts_process_usable(const void *p) {
    SlabAllocator *mine = ts_target_allocator(&ts_process);
    size_t bytes = mine ? slab_usable_size(mine, p) : 0;
    if (TS_LIKELY(bytes != 0)) return bytes;
    if (ts_spare_owns(p)) return ts_spare_usable(p);
    SlabAllocator *owner = ts_private_owner(p);
    if (owner) return owner == mine ? 0 : slab_usable_size(owner, p);
    return ts_libc_heap_usable(p);
}

/* To where malloc would put it. */
static void *move(void *p, size_t size, size_t bytes) {
    void *q = ts_is_captured() ? ts_capture_alloc(16, size, false, NULL) : NULL;
    if (!q) q = ts_process_alloc_rest(16, size, false);
    if (!q) return NULL;
    memcpy(q, p, size < bytes ? size : bytes);
    if (!ts_spare_free(p)) {
        SlabAllocator *owner = ts_private_owner(p);
        if (owner)
            (void)slab_free(owner, p);
        else
            (void)ts_libc_heap_free(p);
    }
    return q;
}

TS_COLD void *ts_process_realloc_rest(void *p, size_t size) {
    int error = errno;
    SlabAllocator *mine = ts_process_start() ? ts_target_allocator(&ts_process) : NULL;
    SlabAllocator *owner = ts_private_owner(p);
    if (owner) {
        errno = 0;
        void *q = ts_private_realloc(owner, p, size);
        if (q) {
            errno = error;
            return q;
        }
    }
    size_t bytes = ts_process_usable(p);
    if (bytes == 0) {
        ts_private_refuse(mine, "realloc", p);
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
    return move(p, size, bytes);
}

TS_COLD void ts_process_check_size(const char *call, const void *p, size_t alignment, size_t size) {
    size_t bytes = ts_process_usable(p);
    SlabAllocator *mine = ts_target_allocator(&ts_process);
    if (bytes == 0 || !mine) return; /* the free itself tells */
    if (size > bytes)
        ts_private_tell(mine, call, p, "freed with a size that is larger than the object");
    else if ((uintptr_t)p % alignment != 0)
        ts_private_tell(mine, call, p, "freed with an alignment that the object has not");
}

/* ---- the library's own functions ----------------------------------------------------------------------------------
   */

SlabAllocator *slab_malloc_allocator(void) {
    if (ts_process_start()) return ts_target_allocator(&ts_process);
    errno = ENOMEM;
    return NULL;
}
