#define _GNU_SOURCE
#include "zones/owner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_boot(char out[40]) {
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    memset(out, 0, 40);
    if (!f) return;
    if (!fgets(out, 40, f)) out[0] = 0;
    out[strcspn(out, "\n")] = 0;
    (void)fclose(f);
}

/* The 22nd field; the second is in brackets and may contain anything. */
static uint64_t start_of(uint64_t process) {
    char path[64], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)process);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    size_t bytes = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[bytes] = 0;
    char *p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++) {
        p = strchr(p + 1, ' ');
    }
    return p ? strtoull(p + 1, NULL, 10) : 0;
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
