// A type that the program and a library of it have in common, and the library's functions on it.
#ifndef TESTS_CXX_SHARED_OBJECTS_HPP
#define TESTS_CXX_SHARED_OBJECTS_HPP

#include <tslab/tslab.hpp>

struct counted {
    int *ended;
    explicit counted(int *count) : ended(count) {}
    ~counted() { ++*ended; }
};

__attribute__((visibility("default"))) counted *made_in_library(tslab::domain &d, int *ended);
__attribute__((visibility("default"))) bool destroyed_in_library(tslab::domain &d, counted *object);
#if TSLAB_HAS_PMR
__attribute__((visibility("default"))) bool is_equal_in_library(tslab::domain &d,
                                                                const std::pmr::memory_resource &other);
#endif
// The place of the library's function that ends such an object.
__attribute__((visibility("default"))) void (*end_in_library())(void *);

#endif
