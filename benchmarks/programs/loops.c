/* usage: programs_loops [--wait] LOOP AMOUNT      --wait: says "idle" after its work, and ends with its input. */
#include "loops.h"

#include <string.h>

static const struct {
    const char *name;
    loop_run *run;
} loops[] = {{"factor", loop_factor},   {"logic", loop_logic},   {"fragment", loop_fragment},
             {"large", loop_large},     {"power", loop_power},   {"server", loop_server},
             {"cross", loop_cross},     {"simple", loop_simple}, {"threads", loop_threads},
             {"produce", loop_produce}, {"big", loop_big}};

int main(int argc, char **argv) {
    int waits = argc > 1 && strcmp(argv[1], "--wait") == 0;
    const char *name = argc == 3 + waits ? argv[1 + waits] : "";
    unsigned amount = argc == 3 + waits ? (unsigned)strtoul(argv[2 + waits], NULL, 10) : 0;
    for (size_t i = 0; i < sizeof loops / sizeof *loops && amount > 0; i++) {
        if (strcmp(name, loops[i].name) != 0) continue;
        printf("%llu\n", (unsigned long long)loops[i].run(amount));
        if (waits) {
            puts("idle");
            fflush(stdout);
            while (getchar() != EOF) {
            }
        }
        return 0;
    }
    fputs("usage: programs_loops [--wait] "
          "factor|logic|fragment|large|power|server|cross|simple|threads|produce|big AMOUNT\n",
          stderr);
    return 2;
}
