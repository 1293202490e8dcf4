#!/bin/sh
# The man page names every function, every member of the options and every environment variable of the headers. Each function has a page
# of one line that leads to the page of its group, which names it; the program of a group's page is a file of examples/, which the tests
# compile and run. Arguments: API_NAMES (one name a line) SOURCE_DIR DIRECTORY_OF_THE_MADE_PAGES.
set -eu
names=$1 source_dir=$2 made=$3
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
complain() {
    echo "man_test: $*" >&2
    failed=1
}
for name in $(cat "$names") slab_options; do
    group=$(sed -n 's#^\.so man3/##p' "$made/$name.3") || group=""
    case $group in
        tslab-*.3) ;;
        *) complain "$name.3 leads to no group: '$group'" && continue ;;
    esac
    sed -n '/^\.SH NAME/,/^\.SH SYNOPSIS/p' "$made/$group" | grep -qw -- "$name" || complain "$group does not name $name"
done
groups=0
for page in "$made"/tslab-*.3; do
    groups=$((groups + 1))
    example=$(sed -n '1s/.* and \(examples[^ ]*\)$/\1/p' "$page")
    sed -n '/^\.SH EXAMPLES/,/^\.EE/p' "$page" | sed -e '/^\.SH EXAMPLES/d' -e '/^\.E[XE]$/d' -e 's/^\\&//' -e 's/\\-/-/g' -e 's/\\e/\\/g' |
        cmp -s - "$source_dir/$example" || complain "$page: its program is not $example"
    grep -q 'int main(' "$page" || complain "$page has no program"
    [ "$(sed -n '/^\.SH DESCRIPTION/,/^\.SH EXAMPLES/p' "$page" | wc -l)" -gt 5 ] || complain "$page describes nothing"
    if command -v groff >/dev/null 2>&1; then
        said=$(groff -man -Tutf8 -ww "$page" 2>&1 >/dev/null | grep -v 'cannot adjust line\|can.t break line' || true)
        [ -z "$said" ] || complain "$page: $said"
    fi
done
[ "$groups" -ge 9 ] || complain "$groups pages by group"
echo "man_test: $count names, $groups groups"
exit $failed
