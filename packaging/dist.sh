#!/usr/bin/env bash
# Writes tslab-VERSION.tar.gz of the last commit, its checksum and its bill of materials (SPDX) to a folder. The same commit gives the same
# bytes. usage: packaging/dist.sh [FOLDER]    (build/dist)
set -euo pipefail
cd "$(dirname "$0")/.."
case "$*" in -* | *\ *) echo "dist.sh: '$*': one folder, or none" >&2; exit 2 ;; esac
out=${1:-build/dist}
command -v git >/dev/null && git rev-parse --git-dir >/dev/null 2>&1 || { echo "dist.sh: a release is made from a git checkout" >&2; exit 1; }
changed=$(git status --porcelain)
[ -z "$changed" ] || { printf 'dist.sh: not committed:\n%s\n' "$changed" >&2; exit 1; }
version=$(packaging/version.sh)
mkdir -p "$out"
name=tslab-$version
# git takes times from the commit and names no user; gzip is told to keep neither name nor time.
git archive --format=tar --prefix="$name/" HEAD | gzip -9n >"$out/$name.tar.gz.new"
mv "$out/$name.tar.gz.new" "$out/$name.tar.gz"
python3 -B packaging/sbom.py "$version" "$out/$name.tar.gz" >"$out/$name.spdx.json"
(cd "$out" && sha256sum "$name.tar.gz" "$name.spdx.json" >"$name.sha256")
echo "$out/$name.tar.gz, .spdx.json, .sha256"
