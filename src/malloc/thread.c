/*
 * pthread_create: the library is told of the program's threads. The thread that gives memory back is made with the
 * first of them: nobody then takes the process for one of a single thread.
 *
 * Memory of a new thread outlives every domain, so nothing is captured meanwhile.
 */
#define _GNU_SOURCE
#include "malloc/entry.h"

#ifdef TM_SEES_THREADS

#include "api/api.h"

#include <pthread.h>

#ifdef TSLAB_MALLOC_STATIC

#include <dlfcn.h>
#include <string.h>
#include <threads.h>

/*
 * In libc's archive pthread_create is a weak name of __pthread_create, which comes into the program with thrd_create.
 * The shared libc does not show it: in a program that is linked with that, the function behind this one is asked for by
 * its name.
 */
typedef int create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
extern create_function __pthread_create __attribute__((weak));
extern __typeof__(dlsym) dlsym __attribute__((weak));
__attribute__((used)) static int (*const brings_it)(thrd_t *, thrd_start_t, void *) = thrd_create;

static int create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg) {
    if (__pthread_create) return __pthread_create(thread, attributes, run, arg);
    void *symbol = dlsym ? dlsym(RTLD_NEXT, "pthread_create") : NULL;
    if (!symbol) return ENOSYS;
    create_function *function;
    memcpy(&function, &symbol, sizeof function); /* ISO C has no conversion of a pointer to a function's */
    return function(thread, attributes, run, arg);
}
#else

#include "malloc/next.h"

#include <string.h>

typedef int (*create_function)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static _Atomic(create_function) real_create; /* the same value from every thread */

static create_function find_create(void) {
    create_function function = ts_load_relaxed(&real_create);
    if (TS_LIKELY(function != NULL)) return function;
    void *symbol = tm_malloc_next("pthread_create");
    memcpy(&function, &symbol, sizeof function);
    ts_store_relaxed(&real_create, function);
    return function;
}

static int create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg) {
    create_function function = find_create();
    return function ? function(thread, attributes, run, arg) : ENOSYS;
}

#endif

TM_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg) {
    tm_capture_suspend();
    int error = create(thread, attributes, run, arg);
    if (TS_UNLIKELY(error == EAGAIN) && ts_private_is_data_limited() && slab_trim(tm_process_allocator()) > 0)
        error = create(thread, attributes, run, arg); /* what is retained counts against the limit that a stack does */
    tm_capture_resume();
    if (error == 0) ts_private_thread_made();
    return error;
}

#endif
