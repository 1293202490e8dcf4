/* The system's filter of calls, where its headers are: musl comes without those of the kernel. */
#ifndef SUP_SECCOMP_H
#define SUP_SECCOMP_H

#if defined(__linux__) && defined(__has_include)
#if __has_include(<linux/filter.h>) && __has_include(<linux/seccomp.h>)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#define HAS_SECCOMP
#endif
#endif

#endif
