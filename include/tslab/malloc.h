/*
 * libtslab-malloc: temporal-slab as the malloc of a whole program, which need not know of it.
 *
 *     LD_PRELOAD=libtslab-malloc.so program       any program as it is
 *     tslab run program                           the same (tslab(1))
 *     cc program.c -ltslab-malloc -ltslab         a program of your own (pkg-config tslab-malloc; CMake:
 *                                                 find_package(tslab), tslab::malloc)
 *
 * malloc, free, calloc, realloc, the aligned functions of C, POSIX and glibc, and the operators new and delete of C++
 * are then temporal-slab's. They have its checks: a pointer that is freed twice, or was never allocated, is counted
 * and otherwise ignored; TSLAB_ON_MISUSE=report says so, TSLAB_ON_MISUSE=abort stops the program. They have its
 * statistics, and the options of the environment (tslab.h, SlabOptions).
 *
 * All objects of malloc live in one churn epoch of one allocator, which is neither the default one nor any that the
 * program makes. Other allocators, epochs and domains of the same process work beside it. free() and realloc() take
 * objects of all of them.
 *
 * TSLAB_HARDEN=1 (tslab run --hard) is the hard mode: canaries, a quarantine, guards around objects from 128 KiB on, and
 * kinds that new, new[] and malloc have of their own; misuse stops the program. malloc_usable_size() is the size asked
 * for. Objects of malloc are then for malloc's functions alone, and not for slab_free() and slab_realloc().
 *
 * When the program makes its first thread the library makes one of its own, which takes no signals and gives memory
 * back while the program rests. A program without threads gets none: unshare(2) and setns(2) refuse a process that has
 * two. (A child of fork gets one when it makes one.) TSLAB_BACKGROUND=1, which `tslab run` sets, is a thread from the
 * start, TSLAB_BACKGROUND=0 none. Before glibc 2.34 there is none without the former.
 *
 * Semantics are glibc's: realloc(p, 0) frees p and returns NULL. A size above PTRDIFF_MAX is ENOMEM. free() leaves
 * errno alone. aligned_alloc() of an alignment that is no power of two is EINVAL. free_sized() and
 * free_aligned_sized() of C23 are there; a size larger than the object is reported where misuse is, and never relied
 * on. mallopt() accepts glibc's parameters, without effect.
 */
/*
 * Domains that capture: while a thread is inside a domain made with EPOCH_DOMAIN_CAPTURE (tslab.h), what it allocates
 * by malloc, calloc, realloc(NULL), new, ... is the domain's, also in libraries that were never written for it. The
 * end of the domain frees all of it. With EPOCH_DOMAIN_DRAIN the end closes it instead: what a library keeps (a
 * cache, a table made at first use) lives on, and is counted under the domain's label.
 *
 *     unsigned flags = EPOCH_DOMAIN_CAPTURE | EPOCH_DOMAIN_DRAIN;
 *     EpochDomain *d = epoch_domain_create_ex(slab_malloc_allocator(), "request", flags);
 *     epoch_domain_enter(d);
 *     parse_with_any_library(text);
 *     epoch_domain_exit(d);
 *     epoch_domain_destroy(d);
 *
 * The innermost domain that captures counts. free() takes any object, inside or out; it is fastest for objects of
 * slab_malloc_allocator(). realloc() of an object whose epoch takes none any more moves it to where malloc would put
 * it. A thread inside a domain that is closed allocates as if it were outside. What the loader allocates, for a
 * thread or a library, is never a domain's, nor is what happens inside of dlopen(). A dlopen() without a slash in the
 * name searches first as this library would, then as its caller.
 */
#ifndef TSLAB_MALLOC_H
#define TSLAB_MALLOC_H

#include <tslab/tslab.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the malloc of this process is this library's: it is linked or preloaded, and no other comes before it. Any
   thread. Costs an allocation. */
TSLAB_API bool slab_malloc_active(void);
/* The allocator of malloc's objects: for statistics, slab_trim(), slab_set_budget(). slab_allocator_free() of it does
   nothing. Any thread. NULL with errno ENOMEM. */
TSLAB_API SlabAllocator *slab_malloc_allocator(void);

#ifdef __cplusplus
}
#endif

#endif
