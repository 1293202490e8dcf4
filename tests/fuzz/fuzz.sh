#!/bin/sh
# Runs the libFuzzer target for SECONDS, half of the time with AddressSanitizer told of every object, half without (the
# fast paths are only then in use); starts from the corpus that is kept, and leaves its findings in WORK. usage:
# tests/fuzz/fuzz.sh API_FUZZ SECONDS WORK [JOBS] A finding: exit 1, its bytes in WORK/crash-*; `api_fuzz
# WORK/crash-...` prints the calls. Last line: the operations.
set -eu
[ $# -ge 3 ] || {
    echo "usage: tests/fuzz/fuzz.sh API_FUZZ SECONDS WORK [JOBS]" >&2
    exit 2
}
program=$1 seconds=$2 work=$3 jobs=${4:-1}
case $seconds in
    '' | *[!0-9]* | 0)
        echo "fuzz.sh: \"$seconds\" is no number of seconds" >&2
        exit 2
        ;;
esac
kept=$(dirname "$0")/corpus
[ -d "$kept" ] || kept=""
mkdir -p "$work/corpus"
half=$(((seconds + 1) / 2))
export ASAN_OPTIONS="allocator_may_return_null=1:detect_stack_use_after_return=0:detect_leaks=0"
for tools in on off; do
    log=$work/$tools.log
    echo "fuzz: $half s with TSLAB_TOOLS=$tools, $jobs at once"
    pids=""
    i=0
    while [ $i -lt "$jobs" ]; do
        # shellcheck disable=SC2086 # no corpus, no argument
        TSLAB_TOOLS=$tools "$program" -max_total_time="$half" -max_len=4000 -len_control=10 -timeout=30 -rss_limit_mb=4096 \
            -print_final_stats=1 -seed=$((i + 1)) -artifact_prefix="$work/" "$work/corpus" $kept \
            >"$log.$i" 2>&1 &
        pids="$pids $!"
        i=$((i + 1))
    done
    code=0
    for pid in $pids; do wait "$pid" || code=1; done
    if [ "$code" -ne 0 ]; then
        tail -n 60 "$log".*
        echo "fuzz: a finding; see $work/crash-* and $log.*"
        exit 1
    fi
done
cat "$work"/*.log.* | awk '
    /^stat::number_of_executed_units:/ { runs += $2 }
    /^operations:/ { operations += $2 }
    END { printf "fuzz: %d programs: good\noperations: %d\n", runs, operations }'
