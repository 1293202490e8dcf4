/* What the hard mode says of misuse, and whether that ends the program. */
#include "malloc/hard_parts.h"

tm_target tm_hard;
uint32_t tm_hard_parts;

void tm_hard_tell(const char *call, const void *p, const char *why) {
    ts_private_tell(tm_target_allocator(&tm_hard), call, p, why);
}

tm_hard_answer tm_hard_refuse(const char *call, const void *p, const char *why) {
    ts_private_refuse(tm_target_allocator(&tm_hard), call, p, why);
    return TM_HARD_REFUSED;
}

void tm_hard_tell_of_canary(const char *call, const void *p, const char *why) {
    if (tm_hard_has(TS_HARDEN_CANARY)) tm_hard_tell(call, p, why);
}

void tm_hard_tell_written(const char *call, const void *p) {
    if (tm_hard_has(TS_HARDEN_QUARANTINE)) tm_hard_tell(call, p, "written after it was freed");
}

/* Sound programs do it, too: where the part is not named it ends nothing, and is told once of each mistake. */
TS_COLD static void tell_mismatch(ts_harden part, unsigned mistake, const char *call, const void *p, const char *why) {
    static _Atomic uint32_t told;
    uint32_t bit = (uint32_t)1 << mistake;
    if (tm_hard_has(part))
        tm_hard_tell(call, p, why);
    else if (tm_hard_has(TS_HARDEN_ONE) && !(atomic_fetch_or_explicit(&told, bit, memory_order_relaxed) & bit))
        ts_private_report(tm_target_allocator(&tm_hard), call, p, why);
}

TS_COLD static void tell_kind(const char *call, const void *p, tm_kind kind, tm_kind own) {
    static const char *const why[] = {"an object of malloc, which free frees", "an object of new, which delete frees",
                                      "an object of new[], which delete[] frees"};
    tell_mismatch(TS_HARDEN_KINDS, 1 + 3 * (unsigned)kind + (unsigned)own, call, p, why[own]);
}

void tm_hard_tell_size(const char *call, const void *p, const char *why) {
    tell_mismatch(TS_HARDEN_SIZED, 0, call, p, why);
}

void tm_hard_compare(const char *call, const void *p, tm_kind kind, tm_kind own, size_t size, size_t bytes) {
    if (TS_UNLIKELY(kind != own)) tell_kind(call, p, kind, own);
    if (TS_UNLIKELY(size != bytes && size != TM_SIZE_UNKNOWN))
        tm_hard_tell_size(call, p, "freed with a size that is not the object's");
}
