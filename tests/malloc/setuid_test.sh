#!/bin/sh
# A program with more rights than the user who starts it: the environment has no say (os/os_linux.c). Argument: a
# program that is linked with the library, and prints its options, and the library. Skipped (77) where no such program
# can be made.
set -eu
program=$1
library=$2
[ "$(id -u)" -eq 0 ] || { echo "setuid_test: skipped, this is not root"; exit 77; }
setpriv --reuid 65534 --clear-groups test -r "$library" || { echo "setuid_test: skipped, others cannot read $library"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cp "$program" "$work/program"
chown 65534 "$work/program"
chmod 4755 "$work/program"
export TSLAB_HARDEN=1 TSLAB_ON_MISUSE=abort TSLAB_BACKGROUND=1
usual=$("$program")
[ "$usual" = "secure 0 hard 1 threads 2" ] || { echo "setuid_test: usual: $usual"; exit 1; }
answer=$("$work/program") || { echo "setuid_test: it fails: $answer"; exit 1; }
case $answer in
    "secure 0"*) echo "setuid_test: skipped, the system does not start such programs with other rights here"; exit 77 ;;
    "secure 1 hard 0 threads 1") ;;
    *) echo "setuid_test: with other rights: $answer"; exit 1 ;;
esac
