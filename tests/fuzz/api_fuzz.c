/*
 * Fuzz target: the bytes are decoded to a program over the public API (tests/support/program.h) and run against the
 * model. Built by the presets "fuzz" (libFuzzer, `make fuzz`) and "afl" (AFL++, `make fuzz-afl`), one process for many
 * programs in both.
 */
#include "program.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t operations;

static void print_operations(void) { (void)fprintf(stderr, "operations: %" PRIu64 "\n", operations); }

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    prog_measure_seldom();
    (void)atexit(print_operations);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char why[512] = "";
    operations += size / PROG_OP_BYTES;
    if (!prog_run_bytes(data, size, NULL, why, sizeof why)) {
        (void)fprintf(stderr, "FAIL api_fuzz: %s\n", why);
        /* Runs the bytes once more, and prints the calls. */
        (void)prog_run_bytes(data, size, stderr, why, sizeof why);
        abort();
    }
    return 0;
}
