#!/usr/bin/env bash
# An environment of Python under build/, with the packages named, made once. Exit code 77: there is no Python 3.11, or a package cannot be had.
# usage: python_env.sh NAME PACKAGE...     the environment is build/NAME-env; the package `tslab` is bindings/python of this tree
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 2 ] || { echo "usage: python_env.sh NAME PACKAGE..." >&2; exit 2; }
name=$1
environment=build/$name-env
shift
if ! python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "$name: left out: there is no Python 3.11 or newer with venv (Debian: python3-venv)"
    exit 77
fi
mkdir -p build
[ -x "$environment/bin/pip" ] || python3 -m venv "$environment"
export PIP_DISABLE_PIP_VERSION_CHECK=1
others=()
own=""
for package in "$@"; do
    if [ "$package" = tslab ]; then own=bindings/python; else others+=("$package"); fi
done
[ -z "$own" ] || others+=(scikit-build-core ninja)
if ! "$environment/bin/pip" install --quiet "${others[@]}" >"build/$name-env.log" 2>&1; then
    echo "$name: left out: ${others[*]} cannot be installed:"
    tail -n 2 "build/$name-env.log"
    exit 77
fi
[ -z "$own" ] || PATH="$PWD/$environment/bin:$PATH" "$environment/bin/pip" install --quiet --no-deps --no-build-isolation --force-reinstall \
    --config-settings "build-dir=$PWD/build/$name-env-build" "./$own"
