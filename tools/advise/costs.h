/* The cost of an allocation on this machine: measured when advice is given, in some 50 ms. */
#ifndef ADVISE_COSTS_H
#define ADVISE_COSTS_H

#include "advise/turns.h"

turn_costs costs_measure(void);

#endif
