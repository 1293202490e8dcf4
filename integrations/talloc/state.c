/* What libtslab-talloc has once in a process: the number of its chunks, the null and autofree contexts, messages, abort. */
#include "chunk.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

uint32_t tt_mark = 0x7a110c00u & ~(uint32_t)ALL_FLAGS; /* until the constructor has run */
SlabAllocator *tt_allocator;
EpochId tt_shared = EPOCH_NONE;
Chunk *tt_null;
int tt_fill = -1;

static void *autofree;
static void (*abort_with)(const char *reason);
static void (*log_with)(const char *message);
static bool reports, reports_fully;

/* ---- start and end ------------------------------------------------------------------------------------------ */

static void start_once(void) {
    SlabAllocator *allocator = slab_allocator_default();
    if (allocator) tt_shared = epoch_open(allocator, "small talloc contexts", EPOCH_CHURN);
    if (tt_shared != EPOCH_NONE) tt_allocator = allocator;
}

/* Of several threads. False: no memory; the next call tries again. */
bool tt_start(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!tt_allocator) start_once();
    bool good = tt_allocator != NULL;
    pthread_mutex_unlock(&lock);
    return good;
}

/* A number that an attacker does not know, before the first chunk is made. */
static __attribute__((constructor)) void begin(void) {
    uint32_t number;
    const char *fill = getenv("TALLOC_FREE_FILL");
    if (tt_allocator) return; /* another constructor was first, and has chunks */
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
        number = (uint32_t)(uintptr_t)&number ^ (uint32_t)time(NULL);
    tt_mark = number & ~(uint32_t)ALL_FLAGS;
    if (fill) tt_fill = (int)strtoul(fill, NULL, 0) & 0xff;
    (void)tt_start();
}

static int forget_autofree(void *context) {
    (void)context;
    autofree = NULL;
    return 0;
}

static void at_exit(void) {
    if (autofree) (void)tt_free(tt_chunk(autofree), "talloc_autofree_context");
    if (!tt_null || talloc_total_size(NULL) == 0) return;
    if (reports_fully)
        talloc_report_full(NULL, stderr);
    else if (reports)
        talloc_report(NULL, stderr);
}

static void be_called_at_exit(void) {
    static bool done;
    if (!done) done = atexit(at_exit) == 0;
}

void *talloc_autofree_context(void) {
    if (autofree) return autofree;
    autofree = talloc_named_const(NULL, 0, "autofree_context");
    if (!autofree) return NULL;
    _talloc_set_destructor(autofree, forget_autofree);
    be_called_at_exit();
    return autofree;
}

/* ---- the null context ------------------------------------------------------------------------------------------ */

void talloc_enable_null_tracking_no_autofree(void) {
    if (!tt_null) tt_null = tt_new(NULL, 0, "null_context");
}

void talloc_enable_null_tracking(void) {
    talloc_enable_null_tracking_no_autofree();
    if (autofree) (void)talloc_reparent(NULL, tt_null ? tt_object(tt_null) : NULL, autofree);
}

/* What is below the null context is on top again. */
void talloc_disable_null_tracking(void) {
    Chunk *old = tt_null;
    if (!old) return;
    tt_null = NULL;
    while (old->child) tt_steal(NULL, old->child);
    (void)tt_free(old, "talloc_disable_null_tracking");
}

void talloc_enable_leak_report(void) {
    talloc_enable_null_tracking();
    reports = true;
    be_called_at_exit();
}

void talloc_enable_leak_report_full(void) {
    talloc_enable_null_tracking();
    reports_fully = true;
    be_called_at_exit();
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

void talloc_set_abort_fn(void (*abort_fn)(const char *reason)) { abort_with = abort_fn; }
void talloc_set_log_fn(void (*log_fn)(const char *message)) { log_with = log_fn; }

static void log_to_stderr(const char *message) { fputs(message, stderr); }
void talloc_set_log_stderr(void) { talloc_set_log_fn(log_to_stderr); }

void tt_log(const char *format, ...) {
    char text[1024];
    va_list arguments;
    if (!log_with) return;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log_with(text);
}

void tt_abort(const char *reason) {
    tt_log("%s\n", reason);
    if (!abort_with) abort();
    abort_with(reason);
}

Chunk *tt_not_a_chunk(const Chunk *chunk) {
    bool ours = (chunk->mark & ~(uint32_t)ALL_FLAGS) == tt_mark;
    if (ours && chunk->mark & IS_FREE)
        tt_log("talloc: access after free error - first free may be at %s\n", chunk->name);
    tt_abort(ours ? "Bad talloc magic value - access after free" : "Bad talloc magic value - unknown value");
    return NULL;
}

/* ---- versions -------------------------------------------------------------------------------------------------- */

int talloc_version_major(void) { return TALLOC_VERSION_MAJOR; }
int talloc_version_minor(void) { return TALLOC_VERSION_MINOR; }
int talloc_test_get_magic(void) { return (int)tt_mark; }
