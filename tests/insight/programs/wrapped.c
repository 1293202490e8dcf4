/* A program that checks each allocation in one function, which ten others call: tables live to the end, and what a job
   makes dies with it. "xmalloc" tells nobody which is which. */
#include "common.h"

enum { KEEP = 40 };

FUNCTION static void *xmalloc(size_t bytes) { return get(bytes); }

static void *routes[KEEP], *users[KEEP], *prices[KEEP];

FUNCTION static void load_routes(unsigned i) { routes[i] = xmalloc(3000); }
FUNCTION static void load_users(unsigned i) { users[i] = xmalloc(2000); }
FUNCTION static void load_prices(unsigned i) { prices[i] = xmalloc(1000); }

#define PART(name, bytes)                       \
    FUNCTION static uint32_t name(uint32_t n) { \
        uint32_t *p = xmalloc(bytes + n);       \
        uint32_t r = p[n % 4];                  \
        free(p);                                \
        return r + n;                           \
    }
PART(read_head, 100)
PART(read_name, 200)
PART(read_body, 300)
PART(check_sum, 60)
PART(make_key, 90)
PART(sign, 70)

FUNCTION static uint32_t run_job(uint32_t i) {
    char *note = xmalloc(50 + i % 9);
    uint32_t n = (uint32_t)note[1];
    for (uint32_t k = 0; k < 10; k++) {
        n += read_head(i % 50) + read_name(k) + read_body(i % 300) + check_sum(i % 7) + make_key(k) + sign(i % 11);
    }
    free(note);
    return n;
}

int main(void) {
    uint32_t sum = 0;
    for (unsigned i = 0; i < KEEP; i++) {
        load_routes(i);
        load_users(i);
        load_prices(i);
    }
    for (uint32_t i = 0; i < 1000; i++) sum += run_job(i);
    for (unsigned i = 0; i < KEEP; i++) sum += *(char *)routes[i] + *(char *)users[i] + *(char *)prices[i];
    printf("%u\n", sum);
    return 0;
}
