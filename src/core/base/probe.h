/*
 * Probes for tracers (USDT: bpftrace, perf, systemtap). Compiled in where <sys/sdt.h> is installed (Debian:
 * systemtap-sdt-dev): one nop each while no tracer listens, and none on a fast path. Names and arguments:
 * docs/probes.md.
 */
#ifndef TS_BASE_PROBE_H
#define TS_BASE_PROBE_H

#if defined(__has_include) && !defined(TSLAB_NO_PROBES)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments" /* in the macros of that header */
#endif
#define TS_PROBE1(name, a) DTRACE_PROBE1(tslab, name, a)
#define TS_PROBE2(name, a, b) DTRACE_PROBE2(tslab, name, a, b)
#define TS_PROBE3(name, a, b, c) DTRACE_PROBE3(tslab, name, a, b, c)
#define TS_PROBE4(name, a, b, c, d) DTRACE_PROBE4(tslab, name, a, b, c, d)
#endif
#endif

#ifndef TS_PROBE1
#define TS_PROBE1(name, a) ((void)(a))
#define TS_PROBE2(name, a, b) ((void)(a), (void)(b))
#define TS_PROBE3(name, a, b, c) ((void)(a), (void)(b), (void)(c))
#define TS_PROBE4(name, a, b, c, d) ((void)(a), (void)(b), (void)(c), (void)(d))
#endif

#endif
