/* No structure: any of 20,000 objects dies at any time, whichever function made it. */
#include "common.h"

static void *slots[20000];

FUNCTION static void step(void) {
    unsigned i = random_below(20000);
    free(slots[i]);
    slots[i] = get(16 + random_below(500));
}

int main(void) {
    for (unsigned i = 0; i < 300000; i++) {
        step();
    }
    puts("300000");
    return 0;
}
