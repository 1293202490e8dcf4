/* A compiler: a pass's sets die with the pass, a function's code with the function, types live to the end. */
#include "common.h"

enum { INSTRUCTIONS = 300 };
static void *types[2000];
static unsigned type_count;

FUNCTION static void run_pass(void **code) {
    void *sets[100];
    for (unsigned i = 0; i < 100; i++) {
        sets[i] = get(32 + random_below(64));
        *(unsigned char *)code[i] += 1;
    }
    for (unsigned i = 0; i < 100; i++) {
        free(sets[i]);
    }
}

FUNCTION static void make_type(void) {
    if (type_count < 2000) {
        types[type_count++] = get(96);
    }
}

FUNCTION static void lower(void **code) {
    for (unsigned i = 0; i < INSTRUCTIONS; i++) {
        code[i] = get(72);
    }
}

FUNCTION static void compile_function(void) {
    void *code[INSTRUCTIONS];
    lower(code);
    make_type();
    for (unsigned pass = 0; pass < 8; pass++) {
        run_pass(code);
    }
    for (unsigned i = 0; i < INSTRUCTIONS; i++) {
        free(code[i]);
    }
}

int main(void) {
    for (unsigned i = 0; i < 300; i++) {
        compile_function();
    }
    puts("300");
    return 0;
}
