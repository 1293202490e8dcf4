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
# has FILE PATTERN: the file says it somewhere.
has() { grep -q -- "$2" "$1" || { echo "$1: not $version" >&2; exit 1; }; }
if [ "${1-}" = --check ]; then
    has bindings/rust/Cargo.toml "^version = \"$version\"$"
    has bindings/rust/tslab/Cargo.toml "tslab-sys = .*version = \"$version\""
    has bindings/python/pyproject.toml "^version = \"$version\"$"
    head -n 1 packaging/debian/changelog | grep -q "^tslab ($version-" ||
        { echo "packaging/debian/changelog: not $version" >&2; exit 1; }
    has CHANGELOG.md "^## $version "
fi
echo "$version"
