/*
 * Memory functions for other libraries: SQLite, Lua, libxml2, zlib, expat, jansson, PCRE2, nghttp2, OpenSSL, libuv.
 *
 * Each is installed by one line; examples/adapt/ has a program for every library.
 *
 *     one handle, in the domain that its opaque pointer names:
 *     zlib       slab_adapt_zlib(&stream, domain);
 *     Lua        lua_State *L = lua_newstate(slab_adapt_lua, domain);
 *     PCRE2      pcre2_general_context_create(slab_adapt_pcre2_malloc, slab_adapt_pcre2_free, domain)
 *     nghttp2    nghttp2_mem memory = SLAB_ADAPT_NGHTTP2(domain);
 *     expat      XML_Memory_Handling_Suite memory = SLAB_ADAPT_EXPAT;     for XML_ParserCreate_MM(); see there
 *
 *     the whole process, before the library is used for the first time:
 *     SQLite     slab_adapt_sqlite3(SLAB_ADAPT_OUTSIDE)        SQLITE_OK
 *     libxml2    slab_adapt_libxml2(SLAB_ADAPT_OUTSIDE)        0
 *     OpenSSL    slab_adapt_openssl(SLAB_ADAPT_OUTSIDE)        1
 *     libuv      slab_adapt_libuv(SLAB_ADAPT_OUTSIDE)          0
 *     jansson    slab_adapt_jansson(SLAB_ADAPT_OUTSIDE)
 *
 * The header needs none of the libraries' headers: its functions have the libraries' types spelled out, and the lines
 * above are macros. slab_adapt_sqlite3() alone is a function: include <sqlite3.h> first.
 *
 * Where a handle's memory goes. In the domain, from any thread, entered or not. The domain must not end while the
 * handle is used. It may end without the handle being closed: all its memory goes with it.
 *
 * Where a process's memory goes. Memory that a library holds for itself, such as caches, tables and errors, outlives a
 * request. So it is outside of domains: in an epoch of its own, labelled with the library's name, in the default
 * allocator. Statistics by epoch then say how much each library holds. SLAB_ADAPT_IN_DOMAINS opts in: objects that a
 * thread allocates inside of a domain are the domain's. docs/libraries.md names the libraries that allow that, and the
 * memory they keep.
 *
 * Frees are checked as slab_free(): memory of before the installation, or of a domain that has ended, is no crash but a
 * refused free. Any thread may free. Install from one source file.
 */
#ifndef TSLAB_ADAPT_H
#define TSLAB_ADAPT_H

#include <tslab/tslab.h>

#include <errno.h>
#include <limits.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- one handle: its opaque pointer is the domain ----------------------------------------------------------- */

/* NULL with errno: ENOMEM, ESTALE the domain is closed, EINVAL it has ended. Any thread. */
static inline void *slab_adapt_in(void *domain, size_t size) {
    const EpochDomain *d = (const EpochDomain *)domain;
    return slab_malloc_epoch(epoch_domain_allocator(d), size, epoch_domain_epoch(d));
}
static inline void slab_adapt_free_in(void *domain, void *pointer) {
    (void)slab_free(epoch_domain_allocator((const EpochDomain *)domain), pointer);
}
/* The object stays in its domain. */
static inline void *slab_adapt_resize_in(void *domain, void *pointer, size_t size) {
    if (!pointer) return slab_adapt_in(domain, size);
    return slab_realloc(epoch_domain_allocator((const EpochDomain *)domain), pointer, size);
}

/* In place of the free function of zlib, PCRE2 or nghttp2, for a handle in a scope that ends soon: frees nothing, as
   the end of the domain does. Saves 50 to 180 instructions a free; costs the memory until then. */
static inline void slab_adapt_keep(void *one, void *other) {
    (void)one;
    (void)other;
}

/* zlib: alloc_func and free_func. */
static inline void *slab_adapt_zlib_alloc(void *domain, unsigned items, unsigned size) {
    size_t bytes = (size_t)items * size; /* beyond 32 bits: a size that cannot be had */
    return slab_adapt_in(domain, size != 0 && bytes / size != items ? SIZE_MAX : bytes);
}
static inline void slab_adapt_zlib_free(void *domain, void *pointer) { slab_adapt_free_in(domain, pointer); }
/* Of a z_stream that inflateInit() or deflateInit() gets next. */
#define slab_adapt_zlib(stream, domain)                                                       \
    ((void)((stream)->zalloc = slab_adapt_zlib_alloc, (stream)->zfree = slab_adapt_zlib_free, \
            (stream)->opaque = (domain)))

/* PCRE2: of a general context, and all that is made with it; not the code of the JIT. */
static inline void *slab_adapt_pcre2_malloc(size_t size, void *domain) { return slab_adapt_in(domain, size); }
static inline void slab_adapt_pcre2_free(void *pointer, void *domain) { slab_adapt_free_in(domain, pointer); }

/* Lua: lua_Alloc. Objects that shrink never fail, on which Lua relies. */
static inline void *slab_adapt_lua(void *domain, void *pointer, size_t old_size, size_t size) {
    void *moved;
    if (size == 0) {
        slab_adapt_free_in(domain, pointer);
        return NULL;
    }
    moved = slab_adapt_resize_in(domain, pointer, size);
    return moved || !pointer || size > old_size ? moved : pointer;
}
/* As slab_adapt_lua, for a state that ends with a scope, without lua_close(): small objects stay until then. Not for a
   state that runs long: memory that its collector frees serves nothing else. */
static inline void *slab_adapt_lua_keep(void *domain, void *pointer, size_t old_size, size_t size) {
    if (size == 0 && old_size < 4096) return NULL;
    return slab_adapt_lua(domain, pointer, old_size, size);
}

/* nghttp2: nghttp2_mem, for nghttp2_session_server_new3() and the like. */
static inline void *slab_adapt_nghttp2_malloc(size_t size, void *domain) { return slab_adapt_in(domain, size); }
static inline void slab_adapt_nghttp2_free(void *pointer, void *domain) { slab_adapt_free_in(domain, pointer); }
static inline void *slab_adapt_nghttp2_calloc(size_t n, size_t size, void *domain) {
    const EpochDomain *d = (const EpochDomain *)domain;
    return slab_calloc_epoch(epoch_domain_allocator(d), n, size, epoch_domain_epoch(d));
}
static inline void *slab_adapt_nghttp2_realloc(void *pointer, size_t size, void *domain) {
    return slab_adapt_resize_in(domain, pointer, size);
}
#define SLAB_ADAPT_NGHTTP2(domain)                                                               \
    {                                                                                            \
        (domain), slab_adapt_nghttp2_malloc, slab_adapt_nghttp2_free, slab_adapt_nghttp2_calloc, \
            slab_adapt_nghttp2_realloc                                                           \
    }

/* ---- the whole process ----------------------------------------------------------------------------------------- */

#define SLAB_ADAPT_OUTSIDE 0    /* in the library's own epoch */
#define SLAB_ADAPT_IN_DOMAINS 1 /* inside of a domain, in that; else in the library's own epoch */

/* Where a library's memory goes; one per library and source file. */
typedef struct SlabAdaptHome {
    const char *label;
    EpochId epoch; /* atomic: opened on first use */
    int where;     /* atomic: SLAB_ADAPT_OUTSIDE or SLAB_ADAPT_IN_DOMAINS */
} SlabAdaptHome;

/* The library's own epoch, in the default allocator. EPOCH_NONE with errno ENOMEM. */
static inline EpochId slab_adapt_epoch(SlabAdaptHome *home) {
    EpochId epoch = __atomic_load_n(&home->epoch, __ATOMIC_ACQUIRE), none = EPOCH_NONE;
    if (epoch != EPOCH_NONE) return epoch;
    epoch = epoch_open(slab_allocator_default(), home->label, EPOCH_CHURN);
    if (epoch == EPOCH_NONE) return EPOCH_NONE;
    if (__atomic_compare_exchange_n(&home->epoch, &none, epoch, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return epoch;
    (void)epoch_destroy(slab_allocator_default(), epoch); /* another thread was first */
    return none;
}
/* Ends an installer's line: its value is the second. */
static inline void slab_adapt_set(SlabAdaptHome *home, int where) {
    __atomic_store_n(&home->where, where, __ATOMIC_RELAXED);
}

static inline void *slab_adapt_take(SlabAdaptHome *home, size_t size) {
    EpochId epoch;
    if (__atomic_load_n(&home->where, __ATOMIC_RELAXED) != SLAB_ADAPT_OUTSIDE && epoch_domain_current()) {
        int before = errno;
        void *pointer = slab_alloc(size);
        if (pointer || errno != ESTALE) return pointer;
        errno = before; /* closed: as if outside */
    }
    epoch = slab_adapt_epoch(home);
    return epoch != EPOCH_NONE ? slab_malloc_epoch(slab_allocator_default(), size, epoch) : NULL;
}
static inline void *slab_adapt_take_zero(SlabAdaptHome *home, size_t n, size_t size) {
    void *pointer = slab_adapt_take(home, size != 0 && n > SIZE_MAX / size ? SIZE_MAX : n * size);
    return pointer ? memset(pointer, 0, n * size) : NULL;
}
/* As realloc() of the C library: size 0 frees. An object of a closed domain that cannot grow in place moves to the
   default allocator, as a new object would. */
static inline void *slab_adapt_resize(SlabAdaptHome *home, void *pointer, size_t size) {
    int before = errno;
    void *moved;
    size_t bytes;
    if (!pointer) return slab_adapt_take(home, size);
    if (size == 0) {
        (void)slab_release(pointer);
        return NULL;
    }
    moved = slab_alloc_resize(pointer, size);
    if (moved || errno != ESTALE) return moved;
    bytes = slab_usable_size(slab_allocator_default(), pointer);
    moved = bytes ? slab_adapt_take(home, size) : NULL;
    if (!moved) return NULL;
    errno = before;
    memcpy(moved, pointer, bytes < size ? bytes : size);
    (void)slab_release(pointer);
    return moved;
}
static inline void slab_adapt_free(void *pointer) { (void)slab_release(pointer); }
/* In its place, for a tree that is dropped with its scope: frees nothing. */
static inline void slab_adapt_keep_all(void *pointer) { (void)pointer; }

/* expat: of one parser, but without a pointer of its own. So its memory is of the innermost domain of the thread in
   each call: enter the domain for as long as the parser is used, and no other inside of it. Outside of any it is in the
   epoch "expat". */
static SlabAdaptHome slab_adapt_home_expat = {"expat", EPOCH_NONE, SLAB_ADAPT_IN_DOMAINS};
static inline void *slab_adapt_expat_malloc(size_t size) { return slab_adapt_take(&slab_adapt_home_expat, size); }
static inline void *slab_adapt_expat_realloc(void *pointer, size_t size) {
    return slab_adapt_resize(&slab_adapt_home_expat, pointer, size);
}
#define SLAB_ADAPT_EXPAT \
    { slab_adapt_expat_malloc, slab_adapt_expat_realloc, slab_adapt_free }
#define SLAB_ADAPT_EXPAT_KEEP \
    { slab_adapt_expat_malloc, slab_adapt_expat_realloc, slab_adapt_keep_all }

/* libxml2: xmlMemSetup(). */
static SlabAdaptHome slab_adapt_home_libxml2 = {"libxml2", EPOCH_NONE, SLAB_ADAPT_OUTSIDE};
static inline void *slab_adapt_libxml2_malloc(size_t size) { return slab_adapt_take(&slab_adapt_home_libxml2, size); }
static inline void *slab_adapt_libxml2_realloc(void *pointer, size_t size) {
    return slab_adapt_resize(&slab_adapt_home_libxml2, pointer, size);
}
static inline char *slab_adapt_libxml2_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    void *copy = slab_adapt_libxml2_malloc(bytes);
    return (char *)(copy ? memcpy(copy, text, bytes) : NULL);
}
#define slab_adapt_libxml2(where)                       \
    (slab_adapt_set(&slab_adapt_home_libxml2, (where)), \
     xmlMemSetup(slab_adapt_free, slab_adapt_libxml2_malloc, slab_adapt_libxml2_realloc, slab_adapt_libxml2_strdup))

/* jansson: json_set_alloc_funcs(). Free the text of json_dumps() with slab_adapt_free(). */
static SlabAdaptHome slab_adapt_home_jansson = {"jansson", EPOCH_NONE, SLAB_ADAPT_OUTSIDE};
static inline void *slab_adapt_jansson_malloc(size_t size) { return slab_adapt_take(&slab_adapt_home_jansson, size); }
#define slab_adapt_jansson(where)                       \
    (slab_adapt_set(&slab_adapt_home_jansson, (where)), \
     json_set_alloc_funcs(slab_adapt_jansson_malloc, slab_adapt_free))

/* OpenSSL 1.1 and 3: CRYPTO_set_mem_functions(), which answers 0 once OpenSSL has allocated anything. */
static SlabAdaptHome slab_adapt_home_openssl = {"openssl", EPOCH_NONE, SLAB_ADAPT_OUTSIDE};
static inline void *slab_adapt_openssl_malloc(size_t size, const char *file, int line) {
    (void)file;
    (void)line;
    return slab_adapt_take(&slab_adapt_home_openssl, size);
}
static inline void *slab_adapt_openssl_realloc(void *pointer, size_t size, const char *file, int line) {
    (void)file;
    (void)line;
    return slab_adapt_resize(&slab_adapt_home_openssl, pointer, size);
}
static inline void slab_adapt_openssl_free(void *pointer, const char *file, int line) {
    (void)file;
    (void)line;
    (void)slab_release(pointer);
}
#define slab_adapt_openssl(where)                       \
    (slab_adapt_set(&slab_adapt_home_openssl, (where)), \
     CRYPTO_set_mem_functions(slab_adapt_openssl_malloc, slab_adapt_openssl_realloc, slab_adapt_openssl_free))

/* libuv: uv_replace_allocator(). Before 1.49 libuv passes a path that uv_fs_realpath() got from the C library to the
   installed free, which refuses it: each call leaks its path. */
static SlabAdaptHome slab_adapt_home_libuv = {"libuv", EPOCH_NONE, SLAB_ADAPT_OUTSIDE};
static inline void *slab_adapt_libuv_malloc(size_t size) { return slab_adapt_take(&slab_adapt_home_libuv, size); }
static inline void *slab_adapt_libuv_realloc(void *pointer, size_t size) {
    return slab_adapt_resize(&slab_adapt_home_libuv, pointer, size);
}
static inline void *slab_adapt_libuv_calloc(size_t n, size_t size) {
    return slab_adapt_take_zero(&slab_adapt_home_libuv, n, size);
}
#define slab_adapt_libuv(where)                                                                       \
    (slab_adapt_set(&slab_adapt_home_libuv, (where)),                                                 \
     uv_replace_allocator(slab_adapt_libuv_malloc, slab_adapt_libuv_realloc, slab_adapt_libuv_calloc, \
                          slab_adapt_free))

/* SQLite: sqlite3_mem_methods. Opted in, domains of the default allocator count, as SQLite asks for the sizes of its
   objects. */
static SlabAdaptHome slab_adapt_home_sqlite3 = {"sqlite3", EPOCH_NONE, SLAB_ADAPT_OUTSIDE};
static inline void *slab_adapt_sqlite3_malloc(int size) {
    SlabAllocator *allocator = slab_allocator_default();
    EpochDomain *domain = epoch_domain_current();
    if (domain && epoch_domain_allocator(domain) != allocator)
        return slab_malloc_epoch(allocator, (size_t)size, slab_adapt_epoch(&slab_adapt_home_sqlite3));
    return slab_adapt_take(&slab_adapt_home_sqlite3, (size_t)size);
}
static inline void *slab_adapt_sqlite3_realloc(void *pointer, int size) {
    return slab_adapt_resize(&slab_adapt_home_sqlite3, pointer, (size_t)size);
}
static inline int slab_adapt_sqlite3_size(void *pointer) {
    size_t bytes = slab_usable_size(slab_allocator_default(), pointer);
    return bytes < INT_MAX ? (int)bytes : INT_MAX;
}
static inline int slab_adapt_sqlite3_roundup(int size) { return size > INT_MAX - 15 ? size : (size + 15) & ~15; }
static inline int slab_adapt_sqlite3_init(void *data) {
    (void)data;
    return 0;
}
static inline void slab_adapt_sqlite3_shutdown(void *data) { (void)data; }

#ifdef __cplusplus
}
#endif

#endif

/* Where <sqlite3.h> came first, also at a second time. */
#if defined(SQLITE_CONFIG_MALLOC) && !defined(TSLAB_ADAPT_SQLITE3)
#define TSLAB_ADAPT_SQLITE3
#undef slab_adapt_sqlite3
/* Before sqlite3_initialize() and the first connection: SQLITE_MISUSE later. */
static inline int slab_adapt_sqlite3(int where) {
    sqlite3_mem_methods methods = {
        slab_adapt_sqlite3_malloc,  slab_adapt_free,         slab_adapt_sqlite3_realloc,  slab_adapt_sqlite3_size,
        slab_adapt_sqlite3_roundup, slab_adapt_sqlite3_init, slab_adapt_sqlite3_shutdown, NULL};
    slab_adapt_set(&slab_adapt_home_sqlite3, where);
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
}
#elif !defined(TSLAB_ADAPT_SQLITE3) && !defined(slab_adapt_sqlite3)
#define slab_adapt_sqlite3(where) _Pragma("GCC error \"include <sqlite3.h> before <tslab/adapt.h>\"")(where)
#endif
