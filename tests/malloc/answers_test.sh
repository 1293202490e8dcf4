#!/bin/sh
# The result and errno of each allocation function: with the library as with glibc, in the hard mode too. Arguments: the
# program answers, libtslab-malloc.so.
set -eu
program=$1
library=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The versions of glibc before 2.34 set errno in free.
env -u LD_PRELOAD "$program" >"$folder/libc"
[ "$(wc -l <"$folder/libc")" -gt 1500 ] || { echo "the program says little"; exit 1; }
if grep -q "free of .* changes errno" "$folder/libc"; then
    echo "skipped: an old libc, whose free changes errno"
    exit 77
fi
for hard in 0 1; do
    if [ "$hard" = 1 ]; then export TSLAB_HARDEN=1; fi
    LD_PRELOAD="$library" "$program" >"$folder/library"
    diff "$folder/libc" "$folder/library" || { echo "answers that are not libc's, TSLAB_HARDEN=$hard"; exit 1; }
done
