#define _GNU_SOURCE
#include "os/machine.h"

#include <stdint.h>

#if defined(__linux__)
#include <errno.h>
#include <fcntl.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static bool overcommits_always(void) {
    char mode = 0;
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool is_read = read(fd, &mode, 1) == 1;
    (void)close(fd);
    return is_read && mode == '1';
}

size_t ts_machine_most_bytes(void) {
    struct sysinfo info;
    int before = errno;
    uint64_t bytes = 0;
    if (!overcommits_always() && sysinfo(&info) == 0)
        bytes = ((uint64_t)info.totalram + info.totalswap) * (info.mem_unit ? info.mem_unit : 1);
    errno = before;
    return bytes == 0 || (size_t)bytes != bytes ? SIZE_MAX : (size_t)bytes;
}
#else
size_t ts_machine_most_bytes(void) { return SIZE_MAX; }
#endif
