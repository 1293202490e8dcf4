#!/bin/sh
# The library stands in for every function of libc and of libstdc++ that allocates or frees, and exports nothing else: the
# lists of both, as they are installed, are compared with its own. Arguments: LIBRARY SOURCE_DIR. Environment: NM, READELF.
set -eu
export LC_ALL=C
library=$1 source_dir=$2
nm=${NM:-nm}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
    echo "exports_test: $*" >&2
    failed=1
}

# Without a version: a reference to libc's malloc is then bound to it.
"$nm" -D --defined-only "$library" | awk '{ print $3 }' | sort >"$work/exported"
grep '@' "$work/exported" >"$work/versioned" && fail "with a version: $(tr '\n' ' ' <"$work/versioned")"

sed -n 's/^TSLAB_API .*[ *]\([a-z0-9_]*\)(.*/\1/p' "$source_dir/include/tslab/malloc.h" >"$work/wanted"
[ "$(wc -l <"$work/wanted")" -eq 2 ] || fail "tslab/malloc.h declares $(wc -l <"$work/wanted") functions"
# C, POSIX, glibc 2.36; BSD's reallocf; C23.
for name in malloc free calloc realloc reallocarray reallocf aligned_alloc posix_memalign memalign valloc pvalloc cfree \
    malloc_usable_size free_sized free_aligned_sized malloc_trim malloc_stats malloc_info mallopt \
    __libc_malloc __libc_free __libc_calloc __libc_realloc __libc_reallocarray __libc_memalign __libc_valloc \
    __libc_pvalloc __libc_mallopt __posix_memalign; do
    echo "$name"
done >>"$work/wanted"
libc=$(ldd "$library" | sed -n 's/.*libc\.so\.6 => \([^ ]*\).*/\1/p')
[ -z "$libc" ] || printf 'mallinfo\nmallinfo2\n__libc_mallinfo\ndlopen\n__cxa_atexit\n__cxa_at_quick_exit\non_exit\nsetns\nunshare\n__register_atfork\n' >>"$work/wanted"
# These hand out memory that they allocate (src/malloc/handed.c).
[ -z "$libc" ] || printf '%s\n' asprintf canonicalize_file_name get_current_dir_name getcwd getdelim getline realpath scandir \
    scandir64 scandirat scandirat64 strdup strndup tempnam vasprintf wcsdup __asprintf_chk __getdelim __strdup __strndup \
    __vasprintf_chk >>"$work/wanted"
[ -z "$libc" ] || printf 'setrlimit\nsetrlimit64\nprlimit\nprlimit64\n' >>"$work/wanted"
# Where it is libc's own (glibc 2.34).
[ -z "$libc" ] || ! "$nm" -D --defined-only "$libc" | grep -q ' pthread_create@@GLIBC_2\.34$' || echo pthread_create >>"$work/wanted"
size=$(grep -o '_Znw[mj]$' "$work/exported" | sed 's/_Znw//')
for what in w a; do
    for kind in "" RKSt9nothrow_t St11align_val_t St11align_val_tRKSt9nothrow_t; do
        echo "_Zn$what$size$kind"
        d=$([ $what = w ] && echo l || echo a)
        echo "_Zd${d}Pv$kind"
    done
    echo "_Zd${d}Pv$size"
    echo "_Zd${d}Pv${size}St11align_val_t"
done >>"$work/wanted"
sort "$work/wanted" -o "$work/wanted"
for name in $(comm -23 "$work/wanted" "$work/exported"); do fail "not exported: $name"; done
for name in $(comm -13 "$work/wanted" "$work/exported"); do fail "exported without a reason: $name"; done
[ "$(grep -c '^_Z' "$work/wanted")" -eq 20 ] || fail "of the operators there are not 20 in the list"

# Every function of libc by such a name is in the list, or is known to be something else.
others='^(_IO_.*|__libc_(alloc|scratch)_?.*|__libc_freeres|__libc_allocate.*|__sched_cpu(alloc|free)|_dl_.*|_?obstack_.*|__?(mem|st)p?cpy_small|__strcpy_small|mallwatch|.*fallocate(64)?|freeaddrinfo|freeifaddrs|_*freelocale|globfree(64)?|if_freenameindex|inet6_option_alloc|pkey_(alloc|free)|regfree|wordfree|xdr_free|__(malloc|free|realloc|memalign)(_initialize)?_hook|re_.*|_nl_.*|.*_nss_.*)$'
if [ -n "$libc" ]; then
    "$nm" -D --defined-only "$libc" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u |
        grep -E 'alloc|free|mall|memalign' | grep -Ev "$others" >"$work/libc"
    [ "$(wc -l <"$work/libc")" -ge 25 ] || fail "libc has only $(wc -l <"$work/libc") such names"
    for name in $(comm -23 "$work/libc" "$work/exported"); do fail "libc has $name"; done
fi
libstdcxx=$(ldconfig -p 2>/dev/null | sed -n 's/.*libstdc++\.so\.6 .*=> //p' | head -n 1)
[ -n "$libstdcxx" ] || libstdcxx=$(/sbin/ldconfig -p 2>/dev/null | sed -n 's/.*libstdc++\.so\.6 .*=> //p' | head -n 1)
if [ -n "$libstdcxx" ]; then
    "$nm" -D --defined-only "$libstdcxx" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u |
        grep -E '^_Z(n[wa]|d[la]Pv)' >"$work/libstdcxx"
    [ "$(wc -l <"$work/libstdcxx")" -ge 20 ] || fail "libstdc++ has only $(wc -l <"$work/libstdcxx") operators"
    for name in $(comm -23 "$work/libstdcxx" "$work/exported"); do fail "libstdc++ has $name"; done
fi

"${READELF:-readelf}" -d -W "$library" >"$work/dynamic"
grep -q 'TEXTREL' "$work/dynamic" && fail "text relocations"
sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' "$work/dynamic" |
    grep -Ev '^(libtslab\.so\..*|libc\.so|libc\.so\.6|libdl\.so\.2|ld-linux.*)$' >"$work/needed" &&
    fail "needs more than libtslab and the C library: $(tr '\n' ' ' <"$work/needed")"
grep -q 'NODELETE' "$work/dynamic" || fail "may be unloaded"
[ -z "$libc" ] || { "$nm" -D --undefined-only "$library" | grep -q '__tls_get_addr' && fail "thread storage is not initial-exec"; }
exit $failed
