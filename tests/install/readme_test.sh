#!/bin/sh
# The first C program of the README compiles without a warning against the installed library, and runs.
# Arguments: BUILD_DIR README. Environment: CC, CMAKE.
set -eu
build_dir=$1 readme=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset DESTDIR PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH
fail() {
    echo "readme_test: $*" >&2
    exit 1
}
[ -f "$readme" ] || fail "$readme is missing"

# The first fenced c block that has a main().
awk '
    /^```c[ \t]*$/ { inside = 1; text = ""; next }
    /^```/ { if (inside && text ~ /main\(/) { printf "%s", text; exit } inside = 0 }
    inside { text = text $0 "\n" }
' "$readme" >"$work/program.c"
[ -s "$work/program.c" ] || fail "$readme: no \`\`\`c block with a main()"

"${CMAKE:-cmake}" --install "$build_dir" --prefix "$work/prefix" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    fail "cmake --install failed"
}
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name tslab.pc)")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir tslab)
# shellcheck disable=SC2046 # flags are words
"${CC:-gcc}" -std=c11 -Wall -Wextra -pedantic -Werror $(pkg-config --cflags tslab) \
    -o "$work/program" "$work/program.c" $(pkg-config --libs tslab) -Wl,-rpath,"$libdir" ||
    fail "the program of $readme does not compile"
timeout 60 "$work/program" >"$work/output" 2>&1 </dev/null || {
    code=$?
    cat "$work/output" >&2
    fail "the program of $readme ends with exit code $code"
}
echo "readme_test: $(wc -l <"$work/program.c") lines compiled and run"
cat "$work/output"
