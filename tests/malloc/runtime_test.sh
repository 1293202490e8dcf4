#!/bin/sh
# runtime_test.cpp with every C++ compiler and standard library that is there, linked with libtslab-malloc and, statically, with its archive.
# Missing ones are named and left out. Arguments: DIRECTORY_OF_LIBTSLAB DIRECTORY_OF_LIBTSLAB_MALLOC SOURCE_DIR.
set -eu
core=$1 malloc=$2 source_dir=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#include <vector>\nint main() { return std::vector<int>(1)[0]; }\n' >"$work/try.cpp"
count=0 skipped=""
check() { # NAME COMPILER...
    name=$1
    shift
    if ! "$@" -std=c++17 "$work/try.cpp" -o "$work/try" 2>/dev/null; then
        skipped="$skipped; no $name"
        return 0
    fi
    case "$*" in
    *-static*) libraries="$malloc/libtslab-malloc.a $core/libtslab.a" ;;
    *) libraries="-Wl,--no-as-needed -L$malloc -ltslab-malloc -L$core -ltslab -Wl,-rpath,$malloc -Wl,-rpath,$core" ;;
    esac
    # shellcheck disable=SC2086 # words
    "$@" -std=c++17 -O1 -fno-builtin -Wall -Wextra -Werror -I"$source_dir/include" "$source_dir/tests/malloc/runtime_test.cpp" \
        -o "$work/runtime" -Wl,-u,malloc $libraries -pthread
    "$work/runtime" || {
        echo "runtime_test: $name" >&2
        exit 1
    }
    count=$((count + 1))
}
check g++ g++
check "clang++ with libc++ (libc++-dev)" clang++ -stdlib=libc++
check "g++ -static" g++ -static -DRUNTIME_TEST_STATIC
[ "$count" -gt 0 ] || {
    echo "runtime_test: no C++ compiler"
    exit 77
}
echo "runtime_test: $count ways$skipped"
