/* Sizes and lifetimes that are hard on an allocator's shape: fragmentation, large blocks, a power law. */
#include "loops.h"

#define OBJECTS 20000u

/* Each phase has larger objects; a quarter of them survives it, and three phases later goes, too. */
uint64_t loop_fragment(unsigned amount) {
    enum { PHASES = 4 };
    static unsigned char *kept[PHASES][OBJECTS];
    uint64_t seed = 7, sum = 0;
    for (unsigned phase = 0; phase < amount; phase++) {
        unsigned char **mine = kept[phase % PHASES];
        for (unsigned i = 0; i < OBJECTS; i++) {
            if (mine[i]) sum += mine[i][0];
            free(mine[i]);
            size_t bytes = 16 + phase % 32 * 24 + loop_random(&seed) % 64;
            mine[i] = loop_take(bytes, (unsigned char)i);
        }
        for (unsigned i = 0; i < OBJECTS; i++) {
            if (loop_random(&seed) % 4 == 0) continue;
            loop_need(mine[i][0] == (unsigned char)i);
            free(mine[i]);
            mine[i] = NULL;
        }
    }
    for (unsigned k = 0; k < PHASES; k++)
        for (unsigned i = 0; i < OBJECTS; i++) {
            free(kept[k][i]);
            kept[k][i] = NULL;
        }
    return sum;
}

uint64_t loop_large(unsigned amount) {
    enum { BLOCKS = 24 };
    unsigned char *block[BLOCKS] = {NULL};
    uint64_t seed = 5, sum = 0;
    for (unsigned n = 0; n < amount * 100; n++) {
        unsigned i = (unsigned)(loop_random(&seed) % BLOCKS);
        size_t bytes = ((size_t)32 << 10) << loop_random(&seed) % 9;
        bytes += loop_random(&seed) % bytes;
        if (block[i]) sum += block[i][0];
        if (n % 5 == 0 && block[i]) {
            block[i] = realloc(block[i], bytes);
            loop_need(block[i] != NULL);
            continue;
        }
        free(block[i]);
        block[i] = loop_take(bytes, (unsigned char)n);
    }
    for (unsigned i = 0; i < BLOCKS; i++) free(block[i]);
    return sum;
}

uint64_t loop_big(unsigned amount) {
    enum { BLOCKS = 20, MB = 1000000 };
    unsigned char *block[BLOCKS] = {NULL};
    uint64_t seed = 11, sum = 0;
    for (unsigned n = 0; n < amount * 10; n++) {
        unsigned i = (unsigned)(loop_random(&seed) % BLOCKS);
        if (block[i]) sum += block[i][0];
        free(block[i]);
        block[i] = loop_take((size_t)(5 * MB + loop_random(&seed) % (20 * MB)), (unsigned char)n);
    }
    for (unsigned i = 0; i < BLOCKS; i++) free(block[i]);
    return sum;
}

/* P(size > s) = 16 / s, to 1 MiB; so all powers of two have the same share of the bytes. */
static size_t power_size(uint64_t *seed) {
    uint64_t u = loop_random(seed) >> 40; /* 24 bits */
    size_t bytes = (size_t)((16ull << 24) / (u + 1));
    return bytes < (1u << 20) ? bytes : 1u << 20;
}

uint64_t loop_power(unsigned amount) {
    static unsigned char *kept[OBJECTS];
    uint64_t seed = 3, sum = 0;
    for (unsigned n = 0; n < amount * 50000; n++) {
        unsigned i = (unsigned)(loop_random(&seed) % OBJECTS);
        if (kept[i]) sum += kept[i][0];
        free(kept[i]);
        kept[i] = loop_take(power_size(&seed), (unsigned char)n);
    }
    for (unsigned i = 0; i < OBJECTS; i++) {
        free(kept[i]);
        kept[i] = NULL;
    }
    return sum;
}
