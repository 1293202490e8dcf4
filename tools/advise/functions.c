#include "advise/functions.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* How the table is encoded, by the names of DWARF. All linkers write this one: a count, then pairs relative to the
   table. */
enum { UDATA4 = 0x03, DATAREL_SDATA4 = 0x3b };

typedef struct file {
    const unsigned char *bytes;
    size_t size;
} file;

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static starts read_table(file f, uint64_t offset, uint64_t size, uint64_t address) {
    starts s = {NULL, 0};
    uint32_t count;
    const unsigned char *head = f.bytes + offset;
    if (size < 12 || offset > f.size || size > f.size - offset) return s;
    if (head[0] != 1 || head[2] != UDATA4 || head[3] != DATAREL_SDATA4) return s;
    memcpy(&count, head + 8, sizeof count);
    if (count > (size - 12) / 8) return s;
    s.start = malloc((count + 1u) * sizeof *s.start);
    for (uint32_t i = 0; s.start && i < count; i++) {
        int32_t at;
        memcpy(&at, head + 12 + 8u * i, sizeof at);
        s.start[s.count++] = address + (uint64_t)(int64_t)at;
    }
    if (s.count) qsort(s.start, s.count, sizeof *s.start, by_value);
    return s;
}

static starts read_file(file f) {
    ElfW(Ehdr) head;
    if (f.size < sizeof head) return (starts){NULL, 0};
    memcpy(&head, f.bytes, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof(ElfW(Phdr))) return (starts){NULL, 0};
    for (unsigned i = 0; i < head.e_phnum; i++) {
        ElfW(Phdr) part;
        uint64_t at = head.e_phoff + (uint64_t)i * sizeof part;
        if (at > f.size || sizeof part > f.size - at) break;
        memcpy(&part, f.bytes + at, sizeof part);
        if (part.p_type == PT_GNU_EH_FRAME) return read_table(f, part.p_offset, part.p_filesz, part.p_vaddr);
    }
    return (starts){NULL, 0};
}

starts starts_of(const char *path) {
    starts s = {NULL, 0};
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return s;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) {
            s = read_file((file){bytes, (size_t)about.st_size});
            munmap(bytes, (size_t)about.st_size);
        }
    }
    close(fd);
    return s;
}

uint64_t start_before(const starts *s, uint64_t address) {
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->start[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? s->start[low - 1] : 0;
}
