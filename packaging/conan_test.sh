#!/usr/bin/env bash
# Conan builds the package and its test program without a network, as a static and as a shared library. Where it is not
# installed it is fetched from PyPI for this; exit code 77: it cannot be had.
# Argument: SOURCE_DIR.
set -euo pipefail
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run() { "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; echo "conan_test: failed: $*" >&2; exit 1; }; }
alone() { if unshare -n true 2>/dev/null; then run unshare -n "$@"; else run "$@"; fi; }

# What the tools leave in the tree would stop `make dist`.
if git rev-parse --git-dir >/dev/null 2>&1; then
    for left in packaging/conan/test_package/build/x bindings/python/dist/x bindings/python/build/x bindings/rust/target/x; do
        git check-ignore -q "$left" || { echo "conan_test: git does not ignore $left" >&2; exit 1; }
    done
fi
if ! command -v conan >/dev/null; then
    { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet conan; } >"$work/log" 2>&1 ||
        { echo "left out: conan, which is neither installed nor to be had from PyPI" >&2; exit 77; }
    PATH=$work/venv/bin:$PATH
fi
export CONAN_HOME=$work/conan
run conan profile detect
for shared in False True; do
    alone conan create packaging/conan -o "tslab/*:shared=$shared" -s build_type=Debug \
        -c "tools.cmake.cmake_layout:test_folder=$work/test"
done
echo "conan_test: good"
