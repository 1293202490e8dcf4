#!/bin/sh
# Starts a program with the page of libtslab-http, a Prometheus that scrapes it and, where it is installed, a Grafana with
# the dashboard, and stops all of them at the program's end or at Ctrl-C.
#   observability/run-observability.sh [OPTION]... [COMMAND [ARGUMENT]...]
# Without a command it is a demonstration: the five request patterns, a minute each (patterns.sh), then it stops.
#   --port=9464 --prometheus-port=9090 --grafana-port=3000     all of them on 127.0.0.1
#   --gateway-port=9091      of a pushgateway that the Prometheus scrapes, too (push-metrics.sh)
#   --pattern-seconds=60     of each pattern of the demonstration
# LIBTSLAB_HTTP: where libtslab-http.so is, if it is neither in build/release nor where the loader looks. GRAFANA_HOME: the
# folder of Grafana with conf/defaults.ini, if it is not beside the program or in /usr/share/grafana. All data go with the
# processes.
set -eu

usage() {
    echo "usage: run-observability.sh [--port=9464] [--prometheus-port=9090] [--grafana-port=3000] [--gateway-port=9091]" >&2
    echo "           [--pattern-seconds=60] [COMMAND [ARGUMENT]...]      no command: the five request patterns" >&2
    exit "${1:-2}"
}
port=9464
prometheus_port=9090
grafana_port=3000
gateway_port=9091
pattern_seconds=60
while [ $# -gt 0 ]; do
    case $1 in
        --port=*) port=${1#*=} ;;
        --prometheus-port=*) prometheus_port=${1#*=} ;;
        --grafana-port=*) grafana_port=${1#*=} ;;
        --gateway-port=*) gateway_port=${1#*=} ;;
        --pattern-seconds=*) pattern_seconds=${1#*=} ;;
        --help) usage 0 ;;
        --*)
            echo "run-observability.sh: unknown option '$1'" >&2
            usage
            ;;
        *) break ;;
    esac
    shift
done
for number in "$port" "$prometheus_port" "$grafana_port" "$gateway_port"; do
    case $number in
        '' | *[!0-9]*)
            echo "run-observability.sh: '$number' is not a port" >&2
            exit 2
            ;;
    esac
done
case $pattern_seconds in
    '' | 0 | *[!0-9]*)
        echo "run-observability.sh: '$pattern_seconds': a number of seconds from 1" >&2
        exit 2
        ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
library=libtslab-http.so
[ ! -f "$here/../build/release/src/http/$library" ] || library=$(cd "$here/../build/release/src/http" && pwd)/$library
library=${LIBTSLAB_HTTP:-$library}
command -v prometheus >/dev/null 2>&1 || {
    echo "run-observability.sh: prometheus is not installed (tools/setup.sh observability); the page needs none:" >&2
    echo "    LD_PRELOAD=$library TSLAB_HTTP=$port ${*:-$here/../benchmarks/workloads/synthetic_bench --duration_s=60}" >&2
    exit 3
}

work=$(mktemp -d)
program=""
prometheus=""
grafana=""
finish() {
    trap - EXIT INT TERM
    for pid in $grafana $prometheus $program; do kill "$pid" 2>/dev/null || true; done
    for pid in $grafana $prometheus $program; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT
trap 'finish; exit 130' INT
trap 'finish; exit 143' TERM

sed "s/127\.0\.0\.1:9464/127.0.0.1:$port/; s/127\.0\.0\.1:9091/127.0.0.1:$gateway_port/" "$here/prometheus.yml" >"$work/prometheus.yml"
cp "$here/rules.yml" "$work/"

# Grafana with a data source and a dashboard, readable without an account on this machine only.
start_grafana() {
    mkdir -p "$work/grafana/dashboards" "$work/grafana/data" "$work/grafana/logs" "$work/grafana/data/plugins"
    cp -r "$here/grafana/provisioning" "$work/grafana/"
    mkdir "$work/grafana/provisioning/plugins" "$work/grafana/provisioning/alerting"
    cp "$here/grafana/temporal-slab.json" "$work/grafana/dashboards/"
    sed "s|http://127\.0\.0\.1:9090|http://127.0.0.1:$prometheus_port|" \
        "$here/grafana/provisioning/datasources/temporal-slab.yml" \
        >"$work/grafana/provisioning/datasources/temporal-slab.yml"
    sed "s|/var/lib/grafana/dashboards/temporal-slab|$work/grafana/dashboards|" \
        "$here/grafana/provisioning/dashboards/temporal-slab.yml" \
        >"$work/grafana/provisioning/dashboards/temporal-slab.yml"
    beside=$(dirname "$(dirname "$(readlink -f "$(command -v "$1")")")")
    for home in "${GRAFANA_HOME:-}" "$beside" /usr/share/grafana /usr/local/share/grafana; do
        [ -n "$home" ] && [ -f "$home/conf/defaults.ini" ] && set -- "$@" "--homepath=$home" && break
    done
    GF_PATHS_PROVISIONING=$work/grafana/provisioning GF_PATHS_DATA=$work/grafana/data GF_PATHS_LOGS=$work/grafana/logs \
        GF_PATHS_PLUGINS=$work/grafana/data/plugins GF_SERVER_HTTP_ADDR=127.0.0.1 GF_SERVER_HTTP_PORT=$grafana_port \
        GF_AUTH_ANONYMOUS_ENABLED=true GF_AUTH_ANONYMOUS_ORG_ROLE=Viewer GF_ANALYTICS_REPORTING_ENABLED=false \
        GF_ANALYTICS_CHECK_FOR_UPDATES=false GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES=false \
        GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH=$work/grafana/dashboards/temporal-slab.json \
        "$@" >"$work/grafana.log" 2>&1 &
    grafana=$!
}

# It has the input of this script, which a shell does not give to what it starts in the background.
exec 3<&0
if [ $# -gt 0 ]; then
    LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD} TSLAB_HTTP=127.0.0.1:$port "$@" <&3 3<&- &
else
    "$here/patterns.sh" "$port" "$pattern_seconds" 3<&- &
fi
program=$!
exec 3<&-
prometheus --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" \
    --web.listen-address="127.0.0.1:$prometheus_port" --log.level=warn >"$work/prometheus.log" 2>&1 &
prometheus=$!
if command -v grafana >/dev/null 2>&1; then
    start_grafana grafana server
elif command -v grafana-server >/dev/null 2>&1; then
    start_grafana grafana-server
fi
sleep 1
kill -0 "$prometheus" 2>/dev/null || {
    cat "$work/prometheus.log" >&2
    echo "run-observability.sh: prometheus did not start" >&2
    exit 1
}
echo "the page: http://127.0.0.1:$port/   Prometheus: http://127.0.0.1:$prometheus_port/alerts" >&2
if [ -z "$grafana" ]; then
    echo "Grafana is not installed; the page shows the same without it" >&2
elif kill -0 "$grafana" 2>/dev/null; then
    echo "Grafana: http://127.0.0.1:$grafana_port/d/temporal-slab" >&2
else
    wait "$grafana" || true
    grafana=""
    cat "$work/grafana.log" >&2
    echo "run-observability.sh: Grafana did not start; the page shows the same without it" >&2
fi
code=0
wait "$program" || code=$?
program=""
exit "$code"
