/* The operators of a C++ library that a plugin brings along, by which it finds them first with RTLD_DEEPBIND: each call
   is counted. */
#include "own_cxx.h"

unsigned own_cxx_calls;

static void *allocate(size_t bytes) {
    own_cxx_calls++;
    return malloc(bytes);
}
static void release(void *p) {
    own_cxx_calls++;
    free(p);
}

#define DEFINE_NEW(number, name) \
    void *cxx_new_##number(size_t bytes, size_t alignment) { return (void)alignment, allocate(bytes); }
#define DEFINE_DELETE(number, name) \
    void cxx_delete_##number(void *p, size_t a, size_t b) { (void)a, (void)b, release(p); }
OWN_CXX_NEWS(DEFINE_NEW)
OWN_CXX_DELETES(DEFINE_DELETE)
