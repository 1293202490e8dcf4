#!/usr/bin/env bash
# libtslab-apr: APR's own test suite, Apache httpd and Subversion, with the library preloaded and without it.
# Exit code 77: something that it needs cannot be had.
# usage: test.sh [suite|programs]     default: both
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1-}" in "" | suite | programs) ;; *) echo "test.sh: unknown argument '$1': suite or programs" >&2; exit 2 ;; esac
tools/setup.sh apr
tools/build.sh release -DTSLAB_BUILD_TESTS=ON -- tslab_apr tslab_tool integrations.apr_pools_test
library=$PWD/build/release/integrations/apr/libtslab-apr.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

suite() {
    integrations/fetch_source.sh apr "$work/apr" || return $?
    mkdir "$work/build"
    (cd "$work/build" && "$work/apr/source/configure" --quiet && make -s && make -s -C test all) >"$work/log" 2>&1 ||
        { tail -n 20 "$work/log"; return 1; }
    cd "$work/build/test"
    # Linked again, to the shared library: what is preloaded stands in for nothing in a static one.
    tests=$(printf 'include Makefile\nshow:\n\t@echo $(TESTS:.lo=.o)\n' | make -s -f - show)
    # shellcheck disable=SC2086 # names are words
    gcc -o testall abts.o testutil.o $tests ../.libs/libapr-1.so -lpthread -Wl,-rpath,"$work/build/.libs"
    LD_PRELOAD=$library TSLAB_ON_MISUSE=abort ./testall -q >"$work/out" 2>&1 || true
    grep -q SUCCESS "$work/out" || { tail -n 20 "$work/out"; return 1; }
    # A suite that does not say SUCCESS is run without the library, too: there are some that not every machine passes.
    local failed=0 name
    for name in $(./testall -l | tr -s ' \t' '\n'); do
        if grep -q "^$name .*SUCCESS" "$work/out"; then
            echo "$name: ok"
            continue
        fi
        if ./testall -q "$name" >"$work/plain" 2>&1; then
            echo "$name: fails with the library only"
            failed=1
        else
            echo "$name: fails without the library, too"
        fi
    done
    return $failed
}

programs() {
    TSLAB_LOG=$work/messages LD_PRELOAD=$library build/release/integrations/apr/integrations.apr_pools_test || return 1
    python3 -B integrations/apr/test.py "$library" "$PWD/build/release"
}

code=0
for part in ${1:-programs suite}; do
    ($part) || { one=$?; [ $one -eq 77 ] && [ $code -ne 1 ] && code=77 || code=1; }
done
exit $code
