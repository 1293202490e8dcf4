/* The distribution of the numbers, and the distribution function, against known values. */
#include "unit.h"

#include "base/base.h"

static void cdf_has_known_values(void **state) {
    static const struct {
        double x, value;
    } known[] = {{0, 0},
                 {1e-12, 9.999999999995e-13},
                 {1e-6, 9.999995000001667e-7},
                 {0.1, 0.09516258196404048},
                 {0.125, 0.11750309741540454},
                 {0.5, 0.3934693402873666},
                 {1, 0.6321205588285577},
                 {5, 0.9932620530009145},
                 {30, 0.9999999999999064},
                 {1e9, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double got = ts_exponential_cdf(known[i].x), off = got - known[i].value;
        if (off < 0) off = -off;
        if (off > known[i].value * 1e-12) fail_msg("1 - exp(-%g): %.17g", known[i].x, got);
    }
}

/* Of n numbers, those up to x are a binomial count: within five standard deviations of n * cdf(x). */
static void numbers_have_the_distribution(void **state) {
    enum { N = 1000000, POINTS = 6 };
    static const double point[POINTS] = {0.001, 0.1, 0.5, 1, 3, 8};
    unsigned count[POINTS] = {0};
    double sum = 0;
    uint64_t random = 42;
    (void)state;
    for (unsigned i = 0; i < N; i++) {
        double x = ts_exponential(&random);
        assert_true(x >= 0 && x < 37);
        sum += x;
        for (unsigned k = 0; k < POINTS; k++) count[k] += x <= point[k];
    }
    /* The mean has the standard deviation 1 / 1000. */
    assert_true(sum / N > 1 - 0.005 && sum / N < 1 + 0.005);
    for (unsigned k = 0; k < POINTS; k++) {
        double p = ts_exponential_cdf(point[k]), off = count[k] - N * p;
        if (off * off > 25 * N * p * (1 - p)) fail_msg("%u of %u up to %g", count[k], (unsigned)N, point[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cdf_has_known_values),
        cmocka_unit_test(numbers_have_the_distribution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
