#!/bin/sh
# The installed libtslab-http: exports the functions of tslab/http.h and nothing else; programs build and run through
# pkg-config and through find_package(tslab COMPONENTS http). Arguments: BUILD_DIR VERSION LIBRARY SOURCE_DIR.
# Environment: CC, CMAKE, NM.
set -eu
build_dir=$1 version=$2 library=$3 source_dir=$4
. "$(dirname "$0")/../install/staged.sh"

sed -n 's/^TSLAB_API .*[ *]\([a-z0-9_]*\)(.*/\1/p' "$source_dir/include/tslab/http.h" | sort >"$work/declared"
"${NM:-nm}" -D --defined-only "$library" | sed -n 's/.* \([a-z0-9_]*\)@@TSLAB_HTTP_0$/\1/p' | sort >"$work/exported"
[ "$(wc -l <"$work/declared")" -eq 6 ] || fail "$(wc -l <"$work/declared") declarations in http.h"
cmp "$work/declared" "$work/exported" || fail "exported is not what is declared: $(tr '\n' ' ' <"$work/exported")"

run "$cmake" --install "$build_dir" --prefix "$work/first"
mv "$work/first" "$work/prefix" # the tree can be moved
prefix=$work/prefix
for file in include/tslab/http.h share/man/man3/tslab-http.3 share/man/man3/slab_http_start.3 bin/stats_dump bin/tslab; do
    [ -f "$prefix/$file" ] || fail "$file is not installed"
done
cat >"$work/program.c" <<'END'
#include <stdio.h>
#include <tslab/http.h>
int main(void) {
    if (!slab_http_start(NULL, "127.0.0.1:0")) {
        perror("slab_http_start");
        return 1;
    }
    return slab_http_port() > 0 && slab_http_stop() && !slab_http_stop() ? 0 : 1;
}
END

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tslab-http.pc)")
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion tslab-http)" = "$version" ] || fail "pkg-config says another version than $version"
libdir=$(pkg-config --variable=libdir tslab-http)
# shellcheck disable=SC2046 # flags are words
run "${CC:-gcc}" -std=c11 -Wall -Wextra -pedantic -Werror $(pkg-config --cflags tslab-http) -o "$work/program" \
    "$work/program.c" $(pkg-config --libs tslab-http) -Wl,-rpath,"$libdir"
run timeout 20 "$work/program"

mkdir "$work/cmake"
cat >"$work/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.21)
project(consumer C)
find_package(tslab REQUIRED COMPONENTS http)
find_package(tslab OPTIONAL_COMPONENTS nonsense)
if(tslab_nonsense_FOUND)
    message(FATAL_ERROR "a component that there is not was found")
endif()
add_executable(program ../program.c)
target_link_libraries(program PRIVATE tslab::http)
END
run "$cmake" -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="${CC:-gcc}" \
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
run "$cmake" --build "$work/cmake/build"
run timeout 20 "$work/cmake/build/program"
echo "install_test: 5 functions, 2 programs"
