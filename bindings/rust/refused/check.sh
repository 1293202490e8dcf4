#!/usr/bin/env bash
# `cargo check` refuses each line of src/bin that has a comment `//~ WORDS`, at that line and with these words, and no other line.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if cargo "$@" check --quiet --locked --color never -p refused --features programs --bins --keep-going 2>"$work/said"; then
    echo "refused/check.sh: cargo check refuses nothing" >&2
    exit 1
fi
# An error a line: where it is, then all that is said of it.
awk '/^error/ { if (text != "") print where " " text; text = ""; where = "" }
    { text = text " " $0 }
    /^ *--> / && where == "" { where = $2; sub(/:[0-9]+$/, "", where) }
    END { print where " " text }' "$work/said" | grep '^refused/' | sort -u >"$work/errors"
count=0
failed=0
while IFS=: read -r file line words; do
    count=$((count + 1))
    words=${words#*//~ }
    grep -F "$file:$line " "$work/errors" | grep -qF -- "$words" || {
        echo "refused/check.sh: $file:$line: the compiler does not say: $words" >&2
        failed=1
    }
done < <(grep -n '//~' refused/src/bin/*.rs)
lines=$(cut -d ' ' -f 1 "$work/errors" | sort -u | wc -l)
[ "$count" -gt 0 ] && [ "$lines" -eq "$count" ] || {
    echo "refused/check.sh: $lines lines are refused, and $count have a comment" >&2
    failed=1
}
[ $failed -eq 0 ] || cat "$work/said" >&2
exit $failed
