#!/bin/sh
# Installs the Debian packages that a purpose needs and that are missing. Silent when nothing is.
# usage: tools/setup.sh PURPOSE, one of those that are listed below
set -eu

run="make gcc libc6-dev cmake pkg-config libjansson-dev iso-codes python3"
# The peers of make run, the libraries of two rows, and the package that draws. Where they cannot be had it goes
# without.
beside="libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4 liblua5.4-dev libxml2-dev python3-matplotlib"
optional=""
record="libzstd-dev libunwind-dev"
http="libmicrohttpd-dev protobuf-c-compiler libprotobuf-c-dev zlib1g-dev"
adapt="libsqlite3-dev liblua5.4-dev libxml2-dev zlib1g-dev libexpat1-dev libpcre2-dev libnghttp2-dev libssl-dev libuv1-dev"
cross="gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-riscv64-linux-gnu libc6-dev-riscv64-cross"
cross="$cross gcc-s390x-linux-gnu libc6-dev-s390x-cross gcc-arm-linux-gnueabihf libc6-dev-armhf-cross"
cross="$cross gcc-i686-linux-gnu libc6-dev-i386-cross qemu-user musl-tools xz-utils"
case "$#:${1-}" in
    1:run) wanted="$run $beside" optional=" $beside " ;;
    1:test) wanted="$run libcmocka-dev $http $record ninja-build" ;;
    1:test-all) wanted="$run libcmocka-dev $http $record ninja-build gdb abigail-tools meson" ;;
    1:coverage) wanted="$run libcmocka-dev $http gdb gcovr valgrind" ;;
    1:afl) wanted="$run libcmocka-dev clang afl++" ;;
    1:clang) wanted="$run libcmocka-dev clang" ;;
    1:cxx) wanted="$run libcmocka-dev g++ clang libc++-dev libc++abi-dev libclang-rt-dev" ;;
    1:adapt) wanted="$run libcmocka-dev g++ libprotobuf-dev $adapt" ;;
    1:fuzz) wanted="$run libcmocka-dev clang libclang-rt-dev" ;;
    1:record) wanted="$run $record" ;;
    1:http) wanted="$run $http" ;;
    1:observability) wanted="$run $http prometheus prometheus-pushgateway curl python3-yaml" ;;
    1:bench) wanted="$run libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4 g++ libapr1-dev libtalloc-dev" ;;
    1:plot) wanted="make python3 python3-matplotlib" ;;
    1:vm) wanted="$run libcmocka-dev qemu-system-x86 linux-image-cloud-amd64 busybox-static cpio libzbd-dev" ;;
    1:valgrind) wanted="$run libcmocka-dev valgrind" ;;
    1:cross) wanted="make gcc libc6-dev cmake pkg-config python3 $cross" ;;
    1:programs) wanted="$run libcmocka-dev g++ clang git perl gdb sqlite3 lua5.4 php-cli ruby nodejs default-jre-headless redis-server redis-tools nginx-light postgresql mariadb-server ghostscript imagemagick qemu-user valgrind openssl xz-utils bzip2 zstd zip unzip cpio rsync openssh-client jq vim bc tcl gawk rustc gettext" ;;
    1:model) wanted="make gcc libc6-dev python3 spin" ;;
    1:deb) wanted="mmdebstrap" ;;
    1:apr) wanted="$run libapr1-dev apache2 apache2-dev subversion wrk" ;;
    1:nginx) wanted="$run libpcre2-dev zlib1g-dev wrk" ;;
    1:protobuf) wanted="$run libcmocka-dev g++ libprotobuf-dev" ;;
    1:talloc) wanted="$run libtalloc-dev notmuch" ;;
    1:talloc-suite) wanted="samba-testsuite" ;;
    1:rust) wanted="cargo-web" ;; # Debian 12: the newer of its two; cargo of any origin will do
    *)
        echo "tools/setup.sh: unknown purpose '$*'; there are: $(sed -n 's/^ *1:\([a-z-]*\)).*/\1/p' "$0" | tr '\n' ' ')" >&2
        exit 2
        ;;
esac

installed=""
if command -v dpkg-query >/dev/null 2>&1; then
    # shellcheck disable=SC2086 # names are words
    installed=$(dpkg-query -W -f='${db:Status-Abbrev}${Package} ' $wanted 2>/dev/null) || true
fi

has_library() { { /sbin/ldconfig -p 2>/dev/null || ldconfig -p 2>/dev/null; } | grep -q "^[[:space:]]*$1"; }

# Debian's own `cargo` is too old for the locked versions of the models' crates.
new_cargo() {
    minor=$(cargo --version | sed -n 's/^cargo 1\.\([0-9]*\)\..*/\1/p')
    [ -n "$minor" ] && [ "$minor" -ge 78 ]
}

# The purpose of a package, from any source.
present() {
    case $1 in
        meson | mmdebstrap | make | gcc | g++ | cmake | pkg-config | clang | python3 | valgrind | gdb | gcovr | spin | curl | git | perl | sqlite3 | lua5.4 | ruby | redis-server) command -v "$1" ;;
        php-cli) command -v php ;;
        nodejs) command -v node ;;
        default-jre-headless) command -v java ;;
        redis-tools) command -v redis-benchmark ;;
        nginx-light) command -v nginx || [ -x /usr/sbin/nginx ] ;;
        mariadb-server) command -v mariadbd || [ -x /usr/sbin/mariadbd ] ;;
        ghostscript) command -v gs ;;
        imagemagick) command -v convert ;;
        prometheus | prometheus-pushgateway) command -v "$1" || command -v "${1#prometheus-}" ;;
        python3-yaml) python3 -c 'import yaml' ;;
        cargo-web) new_cargo ;;
        libclang-rt-dev) echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -fsanitize=fuzzer,address -x c - -o /dev/null ;;
        libc++-dev | libc++abi-dev) printf '#include <vector>\nint main() { return std::vector<int>(1)[0]; }\n' | clang++ -stdlib=libc++ -x c++ - -o /dev/null ;;
        abigail-tools) command -v abidiff ;;
        afl++) command -v afl-clang-fast && command -v afl-fuzz ;;
        ninja-build) command -v ninja ;;
        libc6-dev) echo '#include <stdio.h>' | gcc -E - ;;
        libjansson-dev) pkg-config --exists jansson ;;
        libsqlite3-dev) pkg-config --exists sqlite3 ;;
        liblua5.4-dev) pkg-config --exists lua5.4 ;;
        libxml2-dev) pkg-config --exists libxml-2.0 ;;
        zlib1g-dev) pkg-config --exists zlib ;;
        libexpat1-dev) pkg-config --exists expat ;;
        wrk) command -v wrk ;;
        libpcre2-dev) pkg-config --exists libpcre2-8 ;;
        libnghttp2-dev) pkg-config --exists libnghttp2 ;;
        libssl-dev) pkg-config --exists openssl ;;
        libuv1-dev) pkg-config --exists libuv ;;
        libapr1-dev) pkg-config --exists apr-1 ;;
        libprotobuf-dev) pkg-config --exists protobuf ;;
        libtalloc-dev) pkg-config --exists talloc ;;
        samba-testsuite) command -v smbtorture ;;
        libcmocka-dev) pkg-config --exists cmocka ;;
        libzbd-dev) pkg-config --exists libzbd ;;
        libmicrohttpd-dev) pkg-config --exists libmicrohttpd ;;
        protobuf-c-compiler) command -v protoc-c ;;
        libprotobuf-c-dev) pkg-config --exists libprotobuf-c ;;
        zlib1g-dev) pkg-config --exists zlib ;;
        python3-matplotlib) python3 -c 'import matplotlib' || /usr/bin/python3 -c 'import matplotlib' ;;
        iso-codes) test -d /usr/share/iso-codes/json ;;
        gcc-*-linux-gnu*) command -v "${1#gcc-}-gcc" ;;
        libc6-dev-*-cross) false ;;
        qemu-user) command -v qemu-aarch64 ;;
        qemu-system-x86) command -v qemu-system-x86_64 ;;
        linux-image-cloud-amd64) ls /boot/vmlinuz-*-cloud-amd64 ;;
        busybox-static) command -v busybox ;;
        cpio) command -v cpio ;;
        musl-tools) command -v musl-gcc ;;
        xz-utils) command -v xz ;;
        libjemalloc2) has_library 'libjemalloc\.so\.2 ' ;;
        libmimalloc2.0) has_library 'libmimalloc\.so\.2' ;;
        libtcmalloc-minimal4) has_library 'libtcmalloc_minimal\.so\.4 ' ;;
    esac >/dev/null 2>&1
}

missing=""
for package in $wanted; do
    case " $installed" in
        *"ii $package "*) ;;
        *) present "$package" || missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0

# The missing packages without which nothing goes.
needed=""
for package in $missing; do
    case $optional in *" $package "*) ;; *) needed="$needed $package" ;; esac
done

cannot() {
    if [ -z "$needed" ]; then
        echo "tools/setup.sh: left out:$missing ($1)"
        exit 0
    fi
    echo "tools/setup.sh: missing packages:$missing ($1)" >&2
    exit 1
}

command -v apt-get >/dev/null 2>&1 || cannot "there is no apt-get here; install them by hand"
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || cannot "neither root nor sudo; as root: apt-get install -y$missing"
    as_root=sudo
    # Nobody can type a password where there is no terminal.
    [ -t 0 ] || as_root="sudo -n"
fi

echo "tools/setup.sh: installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" </dev/null >>"$log" 2>&1
}
# The servers among the programs are started by the tests, not by their installation.
policy=/usr/sbin/policy-rc.d
if [ "$1" = programs ] && [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null
    $as_root chmod +x $policy
    trap 'rm -f "$log"; $as_root rm -f $policy' EXIT
fi
# An update that fails may leave lists that are good enough.
apt update || true
# shellcheck disable=SC2086 # names are words
if ! apt install -y --no-install-recommends $missing && { [ "$needed" = "$missing" ] || [ -z "$needed" ] || ! apt install -y --no-install-recommends $needed; }; then
    [ -z "$needed" ] || tail -n 20 "$log" >&2
    cannot "apt-get failed"
fi
