#include "common/core.h"

#include "advice/advice.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

typedef ElfW(Ehdr) file_header;
typedef ElfW(Phdr) segment;
typedef ElfW(Shdr) section;

static bool read_at(int fd, void *to, size_t bytes, uint64_t at) {
    return pread(fd, to, bytes, (off_t)at) == (ssize_t)bytes;
}

/* More than 65,534 segments are counted in the first section. */
static uint64_t segments_of(int fd, const file_header *h) {
    section first;
    if (h->e_phnum != PN_XNUM) return h->e_phnum;
    return h->e_shoff && read_at(fd, &first, sizeof first, h->e_shoff) ? first.sh_info : 0;
}

bool core_find_page(int fd, uint64_t *at, bool *is_core) {
    file_header h;
    const int own_class = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    *is_core = read_at(fd, &h, sizeof h, 0) && memcmp(h.e_ident, ELFMAG, SELFMAG) == 0 &&
               h.e_ident[EI_CLASS] == own_class && h.e_type == ET_CORE && h.e_phentsize == sizeof(segment);
    uint64_t n = *is_core ? segments_of(fd, &h) : 0;
    for (uint64_t i = 0; i < n; i++) {
        segment s;
        uint64_t magic;
        if (!read_at(fd, &s, sizeof s, h.e_phoff + i * sizeof s)) return false;
        if (s.p_type != PT_LOAD || s.p_filesz < sizeof(ts_page)) continue;
        if (!read_at(fd, &magic, sizeof magic, s.p_offset) || magic != TS_PAGE_MAGIC) continue;
        *at = s.p_offset;
        return true;
    }
    return false;
}
