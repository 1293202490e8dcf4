#!/bin/sh
# The installed libtslab-zones: exports the functions of tslab/zones.h and nothing else, needs libtslab and the C
# library; programs build and run through pkg-config and through find_package(tslab COMPONENTS zones); one of another
# build than libtslab opens nothing and says why. Arguments: BUILD_DIR VERSION LIBRARY CORE SOURCE_DIR. Environment: CC,
# CMAKE, NM, READELF.
set -eu
build_dir=$1 version=$2 library=$3 core=$4 source_dir=$5
. "$(dirname "$0")/../install/staged.sh"

sed -n 's/^TSLAB_API .*[ *]\([a-z0-9_]*\)(.*/\1/p' "$source_dir/include/tslab/zones.h" | sort >"$work/declared"
"${NM:-nm}" -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sed 's/@@TSLAB_ZONES_0$//' | sort >"$work/exported"
[ "$(wc -l <"$work/declared")" -eq 6 ] || fail "$(wc -l <"$work/declared") declarations in zones.h"
cmp "$work/declared" "$work/exported" || fail "exported is not what is declared: $(tr '\n' ' ' <"$work/exported")"
"${READELF:-readelf}" -d -W "$library" >"$work/dynamic"
sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' "$work/dynamic" |
    grep -Ev '^(libtslab\.so\..*|libc\.so|libc\.so\.6|libpthread\.so\.0|ld-linux.*)$' >"$work/needed" &&
    fail "needs more than libtslab and the C library: $(tr '\n' ' ' <"$work/needed")"
grep -q 'NODELETE' "$work/dynamic" || fail "may be unloaded"

run "$cmake" --install "$build_dir" --prefix "$work/first"
mv "$work/first" "$work/prefix" # the tree can be moved
prefix=$work/prefix
for file in include/tslab/zones.h share/man/man3/tslab-zones.3 share/man/man3/epoch_spill.3; do
    [ -f "$prefix/$file" ] || fail "$file is not installed"
done
cat >"$work/program.c" <<'END'
#include <stdio.h>
#include <string.h>
#include <tslab/zones.h>
int main(int argc, char **argv) {
    char where[512];
    if (argc != 2) return 2;
    (void)snprintf(where, sizeof where, "emulated:%s?zones=4&zone_size=64K", argv[1]);
    SlabZones *zones = slab_zones_open(where, NULL);
    if (!zones) return 3;
    SlabAllocator *a = slab_allocator_create();
    EpochId e = epoch_open(a, "window", EPOCH_CHURN);
    SlabHandle handle;
    char *text = alloc_obj_epoch(a, 100, e, &handle), copy[100];
    strcpy(text, "there and back");
    if (!epoch_close(a, e) || !epoch_spill(a, e, zones) || epoch_state(a, e) != EPOCH_SPILLED) return 4;
    if (slab_zones_read(a, handle, copy, sizeof copy) != 100 || strcmp(copy, "there and back") != 0) return 5;
    if (!epoch_load(a, e) || strcmp(text, "there and back") != 0) return 6;
    return epoch_destroy(a, e) && slab_zones_close(zones) ? 0 : 7;
}
END
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tslab-zones.pc)")
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion tslab-zones)" = "$version" ] || fail "pkg-config says another version than $version"
libdir=$(pkg-config --variable=libdir tslab-zones)
# shellcheck disable=SC2046 # flags are words
run "${CC:-gcc}" -std=c11 -Wall -Wextra -pedantic -Werror $(pkg-config --cflags tslab-zones) -o "$work/program" \
    "$work/program.c" $(pkg-config --libs tslab-zones) -Wl,-rpath,"$libdir"
run timeout 20 "$work/program" "$work/device"
run timeout 20 "$work/program" "$work/device"

mkdir "$work/cmake"
cat >"$work/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.21)
project(consumer C)
find_package(tslab REQUIRED COMPONENTS zones)
add_executable(program ../program.c)
target_link_libraries(program PRIVATE tslab::zones)
END
run "$cmake" -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="${CC:-gcc}" \
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
run "$cmake" --build "$work/cmake/build"
run timeout 20 "$work/cmake/build/program" "$work/device"

# Of another build: the word by which they tell is changed in a copy of the core.
mkdir "$work/other"
soname=$(readelf -d "$core" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
build=$(strings -a "$core" | sed -n "s/^$version \([0-9a-f]\{24\}\)\$/\1/p")
[ -n "$build" ] || fail "the build of libtslab is not in it"
sed "s/$build/000000000000000000000000/" "$core" >"$work/other/$soname"
"${CC:-gcc}" -o "$work/mixed" "$work/program.c" $(pkg-config --cflags --libs tslab-zones) || fail "does not link"
cp "$libdir"/libtslab-zones.so.* "$work/other/"
code=0
LD_LIBRARY_PATH=$work/other "$work/mixed" "$work/device" 2>"$work/log" || code=$?
[ $code -eq 3 ] || fail "with another build of libtslab: status $code"
grep -q 'libtslab-zones.so is of build' "$work/log" || fail "with another build of libtslab it says: $(cat "$work/log")"
echo "install_test: 6 functions, 3 programs"
