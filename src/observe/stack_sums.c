/* What the sampled stacks sum up to, and how it is shown. */
#include "base/base.h"
#include "observe/observe.h"
#include "observe/stacks.h"
#include "observe/top.h"
#include "os/os.h"

#include <string.h>

/* ---- sums ---------------------------------------------------------------------------------------------------- */

typedef struct site {
    SlabStackSample row;
    double objects, bytes;
} site;

#define SLOTS (2u * TS_STACK_SAMPLES) /* open addressing over the sites */

/* Threads by name. Names are numbered as they come; a name that finds no room counts as others. */
#define THREAD_NAMES 256u
typedef struct thread_sum {
    char name[TS_OS_THREAD_NAME_BYTES];
    uint64_t samples;
    double objects, bytes;
} thread_sum;

typedef struct sums {
    ts_allocator *allocator;
    uint32_t threads;
    thread_sum thread[THREAD_NAMES], others;
    EpochId epoch; /* of this alone; EPOCH_NONE: of all */
    uint32_t count;
    uint16_t slot[SLOTS]; /* number of the site + 1 */
    site site[TS_STACK_SAMPLES];
} sums;
_Static_assert(TS_STACK_SAMPLES < UINT16_MAX, "sites have 16-bit numbers");

static bool is_same(const SlabStackSample *a, const SlabStackSample *b) {
    return a->frame_count == b->frame_count && a->state == b->state &&
           memcmp(a->frames, b->frames, a->frame_count * sizeof *a->frames) == 0 && strcmp(a->label, b->label) == 0;
}

static void add_to_thread(sums *s, const ts_stack *stack) {
    uint32_t i = 0;
    while (i < s->threads && strcmp(s->thread[i].name, stack->thread) != 0) i++;
    thread_sum *t = i < THREAD_NAMES ? &s->thread[i] : &s->others;
    if (i == s->threads && i < THREAD_NAMES) {
        memcpy(t->name, stack->thread, sizeof t->name);
        s->threads++;
    }
    t->samples++;
    t->objects += stack->objects;
    t->bytes += stack->objects * (double)stack->bytes;
}

static void add(void *arg, const ts_stack *stack) {
    sums *s = arg;
    if (s->epoch != EPOCH_NONE && stack->epoch != s->epoch) return;
    SlabStackSample row = {.version = SLAB_STATS_VERSION, .frame_count = stack->frame_count, .epoch_id = stack->epoch};
    if (s->count == TS_STACK_SAMPLES || !ts_read_epoch(s->allocator, stack->epoch, row.label, &row.state)) return;
    memcpy(row.frames, stack->frame, stack->frame_count * sizeof *stack->frame);
    uint64_t hash = ts_hash((uint64_t)row.state, row.label, strlen(row.label));
    hash = ts_hash(hash, row.frames, row.frame_count * sizeof *row.frames);
    uint32_t at = (uint32_t)(hash >> 32) % SLOTS;
    while (s->slot[at] && !is_same(&s->site[s->slot[at] - 1].row, &row)) at = (at + 1) % SLOTS;
    if (!s->slot[at]) {
        s->site[s->count].row = row;
        s->slot[at] = (uint16_t)++s->count;
    }
    site *t = &s->site[s->slot[at] - 1];
    if (t->row.epoch_id != row.epoch_id) t->row.epoch_id = EPOCH_NONE;
    t->row.samples++;
    t->objects += stack->objects;
    t->bytes += stack->objects * (double)stack->bytes;
    add_to_thread(s, stack);
}

static bool has_more(const void *a, const void *b) { return ((const site *)a)->bytes > ((const site *)b)->bytes; }

/* Closed epochs' stacks have `reserved` places first; the rows are in order. */
static void choose(const sums *s, SlabStackSample *rows, size_t capacity, size_t reserved) {
    size_t closed = 0, shown = 0;
    for (uint32_t i = 0; i < s->count; i++) closed += s->site[i].row.state != EPOCH_ACTIVE;
    if (reserved > closed) reserved = closed;
    size_t others = capacity - (reserved < capacity ? reserved : capacity);
    for (uint32_t i = 0; i < s->count && shown < capacity; i++) {
        const site *t = &s->site[i];
        if (reserved > 0 && t->row.state != EPOCH_ACTIVE)
            reserved--;
        else if (others > 0)
            others--;
        else
            continue;
        rows[shown] = t->row;
        rows[shown].live_objects = (uint64_t)(t->objects + 0.5);
        rows[shown].live_bytes = (uint64_t)(t->bytes + 0.5);
        shown++;
    }
}

static void put_thread(ts_thread_share *row, const thread_sum *t) {
    memcpy(row->name, t->name, sizeof row->name);
    row->samples = t->samples;
    row->live_objects = (uint64_t)(t->objects + 0.5);
    row->live_bytes = (uint64_t)(t->bytes + 0.5);
}

static bool thread_has_more(const void *a, const void *b) {
    return ((const thread_sum *)a)->bytes > ((const thread_sum *)b)->bytes;
}

/* The largest; names without a place of their own are summed up in the last. */
static uint32_t choose_threads(sums *s, ts_thread_share rows[TS_VIEW_THREADS]) {
    uint32_t shown = s->threads < TS_VIEW_THREADS - 1 ? s->threads : TS_VIEW_THREADS - 1;
    ts_top_sort(&(ts_top){s->thread, sizeof *s->thread, THREAD_NAMES, s->threads, thread_has_more});
    for (uint32_t i = 0; i < shown; i++) put_thread(&rows[i], &s->thread[i]);
    for (uint32_t i = shown; i < s->threads; i++) {
        s->others.samples += s->thread[i].samples;
        s->others.objects += s->thread[i].objects;
        s->others.bytes += s->thread[i].bytes;
    }
    if (s->others.samples == 0) return shown;
    memcpy(s->others.name, TS_THREADS_OTHER, sizeof TS_THREADS_OTHER);
    put_thread(&rows[shown], &s->others);
    return shown + 1;
}

/* The sites in order, those with the most bytes first. NULL: no memory. To be given back. */
static sums *sum(ts_allocator *allocator, uintptr_t token, EpochId epoch) {
    sums *s = ts_os_map(sizeof *s);
    if (!s) return NULL;
    s->allocator = allocator;
    s->epoch = epoch;
    ts_stacks_walk(allocator, token, add, s);
    ts_top_sort(&(ts_top){s->site, sizeof *s->site, TS_STACK_SAMPLES, s->count, has_more});
    return s;
}

size_t ts_stacks_sum(ts_allocator *allocator, uintptr_t token, EpochId epoch, SlabStackSample *rows, size_t capacity,
                     bool *memory) {
    *memory = true;
    if (ts_read_stack_samples(allocator) == 0) return 0;
    sums *s = sum(allocator, token, epoch);
    *memory = s != NULL;
    if (!s) return 0;
    choose(s, rows, capacity, 0);
    size_t count = s->count;
    ts_os_unmap(s, sizeof *s);
    return count;
}

/* ---- in a view --------------------------------------------------------------------------------------------------- */

const ts_stack_module *ts_view_module(const ts_view *v, uint64_t address) {
    for (unsigned i = 0; i < v->module_rows; i++)
        if (address >= v->module[i].start && address < v->module[i].end) return &v->module[i];
    return NULL;
}

static bool has_frame_in(const ts_view *v, const ts_os_module *m) {
    for (unsigned i = 0; i < v->stack_rows; i++)
        for (unsigned k = 0; k < v->stack[i].frame_count; k++)
            if (v->stack[i].frames[k] >= m->start && v->stack[i].frames[k] < m->end) return true;
    return false;
}

static void note_module(void *arg, const ts_os_module *m) {
    ts_view *v = arg;
    if (v->module_rows == TS_VIEW_MODULES || !has_frame_in(v, m)) return;
    ts_stack_module *row = &v->module[v->module_rows++];
    row->base = m->base;
    row->start = m->start;
    row->end = m->end;
    row->is_program = m->is_program;
    strncpy(row->path, m->path, sizeof row->path - 1);
}

void ts_view_stacks(ts_view *v, ts_allocator *allocator, uintptr_t token) {
    v->stack_mean_bytes = ts_read_stack_mean(allocator);
    sums *s = ts_read_stack_samples(allocator) > 0 ? sum(allocator, token, EPOCH_NONE) : NULL;
    if (!s) return;
    choose(s, v->stack, TS_VIEW_STACKS, TS_VIEW_STACKS / 4);
    v->stack_count = s->count;
    v->thread_rows = choose_threads(s, v->thread);
    ts_os_unmap(s, sizeof *s);
    v->stack_rows = (uint32_t)(v->stack_count < TS_VIEW_STACKS ? v->stack_count : TS_VIEW_STACKS);
}

void ts_view_modules(ts_view *v) {
    if (v->stack_rows > 0) ts_os_modules(note_module, v);
}
