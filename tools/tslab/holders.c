#include "tslab/holders.h"

#include "advice/advice.h"
#include "common/symbols.h"
#include "common/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES 256u
#define NAME_BYTES 80u

/* Functions by address; an unknown one has the address in its file. */
static struct {
    uint64_t address;
    char name[NAME_BYTES];
} known[NAMES];
static unsigned known_count;

static const char *name_of(uint64_t address) {
    for (unsigned i = 0; i < known_count; i++)
        if (known[i].address == address) return known[i].name;
    return NULL;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* The text that symbols_resolve takes: each address behind a line of its own. They get their places, and no names. */
static char *ask(const ts_view *v, const ts_holder_row *rows, unsigned count) {
    static char text[TS_HOLDERS_SHOWN * TS_HOLDER_FRAMES * 320u];
    ts_sink s = ts_sink_buffer(text, sizeof text);
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < rows[i].frame_count; k++) {
            SlabStackSample one = {.frame_count = 1, .frames = {rows[i].frame[k]}};
            if (name_of(rows[i].frame[k]) || known_count == NAMES) continue;
            known[known_count].address = rows[i].frame[k];
            known[known_count].name[0] = 0;
            ts_put(&s, "frame ");
            ts_put_u64(&s, known_count++);
            ts_put(&s, "\n");
            ts_put_frames(&s, v, &one, 1);
        }
    return ts_sink_end(&s) > 0 ? text : NULL;
}

/* "FUNCTION, FILE:LINE": the function; "PATH+0xADDRESS": without the directories. */
static void keep_name(char name[NAME_BYTES], const char *place, size_t bytes) {
    const char *comma = NULL, *slash = NULL;
    for (size_t i = 0; i + 1 < bytes; i++) {
        if (place[i] == ',' && place[i + 1] == ' ') comma = place + i;
        if (place[i] == '/') slash = place + i;
    }
    const char *from = !comma && slash ? slash + 1 : place, *to = comma ? comma : place + bytes;
    snprintf(name, NAME_BYTES, "%.*s", (int)(to - from), from);
}

/* The last line behind a frame is its function's; those before it are inlined there. */
static void learn(const char *text) {
    static const char at[] = "      at ";
    unsigned number = NAMES;
    while (*text) {
        size_t bytes = strcspn(text, "\n");
        if (strncmp(text, "frame ", 6) == 0)
            number = (unsigned)strtoul(text + 6, NULL, 10);
        else if (number < known_count && strncmp(text, at, sizeof at - 1) == 0)
            keep_name(known[number].name, text + sizeof at - 1, bytes - (sizeof at - 1));
        text += bytes + (text[bytes] == '\n');
    }
}

static void find_names(const ts_view *v, pid_t files_of, const ts_holder_row *rows, unsigned count) {
    const char *text = ask(v, rows, count);
    if (!text) return;
    char *resolved = symbols_resolve(text, files_of);
    learn(resolved ? resolved : text);
    free(resolved);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void put_figures(ts_sink *s, uint64_t bytes, uint64_t objects) {
    char size[32];
    ts_sink t = ts_sink_buffer(size, sizeof size);
    ts_put_size(&t, bytes);
    (void)ts_sink_end(&t);
    ts_put_wide(s, size, 10);
    ts_put_u64_wide(s, objects, 11);
    ts_put(s, "  ");
}

static void put_way(ts_sink *s, const ts_holder_row *row) {
    if (row->frame_count == 0) ts_put(s, "(no code of the program itself)");
    for (unsigned k = 0; k < row->frame_count; k++) {
        const char *name = name_of(row->frame[k]);
        if (k > 0) ts_put(s, " > ");
        ts_put(s, name && name[0] ? name : "?");
    }
}

void holders_show(const ts_view *v, bool alone, pid_t files_of, void (*line)(void *, const char *, bool), void *arg) {
    ts_holder_row rows[TS_HOLDERS_SHOWN];
    char text[512], of[64] = "";
    unsigned count = ts_holders_of(v, rows);
    if (v->thread_rows == 0) return;
    if (!alone) snprintf(of, sizeof of, ", allocator %u (%s)", v->number, v->name);
    snprintf(text, sizeof text, "%10s%11s  %s, estimated from %llu samples%s", "HELD", "OBJECTS",
             count ? "BY FUNCTION, OUTERMOST FIRST" : "BY THREAD", (unsigned long long)ts_view_samples(v), of);
    line(arg, text, true);
    find_names(v, files_of, rows, count);
    for (unsigned i = 0; i < count; i++) {
        ts_sink s = ts_sink_buffer(text, sizeof text);
        put_figures(&s, rows[i].live_bytes, rows[i].live_objects);
        put_way(&s, &rows[i]);
        (void)ts_sink_end(&s);
        line(arg, text, false);
    }
    if (count > 0) {
        snprintf(text, sizeof text, "%10s%11s  BY THREAD", "HELD", "OBJECTS");
        line(arg, text, true);
    }
    for (unsigned i = 0; i < v->thread_rows; i++) {
        ts_sink s = ts_sink_buffer(text, sizeof text);
        put_figures(&s, v->thread[i].live_bytes, v->thread[i].live_objects);
        ts_put(&s, v->thread[i].name[0] ? v->thread[i].name : "(no name)");
        (void)ts_sink_end(&s);
        line(arg, text, false);
    }
}
