/* Advice as text and as JSON. */
#ifndef ADVISE_SHOW_H
#define ADVISE_SHOW_H

#include "advise/turns.h"

#include <stdio.h>

enum {
    SHOWN_ESCAPES = 5,
    SHOWN_SITES = 8,
    SHOWN_BANDS = 7,    /* sites in the timeline */
    NAMED_ESCAPES = 24, /* of each turn, before those that read the same become one */
    NAMED_SITES = 64,
    PROMOTED_SITES = 2, /* escapees of more sites are not promoted by hand */
    ADVICE_THROUGH = 8, /* wrappers */
    ADVICE_PLAIN = 280  /* the longest name of a file, and an address in it */
};

typedef struct advice {
    trace *t;
    const char *path;
    const turns *turns;
    turn_costs costs;
    trace_place *place; /* named: of each turn, escape and site that is shown */
    size_t places;
    turn_escape *escape; /* by turn, most objects first; each reads differently */
    size_t escapes;
    turn_escape *freed; /* where objects die in their turn, likewise */
    size_t freeds;
    turn_site life[NAMED_SITES]; /* most byte-seconds first; each reads differently */
    size_t lives;
} advice;

/* Names all that is shown. false: no memory. */
bool advice_name(advice *a);
void advice_free(advice *a);
void advice_text(const advice *a, FILE *out);
void advice_json(const advice *a, FILE *out);
/* Reads the trace once more. false: no memory. */
bool advice_html(const advice *a, FILE *out);

/* ---- for those that write --------------------------------------------------------------------------------------- */

/* FUNCTION (FILE:LINE) */
void advice_put_spot(const advice *a, uint32_t stack, FILE *out);
/* FUNCTION (FILE:LINE) > WRAPPER > WRAPPER */
void advice_put_path(const advice *a, uint32_t stack, uint32_t named, FILE *out);
void advice_put_size(double bytes, FILE *out);
void advice_put_time(double ns, FILE *out);
/* The lines to add for a turn. */
void advice_put_how(const advice *a, size_t i, FILE *out);
/* They as a unified diff, or why there is none; nothing without debug information. */
void advice_put_patch(const advice *a, size_t i, FILE *out);

/* The function that a call is in, by its symbol, and the line of the call, which may be inlined there. */
typedef struct spot {
    const char *function, *file;
    const char *inlined; /* the innermost function of the line, where it is inlined; NULL: it is not */
    unsigned line;
    char plain[ADVICE_PLAIN]; /* MODULE+0xADDRESS: the start of the function as the file has it */
} spot;
spot advice_spot(const advice *a, uint32_t stack);
/* The beginning of the function that a call is in; NULL: it has no name. */
const trace_place *advice_start(const advice *a, uint32_t stack);
/* The nodes of the wrappers between a named node and the end of the stack, innermost first. Returns how many. */
size_t advice_through(const advice *a, uint32_t stack, uint32_t named, uint32_t through[ADVICE_THROUGH]);
/* Whether two paths read the same. */
bool advice_same(const advice *a, uint32_t x, uint32_t x_named, uint32_t y, uint32_t y_named);
/* Whether a turn is worth it; and the reason in words. */
bool advice_has_turns(const advice *a, const char **why);
/* What its turn is, as "each call is": of a loop where the source shows one. */
const char *advice_kind(const advice *a, size_t i);
/* Whether a domain is entered once a turn or nearly so. */
bool advice_has_domain(const turn *t);
/* What the lines that are printed save in all, by capture and with each free; less than 0: they cost so much. false: it
   is not known, as libtslab-malloc is not installed. */
bool advice_saved_captured(const advice *a, const turn *t, double *ns);
/* What an epoch of its own saves for a long life in all, one for each turn of a generation; 0: less than a twentieth
   of what all of malloc and free takes. */
double advice_saved_by_epoch(const advice *a, const turn_site *s);
/* Likewise, of so many frees that so many epochs replace. */
double advice_saved_by_epochs(const advice *a, uint64_t frees, uint64_t epochs);
/* How long the objects of a site live. */
const char *advice_life(const turn_site *site);
/* How many turns after its own an escapee dies; 0: it varies. */
unsigned advice_turns_later(const turn_escape *e);
/* What is to do about escapees at the end of a turn: "none", "promote" or "drain". */
const char *advice_at_destroy(const advice *a, size_t of);
double advice_per_cent(uint64_t part, uint64_t all);

#endif
