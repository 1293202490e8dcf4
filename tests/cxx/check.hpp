// Common to the tests of the C++ header: a check that ends the program, and the memory of an allocator.
#ifndef TESTS_CXX_CHECK_HPP
#define TESTS_CXX_CHECK_HPP

#include <tslab/stats.h>
#include <tslab/tslab.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            std::fprintf(stderr, "%s:%d: not so (errno %d): %s\n", __FILE__, __LINE__, errno, #x); \
            std::_Exit(1);                                                                         \
        }                                                                                          \
    } while (0)

// Exactly this exception.
#define CHECK_THROWS(type, statement) \
    do {                              \
        bool thrown_ = false;         \
        try {                         \
            statement;                \
        } catch (const type &) {      \
            thrown_ = true;           \
        }                             \
        CHECK(thrown_);               \
    } while (0)

// std::system_error with this errno.
#define CHECK_ERROR(number, statement)          \
    do {                                        \
        int code_ = 0;                          \
        try {                                   \
            statement;                          \
        } catch (const std::system_error &e_) { \
            code_ = e_.code().value();          \
        }                                       \
        CHECK(code_ == (number));               \
    } while (0)

inline std::uint64_t live(SlabAllocator *allocator, EpochId epoch) {
    SlabEpochStats stats;
    CHECK(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats));
    return stats.live_objects;
}
inline std::uint64_t live(const tslab::domain &d) { return live(d.allocator(), d.epoch()); }

inline std::uint64_t misuses(SlabAllocator *allocator) {
    SlabGlobalStats stats;
    CHECK(slab_stats_global(allocator, &stats));
    return stats.rejected_frees_total;
}

#endif
