#!/usr/bin/env bash
# Builds the Debian packages in a clean chroot, looks at them with lintian, installs them in a second one, runs debian/tests there, and
# removes them. As root. Exit code 77: mmdebstrap is missing, or this is not Debian.
# usage: packaging/deb_test.sh [--here]    --here: builds and installs on this machine, where the packages of the build are
set -euo pipefail
cd "$(dirname "$0")/.."
here=no
case "${1-}" in
    "") ;;
    --here) here=yes ;;
    *) echo "deb_test.sh: unknown argument '$1': --here, or none" >&2; exit 2 ;;
esac
[ "$(id -u)" -eq 0 ] || { echo "deb_test.sh: chroots are made by root" >&2; exit 1; }
command -v mmdebstrap >/dev/null || { echo "deb_test.sh: left out: there is no mmdebstrap (tools/setup.sh deb)"; exit 77; }
suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
version=$(packaging/version.sh)
work=$(mktemp -d)
mounted=""
clean() {
    for m in $mounted; do umount -l "$m" 2>/dev/null || true; done
    rm -rf "$work"
}
trap clean EXIT
say() { echo "deb-test: $*"; }

# chroot NAME PACKAGES
make_chroot() {
    local root=$work/$1
    shift
    mmdebstrap --quiet --variant=minbase --include="$(echo "$*" | tr ' ' ',')" "$suite" "$root" /etc/apt/sources.list >"$work/log" 2>&1 ||
        mmdebstrap --quiet --variant=minbase --include="$(echo "$*" | tr ' ' ',')" "$suite" "$root" >"$work/log" 2>&1 ||
        { tail -n 20 "$work/log" >&2; return 1; }
    mount -t proc proc "$root/proc"
    mounted="$root/proc $mounted"
}

packaging/dist.sh "$work/dist"
mkdir "$work/tslab-$version"
tar -xzf "$work/dist/tslab-$version.tar.gz" -C "$work"
cp "$work/dist/tslab-$version.tar.gz" "$work/tslab_$version.orig.tar.gz"
cp -r packaging/debian "$work/tslab-$version/debian"

build() { # ROOT, or nothing
    ${1:+chroot "$1"} sh -c "cd '${2}/tslab-$version' && DEB_BUILD_OPTIONS='parallel=$(nproc)' dpkg-buildpackage -us -uc -rfakeroot" >"$work/build.log" 2>&1 ||
        { tail -n 40 "$work/build.log" >&2; return 1; }
}
depends=$(sed -n 's/^Build-Depends: //p' packaging/debian/control | sed 's/([^)]*)//g; s/<[^>]*>//g; s/debhelper-compat/debhelper/; s/, */ /g')
if [ "$here" = yes ]; then
    say "building here"
    build "" "$work"
    debs=$work
else
    say "building in a chroot of $suite"
    # shellcheck disable=SC2086 # words
    make_chroot build build-essential fakeroot lintian $depends
    cp -r "$work/tslab-$version" "$work/tslab_$version.orig.tar.gz" "$work/build/root/"
    build "$work/build" /root
    debs=$work/build/root
fi
say "lintian"
changes=$(ls "$debs"/*.changes)
if [ "$here" = yes ]; then lintian --fail-on error,warning "$changes"
else chroot "$work/build" lintian --allow-root --fail-on error,warning "/root/$(basename "$changes")"; fi

rm -f "$debs"/*-dbgsym_*.deb # not installed
say "installing, testing, removing"
packages=$(sed -n 's/^Package: //p' packaging/debian/control)
if [ "$here" = yes ]; then
    root=""
    test_in=$work
else
    # shellcheck disable=SC2046 # words
    make_chroot install $(sed -n 's/^Depends: libtslab-dev, tslab-tools, //p' packaging/debian/tests/control | tr -d ,) libmicrohttpd12 libprotobuf-c1
    root=$work/install
    test_in=$root/root
    cp "$debs"/*.deb "$test_in/"
    cp -r packaging/debian/tests "$test_in/tests"
fi
in_root() { ${root:+chroot "$root"} sh -c "$1"; }
[ "$here" = no ] || cp -r packaging/debian/tests "$work/tests"
inside=${root:+/root}
inside=${inside:-$work}
in_root "dpkg -i $inside/*.deb" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
for test in $(sed -n 's/^Tests: //p' packaging/debian/tests/control); do
    in_root "mkdir -p /tmp/autopkgtest && AUTOPKGTEST_TMP=\$(mktemp -d) $inside/tests/$test" >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; say "$test failed"; exit 1; }
    say "$test passed"
done
in_root "dpkg --purge $(echo $packages)" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
left=$(in_root "find /usr -name '*tslab*' -not -path '*/share/doc/*'" 2>/dev/null || true)
[ -z "$left" ] || { say "left behind: $left"; exit 1; }
say "all $(echo "$packages" | wc -l) packages passed"
