/* A page or view that says of itself what is not so is refused, and its strings end. */
#include "common/target.h"

#include <stdio.h>
#include <string.h>

static ts_view view;
static int failures;

static ts_view *good(void) {
    memset(&view, 0x7e, sizeof view); /* no string has an end */
    view.magic = TS_VIEW_MAGIC;
    view.bytes = sizeof view;
    view.epoch_rows = TS_VIEW_EPOCHS;
    view.label_rows = TS_VIEW_LABELS + 1;
    view.finding_count = TS_FINDINGS;
    view.stack_rows = TS_VIEW_STACKS;
    view.module_rows = TS_VIEW_MODULES;
    view.zones_rows = TS_ZONES_ROWS;
    for (unsigned i = 0; i < TS_VIEW_STACKS; i++) view.stack[i].frame_count = SLAB_STACK_FRAMES;
    return &view;
}

static void expect(bool is, const char *what) {
    if (is) return;
    (void)fprintf(stderr, "target_test: %s\n", what);
    failures++;
}

#define REFUSED(field, value)                                        \
    do {                                                             \
        good()->field = (value);                                     \
        expect(!target_check_view(&view), #field " is not checked"); \
    } while (0)

int main(void) {
    expect(target_check_view(good()), "a view that is full is refused");
    expect(strlen(view.library) < sizeof view.library, "library");
    expect(strlen(view.epoch[TS_VIEW_EPOCHS - 1].label) < SLAB_LABEL_BYTES, "the label of an epoch");
    expect(strlen(view.label[TS_VIEW_LABELS].label) < SLAB_LABEL_BYTES, "a label");
    expect(strlen(view.stack[TS_VIEW_STACKS - 1].label) < SLAB_LABEL_BYTES, "the label of a stack");
    expect(strlen(view.module[TS_VIEW_MODULES - 1].path) < sizeof view.module[0].path, "the path of a module");
    expect(strlen(view.zones[TS_ZONES_ROWS - 1].device) < sizeof view.zones[0].device, "the device of zones");
    const ts_finding *f = &view.finding[TS_FINDINGS - 1];
    expect(strlen(f->id) < sizeof f->id && strlen(f->label) < sizeof f->label && strlen(f->what) < sizeof f->what &&
               strlen(f->evidence) < sizeof f->evidence && strlen(f->advice) < sizeof f->advice,
           "a finding");
    REFUSED(magic, 0);
    REFUSED(bytes, sizeof view - 1);
    REFUSED(epoch_rows, TS_VIEW_EPOCHS + 1);
    REFUSED(label_rows, TS_VIEW_LABELS + 2);
    REFUSED(finding_count, TS_FINDINGS + 1);
    REFUSED(stack_rows, UINT32_MAX);
    REFUSED(module_rows, TS_VIEW_MODULES + 1);
    REFUSED(zones_rows, TS_ZONES_ROWS + 1);
    REFUSED(stack[3].frame_count, SLAB_STACK_FRAMES + 1);
    return failures != 0;
}
