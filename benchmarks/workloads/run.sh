#!/bin/sh
# The table of malloc against temporal-slab: benchmarks/workloads/run.sh [--quick] [PATH]... ; --help says the rest.
here=$(dirname "$0")
if ! command -v python3 >/dev/null 2>&1; then
    echo "benchmarks/workloads/run.sh: python3 is missing (tools/setup.sh run installs it)" >&2
    exit 1
fi
exec python3 -B "$here/table.py" "$@"
