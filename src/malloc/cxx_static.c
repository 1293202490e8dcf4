/*
 * What the operators need of a C++ library that is linked into the same program: an operator is in a program only if
 * it is C++, and then the library is, too. Which operators the program has of its own the linker has decided.
 *
 * The operators new that may not throw are the C++ library's: they call the throwing ones here, and catch.
 */
#include "malloc/cxx.h"

#include <stdlib.h>

/* std::get_new_handler() and std::__throw_bad_alloc() */
extern tm_cxx_handler get_handler(void) __asm__("_ZSt15get_new_handlerv");
extern void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv");

tm_cxx_handler tm_cxx_current_handler(void) { return get_handler(); }

THROWS void tm_cxx_throw_bad_alloc(void) {
    throw_bad_alloc();
    abort();
}

/* An operator as the program has it, and as this library has it (cxx.c): one function, unless the program has its
   own. */
#define OPERATOR(result, name, symbol, ...)          \
    extern result name(__VA_ARGS__) __asm__(symbol); \
    extern TS_HIDDEN result own_##name(__VA_ARGS__) __asm__("tm_own" symbol)
OPERATOR(void *, allocate, NEW, size_t);
OPERATOR(void *, allocate_array, NEW_ARRAY, size_t);
OPERATOR(void *, allocate_aligned, NEW ALIGNED, size_t, size_t);
OPERATOR(void *, allocate_array_aligned, NEW_ARRAY ALIGNED, size_t, size_t);
OPERATOR(void, release, DELETE, void *);
OPERATOR(void, release_array, DELETE_ARRAY, void *);
OPERATOR(void, release_aligned, DELETE ALIGNED, void *, size_t);
OPERATOR(void, release_array_aligned, DELETE_ARRAY ALIGNED, void *, size_t);
#undef OPERATOR

TS_AT_LOAD static void find_all_replaced(void) {
#define FIND(name) \
    if (name != own_##name) tm_cxx_replaced.name = name
    FIND(allocate);
    FIND(allocate_array);
    FIND(allocate_aligned);
    FIND(allocate_array_aligned);
    FIND(release);
    FIND(release_array);
    FIND(release_aligned);
    FIND(release_array_aligned);
#undef FIND
}
