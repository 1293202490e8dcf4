/*
 * Exponentially distributed numbers and their distribution function. Only arithmetic, no libm: usable in a signal
 * handler and inside of an allocation.
 */
#include "base/base.h"

#include <string.h>

#define LN_2 0.69314718055994530942
#define SQRT_2 1.41421356237309504880

/* Natural logarithm, 0 < x <= 1. */
static double ln(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1023 << 52;
    double m; /* 1 <= m < 2, then around 1 */
    memcpy(&m, &bits, sizeof m);
    if (m > SQRT_2) {
        m *= 0.5;
        exponent++;
    }
    /* ln m = 2 artanh z, a series in z; |z| < 0.172 */
    double z = (m - 1) / (m + 1), w = z * z, sum = 0;
    for (int k = 17; k >= 1; k -= 2) sum = sum * w + 2.0 / k;
    return sum * z + exponent * LN_2;
}

double ts_exponential(uint64_t *state) {
    /* xorshift64* (Marsaglia, Vigna) */
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    uint64_t r = (x * 2685821657736338717u) >> 11;
    return -ln((double)(r + 1) * 0x1p-53);
}

double ts_exponential_cdf(double x) {
    unsigned halvings = 0;
    if (x >= 40) return 1;
    for (; x > 0.125; halvings++) x *= 0.5;
    double sum = 1;
    for (int k = 9; k >= 2; k--) sum = 1 - sum * x / k;
    double y = sum * x;
    for (; halvings > 0; halvings--) y *= 2 - y; /* 1 - (1 - y)^2 */
    return y;
}
