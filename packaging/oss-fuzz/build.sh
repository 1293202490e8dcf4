#!/bin/bash -eu
# As OSS-Fuzz calls it: in the folder of the sources, with CC, CFLAGS, LIB_FUZZING_ENGINE, SANITIZER, WORK and OUT.
# Leaves in OUT the fuzzer, its first inputs and its options.
case ${SANITIZER-} in
    address | undefined) sanitize=$SANITIZER ;;
    *) sanitize="" ;; # coverage: CFLAGS have all of it
esac
cmake -S . -B "$WORK/build" -DCMAKE_BUILD_TYPE=None -DTSLAB_SANITIZE="$sanitize" -DTSLAB_ASSERT=3 -DTSLAB_FUZZ=ON \
    -DTSLAB_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" \
    -DTSLAB_BUILD_TOOLS=OFF -DTSLAB_BUILD_BENCHMARKS=OFF -DTSLAB_BUILD_HTTP=OFF
cmake --build "$WORK/build" -j "$(nproc)" --target api_fuzz
cp "$WORK/build/tests/api_fuzz" "$OUT/"
zip -q -j "$OUT/api_fuzz_seed_corpus.zip" tests/fuzz/corpus/*
cat >"$OUT/api_fuzz.options" <<END
[libfuzzer]
max_len = 4000
len_control = 10
[asan]
allocator_may_return_null = 1
detect_stack_use_after_return = 0
detect_leaks = 0
END
