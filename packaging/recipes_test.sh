#!/usr/bin/env bash
# The recipes of other package systems, by the tools that are there: Conan builds the package and its test program without
# a network, rpmlint and nix-instantiate read theirs, the vcpkg port is JSON and its options are CMakeLists.txt's. A tool
# that is not there is named and left out.
# Argument: SOURCE_DIR.
set -euo pipefail
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run() { "$@" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; echo "recipes_test: failed: $*" >&2; exit 1; }; }
has() { command -v "$1" >/dev/null || { echo "left out: $1"; return 1; }; }
alone() { if unshare -n true 2>/dev/null; then run unshare -n "$@"; else run "$@"; fi; }

python3 - <<'END'
import json, re
port = json.load(open("packaging/vcpkg/vcpkg.json"))
options = set(re.findall(r"-D(TSLAB_\w+)", open("packaging/vcpkg/portfile.cmake").read()))
assert port["name"] == "tslab" and options, port
unknown = {o for o in options if "option(%s " % o not in open("CMakeLists.txt").read()}
assert not unknown, "packaging/vcpkg/portfile.cmake: CMakeLists.txt has no %s" % unknown
END
# What the tools leave in the tree would stop `make dist`.
if git rev-parse --git-dir >/dev/null 2>&1; then
    for left in packaging/conan/test_package/build/x result bindings/python/dist/x bindings/python/build/x bindings/rust/target/x; do
        git check-ignore -q "$left" || { echo "recipes_test: git does not ignore $left" >&2; exit 1; }
    done
fi
if has rpmlint; then run rpmlint packaging/tslab.spec; fi
if has nix-instantiate; then run nix-instantiate --parse packaging/default.nix; fi
if has conan; then
    export CONAN_HOME=$work/conan
    run conan profile detect
    for shared in False True; do
        alone conan create packaging/conan -o "tslab/*:shared=$shared" -s build_type=Debug \
            -c "tools.cmake.cmake_layout:test_folder=$work/test"
    done
fi
echo "recipes_test: good"
