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
