// The operators: all of new and delete, new handlers, failures, exceptions out of constructors, containers and threads.
// With a throwing handler the operators that may not throw answer nullptr.
#include <tslab/malloc.h>
#include <tslab/stats.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define CHECK(x)                                                             \
    do {                                                                     \
        if (!(x)) {                                                          \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x); \
            std::_Exit(1);                                                   \
        }                                                                    \
    } while (0)

// In the hard mode objects lie within the core's, and wait when they are deleted.
static bool hard() { return std::getenv("TSLAB_HARDEN") != nullptr; }
static bool ours(void *p) { return hard() || slab_owns(slab_malloc_allocator(), p); }

static std::uint64_t live() {
    if (hard()) return 0;
    SlabGlobalStats stats;
    CHECK(slab_stats_global(slab_malloc_allocator(), &stats));
    return stats.live_objects;
}

static std::size_t hidden(std::size_t n) {
    volatile std::size_t v = n;
    return v;
}

static void test_operators() {
    const std::align_val_t page{4096};
    for (std::size_t n : {0, 1, 8, 100, 5000, 100000}) {
        std::uint64_t before = live();
        void *p = ::operator new(n);
        CHECK(ours(p));
        ::operator delete(p);
        p = ::operator new(n);
        ::operator delete(p, n);
        p = ::operator new[](n);
        CHECK(ours(p));
        ::operator delete[](p);
        p = ::operator new[](n);
        ::operator delete[](p, n);
        p = ::operator new(n, std::nothrow);
        CHECK(ours(p));
        ::operator delete(p, std::nothrow);
        p = ::operator new[](n, std::nothrow);
        CHECK(ours(p));
        ::operator delete[](p, std::nothrow);
        p = ::operator new(n, page);
        CHECK(ours(p) && reinterpret_cast<std::uintptr_t>(p) % 4096 == 0);
        ::operator delete(p, page);
        p = ::operator new(n, page);
        ::operator delete(p, n, page);
        p = ::operator new[](n, page);
        CHECK(ours(p) && reinterpret_cast<std::uintptr_t>(p) % 4096 == 0);
        ::operator delete[](p, page);
        p = ::operator new[](n, page);
        ::operator delete[](p, n, page);
        p = ::operator new(n, page, std::nothrow);
        CHECK(ours(p) && reinterpret_cast<std::uintptr_t>(p) % 4096 == 0);
        ::operator delete(p, page, std::nothrow);
        p = ::operator new[](n, page, std::nothrow);
        CHECK(ours(p) && reinterpret_cast<std::uintptr_t>(p) % 4096 == 0);
        ::operator delete[](p, page, std::nothrow);
        CHECK(live() == before);
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr, hidden(5));
}

static const std::size_t too_large = SIZE_MAX / 2 - 4096;

template <typename Call> static bool throws_bad_alloc(Call call) {
    try {
        void *volatile p = call();
        (void)p;
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

static void expect_failures() {
    const std::align_val_t page{4096};
    std::size_t n = hidden(too_large);
    CHECK(throws_bad_alloc([=] { return ::operator new(n); }));
    CHECK(throws_bad_alloc([=] { return ::operator new[](n); }));
    CHECK(throws_bad_alloc([=] { return ::operator new(n, page); }));
    CHECK(throws_bad_alloc([=] { return ::operator new[](n, page); }));
    CHECK(!::operator new(n, std::nothrow));
    CHECK(!::operator new[](n, std::nothrow));
    CHECK(!::operator new(n, page, std::nothrow));
    CHECK(!::operator new[](n, page, std::nothrow));
}

static int calls;
static void throwing() {
    calls++;
    throw std::bad_alloc();
}
static void giving_up() {
    if (++calls == 3) std::set_new_handler(nullptr);
}
static void throwing_other() { throw std::runtime_error("by a handler"); }

static void test_failures() {
    expect_failures();
    std::set_new_handler(throwing);
    expect_failures();
    CHECK(calls == 8);
    calls = 0;
    std::set_new_handler(giving_up);
    CHECK(throws_bad_alloc([] { return ::operator new(hidden(too_large)); }));
    CHECK(calls == 3 && std::get_new_handler() == nullptr);
    calls = 0;
    std::set_new_handler(giving_up);
    CHECK(!::operator new(hidden(too_large), std::nothrow) && calls == 3);
    std::set_new_handler(throwing_other);
    try {
        void *volatile p = ::operator new(hidden(too_large));
        (void)p;
        CHECK(false);
    } catch (const std::runtime_error &e) {
        CHECK(std::string(e.what()) == "by a handler");
    }
    std::set_new_handler(nullptr);
    CHECK(throws_bad_alloc([] { return ::operator new(10, static_cast<std::align_val_t>(hidden(24))); }));
}

struct thrower {
    std::string text = std::string(100, 'x');
    explicit thrower(int n) {
        if (n > 2) throw std::runtime_error("in a constructor");
    }
};
struct alignas(256) aligned_thrower : thrower {
    using thrower::thrower;
};

static void test_constructors() {
    try { // memory of the exception itself stays with its library
        throw std::runtime_error("first");
    } catch (const std::exception &) {
    }
    std::uint64_t before = live();
    for (int i = 0; i < 100; i++) {
        try {
            delete new thrower(i % 5);
            delete new aligned_thrower(i % 5);
            delete[] new thrower[2]{thrower(1), thrower(i % 5)};
        } catch (const std::runtime_error &) {
        }
    }
    CHECK(live() == before);
}

static void test_containers() {
    std::uint64_t before = live();
    {
        std::map<std::string, std::vector<std::string>> m;
        for (int i = 0; i < 2000; i++) m["key " + std::to_string(i % 300)].push_back(std::string(i % 200, 'y'));
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; t++)
            threads.emplace_back([m] {
                auto copy = m;
                for (auto &entry : copy) entry.second.resize(1);
            });
        for (auto &t : threads) t.join();
        auto shared = std::make_shared<std::vector<int>>(100000, 7);
        CHECK(ours(shared->data()));
    }
    CHECK(live() <= before + 8); // kept by libraries
}

int main() {
    CHECK(slab_malloc_active());
    test_operators();
    test_failures();
    test_constructors();
    test_containers();
    SlabGlobalStats stats;
    CHECK(slab_stats_global(slab_malloc_allocator(), &stats) && stats.rejected_frees_total == 0);
    return 0;
}
