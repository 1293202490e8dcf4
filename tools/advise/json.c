#include "advise/placement.h"
#include "advise/show.h"
#include "common/text.h"

#include <inttypes.h>

static void put_place(const advice *a, uint32_t stack, const char *name, FILE *out) {
    spot s = advice_spot(a, stack);
    fprintf(out, "\"%s\": ", name);
    text_put_quoted(s.function ? s.function : s.plain, out);
    fputs(", \"file\": ", out);
    if (s.file)
        text_put_quoted(s.file, out);
    else
        fputs("null", out);
    fprintf(out, ", \"line\": %u, \"address\": ", s.line);
    text_put_quoted(s.plain, out);
}

/* The wrappers between the function and malloc, that which it calls first. */
static void put_through(const advice *a, uint32_t stack, uint32_t named, FILE *out) {
    uint32_t through[ADVICE_THROUGH];
    fputs(", \"through\": [", out);
    for (size_t count = advice_through(a, stack, named, through), i = count; i > 0; i--) {
        spot s = advice_spot(a, through[i - 1]);
        if (i < count) fputs(", ", out);
        text_put_quoted(s.function ? s.function : s.plain, out);
    }
    fputs("]", out);
}

static void put_escape(const advice *a, const turn_escape *e, FILE *out) {
    unsigned later = advice_turns_later(e);
    put_place(a, e->named, "function", out);
    put_through(a, e->stack, e->named, out);
    fprintf(out, ", \"objects\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"oldest_ns\": %" PRIu64, e->objects, e->bytes,
            e->oldest_ns);
    fputs(", \"turns_later\": ", out);
    if (later)
        fprintf(out, "%u", later);
    else
        fputs("null", out);
    fputs(", \"freed_in\": ", out);
    spot freed = e->freed ? advice_spot(a, e->freed_named) : (spot){0};
    if (e->freed)
        text_put_quoted(freed.function ? freed.function : freed.plain, out);
    else
        fputs("null", out);
}

/* Who allocates. */
static void put_entries(const advice *a, const turn *t, FILE *out) {
    fputs(",\n   \"allocated_by\": [", out);
    for (unsigned k = 0; k < TURN_ENTRIES && t->entry[k].objects; k++) {
        fputs(k ? ", {" : "{", out);
        put_place(a, t->entry[k].stack, "function", out);
        fprintf(out, ", \"objects\": %" PRIu64 "}", t->entry[k].objects);
    }
    fputs("]", out);
}

/* The frees that the end of a turn replaces. */
static void put_freed(const advice *a, size_t i, FILE *out) {
    unsigned shown = 0;
    fputs("],\n   \"frees\": [", out);
    for (size_t k = 0; k < a->freeds; k++) {
        const turn_escape *e = &a->freed[k];
        if (e->turn != i || !e->freed) continue;
        fprintf(out, "%s\n    {", shown++ ? "," : "");
        put_place(a, e->freed_named, "function", out);
        put_through(a, e->freed, e->freed_named, out);
        fprintf(out, ", \"objects\": %" PRIu64 "}", e->objects);
    }
}

static void put_turn_json(const advice *a, size_t i, FILE *out) {
    const turn *t = &a->turns->best[i];
    double each = (double)t->count;
    fprintf(out, "%s\n  {", i ? "," : "");
    put_place(a, t->stack, "function", out);
    fprintf(out,
            ", \"turn\": \"%s\", \"turns\": %" PRIu64 ", \"objects_per_turn\": %.2f, \"bytes_per_turn\": %.1f,\n"
            "   \"covered_pct\": %.3f, \"escaped_pct\": %.3f, \"frees_saved\": %" PRIu64
            ", \"ns_saved_per_turn\": %.1f, \"held_byte_seconds\": %.3f, \"held_peak_bytes\": %" PRIu64
            ", \"parent\": ",
            t->is_loop ? "loop" : "call", t->count, (double)t->births / each, (double)t->bytes / each,
            advice_per_cent(t->births, a->turns->births), advice_per_cent(t->births - t->covered, t->births),
            t->covered, t->saved_ns / each, t->held_byte_seconds, t->held_peak);
    if (t->parent >= 0)
        fprintf(out, "%d", t->parent);
    else
        fputs("null", out);
    fprintf(out, ",\n   \"reallocs_per_turn\": %.2f, \"domains_entered\": %" PRIu64 ", \"inlined\": ",
            (double)t->reallocs / each, t->enters);
    spot s = advice_spot(a, t->stack);
    if (s.inlined)
        text_put_quoted(s.inlined, out);
    else
        fputs("null", out);
    fprintf(out, ", \"cut\": %s, \"ns_saved_captured_per_turn\": ",
            !t->is_loop ? "null"
            : t->at_end ? "\"behind\""
                        : "\"before\"");
    double captured;
    if (advice_saved_captured(a, t, &captured))
        fprintf(out, "%.1f", captured / each);
    else
        fputs("null", out);
    put_entries(a, t, out);
    fprintf(out, ",\n   \"escaped_objects\": %" PRIu64 ", \"at_destroy\": \"%s\", \"escapees\": [",
            t->births - t->covered, advice_at_destroy(a, i));
    unsigned shown = 0;
    for (size_t k = 0; k < a->escapes; k++) {
        if (a->escape[k].turn != i) continue;
        fprintf(out, "%s\n    {", shown++ ? "," : "");
        put_escape(a, &a->escape[k], out);
        fputs("}", out);
    }
    put_freed(a, i, out);
    fputs("]}", out);
}

static void put_life(const advice *a, const turn_site *s, FILE *out) {
    put_place(a, s->named, "function", out);
    put_through(a, s->stack, s->named, out);
    fprintf(out, ", \"life\": \"%s\", \"turns_later\": ", advice_life(s));
    if (s->turn_stack) {
        spot rounds = advice_spot(a, s->turn_stack);
        fprintf(out, "%u, \"turn_of\": ", s->turns_later);
        text_put_quoted(rounds.function ? rounds.function : rounds.plain, out);
    } else {
        fputs("null, \"turn_of\": null", out);
    }
    fprintf(out,
            ", \"objects\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"live_at_end\": %" PRIu64 ", \"mean_life_ns\": %.0f",
            s->objects, s->bytes, s->live, s->life_seconds / (double)s->objects * 1e9);
    fprintf(out, ", \"ns_saved\": %.0f", advice_saved_by_epoch(a, s));
}

static void put_placement(const advice *a, FILE *out) {
    const placement *p = a->turns->placement;
    fputs(",\n \"modules\": [", out);
    for (size_t i = 0; i < p->modules; i++) {
        fprintf(out, "%s\n  {\"path\": ", i ? "," : "");
        text_put_quoted(p->module[i]->path, out);
        fprintf(out, ", \"build_id\": \"%s\"}", p->module[i]->build_id);
    }
    fputs("],\n \"epochs\": [", out);
    for (size_t i = 0; i < p->epochs; i++) {
        const turn_site like = {.life = p->epoch[i].life};
        fprintf(out, "%s\"%s %zu\"", i ? ", " : "", advice_life(&like), i + 1);
    }
    fputs("],\n \"sites\": [", out);
    for (size_t i = 0; i < p->nodes; i++) {
        const placement_node *n = &p->node[i];
        fprintf(out,
                "%s\n  {\"caller_of\": %" PRIu32 ", \"module\": %" PRIu32 ", \"return_address\": \"0x%" PRIx64
                "\", \"epoch\": %" PRIu32 "}",
                i ? "," : "", n->parent, n->module, n->offset, n->epoch);
    }
    fputs("]", out);
}

void advice_json(const advice *a, FILE *out) {
    const char *why, *command = trace_about(a->t, "command");
    bool any = advice_has_turns(a, &why);
    fputs("{\"version\": 1, \"command\": ", out);
    text_put_quoted(command ? command : a->path, out);
    fprintf(out,
            ", \"allocations\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"peak_bytes\": %" PRIu64
            ", \"duration_ns\": %" PRIu64 ",\n \"costs\": {\"malloc_free_ns\": %.2f, \"scope_alloc_ns\": %.2f, "
            "\"domain_ns\": %.2f, "
            "\"captured_ns\": %.2f, \"captured_domain_ns\": %.2f},\n \"domains_entered\": %" PRIu64
            ", \"objects_in_domains\": %" PRIu64 ",\n \"verdict\": \"%s\", \"why\": ",
            a->turns->births, a->turns->bytes, a->turns->peak_bytes, a->turns->duration_ns, a->costs.malloc_free,
            a->costs.scope_alloc, a->costs.domain, a->costs.captured_pair, a->costs.captured_domain, a->turns->enters,
            a->turns->scoped, any ? "boundaries" : "none");
    text_put_quoted(why, out);
    fputs(",\n \"boundaries\": [", out);
    for (size_t i = 0; any && i < a->turns->count; i++) put_turn_json(a, i, out);
    fputs("],\n \"long_lives\": [", out);
    for (size_t i = 0; i < a->lives && i < SHOWN_SITES; i++) {
        fprintf(out, "%s\n  {", i ? "," : "");
        put_life(a, &a->life[i], out);
        fputs("}", out);
    }
    fputs("]", out);
    put_placement(a, out);
    fputs("}\n", out);
}
