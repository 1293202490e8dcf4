#!/usr/bin/env bash
# tslab::protobuf_arena with the protobuf of the system.
# usage: test.sh [--bench [ROUNDS]]     --bench: the figures of README.md instead
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1-}" in "" | --bench) ;; *) echo "test.sh: unknown argument '$1': --bench, or none" >&2; exit 2 ;; esac
tools/setup.sh protobuf
if [ "${1-}" = --bench ]; then
    tools/build.sh release -DTSLAB_BUILD_TESTS=ON -- protobuf_bench
    build/release/tests/adapt/protobuf_bench ${2+"$2"}
else
    tools/build.sh release -DTSLAB_BUILD_TESTS=ON -- adapt.protobuf
    ctest --test-dir build/release --output-on-failure --no-tests=error -R '^adapt\.protobuf$'
fi
