/* The lines to add for a turn, and as a patch. */
#include "advise/hint.h"
#include "advise/show.h"

#include <inttypes.h>
#include <string.h>

enum { SHOWN_FREED = 16 };

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_in_loop(const spot *s) { return s->file && hint_is_in_loop(s->file, s->line); }

const char *advice_kind(const advice *a, size_t i) {
    const turn *t = &a->turns->best[i];
    spot s = advice_spot(a, t->stack);
    if (!t->is_loop) return "each call is";
    return is_in_loop(&s) ? "each round of the loop around this line is" : "from one call there to the next is";
}

/* FILE:LINE (INLINED, inlined into FUNCTION), or the address of the call in its module. */
static void put_call(const advice *a, uint32_t stack, FILE *out) {
    spot s = advice_spot(a, stack);
    const uint64_t address = trace_stack_address(a->t, stack) - 1;
    const trace_module *m = trace_module_of(a->t, trace_stack_image(a->t, stack), address);
    if (s.file)
        fprintf(out, "%s:%u", base_name(s.file), s.line);
    else if (m)
        fprintf(out, "the call at %s+0x%" PRIx64, base_name(m->path), address + 1 - m->base);
    else
        fprintf(out, "the call at 0x%" PRIx64, address + 1);
    fputs(" (", out);
    if (s.inlined) fprintf(out, "%s, inlined into ", s.inlined);
    fprintf(out, "%s)", s.function ? s.function : s.plain);
}

static const char *flags_of(const turn *t) {
    return t->births > t->covered ? "EPOCH_DOMAIN_CAPTURE | EPOCH_DOMAIN_DRAIN" : "EPOCH_DOMAIN_CAPTURE";
}

static void put_beginning(const turn *t, const char *type, const char *label, FILE *out) {
    fprintf(out,
            "                    %sturn = epoch_domain_create_ex(slab_malloc_allocator(), \"%s\",\n"
            "                        %s);\n"
            "                    epoch_domain_enter(turn);\n",
            type, label, flags_of(t));
}

static const char END[] = "                    epoch_domain_exit(turn);\n"
                          "                    epoch_domain_destroy(turn);\n";

/* A turn goes from one visit of a site to the next: it ends and begins at one place. Where no loop is seen around that
   place the function may be left in the middle of a turn. */
static void put_round_lines(const advice *a, const turn *t, const spot *s, FILE *out) {
    const char *name = s->function ? s->function : s->plain;
    fprintf(out, "                %s ", t->at_end ? "behind" : "before");
    put_call(a, t->stack, out);
    fprintf(out, " the turn ends and the next begins:\n%s", END);
    put_beginning(t, "", s->function ? name : "turn", out);
    if (is_in_loop(s) && !s->inlined)
        fprintf(out,
                "                with EpochDomain *turn = NULL in front of the loop. Where %s returns the last turn\n"
                "                ends, by the first two lines. Both take NULL\n",
                name);
    else
        fputs("                with static _Thread_local EpochDomain *turn, as a turn may outlive the call. The last\n"
              "                one ends behind all of them, by the first two lines. Both take NULL\n",
              out);
}

static void put_call_lines(const turn *t, const spot *s, FILE *out) {
    fprintf(out, "                at the beginning of %s\n", s->function ? s->function : s->plain);
    put_beginning(t, "EpochDomain *", s->function ? s->function : "turn", out);
    fprintf(out, "                and at its end\n%s", END);
}

/* What is left once objects are in the domain, or could be: who allocates them, and which frees they no longer need. */
static void put_second_step(const advice *a, size_t of, FILE *out) {
    const turn *t = &a->turns->best[of];
    uint64_t rest = t->covered;
    unsigned shown = 0;
    fputs("       then:    for the saving, as each free stays so far, in the turn\n", out);
    for (unsigned i = 0; i < TURN_ENTRIES && t->entry[i].objects; i++) {
        fputs("                    let ", out);
        advice_put_spot(a, t->entry[i].stack, out);
        fprintf(out, " call slab_alloc: %.1f %% of the objects\n", advice_per_cent(t->entry[i].objects, t->births));
    }
    for (size_t i = 0; i < a->freeds && shown < SHOWN_FREED; i++) {
        const turn_escape *e = &a->freed[i];
        if (e->turn != of || !e->freed) continue;
        fprintf(out, "                    frees to take out: %" PRIu64 " in ", e->objects);
        advice_put_path(a, e->freed, e->freed_named, out);
        fputc('\n', out);
        rest -= e->objects < rest ? e->objects : rest;
        shown++;
    }
    if (rest && shown) fprintf(out, "                    and %" PRIu64 " more\n", rest);
    if (t->births > t->covered)
        fputs(
            "                Then let the escapees be allocated outside of the domain (docs/libraries.md), and leave\n"
            "                EPOCH_DOMAIN_DRAIN out.\n",
            out);
}

void advice_put_how(const advice *a, size_t i, FILE *out) {
    const turn *t = &a->turns->best[i];
    spot s = advice_spot(a, t->stack);
    if (!advice_has_domain(t)) {
        fputs("       how:     link with $(pkg-config --cflags --libs tslab-malloc)\n"
              "                    #include <tslab/malloc.h>\n",
              out);
        if (t->is_loop)
            put_round_lines(a, t, &s, out);
        else
            put_call_lines(t, &s, out);
    }
    put_second_step(a, i, out);
}

/* ---- the patch --------------------------------------------------------------------------------------------------- */

/* Its outermost call is the turn, and a patch would make a domain in each. */
static bool calls_itself(const advice *a, uint32_t function) {
    const uint32_t *of = a->turns->function_of;
    for (uint32_t i = 1; i <= trace_stack_count(a->t); i++) {
        if (of[i] != function) continue;
        for (uint32_t at = trace_stack_caller(a->t, i); at; at = trace_stack_caller(a->t, at))
            if (of[at] == function) return true;
    }
    return false;
}

/* A patch has the lines of advice_put_how, and no indentation, so that patch(1) takes all of the advice. */
void advice_put_patch(const advice *a, size_t i, FILE *out) {
    const turn *t = &a->turns->best[i];
    const trace_place *start = advice_start(a, t->stack);
    if (!start || !start->function || !start->file || start->outer || advice_has_domain(t)) return;
    if (t->is_loop) {
        spot s = advice_spot(a, t->stack);
        fprintf(out, "\nNo patch: the lines go to %s:%u by hand.\n", s.file ? s.file : start->file, s.line);
        return;
    }
    if (calls_itself(a, t->function)) {
        fprintf(out, "\nNo patch for %s: it calls itself, and only its outermost call is a turn.\n", start->function);
        return;
    }
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(start->function, ".("), start->function);
    fputs("\n", out);
    const char *why = hint_write(start->file, start->line, name, flags_of(t), out);
    if (why) fprintf(out, "No patch for %s (%s:%u): %s.\n", name, start->file, start->line, why);
}
