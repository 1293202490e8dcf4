#include "http/loaded.h"

#include "elf/elf.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOTE_BUILD_ID 3u

/* The note with the build id among those of a segment. */
static void read_build_id(const char *at, size_t bytes, char out[65]) {
    while (bytes >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) n;
        memcpy(&n, at, sizeof n);
        size_t name = ((size_t)n.n_namesz + 3) & ~(size_t)3, value = ((size_t)n.n_descsz + 3) & ~(size_t)3;
        if (name > bytes || value > bytes || sizeof n + name + value > bytes) return;
        const unsigned char *id = (const unsigned char *)at + sizeof n + name;
        if (n.n_type == NOTE_BUILD_ID && n.n_namesz == 4 && memcmp(at + sizeof n, "GNU", 4) == 0 && n.n_descsz <= 32) {
            for (size_t i = 0; i < n.n_descsz; i++) {
                out[2 * i] = "0123456789abcdef"[id[i] >> 4];
                out[2 * i + 1] = "0123456789abcdef"[id[i] & 15];
            }
            out[2 * n.n_descsz] = 0;
            return;
        }
        at += sizeof n + name + value;
        bytes -= sizeof n + name + value;
    }
}

static char *path_of(const struct dl_phdr_info *info) {
    char program[4096];
    if (info->dlpi_name && info->dlpi_name[0]) return strdup(info->dlpi_name);
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1); /* the program itself */
    program[n > 0 ? n : 0] = 0;
    return strdup(program);
}

static int add(struct dl_phdr_info *info, size_t bytes, void *arg) {
    http_segments *all = arg;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    char build_id[65] = "";
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type == PT_NOTE && !build_id[0])
            read_build_id((const char *)(uintptr_t)(info->dlpi_addr + h->p_vaddr), (size_t)h->p_memsz, build_id);
    }
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type != PT_LOAD || !(h->p_flags & PF_X)) continue;
        http_segment *more = realloc(all->at, (all->count + 1) * sizeof *more);
        char *path = more ? path_of(info) : NULL;
        if (more) all->at = more;
        if (!path) return 1;
        uint64_t start = info->dlpi_addr + h->p_vaddr, before = start % page;
        all->at[all->count] = (http_segment){.start = start - before,
                                             .end = start + h->p_memsz,
                                             .file_offset = h->p_offset - before,
                                             .base = info->dlpi_addr,
                                             .path = path};
        memcpy(all->at[all->count++].build_id, build_id, sizeof build_id);
    }
    return 0;
}

void http_segments_read(http_segments *out) {
    out->at = NULL;
    out->count = 0;
    (void)dl_iterate_phdr(add, out);
}

void http_segments_free(http_segments *segments) {
    for (size_t i = 0; i < segments->count; i++) free(segments->at[i].path);
    free(segments->at);
}

const http_segment *http_segment_of(const http_segments *segments, uint64_t address) {
    for (size_t i = 0; i < segments->count; i++)
        if (address >= segments->at[i].start && address < segments->at[i].end) return &segments->at[i];
    return NULL;
}

/* Addresses are in order, so those of a segment are neighbours. */
void http_segments_name(const http_segments *segments, elf_place *place, size_t count) {
    char *map = perf_map_read(0, NULL); /* of code that a JIT has made */
    for (size_t i = 0, n; i < count; i += n) {
        const http_segment *s = http_segment_of(segments, place[i].address);
        n = 1;
        if (!s) {
            while (i + n < count && !http_segment_of(segments, place[i + n].address)) n++;
            if (map) perf_map_name(map, &place[i], n);
            continue;
        }
        while (i + n < count && place[i + n].address < s->end) n++;
        for (size_t k = i; k < i + n; k++) place[k].address -= s->base;
        /* The program's file may have another name by now. */
        elf_functions(s->base == segments->at[0].base ? "/proc/self/exe" : s->path, &place[i], n);
        for (size_t k = i; k < i + n; k++) place[k].address += s->base;
    }
    free(map);
}
