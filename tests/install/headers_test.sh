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
[ "$count" -ge 12 ] || {
    echo "headers_test: only $count" >&2
    exit 1
}
echo "headers_test: $count ways"
