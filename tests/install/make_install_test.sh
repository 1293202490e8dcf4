#!/bin/sh
# `make install` in a copy of the sources: by the compiler that CC names, also after another one, with warnings that are no errors, and
# without a package manager. `make uninstall` leaves nothing of it, and takes nothing else. Arguments: SOURCE_DIR VERSION.
set -eu
source_dir=$1 version=$2
. "$source_dir/tests/install/staged.sh"
mkdir "$work/tree" "$work/bin"
tar -C "$source_dir" --exclude=./build --exclude=./.git --exclude=target -cf - . | tar -C "$work/tree" -xf -
cd "$work/tree"
for name in apt-get sudo dpkg-query; do
    printf '#!/bin/sh\necho "%s $*" >>"%s/packages"\nexit 1\n' $name "$work" >"$work/bin/$name"
done
# Two compilers, each of which notes its calls.
for name in first second; do
    printf '#!/bin/sh\necho "$*" >>"%s/%s"\nexec "%s" "$@"\n' "$work" $name "$(command -v "${CC:-gcc}")" >"$work/bin/$name"
done
chmod +x "$work"/bin/*
PATH=$work/bin:$PATH
export PATH
unset CC
run make install PREFIX=/opt/tslab DESTDIR="$work/stage" CC=first
run env CC=second make install PREFIX=/opt/tslab DESTDIR="$work/stage"
for name in first second; do
    [ -f "$work/$name" ] || fail "make install does not take CC=$name"
    ! grep -q -e -Werror "$work/$name" || fail "warnings are errors"
done
[ ! -f "$work/packages" ] || fail "make install asks for packages: $(cat "$work/packages")"
[ -n "$(find "$work/stage" -name "libtslab.so.$version")" ] || fail "libtslab.so.$version is not installed"
echo own >"$work/stage/opt/tslab/own"
if make uninstall PREFIX=/usr DESTDIR="$work/stage" >"$work/log" 2>&1; then fail "make uninstall takes another PREFIX"; fi
grep -q 'another PREFIX' "$work/log" || fail "make uninstall says: $(cat "$work/log")"
run make uninstall PREFIX=/opt/tslab DESTDIR="$work/stage"
left=$(find "$work/stage" ! -type d)
[ "$left" = "$work/stage/opt/tslab/own" ] || fail "make uninstall leaves: $left"
if make uninstall PREFIX=/opt/tslab DESTDIR="$work/stage" >"$work/log" 2>&1; then fail "a second make uninstall finds something"; fi
echo "make_install_test: installed by two compilers, removed"
