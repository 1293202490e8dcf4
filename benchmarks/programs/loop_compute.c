/* Factoring and logic minimisation: millions of objects of some tens of bytes that live for a moment. */
#include "loops.h"

#include <string.h>

/* ---- numbers of their own memory: 16 bits a digit, the least first ---------------------------------------------------- */

typedef struct number {
    unsigned digits;
    uint16_t digit[];
} number;

static number *make(unsigned digits) {
    number *n = (number *)(void *)loop_take(sizeof *n + digits * sizeof n->digit[0], 0);
    n->digits = digits;
    memset(n->digit, 0, digits * sizeof n->digit[0]);
    return n;
}

static number *from(uint64_t value) {
    number *n = make(4);
    for (unsigned i = 0; i < 4; i++) n->digit[i] = (uint16_t)(value >> 16 * i);
    return n;
}

static uint64_t value_of(const number *n) {
    uint64_t value = 0;
    for (unsigned i = n->digits; i-- > 0;) value = value << 16 | n->digit[i];
    return value;
}

static number *multiply(const number *a, const number *b) {
    number *n = make(a->digits + b->digits);
    for (unsigned i = 0; i < a->digits; i++) {
        uint32_t carry = 0;
        for (unsigned k = 0; k < b->digits; k++) {
            carry += n->digit[i + k] + (uint32_t)a->digit[i] * b->digit[k];
            n->digit[i + k] = (uint16_t)carry;
            carry >>= 16;
        }
        n->digit[i + b->digits] = (uint16_t)carry;
    }
    return n;
}

/* The rest of n by m, which has at most 40 bits. Frees n. */
static number *rest_of(number *n, uint64_t m) {
    uint64_t rest = 0;
    for (unsigned i = n->digits; i-- > 0;) rest = (rest << 16 | n->digit[i]) % m;
    free(n);
    return from(rest);
}

/* x*x + 1 by m. Frees x. */
static number *step(number *x, uint64_t m) {
    number *square = multiply(x, x), *one = from(1), *sum = make(square->digits + 1);
    uint32_t carry = 0;
    for (unsigned i = 0; i < sum->digits; i++) {
        carry += (i < square->digits ? square->digit[i] : 0u) + (i < one->digits ? one->digit[i] : 0u);
        sum->digit[i] = (uint16_t)carry;
        carry >>= 16;
    }
    free(square);
    free(one);
    free(x);
    return rest_of(sum, m);
}

static uint64_t divisor(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Pollard's rho. */
static uint64_t factor(uint64_t m, uint64_t start) {
    number *slow = from(start), *fast = from(start);
    uint64_t found = 1;
    for (unsigned i = 0; i < 60000 && found == 1; i++) {
        slow = step(slow, m);
        fast = step(step(fast, m), m);
        uint64_t a = value_of(slow), b = value_of(fast);
        found = divisor(a > b ? a - b : b - a, m);
    }
    free(slow);
    free(fast);
    return found;
}

uint64_t loop_factor(unsigned amount) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < amount; i++) sum = sum * 31 + factor(1000003ull * 1000033ull, i + 2);
    return sum;
}

/* ---- cubes: Quine and McCluskey ----------------------------------------------------------------------------------------- */

#define VARIABLES 10u

typedef struct cube {
    struct cube *next;
    uint16_t ones, any; /* variables that have to be one; that do not matter */
    uint16_t merged;
    char name[VARIABLES + 1];
} cube;

static void add(cube **list, unsigned ones, unsigned any) {
    for (const cube *c = *list; c; c = c->next)
        if (c->ones == ones && c->any == any) return;
    cube *c = (cube *)(void *)loop_take(sizeof *c, 0);
    *c = (cube){.next = *list, .ones = (uint16_t)ones, .any = (uint16_t)any};
    for (unsigned v = 0; v < VARIABLES; v++) c->name[v] = any >> v & 1 ? '-' : ones >> v & 1 ? '1' : '0';
    *list = c;
}

static void drop(cube **list) {
    for (cube *next; *list; *list = next) {
        next = (*list)->next;
        free(*list);
    }
}

/* Terms that cannot be merged any further go to the primes, as a text. Returns how many. */
static unsigned primes_of(cube *const *lists, char **primes, unsigned count) {
    for (unsigned k = 0; k <= VARIABLES; k++)
        for (const cube *c = lists[k]; c; c = c->next)
            if (!c->merged) {
                primes[count] = (char *)loop_take(VARIABLES + 1, 0);
                memcpy(primes[count++], c->name, VARIABLES + 1);
            }
    return count;
}

static uint64_t minimise(uint64_t seed) {
    static char *primes[1u << 16];
    cube *lists[VARIABLES + 1] = {NULL}; /* by the number of ones */
    unsigned count = 0, more = 1;
    uint64_t sum = 0;
    for (unsigned i = 0; i < 300; i++) {
        unsigned ones = (unsigned)(loop_random(&seed) >> 20) & ((1u << VARIABLES) - 1);
        add(&lists[__builtin_popcount(ones)], ones, 0);
    }
    while (more) {
        cube *merged[VARIABLES + 1] = {NULL};
        more = 0;
        for (unsigned k = 0; k < VARIABLES; k++)
            for (cube *a = lists[k]; a; a = a->next)
                for (cube *b = lists[k + 1]; b; b = b->next) {
                    unsigned differ = (unsigned)(a->ones ^ b->ones);
                    if (a->any != b->any || (differ & (differ - 1)) != 0) continue;
                    a->merged = b->merged = 1;
                    more++;
                    add(&merged[k], a->ones, a->any | differ);
                }
        count = primes_of(lists, primes, count);
        for (unsigned k = 0; k <= VARIABLES; k++) drop(&lists[k]);
        memcpy(lists, merged, sizeof lists);
    }
    for (unsigned i = 0; i < count; i++) {
        for (unsigned v = 0; v < VARIABLES; v++) sum += (uint64_t)primes[i][v] << v; /* in any order */
        free(primes[i]);
    }
    return sum;
}

uint64_t loop_logic(unsigned amount) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < amount; i++) sum += minimise(i + 1);
    return sum;
}
