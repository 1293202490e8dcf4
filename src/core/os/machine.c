#define _GNU_SOURCE
#include "os/machine.h"

#include "os/small_file.h"

#include <sys/sysinfo.h>

static bool overcommits_always(void) { return ts_small_file_number("/proc/sys/vm/overcommit_memory") == 1; }

size_t ts_machine_most_bytes(void) {
    struct sysinfo info;
    int before = errno;
    uint64_t bytes = 0;
    if (!overcommits_always() && sysinfo(&info) == 0)
        bytes = ((uint64_t)info.totalram + info.totalswap) * (info.mem_unit ? info.mem_unit : 1);
    errno = before;
    return bytes == 0 || (size_t)bytes != bytes ? SIZE_MAX : (size_t)bytes;
}
