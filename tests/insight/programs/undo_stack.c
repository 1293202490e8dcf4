/* Last in, first out over all times: a stack of edits that are undone after ten or ten thousand others. */
#include "common.h"

static void *edits[60000];
static unsigned depth;

FUNCTION static void do_edit(void) { edits[depth++] = get(40 + random_below(100)); }

FUNCTION static void undo_edit(void) { free(edits[--depth]); }

int main(void) {
    for (unsigned i = 0; i < 250000; i++) {
        if (depth == 0 || (depth < 60000 && random_below(100) < 51)) {
            do_edit();
        } else {
            undo_edit();
        }
    }
    printf("%u\n", depth);
    return 0;
}
