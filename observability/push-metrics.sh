#!/bin/sh
# Pushes the metrics of a running program to a Prometheus pushgateway, for programs that end before they are scraped.
#   observability/push-metrics.sh GATEWAY [JOB] [PID|URL]      GATEWAY: such as http://127.0.0.1:9091
# STATS_DUMP: the tool, if it is not in PATH.
set -eu

if [ $# -lt 1 ] || [ $# -gt 3 ] || [ "$1" = --help ]; then
    echo "usage: push-metrics.sh GATEWAY [JOB] [PID|URL]" >&2
    exit 2
fi
gateway=${1%/}
job=${2:-temporal-slab}
case $gateway in
    http://*) ;;
    *)
        echo "push-metrics.sh: '$gateway' is no URL such as http://127.0.0.1:9091" >&2
        exit 2
        ;;
esac
case $job in
    *[!A-Za-z0-9_.-]*)
        echo "push-metrics.sh: '$job': a job has letters, digits, '_', '.' and '-'" >&2
        exit 2
        ;;
esac
command -v curl >/dev/null 2>&1 || {
    echo "push-metrics.sh: curl is not installed (tools/setup.sh observability)" >&2
    exit 3
}
metrics=$(mktemp)
trap 'rm -f "$metrics"' EXIT
"${STATS_DUMP:-stats_dump}" --prometheus ${3:+"$3"} >"$metrics"
curl --silent --show-error --fail --max-time 10 --data-binary "@$metrics" "$gateway/metrics/job/$job"
