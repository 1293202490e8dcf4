#!/bin/sh
# The man page names every function, every member of the options and every environment variable of the headers.
# Arguments: API_NAMES (one name a line) SOURCE_DIR.
set -eu
names=$1 source_dir=$2
page=$source_dir/man/tslab.3
header=$source_dir/include/tslab/tslab.h
failed=0
count=0
options=$(sed -n '/^typedef struct SlabOptions {/,/^}/s/^ *[a-z0-9_]* \([a-z_]*\);.*/\1/p' "$header")
variables=$(grep -o 'TSLAB_[A-Z_]*[=:]' "$header" | tr -d '=:' | sort -u)
[ -n "$options" ] && [ -n "$variables" ] || {
    echo "man_test: no options found in $header" >&2
    exit 1
}
for name in $(cat "$names") $options $variables; do
    count=$((count + 1))
    # A roff escape may stand before the name, never a letter.
    sed 's/\\f[BIR]/ /g' "$page" | grep -qw -- "$name" || {
        echo "man_test: $page does not mention $name" >&2
        failed=1
    }
done
echo "man_test: $count names"
exit $failed
