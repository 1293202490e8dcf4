#!/usr/bin/env bash
# tslab::arrow_pool with the Arrow that PyPI's pyarrow has in it: headers and library. Exit code 77: something that it needs cannot be had.
# usage: test.sh [--bench [ROUNDS]]     --bench: the figures of README.md instead
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1-}" in "" | --bench) ;; *) echo "test.sh: unknown argument '$1': --bench, or none" >&2; exit 2 ;; esac
command -v g++ >/dev/null || { echo "arrow: left out: there is no g++"; exit 77; }
integrations/python_env.sh arrow pyarrow || exit $?
tools/build.sh release -- tslab
arrow=$(build/arrow-env/bin/python -c 'import pyarrow; print(pyarrow.get_library_dirs()[0])')
library=$(basename "$(find "$arrow" -name 'libarrow.so.*' | sort | head -n 1)")
program=test
[ "${1-}" != --bench ] || program=bench
g++ -std=c++20 -O2 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -Iinclude -Itests/cxx -Iintegrations -isystem "$arrow/include" \
    "integrations/arrow/arrow_$program.cpp" -o "build/arrow_$program" -Lbuild/release -ltslab -L"$arrow" "-l:$library" \
    -Wl,-rpath,"$PWD/build/release" -Wl,-rpath,"$arrow" -pthread
if [ $program = bench ]; then
    build/arrow_bench ${2+"$2"}
else
    TSLAB_LOG=/dev/null build/arrow_test
fi
