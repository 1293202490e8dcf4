#!/bin/sh
# Pushes the metrics of a running program to a Prometheus pushgateway, for programs that end before they are scraped.
#   observability/push-metrics.sh [--every=SECONDS] [--instance=NAME] GATEWAY [JOB] [PID|URL]
# GATEWAY: such as http://127.0.0.1:9091. With --every it pushes until the program ends. What is pushed replaces what was
# pushed with the same job and instance before: programs that push at the same time need one of their own each.
# STATS_DUMP: the tool, if it is not in PATH.
set -eu

usage() {
    echo "usage: push-metrics.sh [--every=SECONDS] [--instance=NAME] GATEWAY [JOB] [PID|URL]" >&2
    exit "${1:-2}"
}
wrong() {
    echo "push-metrics.sh: $*" >&2
    exit 2
}
every="" instance=""
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
        --help) usage 0 ;;
        -*) wrong "unknown option '$1'" ;;
        *) break ;;
    esac
    shift
done
[ $# -ge 1 ] && [ $# -le 3 ] || usage
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
trap 'rm -f "$metrics"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

push() {
    curl --silent --show-error --fail --max-time 10 --data-binary "@$metrics" \
        "$gateway/metrics/job/$job${instance:+/instance/$instance}"
}
"$stats_dump" --prometheus ${3:+"$3"} >"$metrics"
push
[ -n "$every" ] || exit 0
# The end of the program is the end of this, and no error.
while sleep "$every" && "$stats_dump" --prometheus ${3:+"$3"} >"$metrics" 2>/dev/null; do
    push || true # a gateway that is away for a moment
done
