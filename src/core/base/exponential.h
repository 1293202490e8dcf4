/*
 * Exponentially distributed numbers and their distribution function. Only arithmetic, no libm: usable in a signal
 * handler and inside of an allocation.
 */
#ifndef TS_BASE_EXPONENTIAL_H
#define TS_BASE_EXPONENTIAL_H

#include "base/attr.h"

/* The next number, of mean 1, from 0 to 37. *state: the state of the generator, not 0. */
double ts_exponential(uint64_t *state);
/* 1 - exp(-x), the probability that such a number is at most x; x >= 0. Relative error below 1e-12. */
double ts_exponential_cdf(double x);

#endif
