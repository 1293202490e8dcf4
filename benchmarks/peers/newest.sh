#!/usr/bin/env bash
# Builds the newest allocators that crates.io has as shared objects for LD_PRELOAD: DIR/NAME-VERSION.so.
# usage: benchmarks/peers/newest.sh DIR      needs cargo, cmake, make, cc and c++; what does not build is left out, by name.
# For: programs_bench.py --peers DIR.
set -euo pipefail
if [ $# -ne 1 ] || [ "${1#-}" != "$1" ]; then
    echo "usage: benchmarks/peers/newest.sh DIR" >&2
    exit 2
fi
mkdir -p "$1"
dir=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

crates=(libmimalloc-sys snmalloc-sys tikv-jemalloc-sys)
mkdir "$work/src"
touch "$work/src/lib.rs"
printf '[package]\nname = "newest"\nversion = "0.1.0"\n[dependencies]\n' >"$work/Cargo.toml"
printf '%s = "*"\n' "${crates[@]}" >>"$work/Cargo.toml"
(cd "$work" && cargo vendor --quiet vendor >/dev/null)

# The version of a crate that was fetched.
version_of() { sed -n '/^name = "'"$1"'"$/{n;s/^version = "\(.*\)"$/\1/p}' "$work/Cargo.lock"; }

mimalloc() {
    local source number
    for source in "$work"/vendor/libmimalloc-sys/c_src/mimalloc/v*; do
        number=$(sed -n 's/^#define MI_MALLOC_VERSION *\([0-9]*\).*/\1/p' "$source/include/mimalloc.h")
        number=$((number / 10000)).$((number / 100 % 100)).$((number % 100))
        ${CC:-cc} -O3 -DNDEBUG -DMI_MALLOC_OVERRIDE -DMI_SHARED_LIB -DMI_SHARED_LIB_EXPORT -fPIC -shared -fvisibility=hidden \
            -ftls-model=initial-exec -fno-builtin-malloc -std=gnu11 -I"$source/include" -o "$dir/mimalloc-$number.so" "$source/src/static.c" -lpthread
    done
}

snmalloc() {
    cmake -S "$work/vendor/snmalloc-sys/upstream" -B "$work/snmalloc" -DCMAKE_BUILD_TYPE=Release -DSNMALLOC_BUILD_TESTING=OFF
    cmake --build "$work/snmalloc" --target snmallocshim
    cp "$work/snmalloc/libsnmallocshim.so" "$dir/snmalloc-$(version_of snmalloc-sys).so"
}

jemalloc() {
    local version
    version=$(version_of tikv-jemalloc-sys)
    version=${version#*+}
    cp "$work/vendor/tikv-jemalloc-sys/configure/configure" "$work/vendor/tikv-jemalloc-sys/jemalloc/"
    (cd "$work/vendor/tikv-jemalloc-sys/jemalloc" && ./configure && make -j2 build_lib_shared)
    cp "$work/vendor/tikv-jemalloc-sys/jemalloc/lib/libjemalloc.so.2" "$dir/jemalloc-${version%%-*}.so"
}

rm -f "$dir"/*.so
for peer in mimalloc snmalloc jemalloc; do
    echo "$peer: building"
    # In a shell of its own, as set -e does nothing within a condition.
    status=0
    bash -euo pipefail -c "$(declare -f version_of $peer); work=$work dir=$dir; $peer" >"$dir/$peer.log" 2>&1 || status=$?
    [ $status -eq 0 ] || echo "left out: $peer, which did not build (see $dir/$peer.log)"
done
built=("$dir"/*.so)
[ -e "${built[0]}" ] || { echo "newest.sh: nothing was built" >&2; exit 1; }
printf '%s\n' "${built[@]}"
