#!/usr/bin/env bash
# libtslab-talloc: talloc's own test suite, Samba's local ones, and notmuch, with the library preloaded and without it.
# Exit code 77: something that it needs cannot be had.
# usage: test.sh [suite|programs]     default: both
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1-}" in "" | suite | programs) ;; *) echo "test.sh: unknown argument '$1': suite or programs" >&2; exit 2 ;; esac
tools/setup.sh talloc
tools/build.sh release -DTSLAB_BUILD_TESTS=ON -- tslab_talloc tslab_tool integrations.talloc_promises_test integrations.talloc_homes_test
library=$PWD/build/release/integrations/talloc/libtslab-talloc.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What differs from run to run, and cur_size: the library counts what leaves a limited context, talloc does not.
plainly() { sed -e 's/0x[0-9a-f]*/POINTER/g; s/cur_size = [0-9]*/cur_size/; s/first free may be at .*/first free/' -e '/^time:\|ops\/sec\|thread:\|seed/d'; }

# Samba's smbtorture has talloc's suite, lib/talloc/testsuite.c, and is linked to the shared library.
suite() {
    tools/setup.sh talloc-suite || return 77
    cd "$work"
    smbtorture ncalrpc:here local.talloc >plain 2>&1 || { tail -n 20 plain; echo "talloc's own tests fail without the library, too"; return 77; }
    TSLAB_ON_MISUSE=abort LD_PRELOAD=$library smbtorture ncalrpc:here local.talloc >ours 2>&1 || { tail -n 20 ours; return 1; }
    grep -q '^success: talloc$' ours || { tail -n 20 ours; return 1; }
    diff <(plainly <plain | sort) <(plainly <ours | sort) || return 1
    echo "talloc's own suite: $(grep -c '^success' ours) times success"
    samba || return 1
}

# What Samba's own suites say that need no server. Left out: those that take a minute, wait for others, or look at time.
samba() {
    smbtorture --list 2>/dev/null | sed -n 's/^\(\(local\|ndr\)\.[^.]*\).*/\1/p' | sort -u |
        grep -v '\.\(talloc\|replace\|messaging\|nss\|irpc\|verif_trailer\|dbspeed\)$' >names
    for preload in "" "$library"; do
        while read -r name; do
            echo "$name"
            LD_PRELOAD=$preload timeout 60 smbtorture ncalrpc:here "$name" </dev/null 2>/dev/null | grep -E '^(success|failure|error|skip)' || true
        done <names >"said.${preload:+ours}"
    done
    diff said. said.ours || return 1
    echo "Samba: $(wc -l <names) suites say the same: $(grep -c '^success' said.) times success"
}

programs() {
    for test in promises homes; do
        TSLAB_LOG=$work/messages LD_PRELOAD=$library build/release/integrations/talloc/integrations.talloc_${test}_test || return 1
    done
    python3 -B integrations/talloc/test.py "$library" "$PWD/build/release"
}

code=0
for part in ${1:-programs suite}; do
    ($part) || { one=$?; [ $one -eq 77 ] && [ $code -ne 1 ] && code=77 || code=1; }
done
exit $code
