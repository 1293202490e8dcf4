#include "memtools/memtools.h"

#include "memtools/origin.h"
#include "memtools/tools.h"
#include "os/os.h"
#include "region/region.h"

#include <string.h>

#define POISON 0xdb

bool ts_care_tools;
bool ts_care_on_asan;
_Thread_local char *ts_care_written;
static bool on_memcheck; /* constant after ts_care_start */

/* Other tools of Valgrind do not know the request. They answer 0, as no tool does. */
bool ts_care_on_memcheck(void) {
    char byte = 0, bits = 0;
    return RUNNING_ON_VALGRIND && VALGRIND_GET_VBITS(&byte, &bits, 1) == 1;
}

static bool is_asan_there(void) {
    return __asan_poison_memory_region && __asan_unpoison_memory_region && __asan_address_is_poisoned;
}

unsigned ts_care_beyond_log2(void) {
    bool shadows = is_asan_there() || __tsan_init || __msan_init;
    return shadows ? TS_FAR_LEAST_LOG2 + TS_FAR_SHIFT : TS_BEYOND_LOG2;
}

void ts_care_prepare(void) {
    if (is_asan_there()) ts_os_stack_prepare();
}

void ts_care_start(void) {
    on_memcheck = ts_care_on_memcheck();
    ts_care_on_asan = is_asan_there();
    /* Memory that only our objects point to is no leak. */
    for (unsigned part = 0; part < TS_PARTS && __lsan_register_root_region; part++)
        if (ts_region.part[part].units)
            __lsan_register_root_region(ts_region.part[part].base, ts_part_bytes(part, ts_region.part[part].units));
    ts_care_tools = ts_care_on_asan || on_memcheck;
    if (ts_care_on_asan) ts_origin_start();
}

/* ---- the tools ------------------------------------------------------------------------------------------ */

static void asan_forbid(const void *at, size_t bytes) {
    if (ts_care_on_asan) __asan_poison_memory_region(at, bytes);
}
static void asan_allow(const void *at, size_t bytes) {
    if (ts_care_on_asan) __asan_unpoison_memory_region(at, bytes);
}

static void forbid_range(void *at, size_t bytes) {
    asan_forbid(at, bytes);
    if (on_memcheck) (void)VALGRIND_MAKE_MEM_NOACCESS(at, bytes);
}

/* defined: its bytes may be read before they are written. */
static void allow_range(void *at, size_t bytes, bool defined) {
    asan_allow(at, bytes);
    if (on_memcheck && defined) (void)VALGRIND_MAKE_MEM_DEFINED(at, bytes);
    if (on_memcheck && !defined) (void)VALGRIND_MAKE_MEM_UNDEFINED(at, bytes);
}

/* Trims the pool first, so that memcheck takes each live object for freed here, and can say so later. It forgets the
   objects of a pool that is only destroyed. */
static void end_pool(void *at) {
    if (!on_memcheck || !VALGRIND_MEMPOOL_EXISTS(at)) return;
    VALGRIND_MEMPOOL_TRIM(at, at, 0);
    VALGRIND_DESTROY_MEMPOOL(at);
}

static void begin_pool(void *at) {
    end_pool(at);
    if (on_memcheck) VALGRIND_CREATE_MEMPOOL(at, 0, 0);
}

static size_t first_other(const unsigned char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != POISON) return i;
    return TS_CARE_CLEAN;
}

/* Every object has a byte, so that one of size 0 has a size. */
static size_t marked_size(size_t size) { return size == 0 ? 1 : size; }

/* ---- ranges --------------------------------------------------------------------------------------------- */

/* All memory that is in no slab is filled: memory from the system when it comes (ts_unit_acquire,
   ts_allocator_reserve), other memory when its last object ends. A changed byte is only noted, as the caller holds
   its heap (ts_care_written). */
static void look_and_fill(unsigned care, char *at, size_t bytes) {
    if (!(care & TS_CARE_FILL)) return;
    size_t other = care & TS_CARE_TELL ? ts_care_check(care, at, bytes) : TS_CARE_CLEAN;
    if (other != TS_CARE_CLEAN && !ts_care_written) ts_care_written = at + other;
    ts_care_fill(care, at, bytes);
}

void ts_care_begin_tools(unsigned care, void *at, size_t bytes, bool fill) {
    if (fill) look_and_fill(care, at, bytes);
    if (care & TS_CARE_MARK) {
        begin_pool(at);
        forbid_range(at, bytes);
    } else if (ts_care_tools) {
        end_pool(at);
        allow_range(at, bytes, true);
    }
}

void ts_care_end(unsigned care, void *at, size_t bytes, EpochId epoch) {
    ts_care_fill(care, at, bytes);
    if (care & TS_CARE_MARK) {
        ts_origin_ended_with(at, bytes, epoch);
        end_pool(at);
        forbid_range(at, bytes);
    }
}

void ts_care_span_end(unsigned care, void *at, size_t bytes) {
    if (!(care & TS_CARE_MARK)) return;
    ts_origin_ended(at);
    end_pool(at);
    forbid_range(at, bytes);
}

void ts_care_fill(unsigned care, void *at, size_t bytes) {
    if (!(care & TS_CARE_FILL)) return;
    if (ts_care_tools) allow_range(at, bytes, false);
    memset(at, POISON, bytes);
    if (care & TS_CARE_MARK) forbid_range(at, bytes);
}

size_t ts_care_check(unsigned care, void *at, size_t bytes) {
    if (!(care & TS_CARE_FILL)) return TS_CARE_CLEAN;
    if (ts_care_tools) allow_range(at, bytes, true);
    size_t other = first_other(at, bytes);
    if (care & TS_CARE_MARK) forbid_range(at, bytes);
    return other;
}

/* ---- objects -------------------------------------------------------------------------------------------- */

size_t ts_care_allocated(unsigned care, void *home, void *p, size_t size, size_t usable, bool check) {
    size_t other = check ? ts_care_check(care, p, usable) : TS_CARE_CLEAN;
    if (care & TS_CARE_MARK) {
        size = marked_size(size);
        forbid_range((char *)p + size / 16 * 16, usable - size / 16 * 16);
        allow_range(p, size, false);
        ts_origin_born(p, size, usable);
        if (on_memcheck) VALGRIND_MEMPOOL_ALLOC(home, p, size);
    }
    return other;
}

void ts_care_defined(unsigned care, void *p, size_t size) {
    if (care & TS_CARE_MARK) allow_range(p, size, true);
}

void ts_care_freed(unsigned care, void *home, void *p, size_t usable) {
    if (on_memcheck && (care & TS_CARE_MARK)) VALGRIND_MEMPOOL_FREE(home, p);
    ts_care_fill(care, p, usable);
    if (!(care & TS_CARE_MARK)) return;
    ts_origin_ended(p);
    forbid_range(p, usable);
}

void ts_care_resized(unsigned care, void *home, void *p, size_t size, size_t usable) {
    if (!(care & TS_CARE_MARK)) return;
    size_t before = ts_care_size(care, p, usable), after = marked_size(size);
    if (after < before) {
        forbid_range((char *)p + after / 16 * 16, usable - after / 16 * 16);
        /* The first bytes of the last granule stay what they are. */
        if (on_memcheck) (void)VALGRIND_MAKE_MEM_DEFINED((char *)p + after / 16 * 16, after % 16);
    } else if (after > before) {
        allow_range((char *)p + before, after - before, false);
    }
    if (after != before) {
        asan_allow(p, after);
        ts_origin_resized(p, size);
    }
    if (on_memcheck && after != before) VALGRIND_MEMPOOL_CHANGE(home, p, p, after);
}

/* The allocator marks, so one of the two tools listens. */
static bool is_allowed(const char *at) {
    if (ts_care_on_asan) return !__asan_address_is_poisoned(at);
    char bits;
    return VALGRIND_GET_VBITS(at, &bits, 1) == 1;
}

/*
 * The allowed bytes come first, so halving finds the border. One byte is asked for at a time, as another thread may
 * free the object meanwhile. The answer is then anything up to the size that it had. (__asan_region_is_poisoned looks
 * at a range twice, and ends the program if the second look differs.)
 */
size_t ts_care_size(unsigned care, const void *p, size_t usable) {
    if (!(care & TS_CARE_MARK)) return usable;
    size_t low = 0, high = usable;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_allowed((const char *)p + middle))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
