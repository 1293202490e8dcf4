#!/bin/sh
# Runs the whole suite; see run_all.py --help and README.md.
set -eu
here=$(dirname -- "$0")
exec python3 -B "$here/run_all.py" "$@"
