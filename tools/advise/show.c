#include "advise/show.h"

#include "advice/sink.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool add_address(advice *a, size_t *capacity, uint32_t image, uint64_t address) {
    for (size_t i = 0; i < a->places; i++)
        if (a->place[i].address == address && a->place[i].image == image) return true;
    if (a->places == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 64;
        trace_place *grown = realloc(a->place, *capacity * sizeof *grown);
        if (!grown) return false;
        a->place = grown;
    }
    a->place[a->places++] = (trace_place){.image = image, .address = address};
    return true;
}

static const turn_function *function_at(const advice *a, uint32_t stack) {
    return &a->turns->function[a->turns->function_of[stack]];
}

/* The call, and the function that it is in: at the address of the call a name may be of a function inlined there. */
static bool add_place(advice *a, size_t *capacity, uint32_t stack) {
    const turn_function *f = function_at(a, stack);
    return add_address(a, capacity, trace_stack_image(a->t, stack), trace_stack_address(a->t, stack) - 1) &&
           add_address(a, capacity, f->image, f->start);
}

bool advice_name(advice *a) {
    size_t capacity = 0, shown = 0;
    bool done = true;
    for (size_t i = 0; i < a->turns->count; i++) done = done && add_place(a, &capacity, a->turns->best[i].stack);
    for (size_t i = 0; i < a->turns->escapes && done; i++) {
        shown = i && a->turns->escape[i - 1].turn == a->turns->escape[i].turn ? shown + 1 : 0;
        if (shown >= SHOWN_ESCAPES) continue;
        done = add_place(a, &capacity, a->turns->escape[i].stack);
        if (a->turns->escape[i].freed) done = done && add_place(a, &capacity, a->turns->escape[i].freed);
    }
    for (size_t i = 0; i < a->turns->sites && i < SHOWN_SITES * 4u && done; i++)
        if (a->turns->site[i].stack) done = add_place(a, &capacity, a->turns->site[i].stack);
    return done && (a->places == 0 || trace_name_places(a->t, a->place, a->places));
}

void advice_free(advice *a) {
    if (a->place) trace_free_places(a->place, a->places);
    free(a->place);
    a->place = NULL;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static const trace_place *place_at(const advice *a, uint32_t image, uint64_t address) {
    for (size_t i = 0; i < a->places; i++)
        if (a->place[i].address == address && a->place[i].image == image) return &a->place[i];
    return NULL;
}

spot advice_spot(const advice *a, uint32_t stack) {
    const turn_function *f = function_at(a, stack);
    const trace_place *call = place_at(a, trace_stack_image(a->t, stack), trace_stack_address(a->t, stack) - 1);
    const trace_place *start = place_at(a, f->image, f->start);
    const trace_module *m = trace_module_of(a->t, f->image, f->start);
    spot s = {
        .function = start ? start->function : NULL, .file = call ? call->file : NULL, .line = call ? call->line : 0};
    if (m)
        snprintf(s.plain, sizeof s.plain, "%s+0x%" PRIx64, base_name(m->path), f->start - m->base);
    else
        snprintf(s.plain, sizeof s.plain, "0x%" PRIx64, f->start);
    return s;
}

/* ---- verdicts ---------------------------------------------------------------------------------------------------- */

bool advice_has_turns(const advice *a, const char **why) {
    const turns *t = a->turns;
    *why = "";
    if (t->births == 0) {
        *why = "the trace has no allocations outside of domains";
    } else if (t->count == 0) {
        *why = t->deaths * 10 < t->births
                   ? "nearly all objects live to the end"
                   : "no function is called, and no loop goes round, at whose end its objects die";
    } else if (t->best[0].covered * 20 < t->births) {
        *why = "the best boundary has fewer than 5 % of the allocations";
    }
    return !**why;
}

const char *advice_life(const advice *a, const turn_site *site) {
    double mean = site->life_seconds / (double)site->objects, all = (double)a->turns->duration_ns * 1e-9;
    if (mean >= all / 3 && site->objects > 0) return "run";
    return mean >= all / 50 ? "cache" : NULL;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void put_spot(const advice *a, uint32_t stack, FILE *out) {
    spot s = advice_spot(a, stack);
    if (!s.function)
        fprintf(out, "%s", s.plain);
    else if (s.file)
        fprintf(out, "%s (%s:%u)", s.function, base_name(s.file), s.line);
    else
        fprintf(out, "%s (%s)", s.function, s.plain);
}

static double per_cent(uint64_t part, uint64_t all) { return all ? 100.0 * (double)part / (double)all : 0; }

static void put_size(double bytes, FILE *out) {
    static const char *const unit[] = {"bytes", "KB", "MB", "GB", "TB"};
    unsigned i = 0;
    for (; bytes >= 1000 && i < 4; i++) bytes /= 1000;
    fprintf(out, i && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, unit[i]);
}

static void put_time(double ns, FILE *out) {
    static const char *const unit[] = {"ns", "us", "ms", "s"};
    unsigned i = 0;
    for (; ns >= 1000 && i < 3; i++) ns /= 1000;
    fprintf(out, i && ns < 100 ? "%.1f %s" : "%.0f %s", ns, unit[i]);
}

static void put_escapes(const advice *a, size_t of, FILE *out) {
    unsigned shown = 0;
    for (size_t i = 0; i < a->turns->escapes && shown < SHOWN_ESCAPES; i++) {
        const turn_escape *e = &a->turns->escape[i];
        if (e->turn != of) continue;
        fprintf(out, "       escapes: %" PRIu64 " objects from ", e->objects);
        put_spot(a, e->stack, out);
        if (e->freed) {
            fputs(", freed in ", out);
            put_spot(a, e->freed, out);
        } else {
            fputs(", never freed", out);
        }
        fputs(", the oldest after ", out);
        put_time((double)e->oldest_ns, out);
        fputs("\n", out);
        shown++;
    }
}

static void put_how(const advice *a, const turn *t, FILE *out) {
    spot s = advice_spot(a, t->stack);
    uint64_t escaped = t->births - t->covered;
    fprintf(out, "       how:     %s of %s\n", t->is_loop ? "in each round of the loop" : "at the beginning",
            s.function ? s.function : s.plain);
    fprintf(out,
            "                    EpochDomain *turn = epoch_domain_create_ex(slab_malloc_allocator(), \"%s\",\n"
            "                        EPOCH_DOMAIN_CAPTURE%s);\n"
            "                    epoch_domain_enter(turn);\n",
            s.function ? s.function : "turn", escaped ? " | EPOCH_DOMAIN_DRAIN" : "");
    fputs("                and at its end\n"
          "                    epoch_domain_exit(turn);\n"
          "                    epoch_domain_destroy(turn);\n",
          out);
}

static void put_turn(const advice *a, size_t i, FILE *out) {
    const turn *t = &a->turns->best[i];
    double each = (double)t->count;
    fprintf(out, "\n  %2zu.  ", i + 1);
    put_spot(a, t->stack, out);
    fprintf(out, ": %s is a turn\n       %" PRIu64 " turns of %.1f objects and ",
            t->is_loop ? "each round of a loop in it" : "each call", t->count, (double)t->births / each);
    put_size((double)t->bytes / each, out);
    fprintf(out, "; %.1f %% of all allocations; %.2f %% of them escape\n       saves ",
            per_cent(t->births, a->turns->births), per_cent(t->births - t->covered, t->births));
    put_time(t->saved_ns / each, out);
    fprintf(out, " a turn, and %" PRIu64 " frees; holds memory ", t->covered);
    put_size((double)t->held_peak, out);
    fputs(" longer at most\n", out);
    if (t->parent >= 0) fprintf(out, "       lies within %d.\n", t->parent + 1);
    put_escapes(a, i, out);
    if (i == 0) put_how(a, t, out);
}

static void put_lives(const advice *a, FILE *out) {
    unsigned shown = 0;
    for (size_t i = 0; i < a->turns->sites && i < SHOWN_SITES * 4u && shown < SHOWN_SITES; i++) {
        const turn_site *s = &a->turns->site[i];
        const char *life = advice_life(a, s);
        if (!life || !s->stack) continue;
        if (!shown++) fputs("\nLong lives, which belong into epochs of their own:\n", out);
        fprintf(out, "  %-5s  %" PRIu64 " objects, ", life, s->objects);
        put_size((double)s->bytes, out);
        fputs(", ", out);
        put_time(s->life_seconds / (double)s->objects * 1e9, out);
        fputs(" each in the mean: ", out);
        put_spot(a, s->stack, out);
        fputs("\n", out);
    }
}

void advice_text(const advice *a, FILE *out) {
    const char *why, *command = trace_about(a->t, "command");
    bool any = advice_has_turns(a, &why);
    fprintf(out, "%s: %" PRIu64 " allocations of ", command ? command : a->path, a->turns->births);
    put_size((double)a->turns->bytes, out);
    fputs(" in ", out);
    put_time((double)a->turns->duration_ns, out);
    fputs("; at most ", out);
    put_size((double)a->turns->peak_bytes, out);
    fprintf(out, " live\nhere malloc and free take %.1f ns, an allocation in a domain %.1f, a domain %.1f\n",
            a->costs.malloc_free, a->costs.scope_alloc, a->costs.domain);
    if (!any)
        fprintf(out, "\nNo boundary: %s.\n", why);
    else
        fputs("\nBoundaries, by what they save:\n", out);
    for (size_t i = 0; any && i < a->turns->count; i++) put_turn(a, i, out);
    put_lives(a, out);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void put_quoted(const char *text, FILE *out) {
    char quoted[2048];
    ts_sink s = ts_sink_buffer(quoted, sizeof quoted);
    ts_put_quoted(&s, text);
    (void)ts_sink_end(&s);
    fputs(quoted, out);
}

static void put_place(const advice *a, uint32_t stack, const char *name, FILE *out) {
    spot s = advice_spot(a, stack);
    fprintf(out, "\"%s\": ", name);
    put_quoted(s.function ? s.function : s.plain, out);
    fputs(", \"file\": ", out);
    if (s.file)
        put_quoted(s.file, out);
    else
        fputs("null", out);
    fprintf(out, ", \"line\": %u, \"address\": ", s.line);
    put_quoted(s.plain, out);
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
            per_cent(t->births, a->turns->births), per_cent(t->births - t->covered, t->births), t->covered,
            t->saved_ns / each, t->held_byte_seconds, t->held_peak);
    if (t->parent >= 0)
        fprintf(out, "%d", t->parent);
    else
        fputs("null", out);
    fputs(", \"escapees\": [", out);
    unsigned shown = 0;
    for (size_t k = 0; k < a->turns->escapes && shown < SHOWN_ESCAPES; k++) {
        const turn_escape *e = &a->turns->escape[k];
        if (e->turn != i) continue;
        fprintf(out, "%s\n    {", shown++ ? "," : "");
        put_place(a, e->stack, "function", out);
        fprintf(out, ", \"objects\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"oldest_ns\": %" PRIu64 ", \"freed_in\": ",
                e->objects, e->bytes, e->oldest_ns);
        spot freed = e->freed ? advice_spot(a, e->freed) : (spot){0};
        if (e->freed)
            put_quoted(freed.function ? freed.function : freed.plain, out);
        else
            fputs("null", out);
        fputs("}", out);
    }
    fputs("]}", out);
}

void advice_json(const advice *a, FILE *out) {
    const char *why, *command = trace_about(a->t, "command");
    bool any = advice_has_turns(a, &why);
    unsigned shown = 0;
    fputs("{\"version\": 1, \"command\": ", out);
    put_quoted(command ? command : a->path, out);
    fprintf(out,
            ", \"allocations\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"peak_bytes\": %" PRIu64
            ", \"duration_ns\": %" PRIu64 ",\n \"costs\": {\"malloc_free_ns\": %.2f, \"scope_alloc_ns\": %.2f, "
            "\"domain_ns\": %.2f},\n \"verdict\": \"%s\", \"why\": ",
            a->turns->births, a->turns->bytes, a->turns->peak_bytes, a->turns->duration_ns, a->costs.malloc_free,
            a->costs.scope_alloc, a->costs.domain, any ? "boundaries" : "none");
    put_quoted(why, out);
    fputs(",\n \"boundaries\": [", out);
    for (size_t i = 0; any && i < a->turns->count; i++) put_turn_json(a, i, out);
    fputs("],\n \"long_lives\": [", out);
    for (size_t i = 0; i < a->turns->sites && i < SHOWN_SITES * 4u && shown < SHOWN_SITES; i++) {
        const turn_site *s = &a->turns->site[i];
        const char *life = advice_life(a, s);
        if (!life || !s->stack) continue;
        fprintf(out, "%s\n  {", shown++ ? "," : "");
        put_place(a, s->stack, "function", out);
        fprintf(out,
                ", \"life\": \"%s\", \"objects\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"live_at_end\": %" PRIu64
                ", \"mean_life_ns\": %.0f}",
                life, s->objects, s->bytes, s->live, s->life_seconds / (double)s->objects * 1e9);
    }
    fputs("]}\n", out);
}
