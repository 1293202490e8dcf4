/* Lifecycle of a program, and the dispatch of its operations. */
#include "program_impl.h"

#include "os/os.h"
#include "region/region.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void prog_note(struct prog *program, const char *condition, const char *format, ...) {
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    (void)snprintf(program->why, sizeof program->why, "%.300s, expected: %.150s", message, condition);
    TRACE(program, "/* %s */", program->why);
}

const char *prog_why(const struct prog *program) { return program->why; }

static void trace_header(struct prog *program) {
    TRACE(program, "SlabAllocator *a[%d] = {0};", PROG_ALLOCATORS);
    TRACE(program, "EpochId e[%d] = {0};", PROG_EPOCHS);
    TRACE(program, "EpochId old[%d] = {0};", PROG_OLD);
    TRACE(program, "EpochDomain *d[%d] = {0};", PROG_DOMAINS);
    TRACE(program, "void *p[%d] = {0};", PROG_OBJECTS);
    TRACE(program, "SlabHandle h[%d] = {0};", PROG_OBJECTS);
    TRACE(program, "SlabMark m[%d][%d] = {0};", PROG_DOMAINS, PROG_MARKS);
}

struct prog *prog_new(const struct prog_config *config) {
    struct prog *program = calloc(1, sizeof *program);
    SUP_CHECK(program != NULL, "out of memory");
    program->config = *config;
    program->next_key = config->key;
    const char *strict = getenv("TSLAB_STRICT"); /* NOLINT(concurrency-mt-unsafe) */
    program->strict = strict != NULL && strcmp(strict, "1") == 0;
    trace_header(program);
    TRACE(program, "a[0] = slab_allocator_default();");
    program->allocators[0] = slab_allocator_default();
    program->alive[0] = program->allocators[0] != NULL;
    return program;
}

void prog_delete(struct prog *program) {
    while (program->all_epochs != NULL) {
        struct model_epoch *next = program->all_epochs->next;
        free(program->all_epochs);
        program->all_epochs = next;
    }
    free(program);
}

bool prog_step(struct prog *program, const struct prog_op *op) {
    EXPECT(program, program->alive[0], "slab_allocator_default() is NULL");
    int allocator = op->allocator % PROG_ALLOCATORS;
    switch ((enum prog_kind)(op->kind % PROG_KINDS)) {
    case PROG_MALLOC:
    case PROG_MALLOC_EPOCH:
    case PROG_CALLOC:
    case PROG_ALIGNED:
    case PROG_ALLOC_OBJ:
    case PROG_SLAB_ALLOC:
    case PROG_REALLOC:
    case PROG_RESIZE:
    case PROG_FREE:
    case PROG_FREE_OBJ:
    case PROG_QUERY:
    case PROG_VERIFY: return prog_object_op(program, op);
    case PROG_STALE_POINTER:
    case PROG_STALE_HANDLE:
    case PROG_GARBAGE_POINTER:
    case PROG_GARBAGE_HANDLE:
    case PROG_WRONG_ALLOCATOR:
    case PROG_BAD_ARGUMENT:
    case PROG_OLD_EPOCH:
    case PROG_STALE_DOMAIN: return prog_misuse_op(program, op);
    case PROG_EPOCH_OPEN:
    case PROG_EPOCH_CLOSE:
    case PROG_EPOCH_DESTROY:
    case PROG_EPOCH_ADVANCE:
    case PROG_EPOCH_LABEL:
    case PROG_EPOCH_STATE: return prog_epoch_op(program, op);
    case PROG_DOMAIN_CREATE:
    case PROG_DOMAIN_WRAP:
    case PROG_DOMAIN_ENTER:
    case PROG_DOMAIN_EXIT:
    case PROG_DOMAIN_DESTROY:
    case PROG_DOMAIN_FORCE_CLOSE:
    case PROG_DOMAIN_RESET:
    case PROG_DOMAIN_ON_DESTROY:
    case PROG_DOMAIN_HAND_OVER:
    case PROG_OFF_DESTROY:
    case PROG_PROMOTE: return prog_domain_op(program, op);
    case PROG_FAMILY:
    case PROG_RELEASE:
    case PROG_WALK: return prog_family_op(program, op);
    case PROG_CHILD:
    case PROG_MOVE:
    case PROG_END:
    case PROG_LIMIT: return prog_tree_op(program, op);
    case PROG_MARK:
    case PROG_REWIND: return prog_mark_op(program, op);
    case PROG_MAINTAIN:
    case PROG_SAMPLE_STACKS:
    case PROG_TRIM:
    case PROG_RESERVE:
    case PROG_BUDGET:
    case PROG_THREAD_IDLE:
    case PROG_ALLOCATOR_CREATE:
    case PROG_ALLOCATOR_FREE: return prog_allocator_op(program, op);
    case PROG_STATS:
        if (!program->alive[allocator]) {
            return true;
        }
        if (op->extra % 4u == 0 && !prog_figures(program, allocator)) {
            return false;
        }
        return prog_together(program) || prog_stats(program, allocator);
    case PROG_SEND:
    case PROG_RECEIVE: return prog_mail_op(program, op);
    case PROG_KINDS: break;
    }
    return true;
}

bool prog_give_back(struct prog *program) {
    struct prog_op receive = {.kind = PROG_RECEIVE, .extra = 1};
    for (int slot = 0; slot < PROG_OBJECTS; slot++) {
        if (program->objects[slot].live && program->objects[slot].received && !prog_free_slot(program, slot)) {
            return false;
        }
    }
    /* Every receive takes one object or finds the box empty: then its slot stays as it is. */
    for (;;) {
        int slot = 0;
        while (slot < PROG_OBJECTS && program->objects[slot].live) {
            slot++;
        }
        if (slot == PROG_OBJECTS) {
            slot = 0;
            if (!prog_free_slot(program, slot)) {
                return false;
            }
        }
        receive.object = (uint16_t)slot;
        if (!prog_mail_op(program, &receive)) {
            return false;
        }
        if (!program->objects[slot].live) {
            return true;
        }
        if (!prog_free_slot(program, slot)) {
            return false;
        }
    }
}

static bool finish_default(struct prog *program) {
    for (int slot = 0; slot < PROG_OBJECTS; slot++) {
        if (program->objects[slot].live && !prog_free_slot(program, slot)) {
            return false;
        }
    }
    for (struct model_epoch *epoch = program->all_epochs; epoch != NULL; epoch = epoch->next) {
        if (epoch->rolling || epoch->state == MODEL_GONE || !program->alive[epoch->allocator]) {
            continue;
        }
        bool destroyed = epoch_destroy(program->allocators[epoch->allocator], epoch->id);
        EXPECT(program, destroyed || epoch->state == MODEL_CLOSED, "epoch_destroy of an epoch still open at the end");
        epoch->state = MODEL_GONE;
    }
    return true;
}

bool prog_finish(struct prog *program) {
    for (int slot = 0; slot < PROG_OBJECTS; slot++) {
        if (program->objects[slot].live && !prog_check_object(program, slot)) {
            return false;
        }
    }
    for (int slot = 0; slot < PROG_DOMAINS; slot++) {
        if (program->domains[slot].alive && !prog_destroy_domain(program, slot)) {
            return false;
        }
    }
    EXPECT(program, program->depth == 0 && epoch_domain_current() == NULL, "a domain is still entered");
    for (int allocator = 1; allocator < PROG_ALLOCATORS; allocator++) {
        if (!program->alive[allocator]) {
            continue;
        }
        if (allocator % 2 == 1 && !prog_together(program) && !prog_stats(program, allocator)) {
            return false;
        }
        if (!prog_free_allocator(program, allocator)) {
            return false;
        }
    }
    if (!finish_default(program)) {
        return false;
    }
    return prog_together(program) || prog_stats(program, 0);
}

bool prog_run(const struct prog_op *ops, size_t count, FILE *trace, size_t *failed_at, char *why, size_t capacity) {
    struct prog_config config = {.trace = trace, .key = 1};
    struct prog *program = prog_new(&config);
    size_t at = 0;
    bool good = true;
    while (good && at < count) {
        good = prog_step(program, &ops[at]);
        at += good;
    }
    good = good && prog_finish(program);
    if (!good) {
        (void)snprintf(why, capacity, "%s", program->why);
    }
    if (failed_at != NULL) {
        *failed_at = at;
    }
    prog_delete(program);
    return good;
}

bool prog_run_bytes(const uint8_t *bytes, size_t length, FILE *trace, char *why, size_t capacity) {
    struct prog_config config = {.trace = trace, .key = 1};
    prog_large_are_far(length % 2 != 0);
    struct prog *program = prog_new(&config);
    struct prog_op op;
    bool good = true;
    while (good) {
        size_t used = prog_decode(bytes, length, &op);
        if (used == 0) {
            break;
        }
        bytes += used;
        length -= used;
        good = prog_step(program, &op);
    }
    good = good && prog_finish(program);
    if (!good) {
        (void)snprintf(why, capacity, "%s", program->why);
    }
    prog_delete(program);
    return good;
}

static uint64_t seldom_resident(void) {
    static atomic_uint calls;
    static _Atomic uint64_t last;
    if (atomic_fetch_add(&calls, 1) % 64 == 0) {
        atomic_store(&last, ts_os_native.resident_bytes());
    }
    return atomic_load(&last);
}

/* A program takes some milliseconds: as long as half a minute, so that acts due after seconds happen. */
#define PROG_TIME 2000u

static uint64_t time_from;

static uint64_t fast_wall(void) { return (ts_os_native.wall_ns() - time_from) * PROG_TIME + time_from; }
/* Behind: the same moment of the slow clock, or some milliseconds before. */
static uint64_t fast_coarse(void) {
    uint64_t now = ts_os_native.coarse_ns();
    return now > time_from ? (now - time_from) * PROG_TIME + time_from : time_from;
}

void prog_measure_seldom(void) {
    static ts_os_table table;
    table = ts_os_native;
    table.resident_bytes = seldom_resident;
    time_from = ts_os_native.wall_ns();
    table.wall_ns = fast_wall;
    table.coarse_ns = fast_coarse;
    ts_os = &table;
}

static void all_but_limits_and_hints(const char *line, size_t bytes, void *argument) {
    (void)argument;
    if (strstr(line, "tslab: limit of ") != line && strstr(line, "tslab: budget of ") != line &&
        strstr(line, "tslab: hint") != line) {
        (void)fwrite(line, 1, bytes, stderr);
    }
}

void prog_large_are_far(bool on) {
    (void)slab_allocator_default(); /* there is a region then */
    if (ts_region.part[TS_FAR].units != 0) ts_region.far_bytes = on ? 20000 : TS_FAR_BYTES;
}

void prog_quiet(void) { slab_set_message_sink(all_but_limits_and_hints, NULL); }
