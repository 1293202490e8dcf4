#!/bin/sh
# Fetches the source of cmocka, which the tests are written with, as Debian has it: it is built for each target, as the
# foreign packages would need another architecture in dpkg. apt works in a directory of its own and checks signature
# and checksum; the system's lists and settings stay as they are.
# usage: tests/cross/cmocka.sh DIRECTORY     afterwards DIRECTORY/source is the unpacked source
set -eu

directory=${1:?usage: tests/cross/cmocka.sh DIRECTORY}
[ ! -f "$directory/source/CMakeLists.txt" ] || exit 0
mkdir -p "$directory"
directory=$(cd "$directory" && pwd)

cannot() {
    echo "tests/cross/cmocka.sh: no source of cmocka: $1" >&2
    echo "tests/cross/cmocka.sh: put cmocka_VERSION.orig.tar.xz into $directory by hand and try again" >&2
    exit 1
}

tarball() { find "$directory" -maxdepth 1 -name 'cmocka_*.orig.tar.xz' | sort | tail -n 1; }

# The distribution's own archives, as this machine has them, with their sources.
write_sources() {
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    options=""
    [ ! -f "$keyring" ] || options="[signed-by=$keyring] "
    # shellcheck disable=SC2016 # apt's own variables
    apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v options="$options" '$1 == "Debian" && !/-(updates|security|backports)/ && NF == 4 \
            { print "deb-src " options $2, $3, $4 }' | sort -u >"$apt/sources.list"
    [ -s "$apt/sources.list" ] || cannot "apt knows of no archive of Debian"
}

fetch() {
    command -v apt-get >/dev/null || cannot "there is no apt-get here"
    apt=$directory/apt
    rm -rf "$apt"
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/parts"
    write_sources
    set -- -qq -o "Dir::Etc::SourceList=$apt/sources.list" -o "Dir::Etc::SourceParts=$apt/parts" \
        -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o "APT::Sandbox::User="
    apt-get "$@" update >"$apt/log" 2>&1 && (cd "$directory" && apt-get "$@" source --download-only cmocka) >>"$apt/log" 2>&1 || {
        cat "$apt/log" >&2
        cannot "apt-get failed, see above"
    }
    rm -rf "$apt"
}

[ -n "$(tarball)" ] || fetch
found=$(tarball)
[ -n "$found" ] || cannot "apt-get source brought none"
rm -rf "$directory/unpacked"
mkdir "$directory/unpacked"
tar -xJf "$found" -C "$directory/unpacked" --strip-components=1 || cannot "$found cannot be unpacked"
mv "$directory/unpacked" "$directory/source"
