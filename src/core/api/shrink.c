/*
 * A limit of the address space that is set while the process runs. All reserved addresses count against it. So the
 * region keeps what is in use, and a share of what the limit leaves, as it does when it begins under a limit. The
 * rest goes back to the system for good.
 */
#include "api/api.h"
#include "api/runtime.h"
#include "memtools/memtools.h"
#include "os/os.h"
#include "region/region.h"

#include <errno.h>

#define LEFT 4u /* a quarter is the program's */
#define LINES_OF_UNIT (TS_UNIT_BYTES / 16 * 3)
#define LINES_LEAST ((size_t)4 << 20)
#define ENTRIES_LEAST 512u

static bool leaves_enough(uint64_t limit) {
    uint64_t taken = ts_os_address_space_bytes();
    return taken != 0 && taken <= limit && limit - taken >= limit / LEFT;
}

/* Units for which there is room beside what else the process has. */
static uint32_t units_within(uint64_t limit) {
    uint64_t taken = ts_os_address_space_bytes(), reserved = ts_load_relaxed(&ts_region.reserved_bytes);
    uint64_t others = taken > reserved ? taken - reserved : 0, room = limit > others ? limit - others : 0;
    size_t notes = LINES_OF_UNIT / TS_LINES_CHUNK * TS_CHUNK_NOTE_BYTES;
    size_t bytes = ts_region_unit_bytes() + LINES_OF_UNIT + notes + TS_EPOCH_STRIDE + TS_DOMAIN_STRIDE;
    uint64_t units = room / LEFT * (LEFT - 1) / bytes;
    return units < ts_region_part_end(TS_NORMAL) ? (uint32_t)units : ts_region_part_end(TS_NORMAL);
}

void ts_private_limit_data(void) {
    ts_runtime_lock();
    if (ts_runtime_has_region()) ts_pool_limit_data();
    ts_runtime_unlock();
}

static void shrink(uint64_t limit) {
    ts_store_relaxed(&ts_region.far_bytes, SIZE_MAX);
    if (ts_region.part[TS_FAR].units != 0) ts_pool_shrink(TS_FAR, 0);
    if (leaves_enough(limit)) return;
    uint32_t units = units_within(limit), records = units > ENTRIES_LEAST ? units : ENTRIES_LEAST;
    size_t lines = (size_t)units * LINES_OF_UNIT;
    ts_pool_shrink(TS_NORMAL, units);
    ts_lines_shrink(lines > LINES_LEAST ? lines : LINES_LEAST);
    ts_table_shrink(&ts_epochs, records);
    ts_table_shrink(&ts_domains, records);
    ts_table_shrink(&ts_allocators, ENTRIES_LEAST);
}

/* Not beside a tool that watches the region as a whole. */
void ts_private_limit_address_space(uint64_t bytes) {
    int error = errno;
    ts_runtime_lock();
    if (ts_runtime_started() && !ts_care_tools && ts_runtime_has_region() && !leaves_enough(bytes)) shrink(bytes);
    ts_runtime_unlock();
    errno = error;
}
