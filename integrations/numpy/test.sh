#!/usr/bin/env bash
# NumPy's own tests with each one's arrays in a domain. Exit code 77: something that it needs cannot be had.
# usage: test.sh [short|whole]     default: whole; short: half of them
set -euo pipefail
cd "$(dirname "$0")/../.."
case "${1-}" in "" | short | whole) ;; *) echo "test.sh: unknown argument '$1': short or whole" >&2; exit 2 ;; esac
integrations/python_env.sh numpy tslab numpy pandas pytest pytest-xdist hypothesis || exit $?
build/numpy-env/bin/python -B integrations/numpy/suite.py "${1:-whole}"
