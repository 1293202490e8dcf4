#!/bin/sh
# The five request patterns of synthetic_bench one after the other, each with the page of libtslab-http.
#   observability/patterns.sh [PORT [SECONDS]]        127.0.0.1:PORT (9464); SECONDS for each pattern (60)
# SYNTHETIC_BENCH, LIBTSLAB_HTTP: where these are, if not in build/release.
set -eu
port=${1:-9464}
seconds=${2:-60}
release=$(cd "$(dirname "$0")/.." && pwd)/build/release
bench=${SYNTHETIC_BENCH:-$release/benchmarks/synthetic_bench}
library=${LIBTSLAB_HTTP:-$release/src/http/libtslab-http.so}
if [ ! -x "$bench" ] || [ ! -f "$library" ]; then
    echo "patterns.sh: $bench or $library is not built: make setup-observability, then make run" >&2
    exit 3
fi

running=""
finish() {
    trap - INT TERM
    [ -z "$running" ] || kill "$running" 2>/dev/null || true
    [ -z "$running" ] || wait "$running" 2>/dev/null || true
    exit "$1"
}
trap 'finish 130' INT
trap 'finish 143' TERM
for pattern in burst steady leak hotspot kernel; do
    echo "pattern $pattern for $seconds s: http://127.0.0.1:$port/"
    LD_PRELOAD=$library TSLAB_HTTP=127.0.0.1:$port "$bench" "--pattern=$pattern" "--duration_s=$seconds" >/dev/null &
    running=$!
    wait "$running"
done
