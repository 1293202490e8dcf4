/* The table of domains: reading a domain, and refusing one that the caller may not use. */
#include "domain/domain_parts.h"

ts_table ts_domains;

bool ts_domain_read(uint64_t id, uintptr_t *token, EpochId *epoch) {
    const ts_domain *d = ts_domain_find(id);
    ts_domain_fields f = {0};
    bool read = d && ts_domain_read_fields(d, id, &f);
    *token = f.token;
    *epoch = f.epoch;
    return read;
}

bool ts_domain_refuse(const char *call, uint64_t id, const char *why, int error) {
    const ts_domain *d = ts_domain_find(id);
    if (!why) why = ts_table_is_past(&ts_domains, id) ? "destroyed already" : "not a domain";
    if (!d && ts_table_was_last(&ts_domains, id)) d = ts_table_at(&ts_domains, ts_table_index(&ts_domains, id));
    EpochId epoch = d ? ts_load_relaxed(&d->epoch) : EPOCH_NONE;
    ts_misuse_domain(call, id, why, d ? ts_load_relaxed(&d->token) : 0, d ? &epoch : NULL);
    return ts_fail(error);
}
