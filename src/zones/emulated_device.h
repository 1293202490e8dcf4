/* An emulated device, for its two files: emulated.c has its calls, emulated_open.c opens its file. */
#ifndef TS_ZONES_EMULATED_DEVICE_H
#define TS_ZONES_EMULATED_DEVICE_H

#include "os/own_file.h"
#include "zones/emulated.h"
#include "zones/owner.h"

#include <errno.h>
#include <pthread.h>

#define HEADER_BYTES 4096u
#define BLOCK 4096u
#define IOV_MOST 64

typedef struct header {
    char magic[16];
    uint64_t zones, zone_size, zone_capacity, max_open, max_active;
    ts_owner owner;
} header;
_Static_assert(sizeof(header) <= HEADER_BYTES, "one block");

typedef struct record {
    uint32_t state;
    uint32_t turn; /* of its last opening by a write */
    uint64_t written;
} record;

/* Appends to a zone that are under way. Each has its place by `claimed`, and counts when all before it do. */
typedef struct flight {
    uint64_t claimed; /* bytes from the start of the zone */
    uint32_t count;
    bool torn; /* one did not write all of its bytes: those behind it fail */
} flight;

typedef struct emulated {
    ts_device device;
    pthread_mutex_t mutex; /* for appends and reads: the table and what is under way; other calls are alone */
    pthread_cond_t moved;  /* a write pointer, or a zone is torn */
    flight *flight;        /* [zone] */
    ts_own_file file;      /* with direct I/O, where there is such */
    ts_own_file plain;     /* the same file, for the header and the table */
    uint64_t bytes;        /* that the file has */
    uint64_t data;         /* offset of the first zone in the file */
    record *table;         /* [zone], as it is in the file */
    bool lost;             /* a record could not be written: nothing changes any more */
    uint32_t open, active, turns;
} emulated;

static inline bool ts_emulated_fail(int error) {
    errno = error;
    return false;
}
static inline bool ts_emulated_is_open(uint32_t state) {
    return state == TS_ZONE_IMPLICITLY_OPEN || state == TS_ZONE_EXPLICITLY_OPEN;
}
static inline bool ts_emulated_is_active(uint32_t state) {
    return ts_emulated_is_open(state) || state == TS_ZONE_CLOSED;
}

extern const ts_device_table ts_emulated_calls;
/* All of it, or false with errno. */
bool ts_emulated_put_all(int file, const void *from, size_t bytes, uint64_t at);

#endif
