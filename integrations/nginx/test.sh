#!/usr/bin/env bash
# nginx with the pools of temporal-slab beside nginx with its own: what modules may rely on of pools, and what clients see.
# Exit code 77: something that it needs cannot be had.
# usage: test.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -eq 0 ] || { echo "usage: test.sh" >&2; exit 2; }
tools/setup.sh nginx || { echo "nginx: left out: its packages cannot be had"; exit 77; }
tools/build.sh release -DTSLAB_BUILD_TESTS=ON -- tslab_static tslab_tool
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for kind in plain tslab; do
    integrations/nginx/build.sh $kind "$work"
    at=$work/$kind
    more=()
    [ $kind = plain ] || more=(-DWITH_TSLAB -Iinclude build/release/libtslab.a)
    core=(-I"$at.source/src/core" -I"$at.source/src/event" -I"$at.source/src/os/unix" -I"$at")
    gcc -std=gnu11 -O1 -g -Wall -Wextra "${core[@]}" integrations/nginx/pools_test.c "$at/src/core/ngx_palloc.o" "$at/src/core/ngx_array.o" \
        "$at/src/os/unix/ngx_alloc.o" "${more[@]}" -Wl,-E -lpthread -ldl -o "$at/pools_test"
    (cd "$at" && ./pools_test)
done
gcc -std=gnu11 -O1 -g -Wall -Wextra -DNGX_DEBUG_PALLOC=1 -DWITH_TSLAB -Iinclude "${core[@]}" integrations/nginx/pools_test.c \
    integrations/nginx/ngx_palloc.c "$at/src/core/ngx_array.o" "$at/src/os/unix/ngx_alloc.o" build/release/libtslab.a -Wl,-E -lpthread -ldl \
    -o "$at/pools_test"
(cd "$at" && ./pools_test)
python3 -B integrations/nginx/test.py "$work" "$PWD/build/release"
