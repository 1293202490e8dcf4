/*
 * setrlimit and prlimit: a limit of the address space counts what is reserved, so that goes back. (One that another
 * process sets, or a system call by its number, is not seen.)
 */
#define _GNU_SOURCE
#include "malloc/entry.h"

#include <tslab/malloc.h>

#include <sys/resource.h>
#include <unistd.h>

#if defined(__GLIBC__) && (!defined(TSLAB_MALLOC_STATIC) || UINTPTR_MAX > UINT32_MAX)

/* Holds nothing. Retained memory goes back first: large objects may be in it. In a child of vfork that is the parent's
   memory, which loses a little time by it. */
static void follow(pid_t pid, int resource, uint64_t bytes, uint64_t none) {
    SlabAllocator *allocator = tm_process_allocator();
    if (bytes == none || !allocator || (pid != 0 && pid != getpid())) return;
    if (resource == RLIMIT_DATA) ts_private_limit_data();
    if (resource != RLIMIT_AS) return;
    (void)slab_trim(allocator);
    ts_private_limit_address_space(bytes);
}

#ifdef TSLAB_MALLOC_STATIC

#include <sys/syscall.h>

/* The structures of both are the system's. */
static int set(int resource, const void *limit) {
    int error = (int)syscall(SYS_prlimit64, 0, resource, limit, NULL);
    if (error == 0 && limit) follow(0, resource, ((const struct rlimit *)limit)->rlim_cur, RLIM_INFINITY);
    return error;
}
TM_EXPORT int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit) { return set((int)resource, limit); }
TM_EXPORT int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit) {
    return set((int)resource, limit);
}

#else

#include "malloc/next.h"

#include <string.h>

/* ISO C has no conversion of a pointer to a function's. */
static bool find(const char *name, void *function) {
    void *symbol = tm_malloc_next(name);
    memcpy(function, &symbol, sizeof symbol);
    if (!symbol) errno = ENOSYS;
    return symbol != NULL;
}

static void has_set(pid_t pid, int resource, const struct rlimit *limit) {
    if (limit) follow(pid, resource, limit->rlim_cur, RLIM_INFINITY);
}
static void has_set_64(pid_t pid, int resource, const struct rlimit64 *limit) {
    if (limit) follow(pid, resource, limit->rlim_cur, RLIM64_INFINITY);
}

TM_EXPORT int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit) {
    int (*next)(__rlimit_resource_t, const struct rlimit *);
    if (!find("setrlimit", &next) || next(resource, limit) != 0) return -1;
    has_set(0, (int)resource, limit);
    return 0;
}

TM_EXPORT int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit) {
    int (*next)(__rlimit_resource_t, const struct rlimit64 *);
    if (!find("setrlimit64", &next) || next(resource, limit) != 0) return -1;
    has_set_64(0, (int)resource, limit);
    return 0;
}

TM_EXPORT int prlimit(pid_t pid, __rlimit_resource_t resource, const struct rlimit *limit, struct rlimit *old) {
    int (*next)(pid_t, __rlimit_resource_t, const struct rlimit *, struct rlimit *);
    if (!find("prlimit", &next) || next(pid, resource, limit, old) != 0) return -1;
    has_set(pid, (int)resource, limit);
    return 0;
}

TM_EXPORT int prlimit64(pid_t pid, __rlimit_resource_t resource, const struct rlimit64 *limit, struct rlimit64 *old) {
    int (*next)(pid_t, __rlimit_resource_t, const struct rlimit64 *, struct rlimit64 *);
    if (!find("prlimit64", &next) || next(pid, resource, limit, old) != 0) return -1;
    has_set_64(pid, (int)resource, limit);
    return 0;
}

#endif
#endif
