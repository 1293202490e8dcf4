#!/bin/sh
# Projects that fetch the sources as a tarball: by FetchContent of CMake, which builds the library and nothing that was
# not asked for and installs it when told to, and by a wrap file of Meson; both as a unity build. Then a program is built by pkg-config with the library that Meson installs.
# Meson is named and left out where it is missing.
# Arguments: SOURCE_DIR VERSION. Environment: CC, CMAKE.
set -eu
source_dir=$1 version=$2
. "$source_dir/tests/install/staged.sh"
tar -C "$source_dir" --exclude=./build --exclude=./.git --transform "s#^\.#tslab-$version#" -czf "$work/tslab.tar.gz" .

cp -r "$source_dir/tests/install/subproject" "$work/parent"
cp "$source_dir/tests/install/consumer.c" "$work/parent/consumer.c"
# The missing optimization of a debug build does not matter here.
run "$cmake" -S "$work/parent" -B "$work/cmake" -DTSLAB_TARBALL="$work/tslab.tar.gz" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_UNITY_BUILD=ON
run "$cmake" --build "$work/cmake" -j "${JOBS:-2}"
run "$work/cmake/consumer"
made=$(find "$work/cmake" -path '*/CMakeFiles/*' -prune -o -path '*/tslab-src/*' -prune -o \
    -type f \( -perm -u+x -o -name '*.a' \) -printf '%f\n' | sort | tr '\n' ' ')
[ "$made" = "consumer libtslab.a libtslab.so.$version " ] || fail "FetchContent: this was built: $made"
(cd "$work/cmake" && ctest -N) >"$work/log" 2>&1
grep -q "Total Tests: 0" "$work/log" || fail "FetchContent: tests: $(cat "$work/log")"
run "$cmake" --install "$work/cmake" --prefix "$work/parent_only"
made=$(cd "$work/parent_only" && find . -type f)
[ "$made" = ./bin/consumer ] || fail "FetchContent: the parent installs: $made"
run "$cmake" -DTSLAB_INSTALL=ON "$work/cmake"
run "$cmake" --install "$work/cmake" --prefix "$work/with_tslab"
[ -n "$(find "$work/with_tslab" -name tslab-config.cmake)" ] || fail "FetchContent: TSLAB_INSTALL=ON installs nothing"

command -v meson >/dev/null && command -v ninja >/dev/null ||
    { echo "subproject_test: CMake; left out: there is no meson"; exit 0; }
mkdir "$work/parent/subprojects"
cat >"$work/parent/subprojects/tslab.wrap" <<END
[wrap-file]
directory = tslab-$version
source_url = file://$work/tslab.tar.gz
source_filename = tslab.tar.gz
source_hash = $(sha256sum "$work/tslab.tar.gz" | cut -d ' ' -f 1)

[provide]
dependency_names = tslab
END
run meson setup --unity on --wrap-mode=forcefallback "$work/meson" "$work/parent"
run ninja -C "$work/meson"
run "$work/meson/consumer"
run env DESTDIR="$work/installed" meson install -C "$work/meson"
pc=$(find "$work/installed" -name tslab.pc)
[ -n "$pc" ] || fail "Meson: tslab.pc is not installed"
export PKG_CONFIG_SYSROOT_DIR="$work/installed"
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion tslab)" = "$version" ] || fail "Meson: pkg-config says $(pkg-config --modversion tslab)"
# shellcheck disable=SC2046 # words
run "${CC:-gcc}" $(pkg-config --cflags tslab) "$work/parent/consumer.c" -o "$work/consumer" $(pkg-config --libs tslab)
run env LD_LIBRARY_PATH="$(dirname "$(dirname "$pc")")" "$work/consumer"
echo "subproject_test: CMake and Meson"
