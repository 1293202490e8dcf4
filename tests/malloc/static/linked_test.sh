#!/bin/sh
# The linker's choices for a program that is linked with libtslab-malloc.a: nothing of libc's malloc, and of the C++
# library's operators only those that may not throw, which call ours. Arguments: PROGRAM MAP MODE.
set -eu
export LC_ALL=C
program=$1 map=$2 mode=$3
failed=0
fail() {
    echo "linked_test: $*" >&2
    failed=1
}

# The first part of the map: "ARCHIVE(MEMBER)", each with the symbol that needed it.
members=$(sed -n '1,/^Discarded input sections\|^Memory Configuration\|^There are no discarded/p' "$map" | sed -n 's/^\(.*[ /]\)\{0,1\}\(lib[^/]*\.a([^)]*)\).*/\2/p' | sort -u)
has() { printf '%s\n' "$members" | grep -qE "$1"; }
has '^libtslab-malloc\.a\(c\.c\.o\)$' || fail "malloc is not ours"
has '^libtslab\.a\(' || fail "the core is not there"
has '^libc\.a\(malloc\.o\)$' && fail "libc's malloc is in the program, too"
others=$(printf '%s\n' "$members" | grep -E '^libstdc\+\+\.a\((new|del)_op' | grep -vE '\(new_op(nt|vnt|ant|vant)\.o\)$' || :)
[ -z "$others" ] || fail "operators of libstdc++: $others"

# Every name is there once, from the first file to the last: the functions that a program and libc call are ours.
for name in malloc free calloc realloc reallocarray aligned_alloc posix_memalign memalign valloc pvalloc malloc_usable_size pthread_create; do
    [ "$(nm "$program" | grep -cE " [tTwW] $name\$")" -eq 1 ] || fail "$name is not there once"
done
readelf -lW "$program" | grep -q INTERP && fail "the program asks for a loader"
type=$(readelf -hW "$program" | sed -n 's/ *Type: *\([A-Z]*\).*/\1/p')
case $mode in
    -static) [ "$type" = EXEC ] || fail "$mode gives $type" ;;
    -static-pie) [ "$type" = DYN ] || fail "$mode gives $type" ;;
esac
exit $failed
