/* All 20 operators of C++ that allocate and free, as C functions: X(number, mangled name). Arguments that a form has
   not are not read. */
#ifndef MALLOC_OWN_CXX_H
#define MALLOC_OWN_CXX_H

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#if SIZE_MAX == ULONG_MAX
#define OWN_CXX_SIZE "m"
#else
#define OWN_CXX_SIZE "j"
#endif

#define OWN_CXX_NEWS(X)                                       \
    X(0, "_Znw" OWN_CXX_SIZE)                                 \
    X(1, "_Zna" OWN_CXX_SIZE)                                 \
    X(2, "_Znw" OWN_CXX_SIZE "RKSt9nothrow_t")                \
    X(3, "_Zna" OWN_CXX_SIZE "RKSt9nothrow_t")                \
    X(4, "_Znw" OWN_CXX_SIZE "St11align_val_t")               \
    X(5, "_Zna" OWN_CXX_SIZE "St11align_val_t")               \
    X(6, "_Znw" OWN_CXX_SIZE "St11align_val_tRKSt9nothrow_t") \
    X(7, "_Zna" OWN_CXX_SIZE "St11align_val_tRKSt9nothrow_t")
#define OWN_CXX_DELETES(X)                         \
    X(0, "_ZdlPv")                                 \
    X(1, "_ZdaPv")                                 \
    X(2, "_ZdlPvRKSt9nothrow_t")                   \
    X(3, "_ZdaPvRKSt9nothrow_t")                   \
    X(4, "_ZdlPvSt11align_val_t")                  \
    X(5, "_ZdaPvSt11align_val_t")                  \
    X(6, "_ZdlPvSt11align_val_tRKSt9nothrow_t")    \
    X(7, "_ZdaPvSt11align_val_tRKSt9nothrow_t")    \
    X(8, "_ZdlPv" OWN_CXX_SIZE)                    \
    X(9, "_ZdaPv" OWN_CXX_SIZE)                    \
    X(10, "_ZdlPv" OWN_CXX_SIZE "St11align_val_t") \
    X(11, "_ZdaPv" OWN_CXX_SIZE "St11align_val_t")
enum { OWN_CXX_NEW = 8, OWN_CXX_DELETE = 12 };

#define DECLARE_NEW(number, name) extern void *cxx_new_##number(size_t bytes, size_t alignment) __asm__(name);
#define DECLARE_DELETE(number, name) extern void cxx_delete_##number(void *p, size_t a, size_t b) __asm__(name);
OWN_CXX_NEWS(DECLARE_NEW)
OWN_CXX_DELETES(DECLARE_DELETE)

#endif
