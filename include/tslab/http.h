/*
 * libtslab-http: the statistics of a program over HTTP, and a page that shows them. Link with tslab-http (pkg-config
 * tslab-http; CMake: find_package(tslab COMPONENTS http), tslab::http).
 *
 *     /metrics      Prometheus text, or OpenMetrics for those who accept it
 *     /stats.json   all figures (docs/stats.md)         /stats.txt, /doctor.txt   the same in words
 *     /epochs.json?sort=bytes|age&limit=N               the N (100) largest or oldest epochs, N up to 10000
 *     /stacks.json  which stacks allocated what is live (option sample_stacks)   /stacks.txt   the same in words
 *     /healthz      "ok"
 *     /             the dashboard; needs nothing but this server
 *
 * With TSLAB_HTTP=ADDRESS in the environment, a program that is linked to the library, or has it preloaded
 * (LD_PRELOAD), serves its default allocator, or whichever allocator holds most, without a line of code.
 */
#ifndef TSLAB_HTTP_H
#define TSLAB_HTTP_H

#include <tslab/stats.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Starts the server of this process, with one thread of its own. allocator: whose statistics; NULL: of the allocator
 * that holds most at each request. address: "HOST:PORT", "[IPV6]:PORT", ":PORT" or "PORT", the last two on the loopback
 * interface; port 0: any that is free; NULL: "127.0.0.1:9464". There is no access control: an address other than
 * the loopback's shows the figures to everybody who reaches it.
 *
 * false with errno: EALREADY it runs, EINVAL bad address or no live allocator, EADDRINUSE the port is taken, others
 * as the system has them. A child of fork serves nothing and may start its own.
 */
TSLAB_API bool slab_http_start(SlabAllocator *allocator, const char *address);
/* Ends it when the requests under way are answered, after a second at most. false: it does not run. Not to be called
   by two threads at once with itself or slab_http_start: one of them gets false. */
TSLAB_API bool slab_http_stop(void);
/* The port; 0: it does not run. */
TSLAB_API int slab_http_port(void);

#ifdef __cplusplus
}
#endif

#endif
