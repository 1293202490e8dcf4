/* Labels of epochs (label.c). */
#ifndef TS_EPOCH_LABEL_H
#define TS_EPOCH_LABEL_H

#include "epoch/epoch.h"
#include "os/os.h"

/* Caller has the lock, also of an epoch that nobody can find yet. */
void ts_epoch_set_label(ts_epoch *epoch, const char *label);
/* The whole label, terminated: the last one or the next, while another thread sets it. Takes no lock. */
void ts_epoch_read_label(const ts_epoch *epoch, char out[SLAB_LABEL_BYTES]);
/* Makes of a label what statistics show. Figures are summed up by that, so no two rows look alike. */
#define TS_LABEL_NONE "(none)"   /* epochs without a label */
#define TS_LABEL_OTHER "(other)" /* labels that have no row of their own */
void ts_label_show(char label[SLAB_LABEL_BYTES]);
/* Adds the epoch's id, its label while it is known, and whether it is closed or has ended. Takes no lock. */
void ts_epoch_describe(ts_text *line, EpochId id);

#endif
