#define _GNU_SOURCE
#include "malloc/runtime.h"

#include "base/base.h"
#include "malloc/capture.h"

#include <stdint.h>
#include <string.h>

typedef struct range {
    uintptr_t start, bytes;
} range;

static bool is_in(const range *r, const void *address) { return (uintptr_t)address - r->start < r->bytes; }

#ifdef TSLAB_MALLOC_STATIC

/*
 * One module, which tells no sizes and has no bounds of libc: these functions keep what they allocate. One is taken to
 * end 1,024 bytes behind its start. Those are shorter, and what a neighbour of theirs allocates is the process's.
 */
#define FUNCTION_BYTES 1024u

#define FUNCTIONS(X)                                                                         \
    X(allocate_exception, "__cxa_allocate_exception")                                        \
    X(allocate_dependent, "__cxa_allocate_dependent_exception")                              \
    X(text, "_ZNSs4_Rep9_S_createEmmRKSaIcE")                                                \
    X(wide_text, "_ZNSbIwSt11char_traitsIwESaIwEE4_Rep9_S_createEmmRKS1_")                   \
    X(file, "_ZNSt13basic_filebufIcSt11char_traitsIcEE27_M_allocate_internal_bufferEv")      \
    X(wide_file, "_ZNSt13basic_filebufIwSt11char_traitsIwEE27_M_allocate_internal_bufferEv") \
    X(callback, "_ZNSt8ios_base17register_callbackEPFvNS_5eventERS_iEi")                     \
    X(thread_atexit, "__cxa_thread_atexit_impl")                                             \
    X(thread_list, "__cxa_thread_atexit")                                                    \
    X(exit_list, "__cxa_atexit")                                                             \
    X(new_exit, "__new_exitfn")                                                              \
    X(file_buffer, "_IO_file_doallocate")                                                    \
    X(default_buffer, "_IO_default_doallocate")                                              \
    X(wide_buffer, "_IO_wfile_doallocate")                                                   \
    X(set_specific, "__pthread_setspecific")                                                 \
    X(pushed_back, "_IO_default_pbackfail")                                                  \
    X(wide_pushed_back, "_IO_wdefault_pbackfail")                                            \
    X(printed, "__vasprintf_internal")                                                       \
    X(loader_error, "_dlerror_run")                                                          \
    X(timer, "timer_create")                                                                 \
    X(thread_block, "_dl_allocate_tls")                                                      \
    X(attributes, "__pthread_attr_extension")                                                \
    X(descriptor, "_IO_new_fdopen")                                                          \
    X(stream, "__fopen_internal")                                                            \
    X(tree, "__tsearch")                                                                     \
    X(environment, "__add_to_environ")                                                       \
    X(enlarge, "__libc_dynarray_emplace_enlarge")
#define X(name, symbol) extern const char name[] __asm__(symbol) __attribute__((weak));
FUNCTIONS(X)
#undef X
/* The unwinder sorts its tables with memory of malloc when it is first asked. */
extern const void *find_entry(void *pc, void *bases[3]) __asm__("_Unwind_Find_FDE") __attribute__((weak));

bool tm_is_runtimes(const void *caller) {
#define X(name, symbol) name,
    const char *const functions[] = {FUNCTIONS(X)};
#undef X
    for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++)
        if (functions[i] && is_in(&(range){(uintptr_t)functions[i], FUNCTION_BYTES}, caller)) return true;
    return false;
}

void tm_runtimes_start(void) {
    void *bases[3];
    if (find_entry) (void)find_entry((void *)(uintptr_t)tm_is_runtimes, bases);
}

#else

#include <dlfcn.h>
#include <link.h>

/* A library whose name begins so. Without functions: all that it allocates is its own. libc's functions that hand out
   what they allocate are in handed.c. Before glibc 2.34 libc is several libraries. */
#define FUNCTIONS_MOST 8u
typedef struct library {
    const char *name, *function[FUNCTIONS_MOST];
} library;

#define STRING_OF_LIBCXX "RKNSt3__112basic_stringIcNS0_11char_traitsIcEENS0_9allocatorIcEEEE"
static const library libraries[] = {
    {"libc.so.6", {NULL}},
    {"libpthread.so.0", {NULL}},
    {"libdl.so.2", {NULL}},
    {"librt.so.1", {NULL}},
    {"libanl.so.1", {NULL}},
    {"libresolv.so.2", {NULL}},
    {"libnss_", {NULL}},
    {"libstdc++.so.6",
     {"__cxa_allocate_exception", "__cxa_allocate_dependent_exception", "_ZNSs4_Rep9_S_createEmmRKSaIcE",
      "_ZNSbIwSt11char_traitsIwESaIwEE4_Rep9_S_createEmmRKS1_",
      "_ZNSt13basic_filebufIcSt11char_traitsIcEE27_M_allocate_internal_bufferEv",
      "_ZNSt13basic_filebufIwSt11char_traitsIwEE27_M_allocate_internal_bufferEv", "_ZNSt8ios_base13_M_grow_wordsEib",
      "_ZNSt8ios_base17register_callbackEPFvNS_5eventERS_iEi"}},
    {"libc++.so.1",
     {"_ZNSt11logic_errorC1EPKc", "_ZNSt11logic_errorC1E" STRING_OF_LIBCXX, "_ZNSt13runtime_errorC1EPKc",
      "_ZNSt13runtime_errorC1E" STRING_OF_LIBCXX, "_ZNSt3__18ios_base5iwordEi", "_ZNSt3__18ios_base5pwordEi",
      "_ZNSt3__18ios_base17register_callbackEPFvNS0_5eventERS0_iEi"}},
    {"libc++abi.so.1", {NULL}},
    {"libunwind.so.1", {NULL}},
    {"libgcc_s.so.1", {NULL}},
};

/* What has asked inside of a domain so far, some of it twice, if two threads were the first. A thread that counts
   `modules` up has the place, and is_known says that it is written, and constant. No lock: a child of fork or a signal
   handler would wait for it for ever. */
typedef struct module {
    range all;
    bool is_own;
    unsigned functions;
    range function[FUNCTIONS_MOST];
} module;
#define MODULES_MOST 256u
static module known[MODULES_MOST];
static _Atomic uint32_t modules;
static _Atomic bool is_known[MODULES_MOST];

static _Thread_local range plain; /* the last module of which no function is a runtime's */

static const module *find(const void *caller) {
    uint32_t count = ts_load_relaxed(&modules);
    for (uint32_t i = 0; i < count; i++)
        if (ts_load_acquire(&is_known[i]) && is_in(&known[i].all, caller)) return &known[i]; /* partner: add */
    return NULL;
}

#if !__GLIBC_PREREQ(2, 35)
static int measure(struct dl_phdr_info *info, size_t bytes, void *arg) {
    range *all = arg;
    (void)bytes;
    if (info->dlpi_addr != all->start) return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t to = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && to > all->bytes) all->bytes = to;
    }
    return 1;
}
#endif

/* The module that the address is in, by its name. false: it is in none. */
static bool locate(const void *address, range *all, const char **name, struct link_map **map) {
#if __GLIBC_PREREQ(2, 35)
    struct dl_find_object found; /* without a lock */
    if (_dl_find_object((void *)(uintptr_t)address, &found) != 0) return false;
    *map = found.dlfo_link_map;
    *all = (range){(uintptr_t)found.dlfo_map_start, (uintptr_t)found.dlfo_map_end - (uintptr_t)found.dlfo_map_start};
#else
    Dl_info info;
    void *of = NULL;
    if (!dladdr1(address, &info, &of, RTLD_DL_LINKMAP) || !of) return false;
    *map = of;
    *all = (range){(uintptr_t)info.dli_fbase, 0};
    (void)dl_iterate_phdr(measure, all);
#endif
    const char *slash = strrchr((*map)->l_name, '/');
    *name = slash ? slash + 1 : (*map)->l_name;
    return true;
}

static range bounds_of(void *handle, const char *function) {
    Dl_info info;
    void *symbol = NULL, *address = dlsym(handle, function);
    if (!address || !dladdr1(address, &info, &symbol, RTLD_DL_SYMENT) || !symbol) return (range){0, 0};
    return (range){(uintptr_t)address, (uintptr_t)((const ElfW(Sym) *)symbol)->st_size};
}

/* NULL: generated code, or there is no room. */
static const module *add(const void *caller) {
    struct link_map *map;
    const char *name;
    module m;
    memset(&m, 0, sizeof m);
    if (!locate(caller, &m.all, &name, &map)) return NULL;
    m.is_own = strstr(map->l_name, "/gconv/") != NULL; /* libc's, with any name */
    for (unsigned i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        const library *l = &libraries[i];
        if (strncmp(name, l->name, strlen(l->name)) != 0) continue;
        m.is_own = !l->function[0];
        void *handle = m.is_own ? NULL : dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
        for (unsigned k = 0; handle && k < FUNCTIONS_MOST && l->function[k]; k++) {
            m.function[m.functions] = bounds_of(handle, l->function[k]);
            m.functions += m.function[m.functions].bytes != 0;
        }
        if (handle) (void)dlclose(handle); /* it stays loaded */
        if (!m.is_own) (void)dlerror();    /* of a function that this version has not */
    }
    const module *there = find(caller);
    uint32_t place = ts_load_relaxed(&modules);
    if (there) return there;
    do {
        if (place >= MODULES_MOST) return NULL;
    } while (!atomic_compare_exchange_weak_explicit(&modules, &place, place + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    known[place] = m;
    ts_store_release(&is_known[place], true); /* partner: find */
    return &known[place];
}

TS_COLD static const module *add_uncaptured(const void *caller) {
    tm_capture_suspend();
    const module *m = add(caller);
    tm_capture_resume();
    return m;
}

bool tm_is_runtimes(const void *caller) {
    if (!caller || is_in(&plain, caller)) return false;
    const module *m = find(caller);
    if (!m) m = add_uncaptured(caller);
    if (!m) return false;
    for (unsigned i = 0; i < m->functions; i++)
        if (is_in(&m->function[i], caller)) return true;
    if (!m->is_own && m->functions == 0) plain = m->all;
    return m->is_own;
}

/* Those that are there already: a later look takes the loader's lock. */
void tm_runtimes_start(void) {
    const char *const of_each[] = {"fopen", "__cxa_allocate_exception", "_ZNSt13runtime_errorC1EPKc"};
    for (unsigned i = 0; i < sizeof of_each / sizeof *of_each; i++) {
        void *function = dlsym(RTLD_DEFAULT, of_each[i]);
        if (function) (void)add(function);
    }
    (void)dlerror();
}

#endif
