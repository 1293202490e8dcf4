#!/bin/busybox sh
# The first process of the machine. Runs each line of /plan, "VARIANT SECONDS PROGRAM ...", and powers off. Lines for
# the host begin with "vm:"; all else is the output of the tests.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ln -s /proc/self/fd /dev/fd
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
dmesg -n 1
ip link set lo up
[ -d /coverage ] && export GCOV_PREFIX=/coverage # counters of a build with gcov

echo # the kernel's last line may have no end
huge=/sys/kernel/mm/transparent_hugepage/enabled
echo "vm: nodes $(ls -d /sys/devices/system/node/node[0-9]* | wc -l)"
for disk in /sys/block/nvme*; do
    [ -r "$disk/queue/zoned" ] && echo "vm: disk ${disk##*/} $(cat "$disk/queue/zoned") $(cat "$disk/queue/chunk_sectors")"
done

# A cgroup with the memory that the first line of /cpuset names, and, of cpuset_whole, with the processors of the
# second. The kernel shows the set in force: the requested one, and less than the machine has.
make_cpuset() {
    all=/sys/fs/cgroup set=/sys/fs/cgroup/$1
    { read -r memory && read -r processors; } </cpuset || return 1
    if [ ! -d "$set" ]; then
        echo +cpuset >$all/cgroup.subtree_control && mkdir "$set" && echo "$memory" >"$set/cpuset.mems" || return 1
        if [ "$1" = cpuset_whole ]; then echo "$processors" >"$set/cpuset.cpus" || return 1; fi
        said="memory $(cat "$set/cpuset.mems.effective") of $(cat $all/cpuset.mems.effective)"
        [ "$1" = cpuset ] || said="$said processors $(cat "$set/cpuset.cpus.effective") of $(cat $all/cpuset.cpus.effective)"
        echo "vm: $1 $said"
    fi
    [ "$(cat "$set/cpuset.mems.effective")" = "$memory" ] && [ "$memory" != "$(cat $all/cpuset.mems.effective)" ] || return 1
    [ "$1" = cpuset ] || { [ "$(cat "$set/cpuset.cpus.effective")" = "$processors" ] && [ "$processors" != "$(cat $all/cpuset.cpus.effective)" ]; }
}

# Runs "$@" in the variant; whether the machine could be made so.
in_variant() {
    variant=$1 seconds=$2
    shift 2
    echo madvise >$huge
    echo 0 >/proc/sys/vm/overcommit_memory
    before=""
    unset TSLAB_ZONED_DEVICE SUP_CPUSET
    case $variant in
        plain) ;;
        huge_always) echo always >$huge ;;
        huge_never) echo never >$huge ;;
        strict) echo 2 >/proc/sys/vm/overcommit_memory && echo 90 >/proc/sys/vm/overcommit_ratio ;;
        cgroup) echo +memory >/sys/fs/cgroup/cgroup.subtree_control && mkdir -p /sys/fs/cgroup/tests &&
            echo 256M >/sys/fs/cgroup/tests/memory.max ;;
        cpuset | cpuset_whole) make_cpuset "$variant" && export SUP_CPUSET="/sys/fs/cgroup/$variant" ;;
        null_blk) export TSLAB_ZONED_DEVICE=/dev/nullb0
            [ -b /dev/nullb0 ] || { insmod /modules/configfs.ko && insmod /modules/null_blk.ko nr_devices=1 gb=1 bs=4096 memory_backed=1 \
                zoned=1 zone_size=4 zone_capacity=3 zone_max_active=32; } ;;
        no_membarrier) before=/tests/no_membarrier ;;
        *) return 125 ;;
    esac || return 125
    (
        case $variant in
            cgroup) echo 0 >/sys/fs/cgroup/tests/cgroup.procs || exit 125 ;;
            cpuset*) echo 0 >"$SUP_CPUSET/cgroup.procs" && grep -q "^Mems_allowed_list:[[:space:]]*$memory\$" /proc/self/status || exit 125 ;;
        esac
        cd /tmp && exec timeout -s KILL "$seconds" $before "$@"
    )
}

while read -r variant seconds program arguments; do
    echo "vm: begin $variant $program"
    # shellcheck disable=SC2086 # arguments are words
    in_variant "$variant" "$seconds" "/tests/$program" $arguments </dev/null
    echo "vm: end $variant $program $?"
done </plan
[ -d /coverage ] && { tar -c -f /dev/nvme0n2 -C /coverage . && sync || echo "vm: no counters"; }
echo "vm: done"
poweroff -f
