#!/usr/bin/env bash
# The program of src/global.rs under each global allocator, in turn: median of the rounds, and the ratio to the best other.
# usage: bench/global.sh [--smoke]
set -euo pipefail
cd "$(dirname "$0")"
rounds=7
smoke=()
if [ "${1-}" = --smoke ]; then
    rounds=1
    smoke=(--smoke)
elif [ $# -gt 0 ]; then
    echo "global.sh: unknown argument '$1': --smoke, or none" >&2
    exit 2
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
sides=()
for side in tslab system mimalloc jemalloc snmalloc; do
    features=(--features "$side")
    [ "$side" = system ] && features=()
    if cargo build --quiet --release --bin global "${features[@]}" >"$out/log" 2>&1; then
        target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
        cp "$target/release/global" "$out/global-$side"
        sides+=("$side")
    else
        echo "left out: $side, which did not build (cargo build --release --bin global ${features[*]})"
    fi
done
for _ in $(seq "$rounds"); do
    for side in "${sides[@]}"; do
        "$out/global-$side" "${smoke[@]}" | sed "s/^/$side /" >>"$out/figures"
    done
done
sort "$out/figures" | awk '
    { key = $2 " " $1; v[key, ++n[key]] = $3; parts[$2] = 1; sides[$1] = 1 }
    END {
        for (p in parts) {
            best = 1e18; line = ""
            for (s in sides) {
                k = p " " s; m = n[k]
                for (i = 1; i <= m; i++) for (j = i + 1; j <= m; j++) if (v[k, j] + 0 < v[k, i] + 0) { t = v[k, i]; v[k, i] = v[k, j]; v[k, j] = t }
                med = v[k, int((m + 1) / 2)]
                if (s == "tslab") ours = med; else if (med < best) best = med
                line = line sprintf("  %s %.1f", s, med)
            }
            printf "%-8s ms:%s  ratio to the best other %.2f\n", p, line, ours / best
        }
    }'
