#!/usr/bin/env bash
# Builds the Debian packages in a clean chroot, looks at them with lintian, installs them in a second one, runs debian/tests
# there, builds a program in Rust and one in Python against them, and removes them. Leaves the packages in build/deb.
# usage: packaging/deb_test.sh [--here]    --here: builds and installs on this machine, where the build's packages are
# Exit code 77: mmdebstrap is missing, or this is not root.
set -euo pipefail
cd "$(dirname "$0")/.."
here=no
case "${1-}" in
    "") ;;
    --here) here=yes ;;
    *) echo "deb_test.sh: unknown argument '$1': --here, or none" >&2; exit 2 ;;
esac
[ "$(id -u)" -eq 0 ] || { echo "deb_test.sh: left out: chroots are made by root"; exit 77; }
command -v mmdebstrap >/dev/null ||
    { echo "deb_test.sh: left out: there is no mmdebstrap (tools/setup.sh deb)"; exit 77; }
suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
version=$(packaging/version.sh)
work=$(mktemp -d)
# What mmdebstrap mounts is there too when it is interrupted.
clean() {
    sed -n "s#^[^ ]* \($work/[^ ]*\) .*#\1#p" /proc/mounts | sort -r | while read -r m; do umount -l "$m"; done
    rm -rf --one-file-system "$work"
}
trap clean EXIT
say() { echo "deb-test: $*"; }

# chroot NAME PACKAGES
make_chroot() {
    local root=$work/$1 from=""
    shift
    [ ! -s /etc/apt/sources.list ] || from=/etc/apt/sources.list
    # shellcheck disable=SC2086 # a word or none
    mmdebstrap --quiet --dpkgopt=force-unsafe-io --variant=minbase --include="$(echo "$*" | tr ' ' ',')" \
        "$suite" "$root" $from >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; return 1; }
    mount -t proc proc "$root/proc"
}

packaging/dist.sh "$work/dist"
mkdir "$work/tslab-$version"
tar -xzf "$work/dist/tslab-$version.tar.gz" -C "$work"
cp "$work/dist/tslab-$version.tar.gz" "$work/tslab_$version.orig.tar.gz"
cp -r packaging/debian "$work/tslab-$version/debian"

build() { # ROOT, or nothing
    ${1:+chroot "$1"} sh -c "cd '${2}/tslab-$version' && DEB_BUILD_OPTIONS='parallel=$(nproc)' \
        dpkg-buildpackage -us -uc -rfakeroot" >"$work/build.log" 2>&1 || { tail -n 40 "$work/build.log" >&2; return 1; }
}
depends=$(sed -n 's/^Build-Depends: //p' packaging/debian/control |
    sed 's/([^)]*)//g; s/\[[^]]*]//g; s/<[^>]*>//g; s/debhelper-compat/debhelper/; s/, */ /g')
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
    make_chroot install $(sed -n 's/^Depends: libtslab-dev, tslab-tools, //p' packaging/debian/tests/control | tr -d ,) \
        libmicrohttpd12 libprotobuf-c1 libunwind8 cargo-web python3-dev python3-venv ninja-build
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
# Rust and Python: what their builds need of crates.io and PyPI is fetched here, so that the chroot needs no network.
rust_program() {
    command -v cargo >/dev/null || { say "Rust left out: there is no cargo here"; return 0; }
    mkdir "$test_in/rust"
    tar -C bindings/rust --exclude=./target -cf - . | tar -C "$test_in/rust" -xf -
    mkdir -p "$test_in/program/src"
    cp bindings/rust/Cargo.lock "$test_in/program/"
    cat >"$test_in/program/Cargo.toml" <<END
[package]
name = "program"
version = "0.1.0"
edition = "2021"
[dependencies]
tslab = { path = "../rust/tslab", features = ["system"] }
[workspace]
END
    cat >"$test_in/program/src/main.rs" <<'END'
fn main() {
    let domain = tslab::Domain::new();
    let numbers = domain.alloc_slice(&[20, 22]);
    println!("{}", numbers.iter().sum::<i32>());
}
END
    (cd "$test_in/program" && mkdir .cargo && cargo vendor >.cargo/config.toml 2>"$work/log") ||
        { say "Rust left out: cargo vendor failed"; return 0; }
    in_root "cd $inside/program && cargo run --quiet --offline && ldd target/debug/program" >"$work/log" 2>&1 &&
        grep -qx 42 "$work/log" && grep -q 'libtslab\.so\.0 => /' "$work/log" ||
        { cat "$work/log" >&2; say "Rust failed"; exit 1; }
    say "Rust passed"
}
python_program() {
    python3 -m pip download --quiet --dest "$test_in/wheels" 'scikit-build-core>=0.10' >"$work/log" 2>&1 ||
        { say "Python left out: pip has no scikit-build-core"; return 0; }
    cp -rL bindings/python "$test_in/python" # its links lead out of it
    cat >"$test_in/program.py" <<'END'
import tslab
domain = tslab.Domain("request")
numbers = domain.buffer(9)
numbers[0] = 42
print(numbers[0])
domain.end()
END
    in_root "cd $inside && python3 -m venv env && env/bin/pip install --quiet --no-index --find-links wheels \
        --config-settings cmake.define.TSLAB_SYSTEM=ON ./python && env/bin/python program.py &&
        env/bin/python -m tslab --version" >"$work/log" 2>&1 && grep -qx 42 "$work/log" || { cat "$work/log" >&2; say "Python failed"; exit 1; }
    say "Python passed"
}
if [ "$here" = no ]; then
    rust_program
    python_program
fi

in_root "dpkg --purge $(echo $packages)" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
left=$(in_root "find /usr -name '*tslab*' -not -path '*/share/doc/*'" 2>/dev/null || true)
[ -z "$left" ] || { say "left behind: $left"; exit 1; }
mkdir -p build/deb
cp "$debs"/*.deb build/deb/
say "all $(echo "$packages" | wc -l) packages passed"
