/*
 * The body of the fuzzer on random byte strings, which every build runs without a fuzzing engine.
 *
 *     api_fuzz_test [--seed N] [--programs N]
 *     api_fuzz_test FILE...                      the strings in these files instead
 *
 * Half of the strings are random throughout; the others repeat a short random piece with changes, which gives
 * the runs of like operations that independent bytes hardly ever have.
 */
#include "check.h"
#include "program.h"
#include "rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 6000u

static size_t make_string(struct sup_rng *rng, uint8_t *bytes) {
    size_t length = PROG_OP_BYTES + (size_t)sup_rng_below(rng, MOST_BYTES - PROG_OP_BYTES);
    size_t period = sup_rng_below(rng, 2) == 0 ? length : PROG_OP_BYTES * (size_t)(1u + sup_rng_below(rng, 12));
    for (size_t i = 0; i < length; i++) {
        bool fresh = i < period || sup_rng_below(rng, 16) == 0;
        bytes[i] = fresh ? (uint8_t)sup_rng_next(rng) : bytes[i - period];
    }
    return length;
}

/* A wrong answer aborts, and a fuzzer looks for that. */
static int replay(int count, char **names) {
    static uint8_t bytes[1 << 20];
    for (int i = 0; i < count; i++) {
        char why[512] = "";
        FILE *file = fopen(names[i], "rb");
        if (file == NULL) {
            (void)fprintf(stderr, "api_fuzz_test: cannot open %s\n", names[i]);
            return 2;
        }
        size_t length = fread(bytes, 1, sizeof bytes, file);
        (void)fclose(file);
        if (!prog_run_bytes(bytes, length, NULL, why, sizeof why)) {
            (void)fprintf(stderr, "FAIL api_fuzz_test %s: %s\n", names[i], why);
            (void)prog_run_bytes(bytes, length, stderr, why, sizeof why);
            abort();
        }
    }
    (void)printf("api_fuzz_test: %d files: good\n", count);
    return 0;
}

int main(int argc, char **argv) {
    struct sup_args args = {.seed = 1, .programs = SUP_SCALED(4000)};
    static uint8_t bytes[MOST_BYTES];
    uint64_t operations = 0;
    prog_measure_seldom();
    if (argc > 1 && argv[1][0] != '-') {
        return replay(argc - 1, argv + 1);
    }
    sup_args_parse(argc, argv, &args);
    for (uint64_t number = 0; number < args.programs; number++) {
        struct sup_rng rng = {sup_mix(args.seed) ^ sup_mix(~number)};
        char why[512] = "";
        size_t length = make_string(&rng, bytes);
        operations += length / PROG_OP_BYTES;
        sup_set_seed(args.seed);
        if (!prog_run_bytes(bytes, length, NULL, why, sizeof why)) {
            (void)fprintf(stderr, "FAIL api_fuzz_test --seed %" PRIu64 ": string %" PRIu64 ": %s\n", args.seed, number,
                          why);
            return 1;
        }
    }
    (void)printf("api_fuzz_test: seed %" PRIu64 ", %" PRIu64 " strings: good\n", args.seed, args.programs);
    (void)printf("operations: %" PRIu64 "\n", operations);
    return 0;
}
