#!/bin/sh
# tslab.hpp by every C++ compiler and standard library that is there: alone and without a warning, as C++17 and C++20,
# with and without exceptions and RTTI; the containers under AddressSanitizer with libc++. Missing ones are named and
# left out.
# Arguments: DIRECTORY_OF_THE_LIBRARY SOURCE_DIR.
set -eu
library=$1 source_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast"
warnings="$warnings -Wcast-qual -Wnon-virtual-dtor -Werror"
# Every template is used once: only then is its body compiled.
cat >"$work/header.cpp" <<'END'
#include <tslab/tslab.hpp>
struct ends {
    int n;
    ~ends() { n = 0; }
};
int use(tslab::domain &d);
int use(tslab::domain &d) {
    tslab::scope in(d);
    tslab::allocator<long> a(d);
    tslab::allocator<char> b(a);
    a.deallocate(a.allocate(1), 1);
    tslab::handle<ends> h(d, tslab::make<ends>(d, 1));
    tslab::handle<int> i(d, tslab::make<int>(d, 1));
    d = d.child("child");
#if TSLAB_HAS_PMR
    tslab::memory_resource m(d), n(d.allocator(), d.epoch());
    if (m != n) return 2;
#endif
    return a == b && h != h && i.free() && std::hash<tslab::handle<int>>()(i) && tslab::destroy(d, h.get());
}
END
printf '#include <tslab/adapt.h>\nint main() { return slab_adapt_epoch(&slab_adapt_home_expat) == 0; }\n' >"$work/adapt.cpp"
count=0
skipped=""
try() { # NAME COMPILER...: if it compiles and links anything
    name=$1
    shift
    printf '#include <vector>\nint main() { return std::vector<int>(1)[0]; }\n' >"$work/try.cpp"
    if ! "$@" -std=c++17 "$work/try.cpp" -o "$work/try" 2>/dev/null; then
        skipped="$skipped; no $name"
        return 1
    fi
}
check() { # NAME COMPILER...
    try "$@" || return 0
    shift
    for standard in 17 20; do
        # shellcheck disable=SC2086 # words
        "$@" -std=c++$standard -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -I"$source_dir/include" -fsyntax-only \
            "$work/adapt.cpp"
        for flags in "" "-fno-exceptions -fno-rtti"; do
            "$@" -std=c++$standard $flags $warnings -I"$source_dir/include" -fsyntax-only "$work/header.cpp"
            count=$((count + 1))
        done
    done
}
check g++ g++
check clang++ clang++
check "clang++ with libc++ (libc++-dev)" clang++ -stdlib=libc++

# Identities across shared objects, of the library that tells types by the addresses of their names.
if try "clang++ with libc++ (libc++-dev)" clang++ -stdlib=libc++; then
    shared() { clang++ -stdlib=libc++ -std=c++17 -fvisibility=hidden -I"$source_dir/include" "$@"; }
    shared -shared -fPIC "$source_dir/tests/cxx/shared_library.cpp" -o "$work/libshared.so" -L"$library" -ltslab
    shared "$source_dir/tests/cxx/shared_test.cpp" -o "$work/shared" "$work/libshared.so" -L"$library" -ltslab \
        -Wl,-rpath,"$library" -Wl,-rpath,"$work"
    "$work/shared"
    count=$((count + 1))
fi

asan=""
if try "AddressSanitizer of clang with libc++ (libclang-rt-dev)" clang++ -stdlib=libc++ -fsanitize=address; then
    for test in containers domain; do
        clang++ -stdlib=libc++ -fsanitize=address -std=c++20 -O0 -I"$source_dir/include" \
            "$source_dir/tests/cxx/${test}_test.cpp" -o "$work/$test" -L"$library" -ltslab \
            -Wl,-rpath,"$library" -pthread
        ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 "$work/$test" >"$work/log" 2>&1 || {
            cat "$work/log"
            exit 1
        }
    done
    asan=", containers and domains under AddressSanitizer with libc++"
fi
[ "$count" -gt 0 ] || {
    echo "compilers_test: no C++ compiler"
    exit 77
}
echo "compilers_test: the header in $count ways$asan$skipped"
