/* The operations of a program on whole allocators, their figures, and the mailboxes between programs. */
#include "identities.h"
#include "program_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool prog_ensure_allocator(struct prog *program, int allocator, unsigned choice) {
    if (program->alive[allocator]) {
        return true;
    }
    SlabOptions options = {.size = sizeof options};
    options.reclaim_policy = (int)(choice % 3u);
    options.retain_bytes = choice % 5u == 0 ? 64u << 10 : 0;
    options.poison_on_free = choice % 7u == 0;
    options.guard_spans = choice % 11u == 0;
    options.sample_stacks = choice % 13u < 4 ? 64u << choice % 13u * 4u : 0;
    bool plain = choice % 4u == 0;
    if (plain) {
        TRACE(program, "a[%d] = slab_allocator_create();", allocator);
    } else {
        TRACE(program,
              "a[%d] = slab_allocator_create_ex(&(SlabOptions){.size = sizeof(SlabOptions), .reclaim_policy = %d, "
              ".retain_bytes = %zu, .poison_on_free = %d, .guard_spans = %d, .sample_stacks = %zu});",
              allocator, options.reclaim_policy, options.retain_bytes, options.poison_on_free, options.guard_spans,
              options.sample_stacks);
    }
    errno = 0;
    SlabAllocator *made = plain ? slab_allocator_create() : slab_allocator_create_ex(&options);
    EXPECT(program, made != NULL, "slab_allocator_create: %s", strerror(errno));
    for (int other = 0; other < PROG_ALLOCATORS; other++) {
        EXPECT(program, !program->alive[other] || program->allocators[other] != made,
               "slab_allocator_create gave a[%d] twice", other);
    }
    program->allocators[allocator] = made;
    program->alive[allocator] = true;
    program->budgeted[allocator] = false;
    program->rolling[allocator] = NULL;
    program->rejected[allocator] = 0;
    return true;
}

bool prog_free_allocator(struct prog *program, int allocator) {
    /* The contract does not cover the cleanups of domains that are not destroyed. */
    for (int slot = 0; slot < PROG_DOMAINS; slot++) {
        if (program->domains[slot].alive && program->domains[slot].allocator == allocator &&
            !prog_destroy_domain(program, slot)) {
            return false;
        }
    }
    SlabAllocator *of = program->allocators[allocator];
    TRACE(program, "slab_allocator_free(a[%d]);", allocator);
    slab_allocator_free(of);
    program->alive[allocator] = false;
    for (struct model_epoch *epoch = program->all_epochs; epoch != NULL; epoch = epoch->next) {
        if (epoch->allocator == allocator && epoch->state != MODEL_GONE) {
            prog_kill_epoch(program, epoch);
            epoch->state = MODEL_GONE;
            epoch->rolling = false;
        }
    }
    for (int slot = 0; slot < PROG_EPOCHS; slot++) {
        if (program->epochs[slot] != NULL && program->epochs[slot]->allocator == allocator) {
            program->epochs[slot] = NULL;
        }
    }
    for (int at = 0; at < PROG_OLD; at++) {
        if (program->old_allocator[at] == allocator) {
            program->old[at] = EPOCH_NONE;
        }
    }
    for (int slot = 0; slot < PROG_OBJECTS; slot++) {
        struct model_object *object = &program->objects[slot];
        if (object->allocator == allocator && !object->live) {
            /* A later allocator in this slot is another one. */
            object->address = NULL;
            object->handle = SLAB_HANDLE_NONE;
        }
    }
    program->rolling[allocator] = NULL;
    return true;
}

static bool listed(const EpochId *ids, size_t count, EpochId id) {
    for (size_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* Classes, threads and renderers: also while others work, so only invariants. */
bool prog_figures(struct prog *program, int allocator) {
    SlabAllocator *of = program->allocators[allocator];
    SlabClassStats all;
    PerfCounters counters;
    static const size_t capacities[] = {0, 1, 100, 60000};
    static _Thread_local char text[60000];
    TRACE(program, "/* figures by class of a[%d], rendered */", allocator);
    EXPECT(program, slab_stats_class(of, SLAB_ALL_CLASSES, &all) && all.version == SLAB_STATS_VERSION, "all classes");
    for (uint32_t cls = 0; cls < slab_class_count(); cls++) {
        SlabClassStats stats;
        EXPECT(program, slab_stats_class(of, cls, &stats), "slab_stats_class(%u)", cls);
        EXPECT(program, stats.class_index == cls && stats.object_size == slab_class_size(cls), "class %u", cls);
        EXPECT(program, slab_class_of(slab_class_size(cls)) == (int)cls, "slab_class_of(%u)", slab_class_size(cls));
        EXPECT(program, get_perf_counters(of, cls, &counters), "get_perf_counters(%u)", cls);
    }
    EXPECT(program, slab_stats_thread().version == SLAB_STATS_VERSION, "slab_stats_thread");
    EXPECT(program, slab_version() != NULL && slab_version()[0] >= '0', "slab_version");
    for (unsigned i = 0; i < 4; i++) {
        size_t (*const renderers[])(SlabAllocator *, char *, size_t) = {slab_stats_json, slab_stats_prometheus,
                                                                        slab_stats_text};
        for (unsigned r = 0; r < 3; r++) {
            size_t needed = renderers[r](of, text, capacities[i]);
            EXPECT(program, needed > 0, "renderer %u", r);
            size_t kept = capacities[i] == 0 ? 0 : needed < capacities[i] ? needed : capacities[i] - 1;
            EXPECT(program, capacities[i] == 0 || strlen(text) == kept, "renderer %u, capacity %zu: %zu bytes of %zu",
                   r, capacities[i], strlen(text), needed);
        }
    }
    return true;
}

bool prog_stats(struct prog *program, int allocator) {
    SlabAllocator *of = program->allocators[allocator];
    SlabGlobalStats global;
    char why[256] = "";
    EpochId ids[256];
    uint64_t live = 0;
    uint64_t active = 0;
    uint64_t closing = 0;
    TRACE(program, "/* figures of a[%d] */", allocator);
    EXPECT(program, sup_identities(of, why, sizeof why), "figures of a[%d]: %s", allocator, why);
    EXPECT(program, slab_stats_global(of, &global), "slab_stats_global of a[%d]", allocator);
    size_t count = slab_epochs(of, ids, sizeof ids / sizeof ids[0]);
    for (int slot = 0; slot < PROG_OBJECTS; slot++) {
        live += program->objects[slot].live && program->objects[slot].allocator == allocator;
    }
    EXPECT(program, global.live_objects == live, "a[%d] has %" PRIu64 " live objects, the model %" PRIu64, allocator,
           global.live_objects, live);
    EXPECT(program, allocator == 0 || global.rejected_frees_total >= program->rejected[allocator],
           "rejected_frees_total of a[%d]: %" PRIu64 " of %" PRIu64, allocator, global.rejected_frees_total,
           program->rejected[allocator]);
    for (const struct model_epoch *epoch = program->all_epochs; epoch != NULL; epoch = epoch->next) {
        if (epoch->allocator != allocator || epoch->state == MODEL_GONE) {
            continue;
        }
        bool open = epoch->state == MODEL_ACTIVE;
        active += open;
        closing += !open && epoch->live != 0;
        if (!open && epoch->live == 0) {
            EXPECT(program, epoch_state(of, epoch->id) == EPOCH_CLOSED, "the state of a drained epoch");
            continue;
        }
        SlabEpochStats stats;
        EXPECT(program, slab_stats_epoch(of, SLAB_ALL_CLASSES, epoch->id, &stats), "slab_stats_epoch");
        EXPECT(program, stats.live_objects == epoch->live,
               "epoch %" PRIu64 " has %" PRIu64 " live objects, not %" PRIu64, epoch->id, stats.live_objects,
               epoch->live);
        EXPECT(program, count > sizeof ids / sizeof ids[0] || listed(ids, count, epoch->id),
               "slab_epochs leaves out epoch %" PRIu64, epoch->id);
        EXPECT(program,
               stats.limit_bytes == epoch->limit &&
                   stats.parent_epoch_id == (epoch->above == NULL ? EPOCH_NONE : epoch->above->id),
               "epoch %" PRIu64 ": limit %" PRIu64 ", not %zu; parent %" PRIu64, epoch->id, stats.limit_bytes,
               epoch->limit, stats.parent_epoch_id);
        EXPECT(program, stats.state == (open ? EPOCH_ACTIVE : EPOCH_CLOSING), "figures of epoch %" PRIu64 ": state %d",
               epoch->id, stats.state);
    }
    EXPECT(program,
           global.active_epoch_count ==
               active + (allocator == 0 && program->rolling[0] == NULL && global.current_epoch != EPOCH_NONE),
           "active_epoch_count of a[%d]: %" PRIu64 ", not %" PRIu64, allocator, global.active_epoch_count, active);
    EXPECT(program, global.closing_epoch_count == closing, "closing_epoch_count of a[%d]: %" PRIu64 ", not %" PRIu64,
           allocator, global.closing_epoch_count, closing);
    return true;
}

static bool budget(struct prog *program, const struct prog_op *op, int allocator) {
    SlabAllocator *of = program->allocators[allocator];
    if (allocator == 0) {
        return true;
    }
    size_t bytes = op->extra % 3u == 0 ? 0 : (size_t)(1u << 20) + (size_t)(op->size % (4u << 20));
    TRACE(program, "slab_set_budget(a[%d], %zu);", allocator, bytes);
    EXPECT(program, slab_set_budget(of, bytes), "slab_set_budget(a[%d], %zu)", allocator, bytes);
    program->budgeted[allocator] = bytes != 0;
    SlabGlobalStats stats;
    EXPECT(program, slab_stats_global(of, &stats), "slab_stats_global of a[%d]", allocator);
    /* A limit on whole units of 16 KiB. */
    EXPECT(program, stats.budget_bytes <= bytes && bytes - stats.budget_bytes < 16384,
           "budget_bytes of a[%d]: %" PRIu64, allocator, stats.budget_bytes);
    return true;
}

static bool trim(struct prog *program, int allocator) {
    TRACE(program, "slab_trim(a[%d]);", allocator);
    (void)slab_trim(program->allocators[allocator]);
    SlabGlobalStats stats;
    EXPECT(program, slab_stats_global(program->allocators[allocator], &stats), "slab_stats_global");
    EXPECT(program, prog_together(program) || stats.retained_bytes == 0,
           "a[%d] retains %" PRIu64 " bytes after slab_trim", allocator, stats.retained_bytes);
    return true;
}

/* Does the due work: committed memory can only shrink, by the returned amount. */
static bool maintain(struct prog *program, const struct prog_op *op, int allocator) {
    SlabAllocator *of = program->allocators[allocator];
    SlabGlobalStats before, after;
    uint64_t time = op->extra % 2u == 0 ? 0 : op->size * 100u;
    TRACE(program, "slab_maintain(a[%d], %" PRIu64 ");", allocator, time);
    EXPECT(program, slab_stats_global(of, &before), "slab_stats_global of a[%d]", allocator);
    size_t given = slab_maintain(of, time);
    EXPECT(program, slab_stats_global(of, &after), "slab_stats_global of a[%d]", allocator);
    EXPECT(program, prog_together(program) || after.committed_bytes <= before.committed_bytes,
           "slab_maintain(a[%d]) gave %zu bytes back: %" PRIu64 " committed, %" PRIu64 " before", allocator, given,
           after.committed_bytes, before.committed_bytes);
    EXPECT(program, prog_together(program) || after.live_bytes == before.live_bytes,
           "slab_maintain(a[%d]) changes live bytes", allocator);
    return true;
}

bool prog_allocator_op(struct prog *program, const struct prog_op *op) {
    int allocator = op->allocator % PROG_ALLOCATORS;
    if (op->kind == PROG_THREAD_IDLE) {
        TRACE(program, "slab_thread_idle();");
        slab_thread_idle();
        return true;
    }
    if (op->kind == PROG_ALLOCATOR_CREATE) {
        return prog_ensure_allocator(program, allocator, op->extra);
    }
    if (!program->alive[allocator]) {
        return true;
    }
    switch (op->kind) {
    case PROG_TRIM: return trim(program, allocator);
    case PROG_BUDGET: return budget(program, op, allocator);
    case PROG_MAINTAIN: return maintain(program, op, allocator);
    case PROG_SAMPLE_STACKS:
        TRACE(program, "slab_set_sample_stacks(a[%d], %u);", allocator, op->extra % 3u * 256u);
        EXPECT(program, slab_set_sample_stacks(program->allocators[allocator], op->extra % 3u * 256u),
               "slab_set_sample_stacks(a[%d])", allocator);
        return true;
    case PROG_ALLOCATOR_FREE: return allocator == 0 || prog_free_allocator(program, allocator);
    default:
        TRACE(program, "slab_reserve(a[%d], %zu);", allocator, (size_t)(op->size % 300000u));
        EXPECT(program,
               slab_reserve(program->allocators[allocator], (size_t)(op->size % 300000u)) ||
                   program->budgeted[allocator],
               "slab_reserve(a[%d], %zu)", allocator, (size_t)(op->size % 300000u));
        return true;
    }
}

/* ---- mailboxes: objects of allocator 0 on their way from one program to another ---- */

#define MAIL_ROOM 64

struct mailbox {
    pthread_mutex_t mutex;
    unsigned count;
    struct model_object objects[MAIL_ROOM];
};

struct prog_mail {
    unsigned boxes;
    struct mailbox *box;
};

struct prog_mail *prog_mail_new(unsigned boxes) {
    struct prog_mail *mail = calloc(1, sizeof *mail);
    SUP_CHECK(mail != NULL, "out of memory");
    mail->boxes = boxes;
    mail->box = calloc(boxes, sizeof *mail->box);
    SUP_CHECK(mail->box != NULL, "out of memory");
    for (unsigned i = 0; i < boxes; i++) {
        (void)pthread_mutex_init(&mail->box[i].mutex, NULL);
    }
    return mail;
}

void prog_mail_delete(struct prog_mail *mail) {
    for (unsigned i = 0; i < mail->boxes; i++) {
        (void)pthread_mutex_destroy(&mail->box[i].mutex);
    }
    free(mail->box);
    free(mail);
}

static void send_object(struct prog *program, const struct prog_op *op, struct model_object *object) {
    struct prog_mail *mail = program->config.mail;
    struct mailbox *box = &mail->box[op->extra % mail->boxes];
    struct model_object parcel = *object;
    if (!parcel.received) {
        parcel.epoch->live--;
        parcel.epoch->was_lent = true;
        atomic_fetch_add_explicit(&parcel.epoch->lent, 1, memory_order_relaxed);
    }
    parcel.received = true;
    (void)pthread_mutex_lock(&box->mutex);
    bool sent = box->count < MAIL_ROOM;
    if (sent) {
        box->objects[box->count++] = parcel;
    }
    (void)pthread_mutex_unlock(&box->mutex);
    if (sent) {
        *object = (struct model_object){0};
    } else {
        object->received = true; /* lent to itself: freeing it ends that */
    }
}

bool prog_mail_op(struct prog *program, const struct prog_op *op) {
    struct model_object *object = &program->objects[op->object % PROG_OBJECTS];
    if (!prog_together(program)) {
        return true;
    }
    if (op->kind == PROG_SEND) {
        if (object->live && object->allocator == 0) {
            send_object(program, op, object);
        }
        return true;
    }
    struct mailbox *box = &program->config.mail->box[program->config.self];
    if (object->live) {
        return true;
    }
    (void)pthread_mutex_lock(&box->mutex);
    bool got = box->count > 0;
    if (got) {
        *object = box->objects[--box->count];
    }
    (void)pthread_mutex_unlock(&box->mutex);
    return !got || prog_check_object(program, op->object % PROG_OBJECTS);
}
