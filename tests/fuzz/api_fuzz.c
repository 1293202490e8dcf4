/*
 * Fuzz target: the bytes are decoded to a program over the public API (tests/support/program.h) and run against
 * the model. Build with clang: -fsanitize=fuzzer,address together with tests/support and the library.
 */
#include "program.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char why[512] = "";
    if (!prog_run_bytes(data, size, NULL, why, sizeof why)) {
        (void)fprintf(stderr, "FAIL api_fuzz: %s\n", why);
        /* The same once more, with the calls printed. */
        (void)prog_run_bytes(data, size, stderr, why, sizeof why);
        abort();
    }
    return 0;
}
