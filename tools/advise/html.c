/* Advice as a page: one file, which needs no network and no script. */
#include "advice/sink.h"
#include "advise/show.h"
#include "advise/timeline.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    "body{font:16px/1.45 system-ui,sans-serif;margin:0 "
    "auto;max-width:1140px;padding:16px;color:#1c2430;background:#fff}"
    "h1{font-size:1.4em;overflow-wrap:anywhere}h2{font-size:1.15em;margin:1.8em 0 .5em}"
    "code,pre{font:13px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}"
    "pre{overflow-x:auto;padding:12px;background:#f2f4f7;border-radius:6px}"
    ".verdict{padding:12px;border-left:5px solid "
    "#2a78c2;background:#eef5fc}.none{border-color:#c2662a;background:#fcf3ee}"
    "svg{display:block;width:100%;height:240px;background:#f2f4f7}"
    ".axis{display:flex;justify-content:space-between;font-size:13px;color:#566}"
    ".legend{list-style:none;padding:0;columns:2;font-size:13px}.legend li{break-inside:avoid;padding:2px 0}"
    ".legend i{display:inline-block;width:12px;height:12px;margin-right:7px;vertical-align:-1px}"
    "ul.tree,ul.tree ul{list-style:none;padding-left:1.1em;border-left:2px solid #cdd5de}ul.tree li{padding:2px 0}"
    "table{border-collapse:collapse;width:100%;font-size:14px}th{text-align:left;border-bottom:2px solid #cdd5de}"
    "td,th{padding:5px 8px;vertical-align:top}td.n,th.n{text-align:right;white-space:nowrap}"
    "tr+tr td{border-top:1px solid #e3e8ee}a{color:#1d62a8}"
    "@media(max-width:700px){.legend{columns:1}thead{display:none}tr{display:block;border-top:2px solid #cdd5de;"
    "padding:6px 0}tr+tr td,td{display:block;border:0;padding:2px 0}td.n{text-align:left}"
    "td::before{content:attr(data-l) ': ';color:#566}}"
    "@media(prefers-color-scheme:dark){body{background:#12161c;color:#dde3ea}pre,svg{background:#1c232c}"
    ".verdict{background:#17293b}.none{background:#3b2517}a{color:#7ab8f5}.axis,td::before{color:#9ab}}";
static const char *const color[TIMELINE_BANDS] = {"#2a78c2", "#e08a2e", "#3f9b57", "#b8474c",
                                                  "#7a5bb5", "#a0703f", "#d277b4", "#9aa5b1"};

/* ---- text that is not the page's own ----------------------------------------------------------------------------- */

static void put_text(const char *text, FILE *out) {
    for (const char *c = text; *c;) {
        unsigned n = ts_utf8_length(c);
        if (*c == '&' || *c == '<' || *c == '>' || *c == '"' || *c == '\'')
            fprintf(out, "&#%d;", *c);
        else if (n == 0 || ((unsigned char)*c < 0x20 && *c != '\n') || *c == 0x7f)
            fputc('?', out);
        else
            fwrite(c, 1, n, out);
        c += n ? n : 1;
    }
}

/* What the function writes as text. false: no memory. */
static bool put_written(const advice *a, size_t i, void (*write)(const advice *, size_t, FILE *), FILE *out) {
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to) return false;
    write(a, i, to);
    if (fclose(to) == 0 && text) put_text(text, out);
    free(text);
    return true;
}

static void write_turn(const advice *a, size_t i, FILE *out) { advice_put_spot(a, a->turns->best[i].stack, out); }
static void write_band(const advice *a, size_t i, FILE *out) {
    advice_put_path(a, a->turns->site[i].stack, a->turns->site[i].named, out);
}
static void write_life(const advice *a, size_t i, FILE *out) {
    advice_put_path(a, a->life[i].stack, a->life[i].named, out);
}
static void write_escape(const advice *a, size_t i, FILE *out) {
    advice_put_path(a, a->escape[i].stack, a->escape[i].named, out);
}
static void write_freed(const advice *a, size_t i, FILE *out) {
    if (a->escape[i].freed)
        advice_put_path(a, a->escape[i].freed, a->escape[i].freed_named, out);
    else
        fputs("never", out);
}

static void write_command(const advice *a, size_t i, FILE *out) {
    const char *command = trace_about(a->t, "command");
    (void)i;
    text_put_command(command ? command : a->path, out);
}

/* ---- the parts --------------------------------------------------------------------------------------------------- */

static void put_band(const timeline *l, size_t band, FILE *out) {
    double scale = l->peak ? 298.0 / (double)l->peak : 0;
    fprintf(out, "<polygon fill=\"%s\" points=\"", color[band]);
    for (size_t k = 0; k < 2 * TIMELINE_BINS; k++) { /* along its top, and back along its foot */
        size_t bin = k < TIMELINE_BINS ? k : 2 * TIMELINE_BINS - 1 - k;
        uint64_t below = 0;
        for (size_t i = 0; i < band + (k < TIMELINE_BINS); i++) below += l->live[bin][i];
        fprintf(out, "%.1f,%.1f ", 1000.0 * (double)bin / (TIMELINE_BINS - 1), 300 - scale * (double)below);
    }
    fputs("\"/>\n", out);
}

static void put_timeline(const advice *a, const timeline *l, FILE *out) {
    size_t bands = a->turns->sites < SHOWN_BANDS ? a->turns->sites : SHOWN_BANDS;
    fputs("<h2>Live bytes over time</h2>\n<div class=\"axis\"><span>", out);
    advice_put_size((double)l->peak, out);
    fputs("</span></div>\n<svg viewBox=\"0 0 1000 300\" preserveAspectRatio=\"none\" role=\"img\" "
          "aria-label=\"live bytes by site over time\">\n",
          out);
    for (size_t i = 0; i < TIMELINE_BANDS; i++) put_band(l, i, out);
    fputs("</svg>\n<div class=\"axis\"><span>0</span><span>", out);
    advice_put_time((double)a->turns->duration_ns, out);
    fputs("</span></div>\n<ul class=\"legend\">\n", out);
    for (size_t i = 0; i < bands; i++) {
        fprintf(out, "<li><i style=\"background:%s\"></i><code>", color[i]);
        put_written(a, i, write_band, out);
        fprintf(out, "</code> (%s)</li>\n", advice_life(&a->turns->site[i]));
    }
    fprintf(out, "<li><i style=\"background:%s\"></i>all others</li>\n</ul>\n", color[SHOWN_BANDS]);
}

static void put_tree(const advice *a, size_t i, uint64_t *shown, FILE *out) {
    const turn *t = &a->turns->best[i];
    bool any = false;
    *shown |= (uint64_t)1 << i;
    fprintf(out, "<li><a href=\"#b%zu\"><code>", i + 1);
    put_written(a, i, write_turn, out);
    fprintf(out, "</code></a> %" PRIu64 " turns", t->count);
    for (size_t k = 0; k < a->turns->count; k++) {
        if (a->turns->best[k].parent != (int)i || *shown >> k & 1u) continue;
        if (!any) fputs("\n<ul>\n", out);
        any = true;
        put_tree(a, k, shown, out);
    }
    fputs(any ? "</ul></li>\n" : "</li>\n", out);
}

static void put_number(const char *label, double value, const char *unit, FILE *out) {
    fprintf(out, "<td class=\"n\" data-l=\"%s\">%.*f%s</td>", label, value < 100 ? 2 : 0, value, unit);
}

static void put_row(const advice *a, size_t i, FILE *out) {
    const turn *t = &a->turns->best[i];
    double each = (double)t->count;
    fprintf(out, "<tr id=\"b%zu\"><td data-l=\"boundary\">%zu. <code>", i + 1, i + 1);
    put_written(a, i, write_turn, out);
    fprintf(out, "</code></td><td data-l=\"turn\">%s</td><td class=\"n\" data-l=\"turns\">%" PRIu64 "</td>",
            t->is_loop ? "from call to call" : "call", t->count);
    put_number("objects a turn", (double)t->births / each, "", out);
    fputs("<td class=\"n\" data-l=\"bytes a turn\">", out);
    advice_put_size((double)t->bytes / each, out);
    fputs("</td>", out);
    put_number("of all allocations", advice_per_cent(t->births, a->turns->births), " %", out);
    put_number("escape", advice_per_cent(t->births - t->covered, t->births), " %", out);
    fputs("<td class=\"n\" data-l=\"saves a turn\">", out);
    advice_put_time(t->saved_ns / each, out);
    fputs("</td><td class=\"n\" data-l=\"holds longer\">", out);
    advice_put_size((double)t->held_peak, out);
    fprintf(out, "</td><td data-l=\"at its end\">%s</td></tr>\n", advice_at_destroy(a, i));
}

static void put_boundaries(const advice *a, FILE *out) {
    uint64_t shown = 0;
    fputs("<h2>Boundaries</h2>\n<ul class=\"tree\">\n", out);
    for (size_t i = 0; i < a->turns->count; i++)
        if (a->turns->best[i].parent < 0) put_tree(a, i, &shown, out);
    for (size_t i = 0; i < a->turns->count; i++)
        if (!(shown >> i & 1u)) put_tree(a, i, &shown, out);
    fputs(
        "</ul>\n<table><thead><tr><th>boundary</th><th>turn</th><th class=\"n\">turns</th><th class=\"n\">objects</th>"
        "<th class=\"n\">bytes</th><th class=\"n\">of all</th><th class=\"n\">escape</th><th class=\"n\">saves</th>"
        "<th class=\"n\">holds</th><th>at its end</th></tr></thead><tbody>\n",
        out);
    for (size_t i = 0; i < a->turns->count; i++) put_row(a, i, out);
    fputs("</tbody></table>\n<h2>How</h2>\n<pre>", out);
    put_written(a, 0, advice_put_how, out);
    put_written(a, 0, advice_put_patch, out);
    fputs("</pre>\n", out);
}

static void put_escapees(const advice *a, FILE *out) {
    unsigned of_turn = 0;
    fputs("<h2>Escapees</h2>\n<table><thead><tr><th>boundary</th><th>allocated in</th><th class=\"n\">objects</th>"
          "<th>freed in</th><th class=\"n\">oldest</th></tr></thead><tbody>\n",
          out);
    for (size_t i = 0; i < a->escapes; i++) {
        const turn_escape *e = &a->escape[i];
        of_turn = i && a->escape[i - 1].turn == e->turn ? of_turn + 1 : 0;
        if (of_turn >= SHOWN_ESCAPES && e->turn) continue;
        fprintf(out, "<tr><td data-l=\"boundary\"><a href=\"#b%u\">%u</a></td><td data-l=\"allocated in\"><code>",
                e->turn + 1, e->turn + 1);
        put_written(a, i, write_escape, out);
        fprintf(out, "</code></td><td class=\"n\" data-l=\"objects\">%" PRIu64 "</td><td data-l=\"freed in\"><code>",
                e->objects);
        put_written(a, i, write_freed, out);
        fputs("</code>", out);
        if (advice_turns_later(e)) fprintf(out, " %u later", advice_turns_later(e));
        fputs("</td><td class=\"n\" data-l=\"oldest\">", out);
        advice_put_time((double)e->oldest_ns, out);
        fputs("</td></tr>\n", out);
    }
    fputs("</tbody></table>\n", out);
}

static void put_lives(const advice *a, FILE *out) {
    fputs("<h2>Long lives</h2>\n<table><thead><tr><th>life</th><th>allocated in</th><th class=\"n\">objects</th>"
          "<th class=\"n\">bytes</th><th class=\"n\">mean</th>"
          "<th class=\"n\">an epoch saves</th></tr></thead><tbody>\n",
          out);
    for (size_t i = 0; i < a->lives && i < SHOWN_SITES; i++) {
        const turn_site *s = &a->life[i];
        fprintf(out, "<tr><td data-l=\"life\">%s", advice_life(s));
        if (s->turns_later) fprintf(out, " of %u", s->turns_later);
        fputs("</td><td data-l=\"allocated in\"><code>", out);
        put_written(a, i, write_life, out);
        fprintf(out, "</code></td><td class=\"n\" data-l=\"objects\">%" PRIu64 "</td><td class=\"n\" data-l=\"bytes\">",
                s->objects);
        advice_put_size((double)s->bytes, out);
        fputs("</td><td class=\"n\" data-l=\"mean life\">", out);
        advice_put_time(s->life_seconds / (double)s->objects * 1e9, out);
        fputs("</td><td class=\"n\" data-l=\"an epoch saves\">", out);
        advice_put_time(advice_saved_by_epoch(a, s), out);
        fputs("</td></tr>\n", out);
    }
    fputs("</tbody></table>\n", out);
}

bool advice_html(const advice *a, FILE *out) {
    const char *why;
    bool any = advice_has_turns(a, &why);
    timeline *l = malloc(sizeof *l);
    if (!l || !timeline_make(l, a)) {
        free(l);
        return false;
    }
    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Lifetimes</title>\n"
            "<style>%s</style></head><body>\n<h1>Lifetimes of <code>",
            style);
    put_written(a, 0, write_command, out);
    fprintf(out, "</code></h1>\n<p class=\"verdict%s\">", any ? "" : " none");
    if (any) {
        fputs("The best boundary is <code>", out);
        put_written(a, 0, write_turn, out);
        fputs("</code>.", out);
    } else {
        fprintf(out, "No boundary: %s.", why);
    }
    fprintf(out, " %" PRIu64 " allocations of ", a->turns->births);
    advice_put_size((double)a->turns->bytes, out);
    fputs(".</p>\n", out);
    put_timeline(a, l, out);
    if (any) put_boundaries(a, out);
    if (any && a->escapes) put_escapees(a, out);
    if (a->lives) put_lives(a, out);
    fputs("</body></html>\n", out);
    free(l);
    return true;
}
