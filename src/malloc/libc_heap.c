#define _GNU_SOURCE
#include "malloc/libc_heap.h"

#include "api/api.h"
#include "base/base.h"

#include <limits.h> /* __GLIBC__ */

#if defined(__GLIBC__) && !defined(TSLAB_MALLOC_STATIC)

#include "os/small_file.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Looked up once; written before `found`. */
static struct {
    void (*free)(void *);
    size_t (*usable)(void *);
    struct mallinfo2 (*info)(void);
    uintptr_t start; /* of what brk gives */
} libc;
static _Atomic bool found, has_heap; /* each is set once, by the first thread or by several with equal values */

/* ISO C has no conversion of a pointer to a function's. */
static bool look_up(void *handle, const char *name, void *function) {
    void *symbol = dlsym(handle, name);
    __builtin_memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* 0: the system does not say. */
static uintptr_t brk_start(void) { return (uintptr_t)ts_process_word("/proc/self/stat", 47); }

TS_COLD static bool find(void) {
    void *handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    bool all = handle && look_up(handle, "free", &libc.free) && look_up(handle, "malloc_usable_size", &libc.usable) &&
               look_up(handle, "mallinfo2", &libc.info);
    if (handle) (void)dlclose(handle);
    libc.start = all ? brk_start() : 0;
    if (libc.start == 0) return false;
    ts_store_release(&found, true);
    return true;
}

void tm_libc_heap_start(void) { (void)find(); }

/* Whether the system can read so many bytes. It copies a signal set of 8 bytes before it refuses the rest of the
   call. */
static bool can_read(uintptr_t from, size_t bytes) {
    for (uintptr_t at = from; at < from + bytes; at += 8)
        if (syscall(SYS_rt_sigprocmask, -1, at, NULL, (size_t)8) == 0 || errno != EINVAL) return false;
    return true;
}

static size_t word_at(uintptr_t at) { return *(const size_t *)at; }

/*
 * A chunk of libc's: the word before the object has its size, with three flags; the word before that, of one in a
 * mapping of its own, how far behind the beginning of that the chunk begins. The next chunk says whether this one is in
 * use.
 */
#define WORD sizeof(size_t)
#define IN_USE_BEFORE 1u
#define IN_OWN_MAPPING 2u
#define OF_ARENA 4u /* of another one than the first, which brk gives */
#define FLAGS ((size_t)7)
/* A piece of an arena begins on a multiple of so much. */
#define ARENA_BYTES (sizeof(void *) == 8 ? (uintptr_t)64 << 20 : (uintptr_t)1 << 20)

static bool is_in_use(uintptr_t at, uintptr_t end) {
    size_t word = word_at(at - WORD), bytes = word & ~FLAGS;
    if (bytes < 2 * WORD || bytes % 16 != 0 || bytes > end - at) return false;
    return (word_at(at - WORD + bytes) & IN_USE_BEFORE) != 0;
}

static bool is_in_first_arena(uintptr_t at, uintptr_t end) {
    return at >= libc.start + 16 && (word_at(at - WORD) & FLAGS & ~(size_t)IN_USE_BEFORE) == 0 && is_in_use(at, end);
}

/* Its mapping is whole pages, and no larger than all that libc says it has of them. */
static bool has_own_mapping(uintptr_t at) {
    size_t before = word_at(at - 2 * WORD), word = word_at(at - WORD), bytes = word & ~FLAGS;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = at - 2 * WORD - before;
    if ((word & FLAGS) != IN_OWN_MAPPING || before >= at || start % page != 0 || (before + bytes) % page != 0)
        return false;
    struct mallinfo2 has = libc.info();
    return bytes >= page / 2 && bytes <= has.hblkhd && before <= has.hblkhd - bytes && can_read(start, WORD) &&
           can_read(start + before + bytes - WORD, WORD);
}

/* A piece begins with the address of its arena, which is at the beginning of the first piece; its third word is its
   size. */
static bool is_of_arena(uintptr_t at) {
    uintptr_t piece = at & ~(ARENA_BYTES - 1);
    if ((word_at(at - WORD) & (OF_ARENA | IN_OWN_MAPPING)) != OF_ARENA || !can_read(piece, 4 * WORD)) return false;
    uintptr_t arena = word_at(piece), first = arena & ~(ARENA_BYTES - 1);
    size_t bytes = word_at(piece + 2 * WORD);
    if (bytes > ARENA_BYTES || bytes % 4096 != 0 || at - piece >= bytes) return false;
    if (arena - first > 4096 || !can_read(first, WORD) || word_at(first) != arena) return false;
    return is_in_use(at, piece + bytes);
}

/* Looks at all that is free in libc's heap: so it is not asked again once there is one. */
static bool has_arena(void) {
    if (ts_load_relaxed(&has_heap)) return true;
    bool has = libc.info().arena != 0;
    if (has) ts_store_relaxed(&has_heap, true);
    return has;
}

/* Whether p is the start of an object in a heap of libc's. */
static bool is_there(const void *p) {
    uintptr_t at = (uintptr_t)p, end = (uintptr_t)sbrk(0);
    if (end == UINTPTR_MAX || at % 16 != 0 || at < 2 * WORD || ts_private_is_data(p)) return false;
    if (!ts_load_acquire(&found) && !find()) return false;
    if (at >= libc.start && at < end) return has_arena() && is_in_first_arena(at, end);
    if (!can_read(at - 2 * WORD, 2 * WORD)) return false;
    return has_own_mapping(at) || (is_of_arena(at) && has_arena());
}

bool tm_libc_heap_free(void *p) {
    int error = errno;
    bool here = is_there(p);
    if (here) libc.free(p);
    errno = error;
    return here;
}

size_t tm_libc_heap_usable(const void *p) {
    int error = errno;
    size_t bytes = is_there(p) ? libc.usable((void *)(uintptr_t)p) : 0;
    errno = error;
    return bytes;
}

#else

void tm_libc_heap_start(void) {}
bool tm_libc_heap_free(void *p) { return (void)p, false; }
size_t tm_libc_heap_usable(const void *p) { return (void)p, (size_t)0; }

#endif
