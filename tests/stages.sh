#!/usr/bin/env bash
# The stages of `make test` and of what `make test-all` has beside it, each with its time. The first that fails ends it.
# The last line is "N passed, N failed": the tests of ctest, and every stage that is no run of ctest as one.
# usage: tests/stages.sh test|rest|packages      JOBS: so many at once
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
if [[ $PWD == *[\ :]* ]]; then
    echo "make test: $PWD: libraries at a path with a space or a colon cannot be preloaded; move the tree" >&2
    exit 2
fi

what=${1-}
jobs=${JOBS:-$(nproc)}
passed=0
failed=0
skipped=""
mkdir -p build
rm -f "build/$what.counts"

finish() {
    trap - INT TERM
    [ "$1" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
    [ -z "$skipped" ] || echo "skipped:$skipped"
    echo "make $what: $SECONDS s"
    echo "$passed passed, $failed failed" | tee "build/$what.counts"
    exit "$1"
}
trap 'echo "interrupted"; finish 130' INT TERM

# count ctest logs: as "passed failed", and the names of the skipped ones.
count() {
    awk '/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: .* Passed +[0-9.]+ sec/ { passed++ }
         /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: .*\*\*\*Skipped/ { sub(/.*#[0-9]+: /, ""); names = names " " $1; next }
         /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: .*\*\*\*/ { failed++ }
         END { print passed + 0, failed + 0, names }' build/*/ctest.log /dev/null 2>/dev/null
}

# stage NAME COMMAND...: runs it; counts its tests, or itself if it has none. Exit code 77: it has said what is missing.
stage() {
    local name=$1 code=0 started=$SECONDS names
    shift
    echo "== $name"
    rm -f build/*/ctest.log
    "$@" </dev/null || code=$?
    if [ "$code" -eq 77 ]; then
        skipped="$skipped ${name// /_}"
        echo "== $name: left out"
        return
    fi
    read -r stage_passed stage_failed names < <(count)
    if [ "$((stage_passed + stage_failed))" -eq 0 ]; then
        [ "$code" -eq 0 ] && stage_passed=1 || stage_failed=1
    fi
    passed=$((passed + stage_passed))
    failed=$((failed + stage_failed))
    for one in $names; do
        case " $skipped " in *" $one "*) ;; *) skipped="$skipped $one" ;; esac
    done
    if [ "$code" -ne 0 ]; then
        echo "== $name: FAILED with exit code $code after $((SECONDS - started)) s, $SECONDS s in all"
        finish 1
    fi
    echo "== $name: ok in $((SECONDS - started)) s, $SECONDS s in all"
}

# Both at once: the second is configured while the first compiles.
build_for_test() {
    local log=build/tsan.build.log code=0
    JOBS=$jobs tools/build.sh tsan -- tests.stress >$log 2>&1 &
    local tsan=$!
    JOBS=$jobs tools/build.sh release -DTSLAB_BUILD_TESTS=ON >build/release.build.log 2>&1 || { code=1 && cat build/release.build.log; }
    wait $tsan || { code=1 && cat $log; }
    return $code
}

# run_ctest FOLDER JOBS OPTIONS...
run_ctest() {
    local folder=$1 at_once=$2
    shift 2
    ctest --test-dir "build/$folder" --output-log "build/$folder/ctest.log" --output-on-failure --no-tests=error -j "$at_once" "$@"
}

# The sanitizers of gcc 12 place their shadow at fixed addresses; randomization with many bits gets in the way.
fixed() {
    if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi
}

install_staged() {
    local root code
    root=$(mktemp -d)
    make -s install PREFIX=/usr DESTDIR="$root" >/dev/null && test -f "$root/usr/include/tslab/tslab.h"
    code=$?
    rm -rf "$root"
    return $code
}

# In a machine of its own: the tests that are built already, for three minutes at most.
vm_short() {
    tests/vm/vm_test.py --build build/release --short --seconds 170 --test-seconds 100
}

# "-- x is not installed" and the tests that wait for make test-all.
left_out() {
    sed -n 's/^-- \(.*\(not installed\|left out\|missing from\|not built\|not tested\).*\)/   \1/p' build/release.configure.log
    # shellcheck disable=SC2046 # on one line
    echo "   left to make test-all:" $(ctest --test-dir build/release -N -L '^long$' | sed -n 's/^ *Test *#[0-9]*: //p')
}

case $what in
    test)
        stage "packages" tools/setup.sh test
        stage "build" build_for_test
        left_out
        # Many tests wait most of the time.
        stage "tests" run_ctest release $((jobs * 2)) -LE '^long$'
        stage "stress tests under ThreadSanitizer" fixed ctest --test-dir build/tsan --output-log build/tsan/ctest.log \
            --output-on-failure --no-tests=error -j "$jobs" -L '^stress$'
        ;;
    rest)
        export TEST_LONG=1
        stage "make test-long" make test-long
        stage "make test-asan" make test-asan
        stage "make test-tsan" make test-tsan
        stage "make test-clang" make test-clang
        stage "make install" install_staged
        stage "make run-smoke" make run-smoke
        stage "make bench-smoke" make bench-smoke
        if command -v qemu-system-x86_64 >/dev/null; then
            stage "make vm-test, short" vm_short
        else
            echo "== make vm-test, short: left out, there is no QEMU"
        fi
        stage "Rust" bindings/rust/test.sh
        stage "Python" bindings/python/test.sh
        stage "programs on APR" integrations/apr/test.sh programs
        stage "Arrow" integrations/arrow/test.sh
        stage "nginx" integrations/nginx/test.sh
        stage "NumPy's own tests, short" integrations/numpy/test.sh short
        stage "protobuf" integrations/protobuf/test.sh
        stage "programs on talloc" integrations/talloc/test.sh programs
        # Other versions of it lay out some lines otherwise.
        if "$(command -v clang-format-14 || echo clang-format)" --version 2>/dev/null | grep -q "version 14\."; then
            stage "make format-check" make -s format-check
        else
            echo "== make format-check: left out, there is no clang-format 14"
        fi
        ;;
    packages)
        stage "APR's own tests" integrations/apr/test.sh suite
        stage "talloc's own tests" integrations/talloc/test.sh suite
        stage "Debian packages" packaging/deb_test.sh
        ;;
    *)
        echo "usage: tests/stages.sh test|rest|packages" >&2
        exit 2
        ;;
esac
finish 0
