#!/usr/bin/env bash
# Brings the upstream sources of a Debian package, by the package lists of this machine, and unpacks them. Nothing of the system
# changes. Exit code 77: there is no apt, or no archive that has sources.
# usage: fetch_source.sh PACKAGE DIR
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: fetch_source.sh PACKAGE DIR" >&2; exit 2; }
package=$1 folder=$2
command -v apt-get >/dev/null || { echo "$package: left out: there is no apt-get"; exit 77; }
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$folder/parts"
for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -f "$file" ] || ! grep -q '^URIs:.*/debian' "$file" || sed 's/^Types:.*/Types: deb-src/' "$file" >"$folder/parts/$(basename "$file")"
done
{ cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null || true; } | sed -n '/\/debian/s/^deb /deb-src /p' >"$folder/parts/all.list"
apt=(apt-get -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$folder/parts" -o Dir::State::Lists="$folder/lists"
    -o Dir::Cache="$folder/cache" -o APT::Sandbox::User=root)
if ! "${apt[@]}" update >"$folder/log" 2>&1 ||
    ! (cd "$folder" && "${apt[@]}" source --download-only "$package" >>log 2>&1; compgen -G '*.orig.tar.*' >/dev/null); then
    echo "$package: left out: its sources cannot be had:"
    tail -n 2 "$folder/log"
    exit 77
fi
mkdir -p "$folder/source"
for file in "$folder"/*.orig.tar.*; do
    case $file in *.asc | *.sig) ;; *) tar -xf "$file" -C "$folder/source" --strip-components=1 ;; esac
done
