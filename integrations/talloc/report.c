/* What is asked of chunks and of the tree: names, parents, sizes, reports. */
#include "chunk.h"

#include <string.h>

/* ---- names and parents ---------------------------------------------------------------------------------------------- */

static const char *name_of(const Chunk *chunk) {
    if (unlikely(chunk->mark & IS_REFERENCE)) return NAME_OF_REFERENCE;
    return chunk->name ? chunk->name : "UNNAMED";
}

const char *talloc_get_name(const void *object) {
    const Chunk *chunk = object ? tt_chunk(object) : NULL;
    return chunk ? name_of(chunk) : NULL;
}

static bool has_name(const Chunk *chunk, const char *name) {
    const char *own = name_of(chunk);
    return own == name || strcmp(own, name) == 0;
}

void *talloc_check_name(const void *object, const char *name) {
    Chunk *chunk = object ? tt_chunk(object) : NULL;
    return chunk && has_name(chunk, name) ? tt_object(chunk) : NULL;
}

void *_talloc_get_type_abort(const void *object, const char *name, const char *location) {
    char text[512];
    Chunk *chunk = object ? tt_chunk(object) : NULL;
    if (chunk && has_name(chunk, name)) return tt_object(chunk);
    (void)snprintf(text, sizeof text, "%s: Type mismatch: name[%s] expected[%s]", location,
                   chunk ? name_of(chunk) : "NULL", name);
    tt_abort(text);
    return NULL;
}

void *talloc_parent(const void *object) {
    Chunk *chunk = object ? tt_chunk(object) : NULL;
    return chunk && chunk->parent ? tt_object(chunk->parent) : NULL;
}

const char *talloc_parent_name(const void *object) {
    const Chunk *chunk = object ? tt_chunk(object) : NULL;
    return chunk && chunk->parent ? name_of(chunk->parent) : NULL;
}

void *talloc_find_parent_byname(const void *context, const char *name) {
    Chunk *chunk = context ? tt_chunk(context) : NULL;
    while (chunk && !has_name(chunk, name)) chunk = chunk->parent;
    return chunk ? tt_object(chunk) : NULL;
}

/* Whether `object` is `context` or above it: so talloc answers, although its page names them the other way round. */
int talloc_is_parent(const void *context, const void *object) {
    const Chunk *chunk = context && object ? tt_chunk(context) : NULL;
    for (int depth = 0; chunk && depth < TALLOC_MAX_DEPTH; depth++, chunk = chunk->parent)
        if (chunk + 1 == object) return 1;
    return 0;
}

void talloc_show_parents(const void *context, FILE *file) {
    const Chunk *chunk = context ? tt_chunk(context) : NULL;
    if (!chunk) {
        fprintf(file, "talloc no parents for NULL\n");
        return;
    }
    fprintf(file, "talloc parents of '%s'\n", name_of(chunk));
    for (; chunk; chunk = chunk->parent) fprintf(file, "\t'%s'\n", name_of(chunk));
    fflush(file);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------------ */

size_t talloc_get_size(const void *object) {
    const Chunk *chunk = object ? tt_chunk(object) : NULL;
    return chunk ? chunk->size : 0;
}

/* Of the chunk and all below it; those that are being walked already are left out. */
static size_t sum(Chunk *chunk, bool bytes) {
    if (chunk->mark & IN_LOOP) return 0;
    size_t all = !bytes ? 1 : chunk->mark & IS_REFERENCE ? 0 : chunk->size;
    chunk->mark |= IN_LOOP;
    for (Chunk *c = chunk->child; c; c = c->next) all += sum(c, bytes);
    chunk->mark &= ~(uint32_t)IN_LOOP;
    return all;
}

static Chunk *chunk_or_null_context(const void *object) { return object ? tt_chunk(object) : tt_null; }

size_t talloc_total_size(const void *object) {
    Chunk *chunk = chunk_or_null_context(object);
    return chunk ? sum(chunk, true) : 0;
}

size_t talloc_total_blocks(const void *object) {
    Chunk *chunk = chunk_or_null_context(object);
    return chunk ? sum(chunk, false) : 0;
}

/* ---- reports ------------------------------------------------------------------------------------------------------------ */

typedef void Show(const void *object, int depth, int most, int is_reference, void *argument);

static void walk(Chunk *chunk, int depth, int most, Show *show, void *argument) {
    if (chunk->mark & IN_LOOP) return;
    show(tt_object(chunk), depth, most, 0, argument);
    if (most >= 0 && depth >= most) return;
    chunk->mark |= IN_LOOP;
    for (Chunk *c = chunk->child; c; c = c->next) {
        if (c->mark & IS_REFERENCE)
            show(tt_object(((Reference *)tt_object(c))->target), depth + 1, most, 1, argument);
        else
            walk(c, depth + 1, most, show, argument);
    }
    chunk->mark &= ~(uint32_t)IN_LOOP;
}

void talloc_report_depth_cb(const void *object, int depth, int most, Show *show, void *argument) {
    Chunk *chunk = chunk_or_null_context(object);
    if (chunk) walk(chunk, depth, most, show, argument);
}

static void print(const void *object, int depth, int most, int is_reference, void *file) {
    const char *name = talloc_get_name(object);
    unsigned long bytes = talloc_total_size(object), blocks = talloc_total_blocks(object);
    const Limit *limit = is_reference ? NULL : tt_chunk(object)->limit;
    if (limit)
        fprintf(file, "%*s%-30s is a memlimit context (max_size = %lu bytes, cur_size = %lu bytes)\n", depth * 4, "",
                name, (unsigned long)limit->most, (unsigned long)limit->held);
    if (is_reference)
        fprintf(file, "%*sreference to: %s\n", depth * 4, "", name);
    else if (depth == 0)
        fprintf(file, "%stalloc report on '%s' (total %6lu bytes in %3lu blocks)\n", most < 0 ? "full " : "", name,
                bytes, blocks);
    else
        fprintf(file, "%*s%-30s contains %6lu bytes in %3lu blocks (ref %d) %p\n", depth * 4, "", name, bytes, blocks,
                (int)talloc_reference_count(object), object);
}

void talloc_report_depth_file(const void *object, int depth, int most, FILE *file) {
    if (!file) return;
    talloc_report_depth_cb(object, depth, most, print, file);
    fflush(file);
}

void talloc_report_full(const void *object, FILE *file) { talloc_report_depth_file(object, 0, -1, file); }
void talloc_report(const void *object, FILE *file) { talloc_report_depth_file(object, 0, 1, file); }
