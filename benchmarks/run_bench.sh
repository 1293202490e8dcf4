#!/bin/sh
# Runs the core benchmark; see core/run_bench.py --help and README.md.
set -eu
here=$(dirname -- "$0")
exec python3 -B "$here/core/run_bench.py" "$@"
