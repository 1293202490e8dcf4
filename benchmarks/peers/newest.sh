#!/usr/bin/env bash
# Builds the newest allocators that crates.io has as shared objects for LD_PRELOAD: DIR/NAME-VERSION.so.
# usage: benchmarks/peers/newest.sh DIR      needs cargo, cmake, make, cc and c++; names a peer that does not build, and leaves it out.
# The libraries in build/peers take the place of Debian's in `make results`, and in every program of the suite.
# `google` is Google's own tcmalloc. gperftools is not here: of its crates tcmalloc-sys links to the system's, and tcmalloc2 fetches the
# sources from GitHub; neither it nor tcmalloc is a package of PyPI. So it is Debian's.
set -euo pipefail
if [ $# -ne 1 ] || [ "${1#-}" != "$1" ]; then
    echo "usage: benchmarks/peers/newest.sh DIR" >&2
    exit 2
fi
mkdir -p "$1"
dir=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

crates=(libmimalloc-sys snmalloc-sys tikv-jemalloc-sys libtcmalloc-sys)
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
    cmake --build "$work/snmalloc" --target snmallocshim -j "$(nproc)"
    cp "$work/snmalloc/libsnmallocshim.so" "$dir/snmalloc-$(version_of snmalloc-sys).so"
}

jemalloc() {
    local version
    version=$(version_of tikv-jemalloc-sys)
    version=${version#*+}
    cp "$work/vendor/tikv-jemalloc-sys/configure/configure" "$work/vendor/tikv-jemalloc-sys/jemalloc/"
    (cd "$work/vendor/tikv-jemalloc-sys/jemalloc" && ./configure && make -j"$(nproc)" build_lib_shared)
    cp "$work/vendor/tikv-jemalloc-sys/jemalloc/lib/libjemalloc.so.2" "$dir/jemalloc-${version%%-*}.so"
}

# The files that the crate's build.rs names; its bridge to Rust gives way to the malloc that it is a bridge to.
google() {
    cd "$work/vendor/libtcmalloc-sys"
    { sed -n 's/^ *"\(c_src\/.*\)",$/\1/p' build.rs | grep -v _bridge; echo c_src/tcmalloc/tcmalloc/tcmalloc.cc; } >"$work/google"
    xargs -a "$work/google" -P "$(nproc)" -I{} sh -c "${CXX:-c++} -std=c++17 -O2 -DNDEBUG -DTCMALLOC_INTERNAL_8K_PAGES -fPIC -w \
        -ftls-model=initial-exec -Ic_src/abseil-cpp -Ic_src/tcmalloc -c {} -o '$work'/\$(echo {} | tr / _).o"
    ${CXX:-c++} -shared -o "$dir/google-$(version_of libtcmalloc-sys).so" "$work"/c_src_*.o -lpthread
}

rm -f "$dir"/*.so
for peer in mimalloc snmalloc jemalloc google; do
    echo "$peer: building"
    # In a shell of its own, as set -e does nothing within a condition.
    status=0
    bash -euo pipefail -c "$(declare -f version_of $peer); work=$work dir=$dir; $peer" >"$dir/$peer.log" 2>&1 || status=$?
    [ $status -eq 0 ] || echo "left out: $peer, which did not build (see $dir/$peer.log)"
done
built=("$dir"/*.so)
[ -e "${built[0]}" ] || { echo "newest.sh: nothing was built" >&2; exit 1; }
printf '%s\n' "${built[@]}"
