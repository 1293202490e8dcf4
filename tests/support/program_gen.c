/* Where operations come from: random numbers, or the bytes of a fuzzer. */
#include "program_impl.h"
#include "rng.h"

#include <string.h>

static const uint8_t WEIGHTS[PROG_KINDS] = {
    [PROG_MALLOC] = 40,
    [PROG_MALLOC_EPOCH] = 110,
    [PROG_CALLOC] = 20,
    [PROG_ALIGNED] = 15,
    [PROG_ALLOC_OBJ] = 40,
    [PROG_SLAB_ALLOC] = 60,
    [PROG_REALLOC] = 40,
    [PROG_FREE] = 90,
    [PROG_FREE_OBJ] = 40,
    [PROG_QUERY] = 20,
    [PROG_STALE_POINTER] = 15,
    [PROG_STALE_HANDLE] = 15,
    [PROG_GARBAGE_POINTER] = 10,
    [PROG_GARBAGE_HANDLE] = 10,
    [PROG_WRONG_ALLOCATOR] = 8,
    [PROG_BAD_ARGUMENT] = 4,
    [PROG_EPOCH_OPEN] = 12,
    [PROG_EPOCH_CLOSE] = 5,
    [PROG_EPOCH_DESTROY] = 6,
    [PROG_EPOCH_ADVANCE] = 3,
    [PROG_EPOCH_LABEL] = 3,
    [PROG_EPOCH_STATE] = 5,
    [PROG_OLD_EPOCH] = 5,
    [PROG_DOMAIN_CREATE] = 8,
    [PROG_DOMAIN_WRAP] = 4,
    [PROG_DOMAIN_ENTER] = 25,
    [PROG_DOMAIN_EXIT] = 25,
    [PROG_DOMAIN_DESTROY] = 4,
    [PROG_DOMAIN_FORCE_CLOSE] = 2,
    [PROG_DOMAIN_RESET] = 6,
    [PROG_DOMAIN_ON_DESTROY] = 6,
    [PROG_DOMAIN_HAND_OVER] = 3,
    [PROG_PROMOTE] = 15,
    [PROG_STALE_DOMAIN] = 3,
    [PROG_TRIM] = 1,
    [PROG_RESERVE] = 1,
    [PROG_BUDGET] = 2,
    [PROG_THREAD_IDLE] = 2,
    [PROG_ALLOCATOR_CREATE] = 2,
    [PROG_ALLOCATOR_FREE] = 1,
    [PROG_VERIFY] = 1,
    [PROG_STATS] = 3,
    [PROG_SEND] = 30,
    [PROG_RECEIVE] = 35,
    [PROG_FAMILY] = 60,
    [PROG_RELEASE] = 30,
    [PROG_RESIZE] = 20,
    [PROG_WALK] = 4,
    [PROG_CHILD] = 10,
    [PROG_MOVE] = 6,
    [PROG_END] = 3,
    [PROG_OFF_DESTROY] = 4,
    [PROG_LIMIT] = 5,
    [PROG_MARK] = 15,
    [PROG_REWIND] = 12,
    [PROG_MAINTAIN] = 1,
    [PROG_SAMPLE_STACKS] = 1,
};

static uint8_t pick_kind(uint64_t number) {
    unsigned sum = 0;
    for (unsigned kind = 0; kind < PROG_KINDS; kind++) {
        sum += WEIGHTS[kind];
    }
    unsigned at = (unsigned)(number % sum);
    uint8_t kind = 0;
    while (at >= WEIGHTS[kind]) {
        at -= WEIGHTS[kind++];
    }
    return kind;
}

/* Most objects are small; every class, the borders of classes, spans and the impossible all occur. */
static uint64_t pick_size(unsigned choice, uint64_t number) {
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX / 2, 2 * PROG_NEVER_BYTES, PROG_NEVER_BYTES};
    choice %= 256;
    if (choice < 140) {
        return number % 257;
    }
    if (choice < 200) {
        return number % 1040;
    }
    if (choice < 228) {
        return number % 8193;
    }
    if (choice < 243) { /* around a power of two */
        return ((uint64_t)1 << (number % 17)) + number / 17 % 3 - 1;
    }
    if (choice < 251) {
        return number % 100000;
    }
    if (choice < 254) {
        return number % (2u << 20);
    }
    return choice == 254 ? number % (64u << 20) : huge[number % (sizeof huge / sizeof huge[0])];
}

/* Most of a program happens in allocator 1. */
static uint8_t pick_allocator(unsigned choice) {
    static const uint8_t of[8] = {0, 1, 1, 1, 1, 1, 2, 3};
    return of[choice % 8];
}

void prog_generate(struct sup_rng *rng, struct prog_op *op) {
    uint64_t choices = sup_rng_next(rng);
    op->kind = pick_kind(choices & 0xffffu);
    op->allocator = pick_allocator((choices >> 16) & 0xffu);
    op->epoch = (uint8_t)((choices >> 24) % PROG_EPOCHS);
    op->domain = (uint8_t)((choices >> 32) % PROG_DOMAINS);
    op->object = (uint16_t)((choices >> 40) % PROG_OBJECTS);
    uint64_t more = sup_rng_next(rng);
    op->extra = (uint16_t)more;
    op->size = pick_size((more >> 16) & 0xffu, more >> 24);
}

size_t prog_decode(const uint8_t *bytes, size_t length, struct prog_op *op) {
    if (length < PROG_OP_BYTES) {
        return 0;
    }
    uint32_t number = (uint32_t)bytes[6] | (uint32_t)bytes[7] << 8 | (uint32_t)bytes[8] << 16;
    op->kind = bytes[0] % PROG_KINDS;
    op->allocator = pick_allocator(bytes[1]);
    op->epoch = (bytes[1] >> 3) % PROG_EPOCHS;
    op->domain = bytes[2] % PROG_DOMAINS;
    op->object = (uint16_t)((bytes[3] | (unsigned)(bytes[2] >> 7) << 8) % PROG_OBJECTS);
    op->extra = (uint16_t)(bytes[4] | (unsigned)bytes[9] << 8);
    op->size = pick_size(bytes[5], number);
    return PROG_OP_BYTES;
}
