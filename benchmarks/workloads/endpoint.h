/*
 * The programs' own metrics on their endpoint. They serve one if they were built with libtslab-http and TSLAB_HTTP is
 * set; otherwise these calls do nothing.
 */
#ifndef WORKLOADS_ENDPOINT_H
#define WORKLOADS_ENDPOINT_H

#include "harness.h"

/* benchmark_objects_leaked_total{pattern, allocator}, from `read`, which any thread may call until it is hidden. */
void endpoint_show_leaks(const char *tool, const char *pattern, WlAllocator allocator, double (*read)(void *),
                         void *arg);
void endpoint_hide_leaks(const char *pattern, WlAllocator allocator);

#endif
