#!/bin/sh
# The shared library exports exactly the functions that the headers declare TSLAB_API, needs nothing but the C
# library, and says its SONAME and its way of using thread storage.
# Arguments: LIBRARY API_NAMES (one name a line, sorted) SOURCE_DIR. Environment: NM, READELF.
set -eu
export LC_ALL=C
library=$1 names=$2 source_dir=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
    echo "exports_test: $*" >&2
    failed=1
}

# The list is complete: as many names as declarations. A declaration begins its line.
declared=$(cat "$source_dir"/include/tslab/tslab.h "$source_dir"/include/tslab/stats.h | grep -c '^TSLAB_API ')
[ "$declared" -gt 0 ] || fail "no TSLAB_API declaration in the headers"
[ "$(sort -u "$names" | wc -l)" -eq "$declared" ] ||
    fail "$declared declarations in the headers, but these names: $(tr '\n' ' ' <"$names")"

# "name@@TSLAB_0": every symbol has the version. The version itself is an absolute symbol. Functions for the project's
# own libraries have another, and are those that headers of the core declare with TS_PRIVATE.
"${NM:-nm}" -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >"$work/all"
sed -n 's/@@TSLAB_PRIVATE$//p' "$work/all" >"$work/private"
cat "$source_dir"/src/core/*/*.h "$source_dir"/src/observe/*.h "$source_dir"/src/advice/*.h | sed -n 's/^TS_PRIVATE .*[ *]\(ts_[a-z_]*\)[([].*/\1/p' | sort >"$work/private_declared"
cmp -s "$work/private" "$work/private_declared" ||
    fail "TSLAB_PRIVATE is not what the headers declare: $(comm -3 "$work/private" "$work/private_declared" | tr -d '\t' | tr '\n' ' ')"
grep -v '@@TSLAB_PRIVATE$' "$work/all" >"$work/versioned"
sed -n 's/@@TSLAB_0$//p' "$work/versioned" | sort >"$work/exported"
grep -v '@@TSLAB_0$' "$work/versioned" >"$work/unversioned" &&
    fail "no version TSLAB_0: $(tr '\n' ' ' <"$work/unversioned")"
sort "$names" >"$work/declared"
for name in $(comm -23 "$work/declared" "$work/exported"); do fail "declared, not exported: $name"; done
for name in $(comm -13 "$work/declared" "$work/exported"); do fail "exported, not declared: $name"; done

"${READELF:-readelf}" -d -W "$library" >"$work/dynamic"
soname=libtslab.so.0
grep -q "SONAME.*\[$soname\]" "$work/dynamic" || fail "SONAME is not $soname"
grep -q 'TEXTREL' "$work/dynamic" && fail "text relocations"
sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' "$work/dynamic" >"$work/needs"
grep -Ev '^(libc\.so|libc\.so\.6|libpthread\.so\.0|ld-linux.*)$' "$work/needs" >"$work/needed" &&
    fail "needs more than the C library: $(tr '\n' ' ' <"$work/needed")"
# General-dynamic thread storage costs a call at every operation; without glibc, whose library is libc.so.6, it is needed.
grep -qx 'libc\.so\.6' "$work/needs" && "${NM:-nm}" -D --undefined-only "$library" | grep -q '__tls_get_addr' && fail "thread storage is not initial-exec"

exit $failed
