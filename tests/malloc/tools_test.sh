#!/bin/sh
# Under tools that watch memory, a program with a thread that has libtslab-malloc preloaded: memcheck finds nothing lost, and the program
# runs where AddressSanitizer is made to come behind the library. Argument: the library. Skipped (77) where there is neither tool.
set -eu
library=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/program.c" <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *run(void *arg) {
    free(malloc(10));
    return arg;
}
int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) != 0 || pthread_join(thread, NULL) != 0) return 1;
    char *p = malloc(100);
    if (!p) return 1;
    p[99] = 1;
    free(p);
    return puts("done") < 0;
}
END
tools=0
if command -v valgrind >/dev/null && ${CC:-cc} -g "$work/program.c" -o "$work/program" -pthread; then
    tools=1
    LD_PRELOAD=$library valgrind --quiet --leak-check=full --show-leak-kinds=all --errors-for-leak-kinds=all --error-exitcode=9 \
        "$work/program" > "$work/said" 2>&1 || { echo "tools_test: memcheck:"; cat "$work/said"; exit 1; }
fi
# The shared one: it looks whether it comes first. clang's is part of the program.
if ${CC:-cc} -g -fsanitize=address "$work/program.c" -o "$work/program" -pthread 2>/dev/null &&
    ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 "$work/program" > "$work/said" 2>&1; then
    tools=1
    ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 LD_PRELOAD=$library "$work/program" > "$work/said" 2>&1 ||
        { echo "tools_test: AddressSanitizer:"; head -20 "$work/said"; exit 1; }
fi
[ "$tools" = 1 ] || { echo "tools_test: skipped, there is no tool"; exit 77; }
