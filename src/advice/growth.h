/*
 * Growth: the live bytes of each label's open epochs, watched over time.
 *
 * A history has three rings of lows. A low is the least that a label held in an interval, so what comes and goes
 * within it (a queue that breathes) does not show. The intervals are of 2.25 s, 22.5 s and 225 s; a ring keeps the
 * last twelve. A label rises over some lows if each step is at least half as steep as all of them together. So a
 * cache that fills and stops does not rise any more one step later.
 *
 *     growing   rises over four lows of the first ring
 *     leak      rises over eleven: of the first ring, and hardly anything of what was allocated is freed;
 *               or of another ring, whatever is freed
 *
 * Each thread that makes an advised view of the allocator feeds its history: the page's thread four times a second
 * (page.c), and calls that render findings. One thread at a time uses it. A thread that finds it taken makes a view
 * without it, and the view says so.
 */
#ifndef TS_ADVICE_GROWTH_H
#define TS_ADVICE_GROWTH_H

#include "advice/figures.h"

#define TS_GROWTH_SITES TS_FINDING_STACKS

typedef struct ts_growth {
    const ts_label_stats *label;
    bool is_leak;
    bool is_epochs;            /* what grows is the number of open epochs; else their bytes */
    uint64_t from, to;         /* bytes, or epochs */
    uint64_t span_ns;          /* in which it rose so */
    uint64_t epochs_more;      /* meanwhile */
    uint64_t allocated, freed; /* objects, meanwhile, in the epochs that are open at its end */
    unsigned kind;             /* with the most growth; TS_COUNT_KINDS: none */
    unsigned sites;            /* stacks of it that grew most, as numbers of rows of the view */
    uint32_t site[TS_GROWTH_SITES];
} ts_growth;

/* Histories are kept from here on. */
void ts_growth_watch(void);
/* Feeds the history of the view's allocator, if histories are kept, and calls fn for each label that grows. Sets
   watched_ns and is_watched of the view. */
void ts_growth_look(ts_view *view, uintptr_t token, void (*fn)(void *, const ts_growth *), void *arg);

#endif
