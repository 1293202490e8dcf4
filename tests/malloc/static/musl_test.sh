#!/bin/sh
# The archive with musl: built by musl-gcc, it is the malloc of static and static-PIE programs. Arguments: SOURCE_DIR BUILD_DIR.
# Environment: CMAKE. Exit code 77: there is no musl-gcc.
set -eu
source_dir=$1 build_dir=$2
cmake=${CMAKE:-cmake}
if ! command -v musl-gcc >/dev/null; then
    echo "musl_test: skipped, there is no musl-gcc (package musl-tools)"
    exit 77
fi
mkdir -p "$build_dir"
log=$build_dir/log
run() {
    "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        echo "musl_test: failed: $*" >&2
        exit 1
    }
}
unset MAKEFLAGS MAKELEVEL MFLAGS
run "$cmake" -S "$source_dir" -B "$build_dir" -DCMAKE_TOOLCHAIN_FILE="$source_dir/cmake/toolchains/musl.cmake" -DCMAKE_BUILD_TYPE=Release \
    -DTSLAB_WERROR=ON -DTSLAB_BUILD_TESTS=OFF -DTSLAB_BUILD_BENCHMARKS=OFF -DTSLAB_BUILD_TOOLS=OFF \
    -DTSLAB_BUILD_HTTP=OFF -DTSLAB_BUILD_ZONES=OFF
run "$cmake" --build "$build_dir" --target tslab_malloc_static -j "$(nproc)"
archives="$build_dir/src/malloc/libtslab-malloc.a $build_dir/libtslab.a"
# musl-gcc knows no -static-pie: its start-up code and its archive are named here.
libc=$(musl-gcc -### "$build_dir/program.o" 2>&1 | sed -n 's/.*[" ]\([^" ]*\)\/Scrt1\.o.*/\1/p')
link() {
    case $1 in
        # shellcheck disable=SC2086 # two words
        -static) musl-gcc -static -o "$2" "$build_dir/program.o" -Wl,-u,malloc $archives ;;
        # shellcheck disable=SC2086
        -static-pie) gcc -nostdlib -static-pie -o "$2" "$libc/rcrt1.o" "$libc/crti.o" "$build_dir/program.o" -Wl,-u,malloc \
            $archives -Wl,--start-group "$libc/libc.a" -lgcc -lgcc_eh -Wl,--end-group "$libc/crtn.o" ;;
    esac
}
count=0
for mode in -static -static-pie; do
    for test in first_test.c ../life_test.c ../last_thread_test.c; do
        program=$build_dir/program$mode
        run musl-gcc -std=gnu11 -O2 -g -Wall -Wextra -Werror -fno-builtin -fPIE -I "$source_dir/include" \
            -c -o "$build_dir/program.o" "$(dirname "$0")/$test"
        run link "$mode" "$program"
        readelf -lW "$program" | grep -q INTERP && { echo "musl_test: $mode $test asks for a loader" >&2; exit 1; }
        for environment in A=B TSLAB_ON_MISUSE=abort TSLAB_HARDEN=1; do
            [ "$environment$test" != TSLAB_HARDEN=1first_test.c ] || continue # it asks the core of its objects
            run env "$environment" "$program" 400
            count=$((count + 1))
        done
    done
    if musl-gcc -x c++ -fsyntax-only /dev/null 2>/dev/null; then
        run musl-gcc -x c++ -std=c++17 -nostdinc++ -fno-exceptions -fno-rtti -O2 -g -Wall -Wextra -Werror -fno-builtin -fPIE \
            -I "$source_dir/include" -c -o "$build_dir/program.o" "$(dirname "$0")/musl_operators.cpp"
        run link "$mode" "$program"
        for environment in A=B TSLAB_ON_MISUSE=abort; do
            run env "$environment" "$program"
            grep -qx '20 operators' "$log" || { echo "musl_test: musl_operators ended early" >&2; exit 1; }
            count=$((count + 1))
        done
    else
        echo "musl_test: musl_operators.cpp left out, there is no C++ compiler for musl-gcc (package g++)"
    fi
done
echo "musl_test: $count runs"
