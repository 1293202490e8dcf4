/* The cost of an allocation on this machine: measured when advice is given, in some 100 ms. */
#ifndef ADVISE_COSTS_H
#define ADVISE_COSTS_H

#include "advise/turns.h"

turn_costs costs_measure(void);
/* Fills in those of a domain that captures, by a process of its own under libtslab-malloc; leaves them 0 without it. */
void costs_measure_captured(turn_costs *costs);
/* That process: prints them. Returns its exit status. */
int costs_print_captured(void);

#endif
