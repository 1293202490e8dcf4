/* One line a call of an allocation function: its result, and its errno. answers_test.sh compares the lines of glibc's
   functions with the library's. Without arguments. */
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>
#include <new>

extern "C" void *reallocarray(void *, size_t, size_t) noexcept;

namespace {

const size_t half = PTRDIFF_MAX;
const size_t sizes[] = {0,           1,        100,  4096,     100000,          1 << 20,
                        half - 4096, half - 1, half, half + 1, SIZE_MAX - 4096, SIZE_MAX};
/* Without those of which versions of glibc differ: aligned_alloc of no power of two; and the largest, which need the
   room of the address space twice. */
const size_t alignments[] = {1, 2, 4, 8, 16, 64, 4096, 1 << 20, (size_t)1 << 62, (size_t)1 << 63};
const size_t wrong_alignments[] = {0, 3, 12, 24, 100, ((size_t)1 << 63) + 1, SIZE_MAX};
const int values_before[] = {0, 7};

size_t known(size_t n) { /* the compiler has opinions on calls of malloc */
    volatile size_t v = n;
    return v;
}

const char *name_of(int error) {
    switch (error) {
    case 0: return "0";
    case 7: return "as before";
    case ENOMEM: return "ENOMEM";
    case EINVAL: return "EINVAL";
    default: return "another";
    }
}

/* p: of `size` bytes and that alignment, or NULL. */
void tell(const char *call, size_t a, size_t b, int before, void *p, size_t size, size_t alignment,
          void (*release)(void *) = std::free) {
    int error = errno;
    const char *is = p == nullptr                                                                       ? "NULL"
                     : (uintptr_t)p % (alignment ? alignment : 1) == 0 && malloc_usable_size(p) >= size ? "object"
                                                                                                        : "wrong";
    std::printf("%s(%zx, %zx) errno %d: %s, %s\n", call, a, b, before, is, name_of(error));
    errno = 7;
    release(p);
    if (errno != 7) std::printf("free of %s(%zx, %zx) changes errno\n", call, a, b);
}

void plain(size_t size, int before) {
    errno = before;
    tell("malloc", size, 0, before, std::malloc(size), size, 16);
    errno = before;
    tell("calloc", 1, size, before, std::calloc(1, size), size, 16);
    errno = before;
    tell("calloc", size, 3, before, std::calloc(size, size > half / 4 ? 3 : 1), size, 16);
    errno = before;
    tell("valloc", size, 0, before, valloc(size), size, 4096);
    errno = before;
    tell("pvalloc", size, 0, before, pvalloc(size), size, 4096);
    errno = before;
    void *p = operator new(size, std::nothrow);
    tell("new nothrow", size, 0, before, p, size, 16, ::operator delete);
    errno = before;
    p = operator new[](size, std::nothrow);
    tell("new[] nothrow", size, 0, before, p, size, 16, ::operator delete[]);
    errno = before;
    const char *thrown = "nothing";
    p = nullptr;
    try {
        p = operator new(size);
    } catch (const std::bad_alloc &) {
        thrown = "bad_alloc";
    }
    tell(thrown, size, 0, before, p, size, 16, ::operator delete);
}

/* Of an object of `was` bytes; without one: SIZE_MAX. */
void resized(size_t was, size_t size, int before) {
    void *p = was == SIZE_MAX ? nullptr : std::malloc(was);
    errno = before;
    void *q = std::realloc(p, size);
    if (!q && size != 0) std::free(p);
    if (errno == before && q == nullptr && size != 0) std::printf("realloc: no errno\n");
    tell("realloc", was, size, before, q, size, 16);
    p = was == SIZE_MAX ? nullptr : std::malloc(was);
    errno = before;
    q = reallocarray(p, size, size > half / 4 ? 4 : 1);
    int error = errno;
    if (!q && size != 0) std::free(p);
    errno = error;
    tell("reallocarray", was, size, before, q, size, 16);
}

void delete_aligned(void *p) { operator delete(p, std::align_val_t(16)); } /* nobody looks at the alignment */

void aligned(size_t alignment, size_t size, int before, bool power) {
    void *p = known(0) ? nullptr : (void *)&p;
    void *const unchanged = p;
    errno = before;
    int answer = posix_memalign(&p, alignment, size);
    int error = errno;
    std::printf("posix_memalign(%zx, %zx) errno %d: %s, %s, %s\n", alignment, size, before, name_of(answer),
                p == unchanged ? "out as before" : "out", name_of(error));
    if (answer == 0) std::free(p);
    errno = before;
    p = memalign(alignment, size);
    tell("memalign", alignment, size, before, p, size, power ? alignment : 1);
    if (!power) return;
    errno = before;
    p = aligned_alloc(alignment, size);
    tell("aligned_alloc", alignment, size, before, p, size, alignment);
    if (size > half) return; /* libstdc++ rounds it up to 0 */
    errno = before;
    p = operator new(size, std::align_val_t(alignment), std::nothrow);
    tell("new aligned nothrow", alignment, size, before, p, size, alignment, delete_aligned);
}

void others(int before) {
    errno = before;
    std::free(nullptr);
    std::printf("free(NULL): %s\n", name_of(errno));
    errno = before;
    std::printf("malloc_usable_size(NULL): %zu, %s\n", malloc_usable_size(nullptr), name_of(errno));
    void *p = std::malloc(known(50));
    errno = before;
    std::printf("malloc_usable_size: %d, %s\n", malloc_usable_size(p) >= 50, name_of(errno));
    std::free(p);
    errno = before;
    std::printf("mallopt: %d, %s\n", mallopt(M_MXFAST, 64), name_of(errno));
    errno = before;
    std::printf("malloc_info: %d, %s\n", malloc_info(1, stdout), name_of(errno));
}

} // namespace

int main() {
    for (int before : values_before) {
        for (size_t size : sizes) {
            plain(known(size), before);
            for (size_t was : sizes)
                if (was < half / 2) resized(known(was), known(size), before);
            resized(SIZE_MAX, known(size), before);
            for (size_t alignment : alignments) aligned(known(alignment), known(size), before, true);
            for (size_t alignment : wrong_alignments) aligned(known(alignment), known(size), before, false);
        }
        others(before);
    }
    return 0;
}
