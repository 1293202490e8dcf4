/*
 * All 20 operators of C++ with musl, whose packages bring no C++ library. So the program brings its own: the exception
 * when there is no memory, and the four operators new that may not throw, which call those that do, as libstdc++'s.
 * Each object has to be the archive's while it lives, and no longer.
 */
#include <tslab/malloc.h>
#include <tslab/tslab.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace std {
typedef __SIZE_TYPE__ size_t;
enum class align_val_t : size_t {};
struct nothrow_t {
    explicit nothrow_t() = default;
};
typedef void (*new_handler)();
new_handler get_new_handler() noexcept;
void __throw_bad_alloc();
} // namespace std

static unsigned handled;
static void handle() { handled++; }
static std::new_handler handler;
std::new_handler std::get_new_handler() noexcept { return handler; }
/* There are no exceptions: the program ends here. */
void std::__throw_bad_alloc() {
    if (handled != 3) abort();
    puts("20 operators");
    fflush(stdout);
    _Exit(0);
}

typedef std::align_val_t align;
static const std::nothrow_t nothrow{};

void *operator new(size_t, const std::nothrow_t &) noexcept;
void *operator new[](size_t, const std::nothrow_t &) noexcept;
void *operator new(size_t, align, const std::nothrow_t &) noexcept;
void *operator new[](size_t, align, const std::nothrow_t &) noexcept;
void *operator new(size_t size, const std::nothrow_t &) noexcept { return ::operator new(size); }
void *operator new[](size_t size, const std::nothrow_t &) noexcept { return ::operator new[](size); }
void *operator new(size_t size, align to, const std::nothrow_t &) noexcept { return ::operator new(size, to); }
void *operator new[](size_t size, align to, const std::nothrow_t &) noexcept { return ::operator new[](size, to); }
void operator delete(void *, const std::nothrow_t &) noexcept;
void operator delete[](void *, const std::nothrow_t &) noexcept;
void operator delete(void *, align, const std::nothrow_t &) noexcept;
void operator delete[](void *, align, const std::nothrow_t &) noexcept;

static void need(bool so, const char *what, size_t size) {
    if (so) return;
    fprintf(stderr, "musl_operators: %s, %zu bytes\n", what, size);
    exit(1);
}

static void *live(void *p, size_t size, size_t alignment, const char *what) {
    need(p && (uintptr_t)p % alignment == 0 && slab_owns(slab_malloc_allocator(), p), what, size);
    memset(p, 0x5a, size);
    return p;
}
static void dead(uintptr_t at, const char *what, size_t size) {
    need(!slab_owns(slab_malloc_allocator(), (void *)at), what, size);
}

/* Each way of asking with a way of giving back; `p` is the object. */
#define ROUND(to, ask, give)                  \
    do {                                      \
        void *p = live(ask, size, to, #ask);  \
        volatile uintptr_t at = (uintptr_t)p; \
        give;                                 \
        dead(at, #give, size);                \
    } while (0)

static void plain(size_t size) {
    ROUND(16, ::operator new(size), ::operator delete(p));
    ROUND(16, ::operator new(size), ::operator delete(p, size));
    ROUND(16, ::operator new(size, nothrow), ::operator delete(p, nothrow));
    ROUND(16, ::operator new[](size), ::operator delete[](p));
    ROUND(16, ::operator new[](size), ::operator delete[](p, size));
    ROUND(16, ::operator new[](size, nothrow), ::operator delete[](p, nothrow));
}

static void aligned(size_t size, size_t bytes) {
    align to = (align)bytes;
    ROUND(bytes, ::operator new(size, to), ::operator delete(p, to));
    ROUND(bytes, ::operator new(size, to), ::operator delete(p, size, to));
    ROUND(bytes, ::operator new(size, to, nothrow), ::operator delete(p, to, nothrow));
    ROUND(bytes, ::operator new[](size, to), ::operator delete[](p, to));
    ROUND(bytes, ::operator new[](size, to), ::operator delete[](p, size, to));
    ROUND(bytes, ::operator new[](size, to, nothrow), ::operator delete[](p, to, nothrow));
}

static void gives_up() {
    handle();
    if (handled == 3) handler = nullptr;
}

int main() {
    static const size_t sizes[] = {1, 16, 100, 5000, 70000, 1000000};
    for (size_t size : sizes) {
        plain(size);
        aligned(size, 64);
        aligned(size, 4096);
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr);
    /* The handler is called until there is none; then it is told. */
    handler = gives_up;
    volatile size_t more = SIZE_MAX / 2 + 1;
    void *p = ::operator new(more);
    fprintf(stderr, "musl_operators: %p of too many bytes\n", p);
    return 1;
}
