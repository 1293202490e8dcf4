/* The table of domains: reading a domain, and refusing one that the caller may not use. */
#include "domain/domain_parts.h"

ts_table ts_domains;

ts_domain_fields ts_domain_read(uint64_t id) {
    const ts_domain *d = ts_domain_find(id);
    if (!d) return (ts_domain_fields){0};
    ts_domain_fields f = {ts_load_relaxed(&d->allocator), ts_load_relaxed(&d->token), ts_load_relaxed(&d->epoch)};
    return ts_domain_is_still(d, id) ? f : (ts_domain_fields){0};
}

bool ts_domain_refuse(const char *call, uint64_t id, const char *why, int error) {
    const ts_domain *d = ts_domain_find(id);
    if (!why) why = ts_table_is_past(&ts_domains, id) ? "destroyed already" : "not a domain";
    if (!d && ts_table_was_last(&ts_domains, id)) d = ts_table_at(&ts_domains, ts_table_index(&ts_domains, id));
    EpochId epoch = d ? ts_load_relaxed(&d->epoch) : EPOCH_NONE;
    ts_misuse_domain(call, id, why, d ? ts_load_relaxed(&d->token) : 0, d ? &epoch : NULL);
    return ts_fail(error);
}
