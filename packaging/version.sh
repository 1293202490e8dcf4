#!/bin/sh
# The version, which tslab.h has. --check: all other places say the same. --soname: the number in the sonames instead.
set -eu
cd "$(dirname "$0")/.."
part() { sed -n "s/^#define TSLAB_VERSION_$1 \([0-9]*\)$/\1/p" include/tslab/tslab.h; }
version=$(part MAJOR).$(part MINOR).$(part PATCH)
if [ "${1-}" = --soname ]; then
    sed -n 's/^set(TSLAB_SOVERSION \([0-9]*\))$/\1/p' CMakeLists.txt
    exit 0
fi
if [ "${1-}" = --check ]; then
    grep -q "^version = \"$version\"$" bindings/rust/Cargo.toml || { echo "bindings/rust/Cargo.toml: not $version" >&2; exit 1; }
    grep -q "tslab-sys = .*version = \"$version\"" bindings/rust/tslab/Cargo.toml || { echo "bindings/rust/tslab/Cargo.toml: not $version" >&2; exit 1; }
    grep -q "^version = \"$version\"$" bindings/python/pyproject.toml || { echo "bindings/python/pyproject.toml: not $version" >&2; exit 1; }
    head -n 1 packaging/debian/changelog | grep -q "^tslab ($version-" || { echo "packaging/debian/changelog: not $version" >&2; exit 1; }
    grep -q "^## $version " CHANGELOG.md || { echo "CHANGELOG.md: no chapter of $version" >&2; exit 1; }
fi
echo "$version"
