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
newer=tslab/allocator-api2-03,tslab/allocator-api2-04
part "tests of both crates" cargo test --quiet --locked -p tslab-sys -p tslab --features $newer
part "what the compiler says of what must not compile" ./refused/check.sh
part "without features" cargo check --quiet --locked -p tslab --no-default-features
# An older cargo asks the registry for the crate that is packaged beside.
if [ "$version" -ge 90 ]; then
    part "cargo package, without a network" cargo package --quiet --offline --locked --allow-dirty -p tslab-sys -p tslab
else
    left_out "cargo package of both: it needs cargo 1.90 or newer"
fi
[ "$all" = yes ] || exit 0

if compgen -G "/usr/lib/llvm-*/lib/libclang[.-][s0-9]*" >/dev/null || [ -n "${LIBCLANG_PATH-}" ]; then
    part "bindings.rs is what the headers say" cargo run --quiet --locked -p generate -- --check
else
    left_out "bindings.rs beside the headers: there is no libclang"
fi
if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then
    part "layout" cargo fmt --all --check
    part "Clippy; each unsafe has its reason" \
        cargo clippy --quiet --locked --workspace --all-targets --features $newer -- -D warnings
else
    left_out "layout, Clippy: rustup component add rustfmt clippy"
fi
if pkg-config --exists tslab tslab-malloc tslab-http 2>/dev/null; then
    libraries=$(pkg-config --variable=libdir tslab)
    part "the installed libraries: features system, malloc, http" \
        env LD_LIBRARY_PATH="$libraries" cargo test --quiet --locked --target-dir target/system -p tslab --features malloc,http --tests
else
    left_out "the features system, malloc and http: pkg-config knows no installed library (make install)"
fi
part "a server with a domain a request" cargo test --quiet --locked -p server
part "tasks with a domain each" cargo run --quiet --locked -p server --example tasks
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
if [ "$(minor cargo +1.78)" = 78 ]; then
    part "tests with Rust 1.78, the oldest version" \
        cargo +1.78 test --quiet --locked --target-dir target/oldest -p tslab-sys -p tslab --features $newer
else
    left_out "Rust 1.78, the oldest version: rustup toolchain install 1.78"
fi
echo "rust: $passed parts passed"
