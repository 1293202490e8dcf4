/*
 * The unwind tables (.eh_frame) of a file, as the System V ABI of x86-64 has them: for each place in a function the
 * rule by which the frame's end, the CFA, follows from a register, and where the caller's rbp is. The CFA is `offset`
 * above rbp, or above the stack pointer before the call, whose return address is 8 below that. The function's own
 * return address is 8 below the CFA.
 */
#include "common/frames.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct frames {
    const unsigned char *bytes;
    size_t size;
    char id[FRAMES_ID];
    size_t table, table_bytes; /* of .eh_frame: where it is in the file; 0: there is none */
    uint64_t address;          /* and in memory */
};

/* ---- sections ---------------------------------------------------------------------------------------------------- */

static bool read_at(const frames *f, uint64_t at, void *out, size_t bytes) {
    if (at > f->size || bytes > f->size - at) return false;
    memcpy(out, f->bytes + at, bytes);
    return true;
}

static void read_notes(frames *f, uint64_t at, uint64_t bytes) {
    ElfW(Nhdr) head;
    for (uint64_t end = at + bytes; at < end && read_at(f, at, &head, sizeof head);) {
        uint64_t name = at + sizeof head, value = name + ((head.n_namesz + 3u) & ~3u);
        unsigned char id[FRAMES_ID / 2];
        char owner[4] = "";
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && read_at(f, name, owner, 4) &&
            memcmp(owner, "GNU", 4) == 0 && head.n_descsz <= sizeof id && read_at(f, value, id, head.n_descsz))
            for (unsigned i = 0; i < head.n_descsz; i++) snprintf(f->id + 2u * i, 3, "%02x", id[i]);
        at = value + ((head.n_descsz + 3u) & ~3u);
    }
}

static bool read_sections(frames *f) {
    ElfW(Ehdr) head;
    ElfW(Shdr) names, s;
    if (!read_at(f, 0, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) || head.e_shentsize != sizeof s)
        return false;
    if (!read_at(f, head.e_shoff + (uint64_t)head.e_shstrndx * sizeof s, &names, sizeof names)) return true;
    for (unsigned i = 0; i < head.e_shnum; i++) {
        char name[10] = "";
        if (!read_at(f, head.e_shoff + (uint64_t)i * sizeof s, &s, sizeof s)) break;
        if (s.sh_type == SHT_NOTE) read_notes(f, s.sh_offset, s.sh_size);
        if (s.sh_type == SHT_NOBITS || !read_at(f, names.sh_offset + s.sh_name, name, sizeof name) ||
            memcmp(name, ".eh_frame", sizeof name) != 0 || s.sh_offset > f->size || s.sh_size > f->size - s.sh_offset)
            continue;
        f->table = s.sh_offset;
        f->table_bytes = s.sh_size;
        f->address = s.sh_addr;
    }
    return true;
}

frames *frames_open(const char *path) {
    frames *f = calloc(1, sizeof *f);
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (f && fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        f->bytes = bytes == MAP_FAILED ? NULL : bytes;
        f->size = f->bytes ? (size_t)about.st_size : 0;
    }
    if (fd >= 0) close(fd);
    if (f && f->bytes && read_sections(f)) return f;
    frames_close(f);
    return NULL;
}

void frames_close(frames *f) {
    if (f && f->bytes) munmap((void *)(uintptr_t)f->bytes, f->size);
    free(f);
}

const char *frames_build_id(const frames *f) { return f->id; }

/* ---- rules ------------------------------------------------------------------------------------------------------- */

/* What is read next. `bad` once it was beyond the end. */
typedef struct cursor {
    const unsigned char *at, *end;
    bool bad;
} cursor;

static uint64_t take(cursor *c, unsigned bytes) {
    uint64_t value = 0;
    if (c->bad || (size_t)(c->end - c->at) < bytes) {
        c->bad = true;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)c->at[i] << 8 * i;
    c->at += bytes;
    return value;
}

static uint64_t take_leb(cursor *c, bool is_signed) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = take(c, 1);
        value |= (byte & 0x7f) << shift;
        if (byte & 0x80) continue;
        if (is_signed && byte & 0x40 && shift + 7 < 64) value |= ~(uint64_t)0 << (shift + 7);
        break;
    }
    return value;
}

enum { RBP = 6, RSP = 7, WORD = 8, PCREL_SDATA4 = 0x1b }; /* in the numbers of DWARF */

/* The rule of one place in a function, and what a CIE says of all of its functions. */
typedef struct rule {
    uint64_t reg, offset;
    uint64_t saved; /* rbp of the caller: so many bytes below the CFA; 0: it is unchanged */
} rule;
typedef struct common {
    cursor program;
    uint64_t code_align;
} common;

/* Operands behind opcodes of other registers. false: of rbp, or an opcode that is not known. */
static bool skip(cursor *c, unsigned op) {
    uint64_t bytes;
    switch (op) {
    case 0x00: return true;                     /* nop */
    case 0x2e: return take_leb(c, false), true; /* bytes of arguments */
    case 0x06:                                  /* restored, not known, or unchanged */
    case 0x07:
    case 0x08: return take_leb(c, false) != RBP;
    case 0x05: /* saved somewhere */
    case 0x09:
    case 0x11:
    case 0x14:
    case 0x15: return take_leb(c, false) != RBP && (take_leb(c, false), true);
    case 0x10: /* by an expression */
    case 0x16:
        if (take_leb(c, false) == RBP) return false;
        bytes = take_leb(c, false);
        if (c->bad || bytes > (size_t)(c->end - c->at)) return false;
        c->at += bytes;
        return true;
    default: return false;
    }
}

/* Runs the program up to the place `target` bytes into the function. */
static bool run(cursor c, const common *of, uint64_t target, rule *now) {
    rule kept[8];
    unsigned depth = 0;
    uint64_t at = 0;
    while (c.at < c.end && !c.bad) {
        unsigned op = (unsigned)take(&c, 1), low = op & 0x3f;
        uint64_t advance = 0, offset;
        switch (op & 0xc0 ? op & 0xc0 : op) {
        case 0x40: advance = low; break;
        case 0x80:
            offset = take_leb(&c, false) * WORD;
            if (low == RBP) now->saved = offset;
            break;
        case 0xc0:
            if (low == RBP) now->saved = 0;
            break;
        case 0x02: advance = take(&c, 1); break;
        case 0x03: advance = take(&c, 2); break;
        case 0x04: advance = take(&c, 4); break;
        case 0x0a:
            if (depth == 8) return false;
            kept[depth++] = *now;
            break;
        case 0x0b:
            if (depth == 0) return false;
            *now = kept[--depth];
            break;
        case 0x0c:
            now->reg = take_leb(&c, false);
            now->offset = take_leb(&c, false);
            break;
        case 0x0d: now->reg = take_leb(&c, false); break;
        case 0x0e: now->offset = take_leb(&c, false); break;
        case 0x0f: { /* the CFA by an expression */
            uint64_t bytes = take_leb(&c, false);
            now->reg = UINT64_MAX;
            if (c.bad || bytes > (size_t)(c.end - c.at)) return false;
            c.at += bytes;
            break;
        }
        default:
            if (!skip(&c, op)) return false;
        }
        at += advance * of->code_align;
        if (at > target) return true;
    }
    return !c.bad;
}

/* The CIE at that place of the table. Only what compilers write: addresses relative to their place, of 4 bytes. */
static bool read_common(const frames *f, size_t at, common *out) {
    const unsigned char *table = f->bytes + f->table;
    cursor c = {table + at, table + f->table_bytes, false};
    uint64_t length = take(&c, 4);
    if (c.bad || length > (size_t)(c.end - c.at)) return false;
    c.end = c.at + length;
    if (take(&c, 4) != 0 || take(&c, 1) != 1) return false;
    char augmentation[8] = "";
    for (size_t i = 0; i < sizeof augmentation; i++)
        if ((augmentation[i] = (char)take(&c, 1)) == 0) break;
    out->code_align = take_leb(&c, false);
    if (take_leb(&c, true) != -(uint64_t)WORD) return false;
    take_leb(&c, false); /* the register of the return address */
    if (augmentation[0] != 'z' || augmentation[sizeof augmentation - 1]) return false;
    const unsigned char *behind = NULL;
    uint64_t bytes = take_leb(&c, false);
    if (!c.bad && bytes <= (size_t)(c.end - c.at)) behind = c.at + bytes;
    bool known = false;
    for (const char *a = augmentation + 1; behind && *a; a++) {
        uint64_t encoding = *a == 'S' || *a == 'B' ? 0 : take(&c, 1);
        if (*a == 'S') return false; /* a frame of a signal */
        if (*a == 'P') take(&c, (encoding & 0xf) == 0x3 || (encoding & 0xf) == 0xb ? 4 : 8);
        if (*a == 'R') known = encoding == PCREL_SDATA4;
    }
    if (!behind || !known) return false;
    c.at = behind;
    out->program = c;
    return !c.bad;
}

/* Whether the entry is the function's with that address; then its rule there. */
static bool read_function(const frames *f, cursor c, size_t place, uint64_t address, rule *out) {
    const size_t id_at = place + 4;
    uint64_t back = take(&c, 4), start_at = f->address + id_at + 4;
    if (back == 0 || back > id_at) return false;
    uint64_t start = start_at + (uint64_t)(int64_t)(int32_t)take(&c, 4), bytes = take(&c, 4);
    common of;
    if (c.bad || address - start >= bytes || !read_common(f, id_at - back, &of)) return false;
    uint64_t more = take_leb(&c, false);
    if (c.bad || more > (size_t)(c.end - c.at)) return false;
    c.at += more;
    *out = (rule){UINT64_MAX, 0, 0};
    return run(of.program, &of, UINT64_MAX, out) && run(c, &of, address - start, out);
}

/* Other machines have other registers. */
#ifdef __x86_64__
#define IS_KNOWN true
#else
#define IS_KNOWN false
#endif

frames_step frames_above(const frames *f, uint64_t return_address) {
    const unsigned char *table = f->bytes + f->table;
    for (size_t at = 0; IS_KNOWN && at + 8 <= f->table_bytes;) {
        cursor c = {table + at, table + f->table_bytes, false};
        uint64_t length = take(&c, 4);
        rule r;
        if (length == 0 || length > (size_t)(c.end - c.at)) break;
        c.end = c.at + length;
        at += 4 + (size_t)length;
        if (!read_function(f, c, (size_t)(c.at - 4 - table), return_address - 1, &r)) continue;
        if ((r.reg != RSP && r.reg != RBP) || r.offset < 2 * WORD - (r.reg == RSP) * WORD || r.offset % WORD != 0 ||
            r.offset > UINT16_MAX || r.saved > UINT16_MAX || r.saved == WORD)
            break;
        uint64_t up = r.reg == RSP ? r.offset : (r.offset - WORD) | 1;
        return (frames_step){(uint16_t)up, (uint16_t)(r.saved ? r.saved - WORD : 0)};
    }
    return (frames_step){0, 0};
}
