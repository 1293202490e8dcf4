#!/bin/sh
# The installed libtslab-malloc: programs build through pkg-config and find_package(tslab COMPONENTS malloc), and allocate in it;
# preloaded, it is any program's malloc; one of another build than libtslab ends the program at once, with a message. Arguments:
# BUILD_DIR VERSION LIBRARY CORE. Environment: CC, CMAKE.
set -eu
build_dir=$1 version=$2 library=$3 core=$4
. "$(dirname "$0")/../install/staged.sh"

run "$cmake" --install "$build_dir" --prefix "$work/first"
mv "$work/first" "$work/prefix" # the tree can be moved
prefix=$work/prefix
for file in include/tslab/malloc.h share/man/man3/tslab-malloc.3 share/man/man3/slab_malloc_active.3; do
    [ -f "$prefix/$file" ] || fail "$file is not installed"
done
cat >"$work/program.c" <<'END'
#include <stdlib.h>
#include <string.h>
#include <tslab/malloc.h>
int main(void) {
    char *text = strdup("allocated by libc, in temporal-slab");
    int there = text && slab_malloc_active() && slab_owns(slab_malloc_allocator(), text);
    free(text);
    return there ? 0 : 1;
}
END
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name tslab-malloc.pc)")
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion tslab-malloc)" = "$version" ] || fail "pkg-config says another version than $version"
libdir=$(pkg-config --variable=libdir tslab-malloc)
# shellcheck disable=SC2046 # flags are words
run "${CC:-gcc}" -std=c11 -D_GNU_SOURCE -Wall -Wextra -pedantic -Werror $(pkg-config --cflags tslab-malloc) -o "$work/program" \
    "$work/program.c" $(pkg-config --libs tslab-malloc) -Wl,-rpath,"$libdir"
run "$work/program"
# A program that calls nothing of it is linked with it all the same.
echo 'int main(void) { return 0; }' >"$work/plain.c"
# shellcheck disable=SC2046
run "${CC:-gcc}" -Wl,--as-needed -o "$work/plain" "$work/plain.c" $(pkg-config --libs tslab-malloc) -Wl,-rpath,"$libdir"
readelf -d "$work/plain" | grep -q 'NEEDED.*libtslab-malloc' || fail "the linker has left the library out"

mkdir "$work/cmake"
cat >"$work/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.21)
project(consumer C)
find_package(tslab REQUIRED COMPONENTS malloc)
add_executable(program ../program.c)
target_compile_definitions(program PRIVATE _GNU_SOURCE)
target_link_libraries(program PRIVATE tslab::malloc)
END
run "$cmake" -S "$work/cmake" -B "$work/cmake/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="${CC:-gcc}" \
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
run "$cmake" --build "$work/cmake/build"
run "$work/cmake/build/program"

# Linked statically, where libc has an archive: by pkg-config and by the CMake target.
if "${CC:-gcc}" -static -o "$work/plain" "$work/plain.c" 2>/dev/null; then
    for mode in -static -static-pie; do
        # shellcheck disable=SC2046
        run "${CC:-gcc}" -std=c11 -D_GNU_SOURCE -fPIE $mode $(pkg-config --cflags tslab-malloc) -o "$work/static" "$work/program.c" \
            $(pkg-config --static --libs tslab-malloc)
        run "$work/static"
    done
    mkdir "$work/static_cmake"
    cat >"$work/static_cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.21)
project(consumer C)
find_package(tslab REQUIRED COMPONENTS malloc)
add_executable(program ../program.c)
target_compile_definitions(program PRIVATE _GNU_SOURCE)
target_link_libraries(program PRIVATE tslab::malloc_static)
target_link_options(program PRIVATE -static)
END
    run "$cmake" -S "$work/static_cmake" -B "$work/static_cmake/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="${CC:-gcc}" \
        -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
    run "$cmake" --build "$work/static_cmake/build"
    run "$work/static_cmake/build/program"
fi

# The archive in a program that is linked with the shared libc: threads are libc's, their objects are this library's.
mkdir "$work/archive_cmake"
cat >"$work/archive_cmake/program.c" <<'END'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tslab/malloc.h>
#include <unistd.h>
static void *copy(void *text) { return strdup(text); }
static int in_thread(void) {
    pthread_t thread;
    void *text = NULL;
    if (pthread_create(&thread, NULL, copy, "allocated by libc") != 0 || pthread_join(thread, &text) != 0) return 1;
    if (!text || !slab_owns(slab_malloc_allocator(), text)) return 1;
    free(text);
    return 0;
}
int main(void) {
    int status = 0;
    pid_t child = in_thread() == 0 ? fork() : -1;
    if (child == 0) _exit(in_thread());
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 && slab_malloc_active() ? 0 : 1;
}
END
cat >"$work/archive_cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.21)
project(consumer C)
find_package(tslab REQUIRED COMPONENTS malloc)
find_package(Threads REQUIRED)
add_executable(program program.c)
target_compile_definitions(program PRIVATE _GNU_SOURCE)
target_link_libraries(program PRIVATE tslab::malloc_static Threads::Threads)
END
run "$cmake" -S "$work/archive_cmake" -B "$work/archive_cmake/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="${CC:-gcc}" \
    -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
run "$cmake" --build "$work/archive_cmake/build"
readelf -d "$work/archive_cmake/build/program" | grep -q 'NEEDED.*libc\.so' || fail "the program has no shared libc"
run "$work/archive_cmake/build/program"

# Preloaded, by its path alone: it finds its core beside it.
TSLAB_ON_MISUSE=report LD_PRELOAD=$libdir/libtslab-malloc.so sh -c 'echo preloaded; true | true' >"$work/log" 2>&1 || fail "sh fails"
[ "$(cat "$work/log")" = preloaded ] || fail "sh says: $(cat "$work/log")"

# Of another build: the word by which they tell is changed in a copy.
mkdir "$work/other"
cp "$library" "$work/other/libtslab-malloc.so"
soname=$(readelf -d "$core" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
build=$(strings -a "$core" | sed -n "s/^$version \([0-9a-f]\{24\}\)\$/\1/p")
[ -n "$build" ] || fail "the build of libtslab is not in it"
sed "s/$build/000000000000000000000000/" "$core" >"$work/other/$soname"
code=0
LD_LIBRARY_PATH=$work/other LD_PRELOAD=$work/other/libtslab-malloc.so /bin/true 2>"$work/log" || code=$?
[ $code -eq 127 ] && grep -q 'of build' "$work/log" || fail "another build is taken: $code, $(cat "$work/log")"
echo "install_test: 3 programs"
