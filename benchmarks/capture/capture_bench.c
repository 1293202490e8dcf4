/*
 * A server that handles requests by a library as it is installed (tests/malloc/libraries): by plain malloc, or each
 * request in a domain that captures. usage: PROGRAM plain|drain|drop REQUESTS
 *   plain  the library frees what it has allocated
 *   drain  the same, inside of a domain: what the library keeps lives on
 *   drop   inside of a domain, and nothing is freed: the domain's end frees it
 * One line: requests a second, the 99.9th percentile of a request in us, and KiB that are resident after the requests.
 * Built with CAPTURE_LINKED for the latter two.
 */
#include "bench_clock.h"
#include "bench_hist.h"
#include "bench_util.h"
#include "captured.h"

#include <stdbool.h>
#include <string.h>
#ifdef CAPTURE_LINKED
#include <tslab/malloc.h>
#endif

static void handle(unsigned i, const char *mode) {
#ifdef CAPTURE_LINKED
    if (mode[0] == 'd') {
        bool drops = strcmp(mode, "drop") == 0;
        EpochDomain *d = epoch_domain_create_ex(slab_malloc_allocator(), "request",
                                                EPOCH_DOMAIN_CAPTURE | (drops ? 0 : EPOCH_DOMAIN_DRAIN));
        CHECK(d && epoch_domain_enter(d));
        (drops ? tested.drop : tested.serve)(i);
        CHECK(epoch_domain_exit(d));
        epoch_domain_destroy(d);
        return;
    }
#endif
    (void)mode;
    tested.serve(i);
}

int main(int argc, char **argv) {
    const char *mode = argc == 3 ? argv[1] : "";
    unsigned requests = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
    bool captures = strcmp(mode, "drain") == 0 || strcmp(mode, "drop") == 0;
#ifndef CAPTURE_LINKED
    if (captures) requests = 0;
#endif
    if (requests == 0 || !(captures || strcmp(mode, "plain") == 0)) {
        fputs("usage: PROGRAM plain|drain|drop REQUESTS\n", stderr);
        return 2;
    }
    if (strcmp(mode, "drop") == 0 && !tested.drop) return 77; /* the library has lists of its allocations */
    bench_hist *hist = bench_hist_create();
    double ns = bench_clock_calibrate();
    tested.begin();
    for (unsigned i = 0; i < requests / 10 + 1; i++) handle(i, mode);
    uint64_t began = bench_now_ns();
    for (unsigned i = 0; i < requests; i++) {
        uint64_t from = bench_tick_begin();
        handle(i, mode);
        bench_hist_add(hist, bench_tick_end() - from);
    }
    double seconds = (double)(bench_now_ns() - began) / 1e9;
    printf("%.0f %.2f %zu\n", requests / seconds, ns * bench_hist_percentile(hist, 0.999, bench_hist_step(hist)) / 1000,
           (size_t)(bench_rss_bytes() / 1024));
    fflush(stdout);
    tested.end();
    return 0;
}
