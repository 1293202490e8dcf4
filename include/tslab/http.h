/*
 * libtslab-http: the statistics of a program over HTTP, and a page that shows them. Link with tslab-http (pkg-config
 * tslab-http; CMake: find_package(tslab COMPONENTS http), tslab::http).
 *
 *     /metrics      Prometheus text, or OpenMetrics for clients that accept it; the program's own metrics at its end
 *     /stats.json   all figures (docs/stats.md)         /stats.txt, /doctor.txt   the same in words
 *     /epochs.json?sort=bytes|age&limit=N               the N (100) largest or oldest epochs, N up to 10000
 *     /stacks.json  which stacks allocated what is live (option sample_stacks)   /stacks.txt   the same in words
 *     /debug/pprof/heap, /debug/pprof/allocs            profiles of the sampled stacks, for `go tool pprof`, Parca,
 *                   Pyroscope and Grafana: in use and allocated, objects and bytes; needs libprotobuf-c and zlib
 *     /history.json figures of the last hour, closer together in the last minutes; /process.json the process;
 *     /functions.json   functions of the sampled stacks (these three are for the dashboard)
 *     /healthz      "ok";    /view, /debug/pprof/symbol   for the tools of this project, and for pprof
 *     /             the dashboard; needs nothing but this server
 *
 * With TSLAB_HTTP=ADDRESS in the environment, a program that is linked to the library, or has it preloaded
 * (LD_PRELOAD), serves all allocators of the process, without a line of code. TSLAB_HTTP=0 starts nothing; :0 takes
 * any port that is free.
 */
#ifndef TSLAB_HTTP_H
#define TSLAB_HTTP_H

#include <tslab/stats.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /* A child of fork does not go on with it when this process ends. */
    SLAB_HTTP_NOT_IN_CHILDREN = 1,
};

/* How the server starts; a field that is 0 has slab_http_start's value. */
typedef struct SlabHttpOptions {
    size_t size;              /* sizeof(SlabHttpOptions) */
    SlabAllocator *allocator; /* whose statistics; NULL: of all of the process. Metrics and profiles, which are of one:
                                 of that which holds most at the request, or of ?allocator=N */
    const char *address;      /* NULL: "127.0.0.1:9464" */
    const char *const *hosts; /* names by which it may be called besides, up to 32, then NULL; "*": every name */
    unsigned flags;           /* SLAB_HTTP_NOT_IN_CHILDREN */
} SlabHttpOptions;

/*
 * Starts the server of this process, with two threads of its own: one answers, one looks at the statistics twice a
 * second, for the history and the doctor (a fiftieth of a processor at most). allocator: whose statistics; NULL: of all
 * allocators of the process (of more than 8 of those that hold most), or with ?allocator=N of one.
 * address: "HOST:PORT", "[IPV6]:PORT", ":PORT" or "PORT", the last two on the loopback interface; port 0: any that is
 * free; NULL: "127.0.0.1:9464".
 *
 * There is no access control. An address other than the loopback's shows the figures to every client that reaches it.
 * On the loopback interface a web page elsewhere could have its own name resolve to this machine and read them with the
 * user's browser (DNS rebinding). So there a request is answered only if its `Host` is localhost, an address of the
 * loopback, HOST, a name in `hosts`, or one in TSLAB_HTTP_HOSTS (names with commas between them). Other requests get
 * 403. On another address every name is answered; if `hosts` or the variable has names, these and addresses are.
 *
 * No client waits for another. Of more than 128 connections the slowest loses its own: first one without a whole
 * request, then an idle one, then one that has taken its answer for a second. A connection that is still for five
 * seconds is cut off.
 *
 * fork: the port stays with the process that serves. A child goes on with it when that process has ended, as after
 * daemon(): with the same port, allocator and names, at most two seconds later. Until then a thread of the child
 * sleeps. If it cannot have the port, it says so in one line (slab_set_message_sink). slab_http_start in the child
 * starts a server of its own instead; slab_http_stop and SLAB_HTTP_NOT_IN_CHILDREN end the waiting.
 *
 * false with errno: EALREADY it runs, EINVAL bad address, option or name, or no live allocator, EADDRINUSE the port is
 * taken, others as the system has them.
 */
TSLAB_API bool slab_http_start(SlabAllocator *allocator, const char *address);
/* slab_http_start with options. EINVAL also: `size` is smaller than this struct, or a byte behind it is not 0. */
TSLAB_API bool slab_http_start_ex(const SlabHttpOptions *options);
/* Ends it when the requests under way are answered, after a second at most. false: it does not run. Not to be called
   by two threads at once with itself or slab_http_start: one of them gets false. */
TSLAB_API bool slab_http_stop(void);
/* The port; 0: it does not run. */
TSLAB_API int slab_http_port(void);

/* ---- metrics of the program ------------------------------------------------------------------------------------- */

enum {
    SLAB_HTTP_COUNTER, /* never falls while the program runs; its name ends in _total */
    SLAB_HTTP_GAUGE,   /* its name does not */
};

/* A figure of the program's own on /metrics: one sample of one metric. */
typedef struct SlabHttpMetric {
    size_t size;               /* sizeof(SlabHttpMetric) */
    const char *name;          /* letters, digits and '_', no digit first; with the unit: "queue_wait_seconds_total" */
    const char *help;          /* one sentence; the same in all samples of the metric */
    int kind;                  /* SLAB_HTTP_COUNTER or SLAB_HTTP_GAUGE; the same in all samples of the metric */
    const char *const *labels; /* name, value, name, value, ..., NULL: up to 16 pairs. NULL: none */
    double (*read)(void *arg); /* the figure now; a counter below 0 or NaN is left out */
    void *arg;
} SlabHttpMetric;

/*
 * Adds a sample to /metrics, whether the server runs or not; it stays until it is removed, and a child of fork has it
 * too. A metric with several label values is added once for each. Everything is copied except `arg`. Values of labels
 * and help are UTF-8; the server escapes them as the formats need.
 *
 * `read` runs on the server's thread at each scrape, one at a time: it must not block, call functions of this header,
 * or wait for a lock of a thread that calls these two.
 *
 * Any thread. Costs a walk over the samples. false with errno: EINVAL bad name, help, kind or label, one of these or a
 * label's value above 1,000 bytes, a name that begins with temporal_slab_, a label's name that begins with __, or a
 * metric of that name that has another help or kind; EEXIST that sample is there; ENOSPC there are 1,000; ENOMEM;
 * EDEADLK called by a `read`.
 */
TSLAB_API bool slab_http_metric_add(const SlabHttpMetric *metric);
/* Takes the sample with this name and these labels out. When it returns its `read` is not running and never will. Any
   thread. false with errno: ENOENT there is none; EINVAL, ENOMEM, EDEADLK as above. */
TSLAB_API bool slab_http_metric_remove(const SlabHttpMetric *metric);

#ifdef __cplusplus
}
#endif

#endif
