#!/usr/bin/env bash
# Builds nginx in FOLDER/KIND, with its own pools or with those of temporal-slab; the program is FOLDER/KIND/nginx. SOURCE is an
# unpacked nginx; without it the one of the Debian package is brought. CONFIGURE: more options of nginx's configure.
# usage: build.sh plain|tslab FOLDER [SOURCE]
set -euo pipefail
[ $# -ge 2 ] && [ $# -le 3 ] || { echo "usage: build.sh plain|tslab FOLDER [SOURCE]" >&2; exit 2; }
kind=$1
case $kind in plain | tslab) ;; *) echo "build.sh: unknown kind '$kind': plain or tslab" >&2; exit 2 ;; esac
mkdir -p "$2"
folder=$(cd "$2" && pwd)
source=${3-}
[ -z "$source" ] || source=$(cd "$source" && pwd)
cd "$(dirname "$0")/../.."
if [ -z "$source" ]; then
    source=$folder/fetched/source
    [ -f "$source/auto/configure" ] || [ -f "$source/configure" ] || integrations/fetch_source.sh nginx "$folder/fetched"
fi
if [ "$kind" = tslab ]; then
    cc="-I$PWD/include" ld=$PWD/build/release/libtslab.a
    [ -f "$ld" ] || { echo "build.sh: there is no $ld: make" >&2; exit 1; }
else
    cc="" ld=""
fi
here=$PWD/integrations/nginx
work=$folder/$kind.source
rm -rf "$work" "${folder:?}/$kind"
cp -r "$source" "$work"
[ "$kind" != tslab ] || cp "$here/ngx_palloc.c" "$work/src/core/ngx_palloc.c"
cd "$work"
configure=./configure
[ -f configure ] || configure=auto/configure
# shellcheck disable=SC2086 # options are words
# By a relative name: configure takes .S or .c in a folder's name for the end of a file's.
if ! { $configure --builddir="../$kind" --prefix="$folder/prefix" --with-compat --with-threads --with-file-aio \
    --with-http_v2_module --add-dynamic-module="$here/leak" --with-cc-opt="-O2 -g $cc" --with-ld-opt="$ld -lpthread -ldl" ${CONFIGURE-} &&
    make -s -j "${JOBS:-$(nproc)}"; } >"$folder/$kind.log" 2>&1; then
    tail -n 20 "$folder/$kind.log" >&2
    exit 1
fi
