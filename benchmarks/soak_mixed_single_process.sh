#!/bin/sh
# The mixed load for minutes, one process per allocator; see suite/soak_mixed.py --help and README.md.
set -eu
here=$(dirname -- "$0")
exec python3 -B "$here/suite/soak_mixed.py" "$@"
