/* The events of a trace, a line each, for record_test.py. */
#include "trace/trace.h"

#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv) {
    char error[160] = "usage: trace_dump FILE";
    trace_event e;
    trace *t = argc == 2 ? trace_open(argv[1], error, sizeof error) : NULL;
    if (!t) return (void)fprintf(stderr, "%s\n", error), 1;
    while (trace_next(t, &e))
        printf("%" PRIu64 " %d %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", e.time_ns, e.kind,
               e.thread, e.process, e.address, e.size, e.object);
    int code = trace_damage(t) != NULL;
    trace_close(t);
    return code;
}
