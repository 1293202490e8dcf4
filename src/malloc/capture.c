#define _GNU_SOURCE
#include "malloc/capture.h"

#include "api/api.h"
#include "malloc/runtime.h"

#include <errno.h>
#include <string.h>

/* A program that has this library in it has no loader that would allocate. */
#if defined(__linux__) && !defined(TSLAB_MALLOC_STATIC)
#define HAS_LOADER 1
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#endif

_Thread_local const tm_target *tm_target_now;
_Atomic(const tm_target *) tm_target_usual;
static _Thread_local tm_target own; /* of the innermost domain that captures */
static _Thread_local unsigned suspended;

/* ---- the loader -------------------------------------------------------------------------------------------------- */

static _Atomic uintptr_t loader_start, loader_bytes; /* 0: it is not known, or there is none */

#ifdef HAS_LOADER
static const char own_code; /* is in this library */

static uintptr_t bytes_of(const struct dl_phdr_info *info) {
    uintptr_t end = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t to = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && to > end) end = to;
    }
    return end;
}

/* The loader, and this library. */
static int find_both(struct dl_phdr_info *info, size_t bytes, void *base) {
    (void)bytes;
    if (base && info->dlpi_addr == (uintptr_t)base) {
        ts_store_relaxed(&loader_start, info->dlpi_addr);
        ts_store_relaxed(&loader_bytes, bytes_of(info));
    } else if ((uintptr_t)&own_code - info->dlpi_addr < bytes_of(info)) {
        ts_private_own_code((const void *)info->dlpi_addr, bytes_of(info));
    }
    return 0;
}
#endif

static bool is_loader(const void *caller) {
    return (uintptr_t)caller - ts_load_relaxed(&loader_start) < ts_load_relaxed(&loader_bytes);
}

/* ---- where to -----------------------------------------------------------------------------------------------------
   */

static void follow(void) {
    bool captured = suspended == 0 && tm_target_allocator(&own);
    tm_target_now = captured ? &own : NULL;
    if (captured) ts_private_elsewhere();
}

static void changed(SlabAllocator *allocator, EpochId epoch) {
    static _Atomic uint32_t entered;
    if (allocator && !ts_load_relaxed(&entered) && !atomic_exchange(&entered, 1)) tm_runtimes_start();
    ts_store_relaxed(&own.epoch, epoch);
    atomic_store_explicit(&own.allocator, allocator, memory_order_relaxed);
    follow();
}

void tm_capture_suspend(void) {
    suspended++;
    follow();
}

void tm_capture_resume(void) {
    suspended--;
    follow();
}

void tm_capture_start(void) {
#ifdef HAS_LOADER
    uintptr_t base = (uintptr_t)getauxval(AT_BASE);
    (void)dl_iterate_phdr(find_both, (void *)base);
#endif
    ts_private_capture(changed);
}

void *tm_capture_alloc(size_t alignment, size_t size, bool zero, const void *caller) {
    const tm_target *target = tm_target_now;
    SlabAllocator *allocator = tm_target_allocator(target);
    EpochId epoch = tm_target_epoch(target);
    int before = errno;
    bool is_process = is_loader(caller) || tm_is_runtimes(caller);
    errno = 0;
    if (is_process) return NULL;
    void *p;
    if (alignment > 16) {
        p = slab_aligned_epoch(allocator, alignment, size, epoch);
        if (p && zero) memset(p, 0, size);
    } else {
        p = zero ? slab_calloc_epoch(allocator, 1, size, epoch) : slab_malloc_epoch(allocator, size, epoch);
    }
    if (p) {
        errno = before;
        return p;
    }
    /* A domain that has ended, or a thread that takes nothing any more. */
    if (errno != ENOMEM || !ts_private_has_heap()) errno = 0;
    return NULL;
}
