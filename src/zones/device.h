/*
 * A zoned device as the library sees it: a table of functions, one file per kind.
 *
 * A zone has a state, a capacity and a write pointer. Offsets are bytes from the start of a zone. All of them return
 * false with errno:
 *     EIO           the device refused: the zone is full, read-only or offline, or there is no room for so much
 *     ETOOMANYREFS  it would be one open zone too many, and all are open by command
 *     EOVERFLOW     it would be one active zone too many
 *     EINVAL        an offset or a length that is no multiple of block_bytes, or outside of the zone
 * The same errors as of Linux. One thread at a time, but for appends to zones that stay as they are, and for reads:
 * of each of these several threads may be in one at a time, all of one kind. An append whose fellow to the same zone
 * fails may fail too.
 */
#ifndef TS_ZONES_DEVICE_H
#define TS_ZONES_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

typedef enum ts_zone_state {
    TS_ZONE_EMPTY,
    TS_ZONE_IMPLICITLY_OPEN, /* by a write */
    TS_ZONE_EXPLICITLY_OPEN, /* by command */
    TS_ZONE_CLOSED,
    TS_ZONE_FULL,
    TS_ZONE_READ_ONLY,
    TS_ZONE_OFFLINE,
    TS_ZONE_STATES
} ts_zone_state;

typedef struct ts_zone_report {
    ts_zone_state state;
    uint64_t written; /* bytes from its start to its write pointer; no meaning in TS_ZONE_READ_ONLY and _OFFLINE */
    uint64_t capacity;
} ts_zone_report;

typedef struct ts_device ts_device;
typedef struct ts_device_table {
    bool (*report)(ts_device *, uint32_t zone, ts_zone_report *out);
    /* Writes at the write pointer, wherever that is; *at: where it was. */
    bool (*append)(ts_device *, uint32_t zone, const struct iovec *iov, int count, uint64_t *at);
    /* What was not written reads as zero of the emulated device, and as anything of others. */
    bool (*read)(ts_device *, uint32_t zone, uint64_t at, const struct iovec *iov, int count);
    bool (*open)(ts_device *, uint32_t zone);
    bool (*close)(ts_device *, uint32_t zone);
    bool (*finish)(ts_device *, uint32_t zone);
    bool (*reset)(ts_device *, uint32_t zone);
    void (*end)(ts_device *); /* lets go of the device and frees this */
    void (*forked)(
        ts_device *); /* in a child of fork: closes what it has open, so that the lock is the parent's alone */
} ts_device_table;

struct ts_device {
    const ts_device_table *call;
    uint32_t zones, max_open, max_active; /* limits: 0 none */
    uint64_t zone_bytes;
    uint64_t capacity; /* of most zones; the report has each one's */
    uint32_t block_bytes;
    size_t append_bytes; /* most of one append */
    int append_pieces;   /* pieces of memory of an append that has fellows: so many at most; constant */
    /* The device chooses the place of an append; else the tracked pointer is the place. Constant once it is open. */
    bool chooses;
};

static inline uint64_t ts_iov_bytes(const struct iovec *iov, int count) {
    uint64_t sum = 0;
    for (int i = 0; i < count; i++) sum += iov[i].iov_len;
    return sum;
}

#endif
