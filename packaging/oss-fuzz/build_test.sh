#!/usr/bin/env bash
# build.sh with the variables and flags of OSS-Fuzz's builder, and the fuzzer over its first inputs.
# Argument: SOURCE_DIR. Exit code 77: there is no clang with libFuzzer, or no zip.
set -euo pipefail
cd "$1"
export CC=clang CXX=clang++ SANITIZER=address LIB_FUZZING_ENGINE=-fsanitize=fuzzer
export CFLAGS="-O1 -fno-omit-frame-pointer -gline-tables-only -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION"
CFLAGS="$CFLAGS -fsanitize=address -fsanitize-address-use-after-scope -fsanitize=fuzzer-no-link"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' >"$work/try.c"
$CC -fsanitize=fuzzer,address "$work/try.c" -o "$work/try" 2>/dev/null && command -v zip >/dev/null ||
    { echo "oss-fuzz: left out: there is no clang with libFuzzer, or no zip"; exit 77; }
export WORK=$work/work OUT=$work/out
mkdir "$WORK" "$OUT" "$work/seeds"
packaging/oss-fuzz/build.sh >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; exit 1; }
unzip -q "$OUT/api_fuzz_seed_corpus.zip" -d "$work/seeds"
options=$(sed -n '/^\[libfuzzer\]/,/^\[asan\]/s/^\([a-z_]*\) = /-\1=/p' "$OUT/api_fuzz.options" | tr '\n' ' ')
ASAN_OPTIONS=$(sed -n '/^\[asan\]/,$s/^\([a-z_]*\) = /\1=/p' "$OUT/api_fuzz.options" | tr '\n' ':')
export ASAN_OPTIONS
fixed=""
setarch -R true 2>/dev/null && fixed="setarch -R"
# shellcheck disable=SC2086 # words
$fixed "$OUT/api_fuzz" $options -runs=0 "$work/seeds" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; exit 1; }
ran=$(sed -n 's/^#\([0-9]*\).*DONE.*/\1/p' "$work/log")
[ "${ran:-0}" -ge "$(ls "$work/seeds" | wc -l)" ] ||
    { tail -n 5 "$work/log" >&2; echo "oss-fuzz: $ran inputs ran" >&2; exit 1; }
echo "oss-fuzz: built; $ran inputs ran"
