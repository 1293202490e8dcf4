/*
 * dlopen with RTLD_DEEPBIND. A library that is loaded so finds libc's functions before ours, and its free would be
 * handed objects of ours, which libc's cannot take. So after such a load the places at which the new libraries keep the
 * addresses of functions that this library has too are written anew: they then have ours, and keep all else that the
 * flag has given them. Operators of a C++ library of their own are among these. (Objects that their constructors
 * allocated before that are libc's; see libc_heap.h.)
 *
 * Every other dlopen is passed on by a jump: the loader takes the library to search for by its caller. With the flag,
 * in a captured scope and under a plan, a name without a slash is searched for here in the caller's own directories.
 */
#define _GNU_SOURCE
#include "malloc/entry.h"

#include <dlfcn.h>

#if defined(RTLD_DEEPBIND) && defined(__GLIBC__)

#include "base/base.h"
#include "malloc/next.h"
#include "malloc/plan.h"

#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void *(*open_function)(const char *file, int mode);

static _Atomic(open_function) real_dlopen; /* the same value from every thread */

static open_function find_dlopen(void) {
    open_function function = ts_load_relaxed(&real_dlopen);
    if (TS_LIKELY(function != NULL)) return function;
    void *symbol = tm_malloc_next("dlopen");
    memcpy(&function, &symbol, sizeof function);
    ts_store_relaxed(&real_dlopen, function);
    return function;
}

typedef struct walk {
    unsigned at, from; /* libraries seen; the first that is new */
    void *own;         /* handle of this library */
    const void *base;  /* where it lies */
} walk;

/* The function of that name in this library; NULL: it has none. */
static void *find_own(const walk *w, const char *name) {
    Dl_info info;
    void *symbol = dlsym(w->own, name);
    return symbol && dladdr(symbol, &info) && info.dli_fbase == w->base ? symbol : NULL;
}

/* Whether a function of any library by a name that this one has, too. */
static bool is_known_function(const walk *w, uintptr_t at) {
    Dl_info info;
    return dladdr((const void *)at, &info) && (uintptr_t)info.dli_saddr == at && info.dli_sname &&
           find_own(w, info.dli_sname);
}

static int count(struct dl_phdr_info *info, size_t bytes, void *arg) {
    (void)info, (void)bytes;
    ++*(unsigned *)arg;
    return 0;
}

/* The place, which the loader may have made read-only, has ours from now on. */
static void write_place(uintptr_t *place, uintptr_t value, const struct dl_phdr_info *info) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)place & ~(page - 1);
    bool readonly = false;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) readonly |= (uintptr_t)place - at < info->dlpi_phdr[i].p_memsz;
    }
    if (readonly && mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0) return;
    __atomic_store_n(place, value, __ATOMIC_RELEASE);
    if (readonly) (void)mprotect((void *)start, page, PROT_READ);
}

#if UINTPTR_MAX > UINT32_MAX
#define SYMBOL_OF(info) ELF64_R_SYM(info)
typedef ElfW(Rela) relocation;
#define TABLE DT_RELA
#define TABLE_BYTES DT_RELASZ
#else
#define SYMBOL_OF(info) ELF32_R_SYM(info)
typedef ElfW(Rel) relocation;
#define TABLE DT_REL
#define TABLE_BYTES DT_RELSZ
#endif

typedef struct tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const relocation *table, *jumps;
    size_t table_bytes, jumps_bytes;
} tables;

/* all: whatever is there; a jump that has not been taken yet leads to the loader. Else only addresses of such
   functions. */
static void rebind(const struct dl_phdr_info *info, const tables *t, const relocation *r, size_t bytes, bool all,
                   const walk *w) {
    for (size_t n = bytes / sizeof *r; n > 0; n--, r++) {
        const ElfW(Sym) *symbol = &t->symbols[SYMBOL_OF(r->r_info)];
        if (SYMBOL_OF(r->r_info) == 0 || symbol->st_shndx != SHN_UNDEF) continue;
        const uintptr_t ours = (uintptr_t)find_own(w, t->strings + symbol->st_name);
        if (ours == 0) continue;
        uintptr_t *place = (uintptr_t *)(info->dlpi_addr + r->r_offset);
        if (*place != ours && (all || is_known_function(w, *place))) write_place(place, ours, info);
    }
}

static int rebind_library(struct dl_phdr_info *info, size_t bytes, void *arg) {
    walk *w = arg;
    tables t = {0};
    (void)bytes;
    if (w->at++ < w->from) return 0;
    const ElfW(Dyn) *d = NULL;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) d = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; d && d->d_tag != DT_NULL; d++) {
        /* Where the section cannot be written the loader has left it as it was in the file. */
        uintptr_t at = d->d_un.d_ptr < info->dlpi_addr ? info->dlpi_addr + d->d_un.d_ptr : d->d_un.d_ptr;
        switch (d->d_tag) {
        case DT_SYMTAB: t.symbols = (const void *)at; break;
        case DT_STRTAB: t.strings = (const void *)at; break;
        case DT_JMPREL: t.jumps = (const void *)at; break;
        case TABLE: t.table = (const void *)at; break;
        case DT_PLTRELSZ: t.jumps_bytes = d->d_un.d_val; break;
        case TABLE_BYTES: t.table_bytes = d->d_un.d_val; break;
        default: break;
        }
    }
    if (!t.symbols || !t.strings) return 0;
    if (t.jumps) rebind(info, &t, t.jumps, t.jumps_bytes, true, w);
    if (t.table) rebind(info, &t, t.table, t.table_bytes, false, w);
    return 0;
}

static void *open_deep(const char *file, int mode) {
    open_function function = find_dlopen();
    walk w = {0};
    Dl_info self;
    (void)dl_iterate_phdr(count, &w.from);
    void *handle = function(file, mode);
    if (!handle || !dladdr((const void *)&real_dlopen, &self)) return handle;
    /* Not where the program has a malloc of its own before ours. */
    w.own = function(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    w.base = self.dli_fbase;
    if (w.own && dlsym(RTLD_DEFAULT, "malloc") == dlsym(w.own, "malloc")) (void)dl_iterate_phdr(rebind_library, &w);
    if (w.own) (void)dlclose(w.own);
    return handle;
}

#define SEARCHED_BYTES ((size_t)8 << 10) /* of a list of directories with their names; a longer one is not searched */

typedef union searched {
    Dl_serinfo list;
    char bytes[SEARCHED_BYTES];
} searched;

/* Where a library that calls dlopen has it search. */
static bool list_for(const void *caller, searched *s) {
    Dl_info info;
    void *map = NULL;
    return dladdr1(caller, &info, &map, RTLD_DL_LINKMAP) && map && dlinfo(map, RTLD_DI_SERINFOSIZE, &s->list) == 0 &&
           s->list.dls_size <= SEARCHED_BYTES && dlinfo(map, RTLD_DI_SERINFO, &s->list) == 0;
}

/* The first of the caller's own directories that has the file; NULL: none has. At the end of its list are those that
   this library searches, too: between the two the loader asks its cache. */
static const char *find_for(const void *caller, const char *file, char path[PATH_MAX]) {
    searched theirs, ours;
    if (!list_for(caller, &theirs) || !list_for((const void *)&real_dlopen, &ours)) return NULL;
    unsigned count = theirs.list.dls_cnt, common = ours.list.dls_cnt;
    while (count > 0 && common > 0 &&
           strcmp(theirs.list.dls_serpath[count - 1].dls_name, ours.list.dls_serpath[common - 1].dls_name) == 0)
        count--, common--;
    for (unsigned i = 0; i < count; i++) {
        const char *directory = theirs.list.dls_serpath[i].dls_name;
        size_t bytes = strlen(directory), more = strlen(file) + 1;
        if (bytes + 1 + more > PATH_MAX) continue;
        memcpy(path, directory, bytes);
        path[bytes] = '/';
        memcpy(path + bytes + 1, file, more);
        if (access(path, R_OK) == 0) return path;
    }
    return NULL;
}

/* A library that is there already has nothing to be rebound, and no new sites. */
static void *open_named(const void *caller, open_function function, const char *file, int mode) {
    open_function open = file && mode & RTLD_DEEPBIND ? open_deep : function;
    char path[PATH_MAX];
    if (!file || strchr(file, '/')) return open(file, mode);
    int error = errno;
    void *handle = function(file, mode | RTLD_NOLOAD);
    const char *found = handle ? NULL : find_for(caller, file, path);
    errno = error;
    if (handle) return handle;
    if (found && (handle = open(found, mode))) return handle;
    return open(file, mode);
}

/* A library's constructors, its link map and the loader's messages are not a domain's. */
TS_COLD static void *open_for(const void *caller, open_function function, const char *file, int mode) {
    tm_capture_suspend();
    void *handle = open_named(caller, function, file, mode);
    tm_plan_follow(function);
    tm_capture_resume();
    return handle;
}

#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("O2"))) /* the jumps */
#endif
TM_EXPORT void *
dlopen(const char *file, int mode) {
    open_function function = find_dlopen();
    if (TS_UNLIKELY(mode & RTLD_DEEPBIND) || TM_HAS_PLAN || tm_is_captured()) {
        void *handle = open_for(TM_CALLED_FROM(), function, file, mode);
        if (handle || mode & RTLD_DEEPBIND || tm_is_captured()) return handle;
        /* What is not found so, as in a directory for one kind of processor, is left to the caller's search. */
    }
    return function(file, mode);
}

#endif
