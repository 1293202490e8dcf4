// A program that replaces new and delete, and nothing else: its memory is not malloc's, and every other form of the two
// comes to it, as with the C++ library's own operators.
#include <tslab/malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <sys/mman.h>
#include <vector>

#define CHECK(x)                                                             \
    do {                                                                     \
        if (!(x)) {                                                          \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
            std::_Exit(1);                                                   \
        }                                                                    \
    } while (0)

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wsized-deallocation" // that is tested
#endif

// Memory that is never given back: free refuses a pointer into it.
static const std::size_t pool_bytes = std::size_t{64} << 20;
static char *pool;
static std::size_t used;
static long live, live_aligned;

static void *take(std::size_t size, std::size_t alignment) {
    if (!pool)
        pool = static_cast<char *>(
            mmap(nullptr, pool_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::size_t at = (used + alignment - 1) / alignment * alignment;
    if (size > pool_bytes - at) throw std::bad_alloc();
    used = at + size;
    return pool + at;
}
static bool is_here(const void *p) {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(pool) < pool_bytes;
}

void *operator new(std::size_t size) {
    live++;
    return take(size, 16);
}
void operator delete(void *p) noexcept {
    CHECK(!p || is_here(p));
    live -= p != nullptr;
}
void *operator new(std::size_t size, std::align_val_t alignment) {
    live_aligned++;
    return take(size, static_cast<std::size_t>(alignment));
}
void operator delete(void *p, std::align_val_t) noexcept {
    CHECK(!p || is_here(p));
    live_aligned -= p != nullptr;
}

struct alignas(256) large {
    char bytes[256];
};

int main() {
    CHECK(slab_malloc_active());
    const std::align_val_t page{4096};
    for (std::size_t n : {1, 100, 100000}) {
        void *p = ::operator new[](n);
        CHECK(is_here(p) && live == 1);
        ::operator delete[](p);
        p = ::operator new[](n);
        ::operator delete[](p, n);
        p = ::operator new(n);
        ::operator delete(p, n);
        p = ::operator new(n, std::nothrow);
        CHECK(is_here(p) && live == 1);
        ::operator delete(p, std::nothrow);
        p = ::operator new[](n, std::nothrow);
        CHECK(is_here(p) && live == 1);
        ::operator delete[](p, std::nothrow);
        CHECK(live == 0);
        p = ::operator new[](n, page);
        CHECK(is_here(p) && live_aligned == 1);
        ::operator delete[](p, page);
        p = ::operator new[](n, page);
        ::operator delete[](p, n, page);
        p = ::operator new(n, page, std::nothrow);
        CHECK(is_here(p) && live_aligned == 1);
        ::operator delete(p, n, page);
        p = ::operator new[](n, page, std::nothrow);
        CHECK(is_here(p) && live_aligned == 1);
        ::operator delete[](p, page, std::nothrow);
        p = ::operator new(n, page);
        ::operator delete(p, page, std::nothrow);
        CHECK(live_aligned == 0);
    }
    volatile std::size_t too_large = pool_bytes * 2;
    CHECK(!::operator new(too_large, std::nothrow) && !::operator new[](too_large, page, std::nothrow));
    live = live_aligned = 0;
    {
        std::vector<std::string> v;
        for (int i = 0; i < 3000; i++) v.push_back(std::string(static_cast<std::size_t>(i % 90), 'x'));
        std::stable_sort(v.begin(), v.end()); // new that may not throw, and plain delete
        std::vector<large> w(10);
        large *array = new large[3];
        delete[] array;
        CHECK(live > 0 && live_aligned == 1);
    }
    CHECK(live == 0 && live_aligned == 0);
    return 0;
}
