#include "replay/show.h"

#include "common/text.h"

#include <inttypes.h>

enum { CHART_COLUMNS = 72 };

static const double SHARES[] = {0.5, 0.99, 0.999};

static void put_tail(const buckets *b, FILE *out) {
    for (size_t i = 0; i < sizeof SHARES / sizeof *SHARES; i++)
        fprintf(out, " %7" PRIu64, buckets_quantile(b, SHARES[i]));
}

static void put_allocator(const run_allocator *a, FILE *out) {
    const run_figures *f = a->figures;
    char wall[80];
    snprintf(wall, sizeof wall, "%.2f (%.2f to %.2f)", f->time_ns.median / 1e6, f->time_ns.low / 1e6,
             f->time_ns.high / 1e6);
    fprintf(out, "%-9s %-32s %9.2f (%.2f to %.2f)\n", a->name, wall, f->cpu_ns.median / 1e6, f->cpu_ns.low / 1e6,
            f->cpu_ns.high / 1e6);
}

static void put_tails(const run_allocator *a, FILE *out) {
    fprintf(out, "%-9s", a->name);
    put_tail(&a->figures->alloc_ns, out);
    fputs("  ", out);
    put_tail(&a->figures->free_ns, out);
    fputc('\n', out);
}

static void put_memory(const run_allocator *a, FILE *out) {
    const run_figures *f = a->figures;
    fprintf(out, "%-9s %9.2f (%.2f to %.2f)  %9.2f (%.2f to %.2f)\n", a->name, f->peak_bytes.median / 1e6,
            f->peak_bytes.low / 1e6, f->peak_bytes.high / 1e6, f->final_bytes.median / 1e6, f->final_bytes.low / 1e6,
            f->final_bytes.high / 1e6);
}

/* Resident over live bytes at a sample; 0: nothing is live. */
static double fragmentation(const replay *r, const run_allocator *a, uint32_t sample) {
    const double live = (double)r->ops.sample[sample].live_bytes;
    return live > 0 ? a->figures->resident[sample] / live : 0;
}

/* A column is the mean of its samples. */
static void put_chart(const replay *r, const run_allocator *a, FILE *out) {
    static const char level[] = " .:-=+*#%@";
    fprintf(out, "%-9s |", a->name);
    for (uint32_t c = 0; c < CHART_COLUMNS; c++) {
        const uint32_t from = c * r->ops.samples / CHART_COLUMNS, to = (c + 1) * r->ops.samples / CHART_COLUMNS;
        double sum = 0;
        for (uint32_t i = from; i < to || i == from; i++) sum += fragmentation(r, a, i);
        const double mean = to > from ? sum / (double)(to - from) : sum;
        /* 1: the lightest; twice as much: two marks further. */
        unsigned mark = 0;
        for (double limit = 1.05; mark + 1 < sizeof level - 1 && mean > limit; limit *= 1.41421356) mark++;
        fputc(level[mark], out);
    }
    fputs("|\n", out);
}

void replay_text(const replay *r, FILE *out) {
    const char *command = trace_about(r->t, "command");
    const decoded *d = &r->ops;
    text_put_command(command ? command : r->path, out);
    fprintf(out,
            ": %" PRIu64 " mallocs, %" PRIu64 " frees, %" PRIu64 " reallocs of %u thread%s; at most %.2f MB live, "
            "%.2f at the end\n",
            d->allocs, d->frees, d->reallocs, d->threads, d->threads == 1 ? "" : "s", (double)d->live_peak_bytes / 1e6,
            (double)d->live_end_bytes / 1e6);
    if (r->plan_path)
        fprintf(out,
                "planned: tslab with a domain for each of %" PRIu64 " turns of %s, and without %" PRIu64 " frees\n",
                r->planned_ops.turns, r->plan.address, r->planned_ops.dropped);
    if (r->plan_path)
        fputs("captured: with domains that capture there, and each free: the lines of tslab advise\n", out);
    fprintf(out,
            "%u round%s; medians, and the lowest and highest\n\nTime in ms, without the player's own %.2f; CPU time of "
            "all threads\n",
            r->rounds, r->rounds == 1 ? "" : "s", r->player_ns / 1e6);
    for (unsigned i = 0; i < r->count; i++) put_allocator(&r->allocator[i], out);
    fputs("\nOne call in ns:  malloc                             free\n"
          "              p50     p99   p99.9       p50     p99   p99.9\n",
          out);
    for (unsigned i = 0; i < r->count; i++) put_tails(&r->allocator[i], out);
    fputs("\nResident MB: at most, at the end\n", out);
    for (unsigned i = 0; i < r->count; i++) put_memory(&r->allocator[i], out);
    fputs("\nResident over live bytes, from the first operation to the last\n"
          "' ' up to 1.05  '.' 1.5  ':' 2.1  '-' 3.0  '=' 4.2  '+' 5.9  '*' 8.4  '#' 12  '%' 17  '@' more\n",
          out);
    for (unsigned i = 0; i < r->count; i++) put_chart(r, &r->allocator[i], out);
}

/* ---- for programs ------------------------------------------------------------------------------------------------ */

static void put_spread(const char *name, spread s, FILE *out) {
    fprintf(out, ", \"%s\": {\"median\": %.0f, \"low\": %.0f, \"high\": %.0f}", name, s.median, s.low, s.high);
}

static void put_quantiles(const char *name, const buckets *b, FILE *out) {
    fprintf(out, ", \"%s\": {\"p50\": %" PRIu64 ", \"p99\": %" PRIu64 ", \"p99_9\": %" PRIu64 "}", name,
            buckets_quantile(b, SHARES[0]), buckets_quantile(b, SHARES[1]), buckets_quantile(b, SHARES[2]));
}

static void put_allocator_json(const run_allocator *a, FILE *out) {
    const run_figures *f = a->figures;
    fprintf(out, "\n  {\"name\": \"%s\", \"mallocs\": %" PRIu64 ", \"frees\": %" PRIu64 ", \"reallocs\": %" PRIu64,
            a->name, f->allocs, f->frees, f->reallocs);
    put_spread("time_ns", f->time_ns, out);
    put_spread("cpu_ns", f->cpu_ns, out);
    put_spread("peak_bytes", f->peak_bytes, out);
    put_spread("final_bytes", f->final_bytes, out);
    put_quantiles("malloc_ns", &f->alloc_ns, out);
    put_quantiles("free_ns", &f->free_ns, out);
    fputc('}', out);
}

void replay_json(const replay *r, FILE *out) {
    const char *command = trace_about(r->t, "command");
    const decoded *d = &r->ops;
    fputs("{\"version\": 1, \"command\": ", out);
    text_put_quoted(command ? command : r->path, out);
    fprintf(out,
            ", \"mallocs\": %" PRIu64 ", \"frees\": %" PRIu64 ", \"reallocs\": %" PRIu64 ", \"threads\": %u,\n"
            " \"left_out\": %" PRIu64 ", \"live_peak_bytes\": %" PRIu64 ", \"live_end_bytes\": %" PRIu64
            ", \"rounds\": %u, \"player_ns\": %.0f,\n \"allocators\": [",
            d->allocs, d->frees, d->reallocs, d->threads, d->left_out, d->live_peak_bytes, d->live_end_bytes, r->rounds,
            r->player_ns);
    for (unsigned i = 0; i < r->count; i++) {
        if (i) fputc(',', out);
        put_allocator_json(&r->allocator[i], out);
    }
    fputs("],\n \"skipped\": [", out);
    for (unsigned i = 0; i < r->skips; i++) fprintf(out, "%s\"%s\"", i ? ", " : "", r->skipped[i]);
    fputs("]", out);
    if (r->plan_path) {
        fputs(",\n \"plan\": {\"address\": ", out);
        text_put_quoted(r->plan.address, out);
        fprintf(out, ", \"turns\": %" PRIu64 ", \"frees_saved\": %" PRIu64 "}", r->planned_ops.turns,
                r->planned_ops.dropped);
    }
    fputs("}\n", out);
}

void replay_csv(const replay *r, FILE *out) {
    fputs("time_ns,operations,live_bytes", out);
    for (unsigned i = 0; i < r->count; i++) fprintf(out, ",%s", r->allocator[i].name);
    fputc('\n', out);
    for (uint32_t s = 0; s < r->ops.samples; s++) {
        const decoded_sample *at = &r->ops.sample[s];
        fprintf(out, "%" PRIu64 ",%" PRIu64 ",%" PRIu64, at->time_ns, at->operations, at->live_bytes);
        for (unsigned i = 0; i < r->count; i++) fprintf(out, ",%.0f", r->allocator[i].figures->resident[s]);
        fputc('\n', out);
    }
}
