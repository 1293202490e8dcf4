/*
 * libtslab-malloc: temporal-slab as the malloc of a whole program, which need not know of it.
 *
 *     LD_PRELOAD=libtslab-malloc.so program       a program as it is, if it is linked dynamically
 *     tslab run program                           that, and statistics with sampled stacks (tslab(1))
 *     cc program.c -ltslab-malloc -ltslab         a program of your own (pkg-config tslab-malloc; CMake:
 *                                                 find_package(tslab), tslab::malloc)
 *
 * It replaces malloc, free, calloc, realloc, the aligned functions of C, POSIX and glibc, and new and delete of C++.
 *   - Objects live in one churn epoch of an allocator of their own. Other allocators, epochs and domains of the process
 *     work beside it; free() and realloc() take objects of all of them.
 *   - Semantics are glibc's: realloc(p, 0) frees p and returns NULL; a size above PTRDIFF_MAX is ENOMEM; free() leaves
 *     errno alone.
 *   - A pointer that is freed twice, or was never allocated, is counted and otherwise ignored. TSLAB_ON_MISUSE=report
 *     says so, TSLAB_ON_MISUSE=abort stops the program. The other options of the environment hold, too (SlabOptions).
 *     Once malloc has given the same address to a new object, the old pointer frees that one.
 *   - The hard mode, TSLAB_HARDEN=1 (tslab run --hard), finds more misuse and stops the program; TSLAB_HARDEN=LIST has
 *     the parts of it that are named (man 3 tslab-malloc). Objects of malloc are
 *     then for malloc's functions alone, not for slab_free() and slab_realloc().
 *   - A program with threads gets one more, which gives memory back while the program rests. TSLAB_BACKGROUND=1 makes
 *     it at the start, TSLAB_BACKGROUND=0 never.
 *
 * Domains that capture: while a thread is inside a domain made with EPOCH_DOMAIN_CAPTURE, its malloc, calloc,
 * realloc(NULL), new, ... allocate in the domain, also in libraries that were never written for it. The end of the
 * domain frees all of it. With EPOCH_DOMAIN_DRAIN the end closes the domain instead: memory that a library keeps (a
 * cache, a table made at first use) lives on, and counts under the domain's label.
 *
 *     unsigned flags = EPOCH_DOMAIN_CAPTURE | EPOCH_DOMAIN_DRAIN;
 *     EpochDomain *d = epoch_domain_create_ex(slab_malloc_allocator(), "request", flags);
 *     epoch_domain_enter(d);
 *     parse_with_any_library(text);
 *     epoch_domain_exit(d);
 *     epoch_domain_destroy(d);
 *
 * The innermost domain that captures counts. free() takes any object, inside or out. Memory of the loader is never a
 * domain's, nor is that of libc, but for the results of these: strdup, strndup, wcsdup, asprintf, getline, getdelim,
 * getcwd, realpath, tempnam, scandir and their kin. Nor are exceptions of C++ and their texts. docs/libraries.md names
 * the cases that cannot be told apart.
 *
 * More: man 3 tslab-malloc.
 */
#ifndef TSLAB_MALLOC_H
#define TSLAB_MALLOC_H

#include <tslab/tslab.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the malloc of this process is this library's: it is linked or preloaded, and no other comes before it.
   Any thread. Cost: an allocation. */
TSLAB_API bool slab_malloc_active(void);
/* The allocator of malloc's objects, for statistics, slab_trim() and slab_set_budget(). slab_allocator_free() leaves it
   alone. Any thread. NULL with errno ENOMEM. */
TSLAB_API SlabAllocator *slab_malloc_allocator(void);

#ifdef __cplusplus
}
#endif

#endif
