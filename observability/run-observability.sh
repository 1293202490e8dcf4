#!/bin/sh
# Starts a program with the page of libtslab-http and a Prometheus that scrapes it, and stops both at its end or at Ctrl-C.
#   observability/run-observability.sh [--port=9464] [--prometheus-port=9090] COMMAND [ARGUMENT]...
# LIBTSLAB_HTTP: where libtslab-http.so is, if the loader does not find it. The data of Prometheus go with it.
set -eu

usage() {
    echo "usage: run-observability.sh [--port=9464] [--prometheus-port=9090] COMMAND [ARGUMENT]..." >&2
    exit 2
}
port=9464
prometheus_port=9090
while [ $# -gt 0 ]; do
    case $1 in
        --port=*) port=${1#*=} ;;
        --prometheus-port=*) prometheus_port=${1#*=} ;;
        --help) usage ;;
        --*)
            echo "run-observability.sh: unknown option '$1'" >&2
            usage
            ;;
        *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || usage
for number in "$port" "$prometheus_port"; do
    case $number in
        '' | *[!0-9]*)
            echo "run-observability.sh: '$number' is not a port" >&2
            exit 2
            ;;
    esac
done
command -v prometheus >/dev/null 2>&1 || {
    echo "run-observability.sh: prometheus is not installed (tools/setup.sh observability); the page needs none:" >&2
    echo "    LD_PRELOAD=${LIBTSLAB_HTTP:-libtslab-http.so} TSLAB_HTTP=$port $*" >&2
    exit 3
}

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
program=""
prometheus=""
finish() {
    trap - EXIT INT TERM
    for pid in $prometheus $program; do kill "$pid" 2>/dev/null || true; done
    for pid in $prometheus $program; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT
trap 'finish; exit 130' INT
trap 'finish; exit 143' TERM

sed "s/127\.0\.0\.1:9464/127.0.0.1:$port/" "$here/prometheus.yml" >"$work/prometheus.yml"
cp "$here/rules.yml" "$work/"
LD_PRELOAD=${LIBTSLAB_HTTP:-libtslab-http.so}${LD_PRELOAD:+:$LD_PRELOAD} TSLAB_HTTP=127.0.0.1:$port "$@" &
program=$!
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" \
    --web.listen-address="127.0.0.1:$prometheus_port" --log.level=warn >"$work/prometheus.log" 2>&1 &
prometheus=$!
sleep 1
kill -0 "$prometheus" 2>/dev/null || {
    cat "$work/prometheus.log" >&2
    echo "run-observability.sh: prometheus did not start" >&2
    exit 1
}
echo "the page: http://127.0.0.1:$port/   Prometheus: http://127.0.0.1:$prometheus_port/alerts" >&2
code=0
wait "$program" || code=$?
program=""
exit "$code"
