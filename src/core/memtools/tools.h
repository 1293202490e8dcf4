/*
 * The runtime of AddressSanitizer, LeakSanitizer and the other sanitizers, where the process has one: also beside a
 * library that was compiled without them. Weak, so that none of it is needed. A function is there if its address is not
 * NULL.
 */
#ifndef TS_MEMTOOLS_TOOLS_H
#define TS_MEMTOOLS_TOOLS_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define TS_CARE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TS_CARE_ASAN 1
#endif
#endif
#ifndef TS_CARE_ASAN
#define TS_CARE_ASAN 0
#endif

/* The requests of memcheck; where its header is missing, no process is taken to run in it. */
#if defined(TSLAB_VALGRIND)
#include <valgrind/memcheck.h>
#else
#define RUNNING_ON_VALGRIND 0
#define VALGRIND_GET_VBITS(at, bits, bytes) ((void)(at), (void)(bits), 0)
#define VALGRIND_MAKE_MEM_NOACCESS(at, bytes) ((void)(at), (void)(bytes))
#define VALGRIND_MAKE_MEM_UNDEFINED(at, bytes) ((void)(at), (void)(bytes))
#define VALGRIND_MAKE_MEM_DEFINED(at, bytes) ((void)(at), (void)(bytes))
#define VALGRIND_CREATE_MEMPOOL(pool, zone, zeroed) ((void)(pool))
#define VALGRIND_DESTROY_MEMPOOL(pool) ((void)(pool))
#define VALGRIND_MEMPOOL_EXISTS(pool) ((void)(pool), 0)
#define VALGRIND_MEMPOOL_TRIM(pool, at, bytes) ((void)(pool))
#define VALGRIND_MEMPOOL_ALLOC(pool, at, bytes) ((void)(pool))
#define VALGRIND_MEMPOOL_FREE(pool, at) ((void)(pool))
#define VALGRIND_MEMPOOL_CHANGE(pool, from, to, bytes) ((void)(pool))
#endif

#define TS_OF_TOOL __attribute__((weak, visibility("default"))) extern

TS_OF_TOOL void __asan_poison_memory_region(const volatile void *at, size_t bytes);
TS_OF_TOOL void __asan_unpoison_memory_region(const volatile void *at, size_t bytes);
TS_OF_TOOL int __asan_address_is_poisoned(const volatile void *at);
TS_OF_TOOL void __asan_set_error_report_callback(void (*fn)(const char *report));
TS_OF_TOOL void *__asan_get_report_address(void);
TS_OF_TOOL void __sanitizer_symbolize_pc(void *pc, const char *format, char *out, size_t bytes);
TS_OF_TOOL void __tsan_init(void);
TS_OF_TOOL void __msan_init(void);
TS_OF_TOOL void __lsan_register_root_region(const void *at, size_t bytes);

#endif
