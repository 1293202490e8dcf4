// std::pmr::monotonic_buffer_resource behind C calls, one call per object like every other peer. The resource lives
// in the caller's memory. In a C++ program its allocation would be inlined.
#include "scope_pmr.h"

#include <memory_resource>
#include <new>

using resource = std::pmr::monotonic_buffer_resource;
static_assert(sizeof(resource) <= sizeof(scope_pmr) && alignof(resource) <= alignof(scope_pmr));

static std::pmr::unsynchronized_pool_resource *pool;
static std::pmr::memory_resource *upstream;

static resource *of(scope_pmr *scope) { return std::launder(reinterpret_cast<resource *>(scope->place)); }

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *scope_pmr_version(void) {
#if defined(__GLIBCXX__)
    return "libstdc++ " TEXT(_GLIBCXX_RELEASE);
#elif defined(_LIBCPP_VERSION)
    return "libc++ " TEXT(_LIBCPP_VERSION);
#else
    return "unknown";
#endif
}

void scope_pmr_start(int pooled) {
    if (pooled) pool = new std::pmr::unsynchronized_pool_resource(std::pmr::new_delete_resource());
    upstream = pool ? static_cast<std::pmr::memory_resource *>(pool) : std::pmr::new_delete_resource();
}

void scope_pmr_finish(void) {
    delete pool;
    pool = nullptr;
}

void scope_pmr_open(scope_pmr *scope) { new (scope->place) resource(upstream); }

void *scope_pmr_alloc(scope_pmr *scope, size_t size) {
    try {
        return of(scope)->allocate(size, 16);
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

void scope_pmr_drop(scope_pmr *scope) { of(scope)->~resource(); }
