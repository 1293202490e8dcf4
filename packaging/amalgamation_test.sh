#!/usr/bin/env bash
# The two files of `make amalgamation`: compiled without a warning by each compiler that is there, and used by a program in C and one
# in C++. Argument: SOURCE_DIR.
set -euo pipefail
source_dir=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -B "$source_dir/packaging/amalgamation.py" "$work"
cd "$work"
cat >program.c <<'END'
#include "tslab.h"
#include <stdio.h>
int main(void) {
    EpochDomain *domain = epoch_domain_create(NULL);
    SlabGlobalStats stats;
    if (!domain || !epoch_domain_enter(domain)) return 1;
    for (size_t size = 0; size < 100000; size += 100)
        if (!slab_alloc(size)) return 1;
    char *text = slab_alloc_printf("%d", 42);
    if (!text || !slab_stats_global(slab_allocator_default(), &stats)) return 1;
    epoch_domain_exit(domain);
    epoch_domain_destroy(domain);
    printf("%d live, %s\n", (int)stats.live_objects, slab_release(text) ? "accepted" : "refused");
    return 0;
}
END
ways=0
try() {
    local cc=$1 object=$2
    shift 2
    "$cc" "$@" "$object" -pthread -o program
    [ "$(./program)" = "1001 live, refused" ] || { echo "amalgamation_test: $cc: $(./program)" >&2; exit 1; }
    ways=$((ways + 1))
}
for cc in gcc clang; do
    command -v $cc >/dev/null || { echo "left out: $cc"; continue; }
    $cc -std=c11 -O1 -Wall -Wextra -pedantic -Werror -c tslab.c -o $cc.o
    try $cc $cc.o -std=c11 program.c
    if command -v g++ >/dev/null; then try g++ $cc.o -x c++ program.c -x none; else echo "left out: g++"; fi
done
# By a C++ compiler one error, which says it.
if command -v g++ >/dev/null; then
    if g++ -fmax-errors=1 -x c++ -c tslab.c -o wrong.o 2>said; then echo "amalgamation_test: g++ takes tslab.c" >&2; exit 1; fi
    grep -q 'error: #error "tslab.c is C11' said || { cat said >&2; exit 1; }
fi
[ $ways -gt 0 ] || { echo "amalgamation_test: no compiler" >&2; exit 1; }
echo "amalgamation_test: $ways ways"
