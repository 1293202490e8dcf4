/* Names of the places in stacks: of functions that a JIT has made by the trace's perf maps, of all others by files. */
#include "trace/inside.h"

#include "common/symbols.h"
#include "elf/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- files ------------------------------------------------------------------------------------------------------- */

enum { NOTES_MAX = 1 << 16 };

static bool is_id(const unsigned char *notes, size_t bytes, const char *wanted) {
    for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= bytes;) {
        ElfW(Nhdr) n;
        memcpy(&n, notes + at, sizeof n);
        size_t name = at + sizeof n, id = name + (((size_t)n.n_namesz + 3) & ~(size_t)3);
        if (id > bytes || n.n_descsz > bytes - id) return false;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0) {
            char text[3];
            bool is = strlen(wanted) == 2 * (size_t)n.n_descsz;
            for (size_t i = 0; is && i < n.n_descsz; i++) {
                snprintf(text, sizeof text, "%02x", notes[id + i]);
                is = strncmp(text, wanted + 2 * i, 2) == 0;
            }
            return is;
        }
        at = id + (((size_t)n.n_descsz + 3) & ~(size_t)3);
    }
    return false;
}

/* Whether the file is the one that the trace means. */
static bool is_file_of(const trace_module *m) {
    ElfW(Ehdr) head;
    int fd = open(m->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is = false;
    if (fd < 0) return false;
    if (!m->build_id[0]) {
        is = true;
    } else if (pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0) {
        for (unsigned i = 0; i < head.e_phnum && !is; i++) {
            ElfW(Phdr) p;
            off_t at = (off_t)(head.e_phoff + (size_t)i * head.e_phentsize);
            if (pread(fd, &p, sizeof p, at) != (ssize_t)sizeof p || p.p_type != PT_NOTE || p.p_filesz > NOTES_MAX)
                continue;
            unsigned char *notes = malloc(p.p_filesz);
            is = notes && pread(fd, notes, p.p_filesz, (off_t)p.p_offset) == (ssize_t)p.p_filesz &&
                 is_id(notes, p.p_filesz, m->build_id);
            free(notes);
        }
    }
    (void)close(fd);
    return is;
}

/* "FUNCTION at FILE:LINE", each a line, the innermost first. */
static void take_lines(trace_place *p, const char *lines) {
    const char *end = strchr(lines, '\n'), *at = NULL;
    for (const char *c = lines; end && c + 4 <= end; c++)
        if (strncmp(c, " at ", 4) == 0) at = c;
    if (!end) return;
    p->function = strndup(lines, (size_t)((at ? at : end) - lines));
    if (at && at[4] != '?') {
        char *place = strndup(at + 4, (size_t)(end - at - 4)), *colon = place ? strrchr(place, ':') : NULL;
        if (colon) p->line = (unsigned)strtoul(colon + 1, NULL, 10);
        if (colon) *colon = 0;
        p->file = place;
    }
    for (const char *next = end + 1; *next; next = end + 1) { /* the last one is a function of its own */
        end = strchr(next, '\n');
        if (!end) return;
        at = strstr(next, " at ");
        free(p->outer);
        p->outer = strndup(next, (size_t)((at && at < end ? at : end) - next));
    }
}

/* Those of one module. */
static bool name_by_file(const trace_module *m, trace_place **of, size_t count) {
    symbols_place *at = calloc(count + 1, sizeof *at);
    if (!at) return false;
    for (size_t i = 0; i < count; i++) at[i].address = of[i]->address - m->base + 1;
    symbols_of_file(m->path, at, count);
    for (size_t i = 0; i < count; i++) {
        if (at[i].lines) take_lines(of[i], at[i].lines);
        free(at[i].lines);
    }
    free(at);
    return true;
}

/* ---- perf maps --------------------------------------------------------------------------------------------------- */

static int compare_addresses(const void *a, const void *b) {
    const trace_place *x = *(trace_place *const *)a, *y = *(trace_place *const *)b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* Those of no module, of any image. */
static bool name_by_maps(const trace *t, trace_place **of, size_t count) {
    elf_place *at = calloc(count + 1, sizeof *at);
    if (!at) return false;
    qsort(of, count, sizeof *of, compare_addresses);
    for (size_t k = 0; k < t->symbol_blocks; k++) {
        const trace_process *p = trace_process_of(t, t->symbols[k].process);
        for (size_t i = 0; i < count; i++) at[i] = (elf_place){of[i]->address, NULL};
        perf_map_name(t->symbols[k].text, at, count);
        for (size_t i = 0; i < count; i++) {
            if (at[i].name && p && p->image == of[i]->image && !of[i]->function)
                of[i]->function = at[i].name;
            else
                free(at[i].name);
        }
    }
    free(at);
    return true;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

typedef struct wanted {
    const trace_module *module; /* NULL: none */
    trace_place *place;
} wanted;

static int compare(const void *a, const void *b) {
    const wanted *x = a, *y = b;
    return x->module < y->module ? -1 : x->module > y->module;
}

bool trace_name_places(const trace *t, trace_place *places, size_t count) {
    wanted *w = malloc((count + 1) * sizeof *w);
    trace_place **of = malloc((count + 1) * sizeof *of);
    bool done = w && of;
    for (size_t i = 0; done && i < count; i++) {
        w[i] = (wanted){trace_module_of(t, places[i].image, places[i].address), &places[i]};
        places[i].function = places[i].outer = places[i].file = NULL;
        places[i].line = 0;
    }
    if (done) qsort(w, count, sizeof *w, compare);
    for (size_t i = 0, end; done && i < count; i = end) {
        size_t n = 0;
        for (end = i; end < count && w[end].module == w[i].module; end++) of[n++] = w[end].place;
        if (w[i].module && is_file_of(w[i].module)) done = name_by_file(w[i].module, of, n);
        if (!w[i].module) done = name_by_maps(t, of, n);
    }
    free(w);
    free(of);
    return done;
}

void trace_free_places(trace_place *places, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(places[i].function);
        free(places[i].outer);
        free(places[i].file);
    }
}
