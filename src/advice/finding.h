/*
 * How a rule of the doctor writes a finding: begin, what is wrong, the evidence, the advice, end.
 */
#ifndef TS_ADVICE_FINDING_H
#define TS_ADVICE_FINDING_H

#include "advice/figures.h"

typedef struct ts_report {
    ts_finding *f;
    unsigned count;
    ts_finding *at;                 /* that is being written */
    ts_sink what, evidence, advice; /* into the finding that is being written */
} ts_report;

/* A place for a finding; when there is none left, that of the least one. false: there are enough that are worse. */
bool ts_finding_begin(ts_report *report, ts_severity severity, uint64_t weight, const char *id);
void ts_finding_end(ts_report *report);
/* The epochs that the finding is about. */
void ts_finding_about(ts_report *report, const ts_label_stats *label, int state);

/* The rules on what the allocator's work costs: slow paths, memory that goes back and forth, locks, slabs that are
   nearly empty. In costs.c. */
void ts_doctor_costs(ts_report *report, const ts_view *view);

#endif
