#!/usr/bin/env bash
# Every test of the Rust crates that this machine has the tools for; what is left out is named. Exit code 77: no cargo.
# usage: test.sh [--all]    --all: also the server, the benchmarks' smoke run, Miri and the oldest version
set -euo pipefail
cd "$(dirname "$0")"
all=no
if [ "${1-}" = --all ]; then
    all=yes
elif [ $# -gt 0 ]; then
    echo "test.sh: unknown argument '$1': --all, or none" >&2
    exit 2
fi
passed=0
left_out() { echo "rust: left out: $1"; }
part() {
    local name=$1 start=$SECONDS
    shift
    echo "rust: $name"
    "$@"
    passed=$((passed + 1))
    echo "rust: $name: passed in $((SECONDS - start)) s"
}
minor() { "$@" --version 2>/dev/null | sed -n 's/^[a-z]* 1\.\([0-9]*\)\..*/\1/p'; }

version=$(minor cargo)
if [ -z "$version" ] || [ "$version" -lt 78 ]; then
    left_out "all: there is no cargo 1.78 or newer"
    exit 77
fi
# Locked versions of some test dependencies want a newer compiler than the crates do.
if [ "$version" -ge 85 ]; then
    part "tests of both crates" cargo test --quiet --locked -p tslab-sys -p tslab --features tslab/allocator-api2-03,tslab/allocator-api2-04
    part "without features" cargo check --quiet --locked -p tslab --no-default-features
else
    left_out "the tests: they need cargo 1.85 or newer"
fi
part "cargo package, without a network" cargo package --quiet --offline --locked --allow-dirty -p tslab-sys -p tslab
[ "$all" = yes ] || exit 0

if ls /usr/lib/llvm-*/lib/libclang*.so* >/dev/null 2>&1 || [ -n "${LIBCLANG_PATH-}" ]; then
    part "bindings.rs is what the headers say" cargo run --quiet --locked -p generate -- --check
else
    left_out "bindings.rs beside the headers: there is no libclang"
fi
part "a server with a domain a request" cargo test --quiet --locked -p server
part "benchmarks, smoke" cargo run --quiet --locked -p bench --bin bench -- --smoke
if [ -n "$(minor cargo +nightly)" ]; then
    on_nightly=(cargo +nightly test --quiet --locked --target-dir target/nightly -p tslab --features nightly)
    part "nightly: collections of std" "${on_nightly[@]}" --test nightly
    part "nightly: error codes of what must not compile" "${on_nightly[@]}" --doc
    if cargo +nightly miri --version >/dev/null 2>&1; then
        part "Miri" cargo +nightly miri test --quiet --locked --target-dir target/miri -p tslab --lib pure
    else
        left_out "Miri: rustup component add --toolchain nightly miri"
    fi
else
    left_out "nightly, Miri: there is no nightly toolchain"
fi
oldest=""
[ "$(minor cargo +1.78)" = 78 ] && oldest="cargo +1.78"
[ -z "$oldest" ] && [ "$(minor /usr/bin/cargo)" = 78 ] && oldest="env RUSTC=/usr/bin/rustc /usr/bin/cargo"
if [ -n "$oldest" ]; then
    # shellcheck disable=SC2086 # words
    part "Rust 1.78, the oldest version" $oldest check --quiet --locked --target-dir target/oldest -p tslab
else
    left_out "Rust 1.78: neither rustup nor Debian's rustc-web has it here"
fi
echo "rust: $passed parts passed"
