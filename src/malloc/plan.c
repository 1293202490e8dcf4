/* Modelled in tests/model: orders. */
#define _GNU_SOURCE
#include "malloc/plan.h"

#include "api/api.h"
#include "malloc/capture.h"
#include "malloc/process.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <string.h>

enum {
    EPOCHS = 16,
    MODULES = 64,
    NODES = 1024, /* tools/tslab/plan.c writes no more */
    ID_BYTES = 32
};

typedef struct node {
    uint64_t offset; /* of the return address, as the file has it */
    uint16_t up, saved;
    uint16_t parent; /* number of a node before; 0: this is the call of malloc */
    uint8_t module, epoch;
} node;

typedef struct module {
    uint8_t id[ID_BYTES];
    size_t id_bytes;
    _Atomic uint32_t placed; /* set by the thread that places it */
} module;

/* Constant once an entry is written, but for `placed`. */
static node nodes[NODES + 1]; /* numbered from 1 */
static module modules[MODULES];
static unsigned node_count, module_count, epoch_count;
static EpochId epochs[EPOCHS + 1]; /* [0]: the process's */

typedef void *(*open_function)(const char *file, int mode);
static _Atomic(open_function) opened_before; /* libc's dlopen, if a constructor has called it before there was a plan */

tm_plan_entry tm_plan_table[TM_PLAN_SLOTS];

/* ---- the table -------------------------------------------------------------------------------------------------- */

/* Addresses of programs have 47 bits. Where they have more two nodes may be taken for one (invariant 1). */
static uint64_t key_of(uint64_t parent, uint64_t address) { return address ^ parent << 48; }

static void add(unsigned number, uint64_t base) {
    const node *n = &nodes[number];
    uint64_t key = key_of(n->parent, base + n->offset);
    uint32_t at = tm_plan_slot(key);
    tm_plan_entry *e;
    for (uint64_t none = 0;; at++, none = 0) {
        e = &tm_plan_table[at % TM_PLAN_SLOTS];
        if (ts_cas_seq(&e->key, &none, TM_PLAN_CLAIMED)) break;
    }
    e->up = n->up;
    e->saved = n->saved;
    e->node = (uint16_t)number;
    e->epoch = n->epoch;
    ts_store_release(&e->key, key); /* partner: tm_plan_find */
}

TS_ALWAYS_INLINE EpochId epoch_of(const tm_plan_entry *e, const void *called_at) {
    uint8_t epoch = e->epoch;
#ifdef TM_SEES_CALLERS
    const uintptr_t *pointer = *(const uintptr_t *const *)called_at, *place = (const uintptr_t *)called_at + 1;
    while (TS_UNLIKELY(e->up != 0)) {
        place = (e->up & 1 ? pointer : place) + e->up / sizeof *place;
        if (e->saved) pointer = *(const uintptr_t *const *)(place - e->saved / sizeof *place);
        e = tm_plan_find(key_of(e->node, *place));
        if (!e) break;
        epoch = e->epoch;
    }
#endif
    (void)called_at;
    return epochs[epoch];
}

void *tm_plan_malloc(const tm_plan_entry *e, size_t size, const void *called_at) {
    const EpochId epoch = epoch_of(e, called_at);
    if (epoch == EPOCH_NONE || tm_is_captured()) return NULL;
    return slab_malloc_epoch(tm_target_allocator(&tm_process), size, epoch);
}

void *tm_plan_alloc(const tm_plan_entry *e, size_t alignment, size_t size, bool zero, const void *called_at) {
    SlabAllocator *allocator = tm_target_allocator(&tm_process);
    const EpochId epoch = epoch_of(e, called_at);
    if (epoch == EPOCH_NONE || tm_is_captured()) return NULL;
    return zero ? slab_calloc_epoch(allocator, 1, size, epoch) : slab_aligned_epoch(allocator, alignment, size, epoch);
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

typedef struct search {
    unsigned number;
    bool found;
    uint64_t base;
    char path[PATH_MAX]; /* "": the program */
} search;

/* Whether the notes are those of the build. */
static bool is_build(const char *notes, size_t bytes, const module *m) {
    ElfW(Nhdr) head;
    for (size_t at = 0; bytes - at >= sizeof head && at < bytes;) {
        memcpy(&head, notes + at, sizeof head);
        size_t name = at + sizeof head, value = name + ((head.n_namesz + 3u) & ~3u);
        if (value > bytes || head.n_descsz > bytes - value) return false;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0)
            return head.n_descsz == m->id_bytes && memcmp(notes + value, m->id, m->id_bytes) == 0;
        at = value + ((head.n_descsz + 3u) & ~3u);
    }
    return false;
}

static int is_module(struct dl_phdr_info *info, size_t bytes, void *arg) {
    search *s = arg;
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum && !s->found; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_NOTE)
            s->found = is_build((const char *)info->dlpi_addr + part->p_vaddr, part->p_memsz, &modules[s->number]);
    }
    if (s->found) {
        s->base = info->dlpi_addr;
        memcpy(s->path, info->dlpi_name, strnlen(info->dlpi_name, sizeof s->path - 1));
    }
    return s->found;
}

/* Whether the module that was found is still there, and stays for ever. */
static bool stays(const search *s, open_function open) {
    struct link_map *map;
    void *handle = open(s->path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE); /* never closed */
    return handle && dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_addr == s->base;
}

/* open: libc's dlopen, or NULL while the program's own libraries are the only ones. */
static void place(unsigned number, open_function open) {
    search s = {.number = number};
    (void)dl_iterate_phdr(is_module, &s);
    if (!s.found) return;
    if (open && s.path[0] && !stays(&s, open)) return;
    if (atomic_exchange(&modules[number].placed, 1)) return;
    for (unsigned i = 1; i <= node_count; i++)
        if (nodes[i].module == number) add(i, s.base);
}

void tm_plan_follow(open_function open) {
    int error = errno;
    if (module_count == 0) ts_store_relaxed(&opened_before, open);
    for (unsigned i = 0; i < module_count; i++)
        if (!ts_load_relaxed(&modules[i].placed)) place(i, open);
    errno = error;
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */

/* 1;EPOCH,EPOCH;BUILD-ID,BUILD-ID;PARENT.MODULE.OFFSET.UP.SAVED.EPOCH,... in hexadecimal numbers; a comma
   behind each element. Epochs are numbered from 1, modules from 0. */

static int digit_of(char c) {
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* A number up to `most`, and the character behind it. */
static bool take(const char **text, char behind, uint64_t most, uint64_t *out) {
    const char *at = *text;
    uint64_t n = 0;
    for (int digit; (digit = digit_of(*at)) >= 0; at++) {
        if (n > UINT64_MAX >> 4) return false;
        n = n << 4 | (unsigned)digit;
    }
    if (at == *text || n > most || *at != behind) return false;
    *text = at + 1;
    *out = n;
    return true;
}

static bool take_epochs(const char **text, SlabAllocator *allocator) {
    for (size_t n; **text != ';'; *text += n + 1) {
        char label[32] = "malloc: ";
        n = strcspn(*text, ",;");
        if ((*text)[n] != ',' || n > sizeof label - 9 || epoch_count == EPOCHS) return false;
        memcpy(label + 8, *text, n);
        epochs[++epoch_count] = epoch_open(allocator, label, EPOCH_CHURN);
    }
    ++*text;
    return true;
}

static bool take_modules(const char **text) {
    for (; **text != ';'; ++*text) {
        if (module_count == MODULES) return false;
        module *m = &modules[module_count++];
        for (; **text != ','; *text += 2) {
            int high = digit_of(**text), low = high < 0 ? -1 : digit_of((*text)[1]);
            if (low < 0 || m->id_bytes == ID_BYTES) return false;
            m->id[m->id_bytes++] = (uint8_t)(high << 4 | low);
        }
    }
    ++*text;
    return true;
}

static bool take_nodes(const char **text) {
    for (uint64_t parent, number, offset, up, saved, epoch; **text;) {
        if (node_count == NODES || !take(text, '.', node_count, &parent) || !take(text, '.', UINT8_MAX, &number) ||
            !take(text, '.', UINT64_MAX, &offset) || !take(text, '.', UINT16_MAX, &up) ||
            !take(text, '.', UINT16_MAX, &saved) || !take(text, ',', epoch_count, &epoch) || number >= module_count)
            return false;
        nodes[++node_count] =
            (node){offset, (uint16_t)up, (uint16_t)saved, (uint16_t)parent, (uint8_t)number, (uint8_t)epoch};
    }
    return true;
}

void tm_plan_start(void) {
    const char *text = ts_private_plan();
    SlabAllocator *allocator = tm_target_allocator(&tm_process);
    if (!text || !allocator) return; /* none is in the hard mode */
    bool is_good = take(&text, ';', 1, &(uint64_t){0}) && take_epochs(&text, allocator) && take_modules(&text) &&
                   take_nodes(&text);
    if (!is_good) {
        module_count = 0;
        slab_message("tslab: TSLAB_PLAN is no plan of this version of tslab run; ignored");
        return;
    }
    tm_plan_follow(ts_load_relaxed(&opened_before));
}
