/*
 * A profile is made at each request: the rows of slab_stacks and slab_stack_totals, a location for each address in
 * them, and what the loader and the symbol tables know of it.
 *
 * An address is a return address, so the call is before it: a location is one byte before. Names of functions come from
 * the symbol tables, so that a server of profiles which has not the files shows them. has_functions stays false,
 * because pprof then looks in the files by itself, where it finds lines too.
 */
#include "http/profile.h"

#include "http/loaded.h"
#include "observe/observe.h"

#include "profile.pb-c.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#define TRIES 4u

/* ---- the texts of a profile -------------------------------------------------------------------------------------- */

typedef struct texts {
    char **at; /* the number of a text is its place; the first is empty */
    size_t count, capacity;
    uint32_t *slot; /* open addressing: number + 1 */
    size_t slots;
    bool failed; /* no memory */
} texts;

static uint64_t hash_text(const char *text) {
    uint64_t hash = 1469598103934665603u;
    for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return hash ^ hash >> 32;
}

static bool grow_texts(texts *t) {
    size_t more = t->capacity ? 2 * t->capacity : 256;
    char **at = realloc(t->at, more * sizeof *at);
    uint32_t *slot = calloc(2 * more, sizeof *slot);
    if (at) t->at = at;
    if (!at || !slot) {
        free(slot);
        return false;
    }
    free(t->slot);
    t->slot = slot;
    t->slots = 2 * more;
    t->capacity = more;
    for (size_t i = 0; i < t->count; i++) {
        size_t k = hash_text(t->at[i]) % t->slots;
        while (t->slot[k]) k = (k + 1) % t->slots;
        t->slot[k] = (uint32_t)i + 1;
    }
    return true;
}

/* The number of a text, a new one if it has none. */
static int64_t text(texts *t, const char *words) {
    size_t k = 0;
    if (t->slots) {
        for (k = hash_text(words) % t->slots; t->slot[k]; k = (k + 1) % t->slots)
            if (strcmp(t->at[t->slot[k] - 1], words) == 0) return t->slot[k] - 1;
    }
    if (t->count == t->capacity) {
        if (!grow_texts(t)) {
            t->failed = true;
            return 0;
        }
        return text(t, words);
    }
    char *copy = strdup(words);
    if (!copy) {
        t->failed = true;
        return 0;
    }
    t->at[t->count++] = copy;
    t->slot[k] = (uint32_t)t->count;
    return (int64_t)t->count - 1;
}

static void free_texts(texts *t) {
    for (size_t i = 0; i < t->count; i++) free(t->at[i]);
    free(t->at);
    free(t->slot);
}

/* ---- what a profile is made of ----------------------------------------------------------------------------------- */

enum { ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE, VALUES };

typedef struct sample {
    Pprof__Sample message;
    int64_t value[VALUES];
    uint64_t location[SLAB_STACK_FRAMES];
    Pprof__Label label[2];
    Pprof__Label *labels[2];
} sample;

typedef struct location {
    Pprof__Location message;
    Pprof__Line line;
    Pprof__Line *lines[1];
} location;

typedef struct builder {
    texts texts;
    SlabStackSample *live;
    SlabStackTotal *ever;
    size_t live_count, ever_count;
    http_segments segments;
    uint64_t *address; /* in order, each once; its location has the number of its place + 1 */
    size_t addresses;
    location *location; /* one more than addresses: of what found no room */
    sample *sample;
    size_t samples;
    Pprof__Mapping *mapping;
    Pprof__Function *function; /* a text has at most one */
    size_t functions;
    uint32_t *function_of; /* by the number of its name, + 1; 0: none yet */
    elf_place *place;      /* of each address; names of malloc */
} builder;

static void free_builder(builder *b) {
    for (size_t i = 0; b->place && i < b->addresses; i++) free(b->place[i].name);
    free_texts(&b->texts);
    http_segments_free(&b->segments);
    free(b->live);
    free(b->ever);
    free(b->address);
    free(b->location);
    free(b->sample);
    free(b->mapping);
    free(b->function);
    free(b->function_of);
    free(b->place);
}

/* All rows there are: more may come meanwhile. */
static bool read_rows(builder *b, SlabAllocator *allocator) {
    size_t capacity = 1024;
    for (unsigned i = 0; i < TRIES; i++) {
        free(b->live);
        b->live = malloc(capacity * sizeof *b->live);
        if (!b->live) return false;
        b->live_count = slab_stacks(allocator, EPOCH_NONE, b->live, capacity);
        if (b->live_count <= capacity) break;
        capacity = b->live_count + b->live_count / 4;
    }
    if (b->live_count > capacity) b->live_count = capacity;
    b->ever_count = slab_stack_totals(allocator, NULL, 0);
    capacity = b->ever_count + 64;
    b->ever = malloc(capacity * sizeof *b->ever);
    if (!b->ever) return false;
    b->ever_count = slab_stack_totals(allocator, b->ever, capacity);
    if (b->ever_count > capacity) b->ever_count = capacity;
    return true;
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void add_frames(builder *b, const uint64_t *frames, size_t count) {
    for (size_t k = 0; k < count; k++) b->address[b->addresses++] = frames[k] - 1;
}

static bool collect_addresses(builder *b) {
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < b->live_count; i++) n += b->live[i].frame_count;
    for (size_t i = 0; i < b->ever_count; i++) n += b->ever[i].frame_count;
    b->address = malloc((n + 1) * sizeof *b->address);
    if (!b->address) return false;
    for (size_t i = 0; i < b->live_count; i++) add_frames(b, b->live[i].frames, b->live[i].frame_count);
    for (size_t i = 0; i < b->ever_count; i++) add_frames(b, b->ever[i].frames, b->ever[i].frame_count);
    qsort(b->address, b->addresses, sizeof *b->address, compare);
    for (size_t i = 0; i < b->addresses; i++)
        if (i == 0 || b->address[i] != b->address[i - 1]) b->address[kept++] = b->address[i];
    b->addresses = kept;
    return true;
}

static uint64_t location_of(const builder *b, uint64_t frame) {
    uint64_t address = frame - 1;
    const uint64_t *at = bsearch(&address, b->address, b->addresses, sizeof *b->address, compare);
    return at ? (uint64_t)(at - b->address) + 1 : 0;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool find_names(builder *b) {
    b->place = calloc(b->addresses + 1, sizeof *b->place);
    if (!b->place) return false;
    for (size_t i = 0; i < b->addresses; i++) b->place[i].address = b->address[i];
    http_segments_name(&b->segments, b->place, b->addresses);
    return true;
}

/* The function of that name. */
static uint64_t function_named(builder *b, const char *name) {
    int64_t number = text(&b->texts, name);
    if (b->texts.failed) return 0;
    if (b->function_of[number]) return b->function_of[number];
    Pprof__Function *f = &b->function[b->functions++];
    pprof__function__init(f);
    f->id = b->functions;
    f->name = f->system_name = number;
    return b->function_of[number] = (uint32_t)b->functions;
}

static void make_location(builder *b, size_t i, const char *name) {
    location *l = &b->location[i];
    pprof__location__init(&l->message);
    l->message.id = i + 1;
    if (i < b->addresses) {
        const http_segment *s = http_segment_of(&b->segments, b->address[i]);
        l->message.address = b->address[i];
        l->message.mapping_id = (s ? (uint64_t)(s - b->segments.at) : b->segments.count) + 1;
    } else {
        l->message.mapping_id = b->segments.count + 1;
    }
    if (!name) return;
    pprof__line__init(&l->line);
    l->line.function_id = function_named(b, name);
    l->lines[0] = &l->line;
    l->message.line = l->lines;
    l->message.n_line = 1;
}

static bool make_locations(builder *b) {
    size_t names = b->addresses + b->texts.count + 2; /* no text that is made later is a function's */
    b->location = calloc(b->addresses + 1, sizeof *b->location);
    b->function = calloc(names, sizeof *b->function);
    b->function_of = calloc(names, sizeof *b->function_of);
    if (!b->location || !b->function || !b->function_of || !find_names(b)) return false;
    for (size_t i = 0; i < b->addresses; i++) make_location(b, i, b->place[i].name);
    make_location(b, b->addresses, "(dropped: no room for more stacks)");
    return !b->texts.failed;
}

static bool make_mappings(builder *b) {
    b->mapping = calloc(b->segments.count + 1, sizeof *b->mapping);
    for (size_t i = 0; b->mapping && i < b->segments.count; i++) {
        const http_segment *s = &b->segments.at[i];
        Pprof__Mapping *m = &b->mapping[i];
        pprof__mapping__init(m);
        m->id = i + 1;
        m->memory_start = s->start;
        m->memory_limit = s->end;
        m->file_offset = s->file_offset;
        m->filename = text(&b->texts, s->path);
        m->build_id = text(&b->texts, s->build_id);
    }
    if (!b->mapping) return false;
    /* Of code in no file, and of what found no room: some readers refuse a location without a mapping. None looks for a
       file whose name begins so. */
    Pprof__Mapping *rest = &b->mapping[b->segments.count];
    pprof__mapping__init(rest);
    rest->id = b->segments.count + 1;
    rest->filename = text(&b->texts, "[no file]");
    rest->has_functions = true;
    return true;
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static void add_label(builder *b, sample *s, const char *key, const char *value) {
    Pprof__Label *l = &s->label[s->message.n_label];
    pprof__label__init(l);
    l->key = text(&b->texts, key);
    l->str = text(&b->texts, value);
    s->labels[s->message.n_label++] = l;
}

/* Without frames it is what found no room. */
static sample *add_sample(builder *b, const char *label, const uint64_t *frames, unsigned frame_count) {
    sample *s = &b->sample[b->samples++];
    pprof__sample__init(&s->message);
    for (unsigned k = 0; k < frame_count; k++) s->location[k] = location_of(b, frames[k]);
    s->message.location_id = s->location;
    s->message.n_location_id = frame_count;
    s->message.value = s->value;
    s->message.n_value = VALUES;
    s->message.label = s->labels;
    add_label(b, s, "epoch", label[0] ? label : "(none)");
    return s;
}

static bool make_samples(builder *b) {
    b->sample = calloc(b->live_count + b->ever_count + 1, sizeof *b->sample);
    if (!b->sample) return false;
    for (size_t i = 0; i < b->live_count; i++) {
        const SlabStackSample *row = &b->live[i];
        sample *s = add_sample(b, row->label, row->frames, row->frame_count);
        add_label(b, s, "state",
                  row->state == EPOCH_ACTIVE    ? "active"
                  : row->state == EPOCH_SPILLED ? "spilled"
                                                : "closing");
        s->value[INUSE_OBJECTS] = (int64_t)row->live_objects;
        s->value[INUSE_SPACE] = (int64_t)row->live_bytes;
    }
    for (size_t i = 0; i < b->ever_count; i++) {
        const SlabStackTotal *row = &b->ever[i];
        sample *s = add_sample(b, row->label, row->frames, row->frame_count);
        s->value[ALLOC_OBJECTS] = (int64_t)row->objects;
        s->value[ALLOC_SPACE] = (int64_t)row->bytes;
        if (row->frame_count > 0) continue;
        s->location[0] = b->addresses + 1;
        s->message.n_location_id = 1;
    }
    return !b->texts.failed;
}

/* ---- written ----------------------------------------------------------------------------------------------------- */

static unsigned char *compress_bytes(const unsigned char *from, size_t bytes, size_t *out_bytes) {
    z_stream z;
    memset(&z, 0, sizeof z);
    if (bytes > UINT32_MAX ||
        deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return NULL;
    uLong bound = deflateBound(&z, (uLong)bytes);
    unsigned char *out = malloc(bound);
    bool done = false;
    if (out) {
        z.next_in = (unsigned char *)(uintptr_t)from;
        z.avail_in = (uInt)bytes;
        z.next_out = out;
        z.avail_out = (uInt)bound;
        done = deflate(&z, Z_FINISH) == Z_STREAM_END;
        *out_bytes = (size_t)z.total_out;
    }
    (void)deflateEnd(&z);
    if (done) return out;
    free(out);
    return NULL;
}

/* An array of pointers to the elements, or their messages; NULL: no memory. */
#define POINTERS(to, count, element)                                           \
    do {                                                                       \
        (to) = malloc(((count) + 1) * sizeof *(to));                           \
        for (size_t i_ = 0; (to) && i_ < (count); i_++) (to)[i_] = &(element); \
    } while (0)

static unsigned char *pack(const Pprof__Profile *p, size_t *bytes) {
    size_t length = pprof__profile__get_packed_size(p);
    unsigned char *plain = malloc(length), *out = NULL;
    if (plain && pprof__profile__pack(p, plain) == length) out = compress_bytes(plain, length, bytes);
    free(plain);
    return out;
}

/* On average; 0: none are taken now. */
static uint64_t mean_bytes(SlabAllocator *allocator) {
    ts_view *view = malloc(sizeof *view);
    uint64_t mean = 0;
    if (view && slab_stats_view(allocator, (char *)view, sizeof *view) == sizeof *view) mean = view->stack_mean_bytes;
    free(view);
    return mean;
}

static unsigned char *write_profile(builder *b, SlabAllocator *allocator, http_profile_kind kind, size_t *bytes) {
    static const char *const NAMES[VALUES][2] = {
        {"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"}, {"inuse_space", "bytes"}};
    Pprof__Profile p = PPROF__PROFILE__INIT;
    Pprof__ValueType type[VALUES], *types[VALUES], period;
    SlabGlobalStats global = {0};
    struct timespec now;
    char note[128];
    int64_t comment;
    unsigned char *out = NULL;
    for (unsigned i = 0; i < VALUES; i++) {
        pprof__value_type__init(&type[i]);
        type[i].type = text(&b->texts, NAMES[i][0]);
        type[i].unit = text(&b->texts, NAMES[i][1]);
        types[i] = &type[i];
    }
    pprof__value_type__init(&period);
    period.type = text(&b->texts, "space");
    period.unit = text(&b->texts, "bytes");
    p.period_type = &period; /* one sample in so many bytes */
    p.period = (int64_t)mean_bytes(allocator);
    p.sample_type = types;
    p.n_sample_type = VALUES;
    p.default_sample_type = type[kind == HTTP_PROFILE_HEAP ? INUSE_SPACE : ALLOC_SPACE].type;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    p.time_nanos = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (slab_stats_global(allocator, &global) && global.stack_samples_taken > 0)
        snprintf(note, sizeof note, "temporal-slab %s: of %llu samples %llu of live objects found no room",
                 slab_version(), (unsigned long long)global.stack_samples_taken,
                 (unsigned long long)global.stack_samples_dropped);
    else
        snprintf(note, sizeof note,
                 "temporal-slab %s: no samples yet (TSLAB_SAMPLE_STACKS=512K, slab_set_sample_stacks)", slab_version());
    comment = text(&b->texts, note);
    p.comment = &comment;
    p.n_comment = 1;
    p.n_sample = b->samples;
    p.n_mapping = b->segments.count + 1;
    p.n_location = b->addresses + 1;
    p.n_function = b->functions;
    p.n_string_table = b->texts.count;
    p.string_table = b->texts.at;
    POINTERS(p.sample, b->samples, b->sample[i_].message);
    POINTERS(p.mapping, b->segments.count + 1, b->mapping[i_]);
    POINTERS(p.location, b->addresses + 1, b->location[i_].message);
    POINTERS(p.function, b->functions, b->function[i_]);
    if (!b->texts.failed && p.sample && p.mapping && p.location && p.function) out = pack(&p, bytes);
    free(p.sample);
    free(p.mapping);
    free(p.location);
    free(p.function);
    return out;
}

unsigned char *http_profile(SlabAllocator *allocator, http_profile_kind kind, size_t *bytes) {
    builder b;
    unsigned char *out = NULL;
    memset(&b, 0, sizeof b);
    http_segments_read(&b.segments);
    (void)text(&b.texts, ""); /* is number 0 */
    if (b.segments.count > 0 && read_rows(&b, allocator) && collect_addresses(&b) && make_locations(&b) &&
        make_mappings(&b) && make_samples(&b))
        out = write_profile(&b, allocator, kind, bytes);
    free_builder(&b);
    return out;
}
