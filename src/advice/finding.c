#include "advice/finding.h"

#include <string.h>

bool ts_finding_begin(ts_report *r, ts_severity severity, uint64_t weight, const char *id) {
    unsigned at = r->count;
    if (at == TS_FINDINGS) {
        at = 0;
        for (unsigned i = 1; i < TS_FINDINGS; i++)
            if (r->f[i].severity < r->f[at].severity ||
                (r->f[i].severity == r->f[at].severity && r->f[i].weight < r->f[at].weight))
                at = i;
        if (r->f[at].severity > severity || (r->f[at].severity == severity && r->f[at].weight >= weight)) return false;
    } else {
        r->count++;
    }
    ts_finding *f = r->at = &r->f[at];
    memset(f, 0, sizeof *f);
    f->severity = severity;
    f->weight = weight;
    strncpy(f->id, id, sizeof f->id - 1);
    r->what = ts_sink_buffer(f->what, sizeof f->what);
    r->evidence = ts_sink_buffer(f->evidence, sizeof f->evidence);
    r->advice = ts_sink_buffer(f->advice, sizeof f->advice);
    return true;
}

void ts_finding_end(ts_report *r) {
    (void)ts_sink_end(&r->what);
    (void)ts_sink_end(&r->evidence);
    (void)ts_sink_end(&r->advice);
}

void ts_finding_about(ts_report *r, const ts_label_stats *l, int state) {
    ts_finding *f = r->at;
    if (l->is_other) return;
    memcpy(f->label, l->label, sizeof f->label);
    f->state = state;
    f->has_label = 1;
}
