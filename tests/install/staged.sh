# Sourced by the tests of an installed library: a directory that goes at the end, an environment that says nothing of this build,
# and commands whose output is shown only if they fail.
export LC_ALL=C
cmake=${CMAKE:-cmake}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset DESTDIR PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH LD_PRELOAD MAKEFLAGS MAKELEVEL MFLAGS TSLAB_HTTP
fail() {
    echo "install_test: $*" >&2
    exit 1
}
run() {
    "$@" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        fail "failed: $*"
    }
}
