/* A page or view that is inconsistent is refused, and its strings end. */
#include "common/target.h"
#include "common/text.h"

#include <stdio.h>
#include <string.h>

static ts_view view;
static int failures;

static ts_view *good(void) {
    memset(&view, 0x7e, sizeof view); /* no string has an end */
    view.magic = TS_VIEW_MAGIC;
    view.bytes = sizeof view;
    view.epoch_rows = TS_VIEW_EPOCHS;
    view.ended_rows = TS_VIEW_ENDED;
    view.label_rows = TS_VIEW_LABELS + 1;
    view.finding_count = TS_FINDINGS;
    view.stack_rows = TS_VIEW_STACKS;
    view.module_rows = TS_VIEW_MODULES;
    view.zones_rows = TS_ZONES_ROWS;
    view.node_rows = TS_NODE_ROWS;
    view.thread_rows = TS_VIEW_THREADS;
    for (unsigned i = 0; i < TS_VIEW_STACKS; i++) view.stack[i].frame_count = SLAB_STACK_FRAMES;
    return &view;
}

static void expect(bool is, const char *what) {
    if (is) return;
    (void)fprintf(stderr, "target_test: %s\n", what);
    failures++;
}

/* Control characters of a terminal, and halves of characters; printable text stays. */
static void tames(const char *text, bool lines, const char *shown) {
    char copy[64];
    size_t bytes = strlen(text);
    memset(copy, 0x7e, sizeof copy);
    memcpy(copy, text, bytes + 1);
    expect(text_tame(copy, bytes, lines) == strlen(shown) && strcmp(copy, shown) == 0, shown);
}

static void test_text(void) {
    tames("a thread", false, "a thread");
    tames("\033]0;title\a\033[2J", false, "?]0;title??[2J");
    tames("\302\233"
          "2J\302\240",
          false, "?2J\302\240"); /* U+009B, U+00A0 */
    tames("gr\303\274n \303", false, "gr\303\274n ?");
    tames("\200\377\355\240\200", false, "?????");
    tames("one\ntwo\r\n\177", true, "one\ntwo?\n?");
    tames("one\ntwo", false, "one?two");
    tames("", false, "");
    char cut[3] = {'\303', '\274', '\303'}; /* without a zero behind it */
    expect(text_tame(cut, 3, false) == 3 && memcmp(cut, "\303\274?", 3) == 0, "a character behind the end is read");
}

static void test_figures(void) {
    good()->global.recycle_rate_pct = 1e300;
    view.cls[1].recycle_rate_pct = -1;
    view.label[0].growth_bytes_per_minute = INT64_MIN;
    memcpy(view.thread[2].name, "\033[31mred", 9);
    expect(target_check_view(&view), "figures");
    expect(view.global.recycle_rate_pct == 0 && view.cls[1].recycle_rate_pct == 0, "a rate");
    expect(view.label[0].growth_bytes_per_minute == -INT64_MAX, "a growth");
    expect(strncmp(view.thread[2].name, "?[31mred", 8) == 0, "the name of a thread");
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
    expect(strlen(view.thread[TS_VIEW_THREADS - 1].name) < sizeof view.thread[0].name, "the name of a thread");
    test_text();
    test_figures();
    REFUSED(magic, 0);
    REFUSED(bytes, sizeof view - 1);
    REFUSED(epoch_rows, TS_VIEW_EPOCHS + 1);
    REFUSED(ended_rows, TS_VIEW_ENDED + 1);
    REFUSED(label_rows, TS_VIEW_LABELS + 2);
    REFUSED(finding_count, TS_FINDINGS + 1);
    REFUSED(stack_rows, UINT32_MAX);
    REFUSED(module_rows, TS_VIEW_MODULES + 1);
    REFUSED(zones_rows, TS_ZONES_ROWS + 1);
    REFUSED(node_rows, TS_NODE_ROWS + 1);
    REFUSED(thread_rows, TS_VIEW_THREADS + 1);
    REFUSED(stack[3].frame_count, SLAB_STACK_FRAMES + 1);
    return failures != 0;
}
