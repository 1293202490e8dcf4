#define _GNU_SOURCE
#include "zones/owner.h"

#include "os/small_file.h"

#include <stdio.h>

static void read_boot(char out[40]) {
    memset(out, 0, 40);
    (void)ts_small_file_line("/proc/sys/kernel/random/boot_id", out, 40);
}

static uint64_t start_of(uint64_t process) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)process);
    return ts_process_word(path, 22);
}

void ts_owner_self(ts_owner *out) {
    read_boot(out->boot);
    out->process = (uint64_t)getpid();
    out->started = start_of(out->process);
}

bool ts_owner_is_alive(const ts_owner *owner) {
    char boot[40];
    if (owner->process == 0) return false;
    read_boot(boot);
    return strncmp(boot, owner->boot, sizeof boot) == 0 && owner->started != 0 &&
           start_of(owner->process) == owner->started;
}
