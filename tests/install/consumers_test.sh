#!/bin/sh
# Installs into a prefix of its own, and builds and runs programs against it: through pkg-config and through
# find_package, with the shared and with the static library; then the same after the installed tree has moved,
# and with DESTDIR. Arguments: BUILD_DIR VERSION. Environment: CC, CMAKE.
set -eu
build_dir=$1 version=$2 soname=libtslab.so.0
cmake=${CMAKE:-cmake}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset DESTDIR PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH MAKEFLAGS MAKELEVEL MFLAGS
fail() {
    echo "consumers_test: $*" >&2
    exit 1
}
# Quiet unless it fails.
run() {
    "$@" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        fail "$stage: failed: $*"
    }
}
# Which library a program loads: that of its major and minor version, or none.
loads() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(libtslab.*\)\]/\1/p'; }
# Whether the compiler can call without the table of jumps (tslab.h, TSLAB_API).
printf '#if defined(__x86_64__) && defined(__has_attribute)\n#if __has_attribute(noplt)\ncan\n#endif\n#endif\n' >"$work/noplt.c"
noplt=$("${CC:-gcc}" -E -P "$work/noplt.c" | tr -d ' \n')
# The brother of the C compiler, if it compiles C++17. Empty: there is none.
cxx=$(echo "${CC:-gcc}" | sed 's/gcc\([^/]*\)$/g++\1/; s/clang\([^/]*\)$/clang++\1/')
printf '#include <string>\nint main() { return std::string().empty() ? 0 : 1; }\n' >"$work/try.cpp"
"$cxx" -std=c++17 "$work/try.cpp" -o "$work/try" 2>/dev/null || cxx=""
check_programs() { # DIR
    [ "$(loads "$1/consumer_shared")" = "$soname" ] || fail "$stage: consumer_shared does not load $soname"
    if [ "$noplt" = can ] && readelf -r -W "$1/consumer_shared" | grep -E 'JUMP_SLO.* (slab|epoch)_' >"$work/log"; then
        fail "$stage: consumer_shared calls through the table of jumps: $(cat "$work/log")"
    fi
    [ -z "$(loads "$1/consumer_static")" ] || fail "$stage: consumer_static loads $(loads "$1/consumer_static")"
    run "$1/consumer_shared"
    run "$1/consumer_static"
}

# Builds and runs everything against the tree at $1.
check_prefix() {
    prefix=$1
    out=$(mktemp -d "$work/out.XXXXXX")
    for file in include/tslab/tslab.h include/tslab/stats.h include/tslab/tslab.hpp include/tslab/adapt.h include/tslab/arrow.hpp include/tslab/protobuf.hpp share/man/man3/tslab.3 share/man/man3/slab_alloc.3 share/man/man3/tslab-domains.3 share/doc/tslab/LICENSE share/doc/tslab/README.md share/doc/tslab/docs/tutorial.md share/doc/tslab/docs/guarantees.md; do
        [ -f "$prefix/$file" ] || fail "$stage: $file is not installed"
    done
    [ ! -e "$prefix/share/doc/tslab/docs/architecture.md" ] || fail "$stage: a page for developers is installed"
    for page in $(grep -oh "](\(\.\./\)\?[a-zA-Z_/-]*\(\.\(md\|svg\|png\|csv\|c\|h\)\)\?[)#]" "$prefix"/share/doc/tslab/docs/*.md | sed "s/^](//; s/[)#]\$//" | sort -u); do
        [ -e "$prefix/share/doc/tslab/docs/$page" ] || fail "$stage: a page links to $page, which is not installed"
    done
    pc=$(find "$prefix" -name tslab.pc)
    [ -n "$pc" ] || fail "$stage: tslab.pc is not installed"
    if grep -rIl -- "$work" "$prefix" >"$work/log"; then
        fail "$stage: the path of the prefix is in $(tr '\n' ' ' <"$work/log")"
    fi

    PKG_CONFIG_PATH=$(dirname "$pc")
    export PKG_CONFIG_PATH
    libdir=$(pkg-config --variable=libdir tslab)
    [ "$(pkg-config --modversion tslab)" = "$version" ] || fail "$stage: pkg-config says another version than $version"
    for link in libtslab.so "$soname" "libtslab.so.$version" libtslab.a; do
        [ -f "$libdir/$link" ] || fail "$stage: $link is not installed"
    done
    mkdir "$out/pkg_config"
    run make -C "$out/pkg_config" -f "$here/pkg_config/Makefile" SOURCES="$here" CC="${CC:-gcc}"
    check_programs "$out/pkg_config"
    run "$out/pkg_config/dlopen" "$libdir/$soname"
    if [ -n "$cxx" ]; then
        # shellcheck disable=SC2046 # words
        run "$cxx" -std=c++17 -Wall -Wextra -pedantic -Werror "$here/consumer.cpp" -o "$out/pkg_config/consumer_cxx" \
            $(pkg-config --cflags --libs tslab) "-Wl,-rpath,$libdir"
        run "$out/pkg_config/consumer_cxx"
    fi
    unset PKG_CONFIG_PATH

    run "$cmake" -S "$here/find_package" -B "$out/find_package" -DCMAKE_PREFIX_PATH="$prefix" \
        -DTSLAB_EXPECTED_VERSION="$version" -DCMAKE_C_COMPILER="${CC:-gcc}" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF \
        ${cxx:+"-DCMAKE_CXX_COMPILER=$cxx"}
    found=$(sed -n 's/^tslab_DIR:PATH=//p' "$out/find_package/CMakeCache.txt")
    case $found in "$prefix"/*) ;; *) fail "$stage: find_package found $found" ;; esac
    run "$cmake" --build "$out/find_package"
    check_programs "$out/find_package"
    [ -z "$cxx" ] || run "$out/find_package/consumer_cxx"
}

stage="installed"
run "$cmake" --install "$build_dir" --prefix "$work/first"
check_prefix "$work/first"

# A component that there is not is named, with those that there are.
stage="component"
mkdir "$work/component"
printf '%s\n' 'cmake_minimum_required(VERSION 3.20)' 'project(component LANGUAGES C)' \
    'find_package(tslab REQUIRED COMPONENTS http nosuch OPTIONAL_COMPONENTS neither)' >"$work/component/CMakeLists.txt"
if "$cmake" -S "$work/component" -B "$work/component/build" -DCMAKE_PREFIX_PATH="$work/first" \
    -DCMAKE_C_COMPILER="${CC:-gcc}" -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF >"$work/log" 2>&1; then
    fail "$stage: find_package finds the component nosuch"
fi
if [ -n "$(find "$work/first" -name tslab-http-targets.cmake)" ]; then
    said="not there: component nosuch; of components there is http"
else
    said="not there: component http, nosuch; of components there is none here"
fi
tr -s ' \n' '  ' <"$work/log" | grep -qF "$said" || { cat "$work/log" >&2 && fail "$stage: it does not say: $said"; }

# The C headers in C++, as old as C++11.
said=", no C++ compiler"
if [ -n "$cxx" ]; then
    printf '#include <tslab/stats.h>\n#include <tslab/tslab.h>\n' >"$work/headers.cpp"
    run "$cxx" -std=c++11 -Wall -Wextra -pedantic -Werror -fsyntax-only -I"$work/first/include" "$work/headers.cpp"
    said=", 4 in C++, headers as C++11"
fi

stage="moved"
mkdir "$work/elsewhere"
mv "$work/first" "$work/elsewhere/second"
check_prefix "$work/elsewhere/second"

stage="DESTDIR"
run env DESTDIR="$work/stage" "$cmake" --install "$build_dir" --prefix /opt/tslab
(cd "$work/stage/opt/tslab" && find . | sort) >"$work/staged"
(cd "$work/elsewhere/second" && find . | sort) >"$work/plain"
cmp "$work/staged" "$work/plain" || fail "DESTDIR: the trees differ"
echo "consumers_test: 8 programs and 2 dlopen through pkg-config and find_package$said"
