#!/bin/sh
# Every public header of C alone, by each compiler that is there, with the warnings that strict programs turn into errors.
# Argument: SOURCE_DIR.
set -eu
source_dir=$1
warnings="-Wall -Wextra -pedantic -Wshadow -Wconversion -Wsign-conversion -Wcast-qual -Wcast-align -Wundef -Wredundant-decls
    -Wdeclaration-after-statement -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wc++-compat -Werror"
count=0
for cc in "${CC:-gcc}" clang; do
    command -v "$cc" >/dev/null || continue
    for header in "$source_dir"/include/tslab/*.h; do
        for standard in c11 gnu17; do
            # shellcheck disable=SC2086 # words
            printf '#include <tslab/%s>\n' "$(basename "$header")" |
                "$cc" $warnings -std=$standard -I"$source_dir/include" -fsyntax-only -x c -
            count=$((count + 1))
        done
    done
done
# The compiler's message on a wrong program. Arguments: the words, the compiler and its options; the program: stdin.
says() {
    words=$1
    shift
    if answer=$("$@" -I"$source_dir/include" -c -o /dev/null - 2>&1); then
        echo "headers_test: compiles, where it is to say: $words" >&2
        exit 1
    fi
    case $answer in
    *"$words"*) ;;
    *)
        printf 'headers_test: "%s" is not in:\n%s\n' "$words" "$answer" >&2
        exit 1
        ;;
    esac
}
for cc in "${CC:-gcc}" clang; do
    command -v "$cc" >/dev/null || continue
    printf '#include <tslab/adapt.h>\nint f(void) { return slab_adapt_sqlite3(SLAB_ADAPT_OUTSIDE); }\n' |
        says 'include <sqlite3.h> before <tslab/adapt.h>' "$cc" -x c
    for call in 'slab_realloc(a, p, 10)' 'slab_malloc(a, 10)' 'epoch_domain_create(a)' 'slab_promote((EpochDomain *)p, p)'; do
        printf '#include <tslab/tslab.h>\nvoid f(SlabAllocator *a, void *p) { (void)a; (void)p; %s; }\n' "$call" |
            says 'unused' "$cc" -Werror -x c
    done
    printf '#include <tslab/tslab.h>\nvoid *f(void) { return slab_alloc_printf("%%s", 1); }\n' | says 'format' "$cc" -Werror -Wformat -x c
done
for cxx in "${CXX:-g++}" clang++; do
    command -v "$cxx" >/dev/null || continue
    printf '#include <tslab/tslab.hpp>\n' | says 'needs C++17' "$cxx" -std=c++14 -x c++
    printf '#include <tslab/tslab.hpp>\nvoid f(tslab::domain);\nvoid g() { f("text"); }\n' | says 'domain' "$cxx" -std=c++17 -x c++
done
[ "$count" -ge 12 ] || {
    echo "headers_test: only $count" >&2
    exit 1
}
echo "headers_test: $count ways"
