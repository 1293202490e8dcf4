#!/bin/sh
# The program that uses every name of the contract: compiled by the compilers that are there, as C11 and as C++17,
# without a warning, linked with the shared library, and run.
# Arguments: DIRECTORY_OF_THE_LIBRARY SOURCE_DIR [COMPILER [FLAG...]]. With COMPILER only that one is used: the library
# is of another libc or machine.
set -eu
library=$1 source_dir=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count=0
try() {
    command -v "$1" >/dev/null || return 0
    "$@" -Wall -Wextra -pedantic -Werror -I"$source_dir/include" -o "$work/contract" -L"$library" -ltslab -Wl,-rpath,"$library"
    "$work/contract"
    count=$((count + 1))
}
cp "$source_dir/tests/install/contract.c" "$work/contract.c"
cp "$source_dir/tests/install/contract.c" "$work/contract.cpp"
if [ $# -gt 0 ]; then
    try "$@" -std=c11 "$work/contract.c"
else
    try gcc -std=c11 "$work/contract.c"
    try clang -std=c11 "$work/contract.c"
    try g++ -std=c++17 "$work/contract.cpp"
    try clang++ -std=c++17 "$work/contract.cpp"
fi
[ "$count" -gt 0 ] || exit 77
echo "contract_test: $count compilers"
