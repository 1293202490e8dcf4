/* A plugin that uses each operator of C++ by a call and by its address. */
#include "own_cxx.h"

#define ADDRESS_OF_NEW(number, name) cxx_new_##number,
#define ADDRESS_OF_DELETE(number, name) cxx_delete_##number,
static void *(*const news[])(size_t, size_t) = {OWN_CXX_NEWS(ADDRESS_OF_NEW)};
static void (*const deletes[])(void *, size_t, size_t) = {OWN_CXX_DELETES(ADDRESS_OF_DELETE)};

static void *call_new(unsigned which, size_t bytes) {
    switch (which) {
#define CASE_OF_NEW(number, name) \
    case number: return cxx_new_##number(bytes, 16);
        OWN_CXX_NEWS(CASE_OF_NEW)
    default: return NULL;
    }
}

static void call_delete(unsigned which, void *p, size_t bytes) {
    switch (which) {
#define CASE_OF_DELETE(number, name) \
    case number: cxx_delete_##number(p, number < 8 ? 16 : bytes, 16); return;
        OWN_CXX_DELETES(CASE_OF_DELETE)
    default: return;
    }
}

/* Shows each object; those of an even form are freed by an even one. Returns how many there were. */
int plugin_cxx_work(void (*show)(void *p));
int plugin_cxx_work(void (*show)(void *p)) {
    int shown = 0;
    for (unsigned i = 0; i < OWN_CXX_NEW; i++) {
        for (unsigned k = i % 2; k < OWN_CXX_DELETE; k += 2, shown += 2) {
            void *p = call_new(i, 100), *q = news[i](100, 16);
            show(p);
            show(q);
            call_delete(k, q, 100);
            deletes[k](p, k < 8 ? 16 : 100, 16);
        }
    }
    return shown;
}
