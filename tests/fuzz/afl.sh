#!/bin/sh
# Runs the fuzz body under AFL++ for SECONDS, with the findings in WORK: one instance that mutates deterministically
# first, and JOBS - 1 more that share their findings with it. Starts from the corpus that is kept.
# usage: tests/fuzz/afl.sh API_FUZZ SECONDS WORK [JOBS]
# A finding: exit 1, its bytes in WORK/*/crashes or WORK/*/hangs; `api_fuzz FILE` prints the calls. Last line: the programs.
set -eu
[ $# -ge 3 ] || {
    echo "usage: tests/fuzz/afl.sh API_FUZZ SECONDS WORK [JOBS]" >&2
    exit 2
}
program=$1 seconds=$2 work=$3 jobs=${4:-1}
case $seconds in
    '' | *[!0-9]* | 0)
        echo "afl.sh: \"$seconds\" is no number of seconds" >&2
        exit 2
        ;;
esac
kept=$(dirname "$0")/corpus
rm -rf "$work"
mkdir -p "$work"
# Neither the machine's way with core files nor its processor's speed is ours to change.
export AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_SKIP_CPUFREQ=1 AFL_NO_AFFINITY=1 AFL_NO_UI=1
# Where the address space is reserved in one piece, a limit on it says nothing (-m none).
run() {
    afl-fuzz -i "$kept" -o "$work" "$1" "$2" -V "$seconds" -m none -t 5000 -g 20 -G 4000 -- "$program" >"$work/$2.log" 2>&1
}
echo "fuzz-afl: $seconds s, $jobs at once"
pids=""
i=1
while [ $i -lt "$jobs" ]; do
    run -S "more$i" &
    pids="$pids $!"
    i=$((i + 1))
done
code=0
run -M first || code=1
for pid in $pids; do wait "$pid" || code=1; done
if [ "$code" -ne 0 ]; then
    tail -n 20 "$work"/*.log
    exit 1
fi
found=$(find "$work" -path '*/crashes/id*' -o -path '*/hangs/id*')
if [ -n "$found" ]; then
    echo "$found"
    exit 1
fi
awk -F: '/^execs_done/ { runs += $2 } /^edges_found/ { if ($2 > edges) edges = $2 }
    END { printf "fuzz-afl: %d programs, %d edges: good\n", runs, edges }' "$work"/*/fuzzer_stats
