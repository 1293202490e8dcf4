#!/bin/sh
# Pushes the metrics of a running program to a Prometheus pushgateway, for programs that end before they are scraped.
#   observability/push-metrics.sh [--every=SECONDS] [--instance=NAME] GATEWAY [JOB] [PID|URL]
#   observability/push-metrics.sh [--port=9464] [--gateway-port=9091] [--pattern-seconds=60]
# The second form is a demonstration on 127.0.0.1: what is served at PORT goes to the pushgateway every two seconds. What is
# missing of the two it starts: a pushgateway, and the five request patterns (patterns.sh). It ends with what serves, or at
# Ctrl-C, takes what it pushed back, and stops what it started. The Prometheus of run-observability.sh scrapes that gateway.
# GATEWAY: such as http://127.0.0.1:9091. With --every it pushes until the program ends. What is pushed replaces what was
# pushed with the same job and instance before: programs that push at the same time need one of their own each.
# STATS_DUMP: the tool, if it is not in PATH.
set -eu

usage() {
    echo "usage: push-metrics.sh [--every=SECONDS] [--instance=NAME] GATEWAY [JOB] [PID|URL]" >&2
    echo "       push-metrics.sh [--port=9464] [--gateway-port=9091] [--pattern-seconds=60]      a demonstration" >&2
    exit "${1:-2}"
}
wrong() {
    echo "push-metrics.sh: $*" >&2
    exit 2
}
every="" instance="" port=9464 gateway_port=9091 pattern_seconds=60
number() {
    case $1 in
        '' | 0 | *[!0-9]*) wrong "'$2': a number from 1" ;;
    esac
}
while [ $# -gt 0 ]; do
    case $1 in
        --every=*)
            every=${1#*=}
            case $every in
                '' | 0 | *[!0-9]*) wrong "'$1': a number of seconds from 1" ;;
            esac
            ;;
        --instance=*)
            instance=${1#*=}
            case $instance in
                '' | *[!A-Za-z0-9_.:-]*) wrong "'$1': an instance has letters, digits, '_', '.', ':' and '-'" ;;
            esac
            ;;
        --port=*)
            port=${1#*=}
            number "$port" "$1"
            ;;
        --gateway-port=*)
            gateway_port=${1#*=}
            number "$gateway_port" "$1"
            ;;
        --pattern-seconds=*)
            pattern_seconds=${1#*=}
            number "$pattern_seconds" "$1"
            ;;
        --help) usage 0 ;;
        -*) wrong "unknown option '$1'" ;;
        *) break ;;
    esac
    shift
done
demonstration=""
if [ $# -eq 0 ]; then
    [ -z "$every$instance" ] || usage
    demonstration=1 every=2 instance=pushed
    set -- "http://127.0.0.1:$gateway_port" temporal-slab "http://127.0.0.1:$port"
fi
[ $# -le 3 ] || usage
gateway=${1%/}
job=${2:-temporal-slab}
case $gateway in
    http://?* | https://?*) ;;
    *) wrong "'$gateway' is no URL such as http://127.0.0.1:9091" ;;
esac
case $job in
    *[!A-Za-z0-9_.-]*) wrong "'$job': a job has letters, digits, '_', '.' and '-'" ;;
esac
command -v curl >/dev/null 2>&1 || {
    echo "push-metrics.sh: curl is not installed (tools/setup.sh observability)" >&2
    exit 3
}
# That of a build, where none is installed.
stats_dump=${STATS_DUMP:-stats_dump}
built=$(dirname "$0")/../build/release/tools/stats_dump
[ -n "${STATS_DUMP:-}" ] || command -v stats_dump >/dev/null 2>&1 || [ ! -x "$built" ] || stats_dump=$built
metrics=$(mktemp)
group=$gateway/metrics/job/$job${instance:+/instance/$instance}
patterns="" pushgateway=""
finish() {
    trap - EXIT INT TERM
    rm -f "$metrics"
    [ -z "$demonstration" ] || curl --silent --max-time 10 --request DELETE "$group" >/dev/null || true
    for pid in $patterns $pushgateway; do kill "$pid" 2>/dev/null || true; done
    for pid in $patterns $pushgateway; do wait "$pid" 2>/dev/null || true; done
}
trap finish EXIT
trap 'finish; exit 130' INT
trap 'finish; exit 143' TERM

push() {
    curl --silent --show-error --fail --max-time 10 --data-binary "@$metrics" "$group"
}
answers() {
    curl --silent --fail --max-time 2 --output /dev/null "$1"
}
# Until the address answers, for ten seconds and while that process runs.
wait_for() {
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        ! answers "$1" || return 0
        kill -0 "$2" 2>/dev/null || break
        sleep 1
    done
    echo "push-metrics.sh: $1 does not answer" >&2
    exit 1
}
start_gateway() {
    for name in prometheus-pushgateway pushgateway ''; do
        [ -z "$name" ] || ! command -v "$name" >/dev/null 2>&1 || break
    done
    [ -n "$name" ] || {
        echo "push-metrics.sh: no pushgateway at $gateway, and none is installed (tools/setup.sh observability)" >&2
        exit 3
    }
    "$name" --web.listen-address="127.0.0.1:$gateway_port" --log.level=error >/dev/null 2>&1 &
    pushgateway=$!
    wait_for "$gateway/-/ready" "$pushgateway"
}
if [ -n "$demonstration" ]; then
    answers "$gateway/-/ready" || start_gateway
    answers "$3/healthz" || {
        "$(dirname "$0")/patterns.sh" "$port" "$pattern_seconds" &
        patterns=$!
        wait_for "$3/healthz" "$patterns"
    }
    echo "the metrics of $3 go to $gateway every $every s" >&2
    misses=0 # one pattern ends, the next has not begun
    while [ "$misses" -lt 3 ]; do
        misses=$((misses + 1))
        [ -z "$patterns" ] || kill -0 "$patterns" 2>/dev/null || break
        if "$stats_dump" --prometheus "$3" >"$metrics" 2>/dev/null && push; then misses=0; fi
        sleep "$every"
    done
    exit 0
fi
"$stats_dump" --prometheus ${3:+"$3"} >"$metrics"
push
[ -n "$every" ] || exit 0
# The end of the program is the end of this, and no error.
while sleep "$every" && "$stats_dump" --prometheus ${3:+"$3"} >"$metrics" 2>/dev/null; do
    push || true # a gateway that is away for a moment
done
