/* A table that is built once and read: everything lives to the end. */
#include "common.h"

FUNCTION static void *load_entry(void) {
    char **entry = get(48);
    *entry = get(20 + random_below(60));
    return entry;
}

int main(void) {
    static void *table[60000];
    for (unsigned i = 0; i < 60000; i++) {
        table[i] = load_entry();
    }
    unsigned long sum = 0;
    for (unsigned i = 0; i < 3000000; i++) {
        sum += (unsigned char)**(char **)table[random_below(60000)];
    }
    printf("%lu\n", sum);
    return 0;
}
