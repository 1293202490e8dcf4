#!/bin/sh
# Removes the files that the last `make install` has installed, and the folders of temporal-slab that are empty then.
# usage: tools/uninstall.sh MANIFEST PREFIX     DESTDIR as for the installation
set -eu
manifest=$1 prefix=${2%/}
[ -f "$manifest" ] || { echo "make uninstall: $manifest is not there: nothing was installed from this folder" >&2; exit 1; }
# CMake ends the last line without a newline.
while IFS= read -r file || [ -n "$file" ]; do
    case $file in
        "$prefix"/*) ;;
        *) echo "make uninstall: the last installation was to another PREFIX: $file" >&2; exit 1 ;;
    esac
done <"$manifest"
while IFS= read -r file || [ -n "$file" ]; do
    rm -f "${DESTDIR-}$file"
done <"$manifest"
# Deepest first.
sed 's#/[^/]*$##' "$manifest" | sort -ur | while IFS= read -r folder; do
    while [ "${folder##*/tslab}" != "$folder" ] || [ "${folder#*/tslab/}" != "$folder" ]; do
        rmdir "${DESTDIR-}$folder" 2>/dev/null || break
        folder=${folder%/*}
    done
done
rm "$manifest"
