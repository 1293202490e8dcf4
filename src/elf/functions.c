#include "elf/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef ElfW(Ehdr) file_header;
typedef ElfW(Shdr) section;
typedef ElfW(Sym) symbol;

#define PART_MAX ((uint64_t)1 << 30)

/* A part of the file, of malloc; NULL: it is not there. By reads, not by a mapping: a file that shrinks meanwhile ends
   nobody. */
static void *part(int fd, uint64_t offset, uint64_t bytes) {
    if (bytes == 0 || bytes > PART_MAX || offset > INT64_MAX - bytes) return NULL;
    char *to = malloc((size_t)bytes);
    for (size_t done = 0; to && done < bytes;) {
        ssize_t n = pread(fd, to + done, (size_t)bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n > 0) done += (size_t)n;
        if (n > 0) continue;
        free(to);
        to = NULL;
    }
    return to;
}

static bool is_own_kind(const file_header *h) {
    const int own_class = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    const uint16_t one = 1;
    const int own_data = *(const unsigned char *)&one ? ELFDATA2LSB : ELFDATA2MSB;
    return memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_ident[EI_CLASS] == own_class &&
           h->e_ident[EI_DATA] == own_data && h->e_shentsize == sizeof(section) && h->e_shnum > 0;
}

/* The first section of that type, of which the strings are in another; NULL: there is none. */
static const section *table_of(const section *all, unsigned count, uint32_t type) {
    for (unsigned i = 0; i < count; i++)
        if (all[i].sh_type == type && all[i].sh_entsize == sizeof(symbol) && all[i].sh_link < count) return &all[i];
    return NULL;
}

static bool is_function(const symbol *s) {
    unsigned type = s->st_info & 0xf;
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && s->st_shndx != SHN_UNDEF && s->st_size > 0;
}

size_t elf_first_from(const elf_place *place, size_t count, uint64_t address) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (place[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void name_places(const symbol *s, size_t symbols, const char *text, size_t text_bytes, elf_place *place,
                        size_t count) {
    for (size_t i = 0; i < symbols; i++) {
        if (!is_function(&s[i]) || s[i].st_name >= text_bytes) continue;
        const char *name = text + s[i].st_name;
        if (!*name || !memchr(name, 0, text_bytes - s[i].st_name)) continue;
        for (size_t k = elf_first_from(place, count, s[i].st_value); k < count; k++) {
            if (place[k].address - s[i].st_value >= s[i].st_size) break;
            if (!place[k].name) place[k].name = strdup(name);
        }
    }
}

static void look(int fd, elf_place *place, size_t count) {
    file_header *h = part(fd, 0, sizeof *h);
    section *all = h && is_own_kind(h) ? part(fd, h->e_shoff, (uint64_t)h->e_shnum * sizeof *all) : NULL;
    const section *table = all ? table_of(all, h->e_shnum, SHT_SYMTAB) : NULL;
    if (all && !table) table = table_of(all, h->e_shnum, SHT_DYNSYM);
    if (table) {
        const section *strings = &all[table->sh_link];
        symbol *symbols = part(fd, table->sh_offset, table->sh_size);
        char *text = part(fd, strings->sh_offset, strings->sh_size);
        if (symbols && text)
            name_places(symbols, (size_t)(table->sh_size / sizeof *symbols), text, (size_t)strings->sh_size, place,
                        count);
        free(symbols);
        free(text);
    }
    free(all);
    free(h);
}

void elf_functions(const char *path, elf_place *place, size_t count) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) look(fd, place, count);
    (void)close(fd);
}
