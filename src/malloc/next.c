/*
 * What comes behind this library. For RTLD_NEXT the loader takes the caller of dlsym for the library that asks. Where a
 * library before this one stands in for dlsym, that is the caller, and the next function after it is this library's
 * own, which would call itself. Then libc is asked by its name, in the loader's name space that this library is in.
 */
#define _GNU_SOURCE
#include "malloc/next.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

void *tm_malloc_next(const char *name) {
    static const char here;
    Dl_info mine, found;
    struct link_map *map = NULL;
    Lmid_t space = LM_ID_BASE;
    void *symbol = dlsym(RTLD_NEXT, name);
    if (!symbol || !dladdr1(&here, &mine, (void **)&map, RTLD_DL_LINKMAP)) return symbol;
    if (!dladdr(symbol, &found) || found.dli_fbase != mine.dli_fbase) return symbol;
    (void)dlinfo(map, RTLD_DI_LMID, &space);
    /* dlmopen, as dlopen is this library's, and asks here. */
    void *libc = dlmopen(space, "libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    if (!libc) return NULL;
    symbol = dlsym(libc, name);
    (void)dlclose(libc); /* it was there before, and stays */
    return symbol;
}
