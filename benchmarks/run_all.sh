#!/bin/sh
# Runs the whole suite; see suite/run_all.py --help and README.md.
set -eu
here=$(dirname -- "$0")
exec python3 -B "$here/suite/run_all.py" "$@"
