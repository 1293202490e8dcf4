#!/usr/bin/env bash
# Builds library and tests for other machines, with Debian's cross compilers, and runs the tests there: under qemu-user,
# or natively where this machine can (musl, i386). Emulated tests have their short form, unless TEST_LONG=1: the long one
# takes three hours. A table at the end; exit code 1 if any test failed or any target could not be built or run, 2 for a
# wrong argument.
# usage: tests/cross/cross.sh [--jobs N] [TARGET...]      without a target: all
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

all=(musl i386 armhf aarch64 riscv64 s390x)
declare -A what=(
    [musl]="64 bit, little endian, musl"
    [i386]="32 bit, little endian"
    [armhf]="32 bit, little endian, weak order"
    [aarch64]="64 bit, little endian, weak order"
    [riscv64]="64 bit, little endian, weak order"
    [s390x]="64 bit, big endian"
)
jobs=$(nproc)
targets=()

bad_argument() {
    echo "tests/cross/cross.sh: $1; targets: ${all[*]}" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
        --jobs)
            [[ ${2-} =~ ^[1-9][0-9]*$ ]] || bad_argument "--jobs '${2-}' is no number"
            jobs=$2
            shift
            ;;
        *)
            [ -n "${1:+${what[$1]-}}" ] || bad_argument "unknown target '$1'"
            targets+=("$1")
            ;;
    esac
    shift
done
[ ${#targets[@]} -gt 0 ] || targets=("${all[@]}")

# logged FILE COMMAND...: its output goes to the file; the end of it is shown when the command fails.
logged() {
    local log=$1
    shift
    "$@" >"$log" 2>&1 && return 0
    tail -n 30 "$log" >&2
    return 1
}

build_cmocka() {
    local target=$1 prefix=$PWD/build/cross-$1-cmocka
    [ ! -f "$prefix/lib/libcmocka-static.a" ] || return 0
    logged "build/cross-$target-cmocka.log" cmake -S build/cmocka/source -B "build/cmocka/$target" -Wno-dev \
        -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/toolchains/$target.cmake" -DCMAKE_BUILD_TYPE=Release \
        -DWITH_STATIC_LIB=ON -DUNIT_TESTING=OFF -DWITH_EXAMPLES=OFF -DCMAKE_INSTALL_PREFIX="$prefix" \
        -DCMAKE_INSTALL_LIBDIR=lib &&
        logged "build/cross-$target-cmocka.log" cmake --build "build/cmocka/$target" -j "$jobs" &&
        logged "build/cross-$target-cmocka.log" cmake --install "build/cmocka/$target"
}

build() {
    logged "build/cross-$1.configure.log" cmake --preset "cross-$1" &&
        logged "build/cross-$1.build.log" cmake --build "build/cross-$1" -j "$jobs"
}

# A program that does nothing: whether this machine runs the target's programs at all.
can_run() {
    [ "$1" != i386 ] && return 0
    logged "build/cross-$1.run.log" ctest --test-dir "build/cross-$1" -R '^unit\.base\.bits$' --no-tests=error
}

run_tests() {
    local directory=build/cross-$1 labels='unit|property|misuse|process|stress|fuzz'
    [ "$1" != musl ] || labels+='|install' # natively, so what is installed can be used too
    local without=() long=1
    case $1 in
        # qemu-user aborts in the children of programs with threads: "cpu_exec: assertion failed: (cpu == current_cpu)".
        # process.last_thread starts the program itself, without the emulator.
        armhf | aarch64 | riscv64 | s390x) without=(-E '^process\.(fork|fork_in_fork|last_thread)$') long=${TEST_LONG-} ;;
    esac
    rm -f "$directory/ctest.log"
    TEST_LONG=$long ctest --test-dir "$directory" -L "^($labels)\$" "${without[@]}" --no-tests=error --output-on-failure \
        -j "$jobs" --output-log "$directory/ctest.log"
}

count() { grep -cE "^ *[0-9]+/[0-9]+ Test +#[0-9]+: .*$2" "$1" 2>/dev/null || true; }

mkdir -p build
tests/cross/cmocka.sh build/cmocka || exit 1
bad=0
rows=""
for target in "${targets[@]}"; do
    echo "== $target: ${what[$target]}"
    started=$SECONDS passed=0 failed=0 skipped=0 state=ok
    if ! { build_cmocka "$target" && build "$target"; }; then
        state="not built"
    elif ! can_run "$target"; then
        state="not run: this kernel takes none of its programs"
    else
        run_tests "$target" || state=failed
        passed=$(count "build/cross-$target/ctest.log" ' Passed ')
        skipped=$(count "build/cross-$target/ctest.log" '\*\*\*Skipped')
        failed=$(($(count "build/cross-$target/ctest.log" '\*\*\*') - skipped))
    fi
    [ "$state" = ok ] || bad=1
    rows+=$(printf '%-8s  %-34s %6d  %6d  %7d  %5d s  %s' "$target" "${what[$target]}" "$passed" "$failed" "$skipped" \
        $((SECONDS - started)) "$state")$'\n'
done
echo
printf '%-8s  %-34s %6s  %6s  %7s  %7s  %s\n' target "what it is" passed failed skipped time result
printf '%s' "$rows"
exit "$bad"
