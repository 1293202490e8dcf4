/* Advice as text and as JSON. */
#ifndef ADVISE_SHOW_H
#define ADVISE_SHOW_H

#include "advise/turns.h"

#include <stdio.h>

typedef struct advice {
    trace *t;
    const char *path;
    const turns *turns;
    turn_costs costs;
    trace_place *place; /* named: of each turn, escape and site that is shown */
    size_t places;
} advice;

enum { SHOWN_ESCAPES = 5, SHOWN_SITES = 8 };

/* Names all that is shown. false: no memory. */
bool advice_name(advice *a);
void advice_free(advice *a);
void advice_text(const advice *a, FILE *out);
void advice_json(const advice *a, FILE *out);

/* The function that a call is in, by its symbol, and the line of the call, which may be inlined there. */
typedef struct spot {
    const char *function, *file;
    unsigned line;
    char plain[200]; /* MODULE+0xADDRESS: the start of the function as the file has it */
} spot;
spot advice_spot(const advice *a, uint32_t stack);
/* Whether a turn is worth it; and the reason in words. */
bool advice_has_turns(const advice *a, const char **why);
/* How long the objects of a site live: "run", "cache" or NULL. */
const char *advice_life(const advice *a, const turn_site *site);

#endif
