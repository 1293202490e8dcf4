#!/bin/sh
# Configures a preset and builds it: everything, or the targets that follow `--`. A new folder gets Ninja where that is
# installed: it starts the same compilers, with less between them.
# usage: tools/build.sh PRESET [OPTION OF CMAKE...] [-- TARGET...]     JOBS: so many at once
set -eu

preset=$1
folder=build/$preset
shift
generator=""
if [ ! -f "$folder/CMakeCache.txt" ] && command -v ninja >/dev/null 2>&1; then
    generator="-G Ninja"
fi
options=""
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options="$options $1"
    shift
done
[ $# -eq 0 ] || shift

mkdir -p build
log=build/$preset.configure.log
# shellcheck disable=SC2086 # options are words
if ! cmake --preset "$preset" $generator $options >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
if [ -f "$folder/build.ninja" ]; then
    quiet=--quiet
    [ ! -t 1 ] || quiet=""
else
    quiet="-s --no-print-directory"
fi
# shellcheck disable=SC2086 # options are words
exec cmake --build "$folder" -j "${JOBS:-$(nproc)}" ${1+--target "$@"} -- $quiet
