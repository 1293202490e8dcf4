/*
 * Answers: each request renders from a snapshot of its own; nothing is kept between requests.
 */
#include "http/answers.h"

#include "advice/advice.h"
#include "api/api.h"
#include "http/assets.h"
#include "http/history.h"
#include "http/metrics.h"
#include "http/process.h"
#include "http/profile.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ALLOCATORS 256u
#define LIMIT_DEFAULT 100u
#define LIMIT_MAX 10000u
#define PROFILE_TYPE "application/vnd.google.protobuf+gzip"

static SlabAllocator *served; /* NULL: all of the process; constant while the server runs */

void http_answers_show(SlabAllocator *allocator) { served = allocator; }

/* ---- what is served --------------------------------------------------------------------------------------------- */

/* NULL: there is none. */
static SlabAllocator *largest(void) {
    SlabAllocator *all[ALLOCATORS], *best = NULL;
    uint64_t most = 0;
    size_t n = slab_allocators(all, ALLOCATORS);
    for (size_t i = 0; i < n && i < ALLOCATORS; i++) {
        SlabClassStats stats;
        if (!slab_stats_class(all[i], SLAB_ALL_CLASSES, &stats)) continue;
        if (best && stats.committed_bytes <= most) continue;
        best = all[i];
        most = stats.committed_bytes;
    }
    return best;
}

typedef struct MHD_Connection connection;
typedef size_t renderer(SlabAllocator *, char *, size_t);

typedef struct job {
    renderer *render; /* NULL: epochs */
    bool of_one;      /* of one allocator: where none is chosen, of the one that holds most. Else NULL is all of them */
    bool without;     /* it has something to show when there is no allocator, too */
    SlabEpochOrder order;
    size_t limit;
} job;

static size_t run(const job *j, SlabAllocator *a, char *buffer, size_t capacity) {
    return j->render ? j->render(a, buffer, capacity)
                     : ts_private_render_epochs(a, (int)j->order, j->limit, buffer, capacity);
}

/* The whole text, of malloc; NULL: no memory, or nothing to show. */
static char *render(const job *j, SlabAllocator *chosen, size_t *length) {
    size_t capacity = 65536;
    SlabAllocator *a = chosen ? chosen : j->of_one ? largest() : NULL;
    for (unsigned tries = 0; (a || !j->of_one || j->without) && tries < 8; tries++) {
        char *text = malloc(capacity);
        if (!text) return NULL;
        *length = run(j, a, text, capacity);
        if (*length > 0 && *length < capacity) return text;
        free(text);
        if (*length == 0) return NULL;
        capacity = *length + *length / 4 + 1; /* the figures may have grown by then */
    }
    return NULL;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static enum MHD_Result answer(connection *c, unsigned status, const char *type, void *body, size_t bytes,
                              enum MHD_ResponseMemoryMode mode) {
    struct MHD_Response *r = MHD_create_response_from_buffer(bytes, body, mode);
    if (!r) {
        if (mode == MHD_RESPMEM_MUST_FREE) free(body);
        return MHD_NO;
    }
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    (void)MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED) (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (strcmp(type, PROFILE_TYPE) == 0)
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_DISPOSITION, "attachment; filename=\"profile.pb.gz\"");
    if (strncmp(type, "text/html", 9) == 0)
        (void)MHD_add_response_header(r, "Content-Security-Policy",
                                      "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
                                      "connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'");
    enum MHD_Result result = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return result;
}

enum MHD_Result http_say(connection *c, unsigned status, const char *text) {
    return answer(c, status, "text/plain; charset=utf-8", (void *)(uintptr_t)text, strlen(text), MHD_RESPMEM_MUST_COPY);
}

/* The argument `allocator`, a number as in the texts: which is meant. NULL: none is named. false, and *result is the
   answer: it is wrong. */
static bool choose(connection *c, SlabAllocator **out, enum MHD_Result *result) {
    const char *text = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "allocator"), *wrong = NULL;
    SlabAllocator *all[ALLOCATORS];
    size_t count = slab_allocators(all, ALLOCATORS);
    *out = served;
    if (!text) return true;
    unsigned long number = *text && strlen(text) <= 5 ? strtoul(text, NULL, 10) : ALLOCATORS;
    if (served)
        wrong = "allocator: this server shows one of them\n";
    else if (strspn(text, "0123456789") != strlen(text) || number >= ALLOCATORS || number >= count)
        wrong = "allocator: not the number of one, from 0\n";
    else
        *out = all[number];
    if (wrong) *result = http_say(c, MHD_HTTP_BAD_REQUEST, wrong);
    return !wrong;
}

static enum MHD_Result answer_job(connection *c, const job *j, const char *type) {
    size_t length;
    SlabAllocator *chosen;
    enum MHD_Result wrong;
    if (!choose(c, &chosen, &wrong)) return wrong;
    char *text = render(j, chosen, &length);
    if (!text) return http_say(c, MHD_HTTP_SERVICE_UNAVAILABLE, "no allocator to show, or no memory\n");
    return answer(c, MHD_HTTP_OK, type, text, length, MHD_RESPMEM_MUST_FREE);
}

/* "0.5": 500. Not strtod, whose decimal point is the locale's. */
static int thousandths(const char *text) {
    int value = *text == '1' ? 1000 : 0;
    if ((*text == '0' || *text == '1') && text[1] == '.')
        for (int i = 2, unit = 100; i < 5 && text[i] >= '0' && text[i] <= '9'; i++, unit /= 10)
            value += (text[i] - '0') * unit;
    return value;
}

/* The weight of a media type in an Accept header, in thousandths; -1: it is not named. */
static int weight_of(const char *accept, const char *type) {
    size_t n = strlen(type);
    for (const char *at = accept; at && *at;) {
        at += strspn(at, ", \t");
        const char *end = at + strcspn(at, ",");
        if (strncasecmp(at, type, n) == 0 && strchr(",; \t", at[n])) {
            const char *q = at;
            while ((q = memchr(q, ';', (size_t)(end - q))) != NULL) {
                q += 1 + strspn(q + 1, " \t");
                if ((*q == 'q' || *q == 'Q') && q[1] == '=') return thousandths(q + 2);
            }
            return 1000;
        }
        at = end;
    }
    return -1;
}

/* The allocator's metrics and behind them the program's own; OpenMetrics ends with a line that says so. */
static size_t all_metrics(SlabAllocator *a, bool openmetrics, char *buffer, size_t capacity) {
    static const char end[] = "# EOF\n";
    size_t length = 0, last = openmetrics ? sizeof end - 1 : 0;
    if (a)
        length = openmetrics ? slab_stats_openmetrics(a, buffer, capacity) : slab_stats_prometheus(a, buffer, capacity);
    if (a && length == 0) return 0;
    if (a) length -= last;
    bool fits = length < capacity;
    size_t own = http_metrics_render(openmetrics, fits ? buffer + length : NULL, fits ? capacity - length : 0);
    if (length + own == 0) return 0;
    length += own;
    if (length + last < capacity) {
        memcpy(buffer + length, end, last);
        buffer[length + last] = 0;
    }
    return length + last;
}
static size_t openmetrics_text(SlabAllocator *a, char *buffer, size_t capacity) {
    return all_metrics(a, true, buffer, capacity);
}
static size_t prometheus_text(SlabAllocator *a, char *buffer, size_t capacity) {
    return all_metrics(a, false, buffer, capacity);
}

static enum MHD_Result metrics(connection *c) {
    const char *accept = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    int open = weight_of(accept, "application/openmetrics-text"), plain = weight_of(accept, "text/plain");
    if (open > 0 && open >= plain)
        return answer_job(c, &(job){.render = openmetrics_text, .of_one = true, .without = true},
                          "application/openmetrics-text; version=1.0.0; charset=utf-8");
    return answer_job(c, &(job){.render = prometheus_text, .of_one = true, .without = true},
                      "text/plain; version=0.0.4; charset=utf-8");
}

static enum MHD_Result epochs(connection *c) {
    job j = {.order = SLAB_EPOCHS_LARGEST, .limit = LIMIT_DEFAULT};
    const char *sort = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "sort");
    const char *limit = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "limit");
    if (sort && strcmp(sort, "age") == 0)
        j.order = SLAB_EPOCHS_OLDEST;
    else if (sort && strcmp(sort, "bytes") != 0)
        return http_say(c, MHD_HTTP_BAD_REQUEST, "sort: not one of bytes, age\n");
    if (limit) {
        if (!*limit || strspn(limit, "0123456789") != strlen(limit) || strlen(limit) > 5)
            return http_say(c, MHD_HTTP_BAD_REQUEST, "limit: not a number from 0 to 10000\n");
        j.limit = strtoul(limit, NULL, 10);
        if (j.limit > LIMIT_MAX) return http_say(c, MHD_HTTP_BAD_REQUEST, "limit: not a number from 0 to 10000\n");
    }
    return answer_job(c, &j, "application/json");
}

#define SYMBOL_PATH "/debug/pprof/symbol"

/* pprof asks for names that a profile lacks, and expects an answer. All that are known stand in the profile. */
static enum MHD_Result symbols(connection *c) { return http_say(c, MHD_HTTP_OK, "num_symbols: 0\n"); }

#ifdef TSLAB_HTTP_PROFILES
static enum MHD_Result profile(connection *c, http_profile_kind kind) {
    size_t bytes;
    SlabAllocator *a;
    enum MHD_Result wrong;
    if (!choose(c, &a, &wrong)) return wrong;
    if (!a) a = largest();
    if (MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "seconds"))
        return http_say(c, MHD_HTTP_BAD_REQUEST,
                        "seconds: profiles are sums; go tool pprof -base subtracts one from another\n");
    if (MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "debug"))
        return http_say(c, MHD_HTTP_BAD_REQUEST, "debug: the same as text is /stacks.txt\n");
    unsigned char *body = a ? http_profile(a, kind, &bytes) : NULL;
    if (!body) return http_say(c, MHD_HTTP_SERVICE_UNAVAILABLE, "no allocator to show, or no memory\n");
    return answer(c, MHD_HTTP_OK, PROFILE_TYPE, body, bytes, MHD_RESPMEM_MUST_FREE);
}
static enum MHD_Result heap_profile(connection *c) { return profile(c, HTTP_PROFILE_HEAP); }
static enum MHD_Result allocs_profile(connection *c) { return profile(c, HTTP_PROFILE_ALLOCS); }
#else
static enum MHD_Result no_profile(connection *c) {
    return http_say(c, MHD_HTTP_NOT_IMPLEMENTED, "libtslab-http was built without libprotobuf-c and zlib\n");
}
#define heap_profile no_profile
#define allocs_profile no_profile
#endif

static size_t history(SlabAllocator *a, char *buffer, size_t capacity) {
    (void)a;
    return http_history_render(buffer, capacity);
}
static size_t process(SlabAllocator *a, char *buffer, size_t capacity) {
    (void)a;
    return http_process_render(buffer, capacity);
}
static enum MHD_Result history_json(connection *c) {
    return answer_job(c, &(job){.render = history, .without = true}, "application/json");
}
static enum MHD_Result process_json(connection *c) {
    return answer_job(c, &(job){.render = process, .without = true}, "application/json");
}

static size_t all_json(SlabAllocator *a, char *buffer, size_t capacity) {
    return ts_private_render(TS_TEXT_JSON, a, buffer, capacity);
}
static size_t all_text(SlabAllocator *a, char *buffer, size_t capacity) {
    return ts_private_render(TS_TEXT_TEXT, a, buffer, capacity);
}
static size_t all_findings(SlabAllocator *a, char *buffer, size_t capacity) {
    return ts_private_render(TS_TEXT_DOCTOR, a, buffer, capacity);
}
static size_t all_stacks(SlabAllocator *a, char *buffer, size_t capacity) {
    return ts_private_render(TS_TEXT_STACKS, a, buffer, capacity);
}
static size_t all_stacks_json(SlabAllocator *a, char *buffer, size_t capacity) {
    return ts_private_render(TS_TEXT_STACKS_JSON, a, buffer, capacity);
}
static size_t all_views(SlabAllocator *a, char *buffer, size_t capacity) {
    return ts_private_render(TS_TEXT_VIEWS, a, buffer, capacity);
}

static enum MHD_Result healthz(connection *c) { return http_say(c, MHD_HTTP_OK, "ok\n"); }

/* Beside the files of the dashboard: "/" and what it loads. */
static const struct {
    const char *path;
    enum MHD_Result (*reply)(connection *); /* NULL: the text of render */
    renderer *render;
    const char *type;
} PATHS[] = {
    {"/metrics", metrics, NULL, NULL},
    {"/stats.json", NULL, all_json, "application/json"},
    {"/stats.txt", NULL, all_text, "text/plain; charset=utf-8"},
    {"/epochs.json", epochs, NULL, NULL},
    {"/history.json", history_json, NULL, NULL},
    {"/process.json", process_json, NULL, NULL},
    {"/functions.json", NULL, http_functions_render, "application/json"},
    {"/doctor.txt", NULL, all_findings, "text/plain; charset=utf-8"},
    {"/stacks.json", NULL, all_stacks_json, "application/json"},
    {"/stacks.txt", NULL, all_stacks, "text/plain; charset=utf-8"},
    {"/debug/pprof/heap", heap_profile, NULL, NULL},
    {"/debug/pprof/allocs", allocs_profile, NULL, NULL},
    {SYMBOL_PATH, symbols, NULL, NULL},
    {"/view", NULL, all_views, "application/octet-stream"},
    {"/healthz", healthz, NULL, NULL},
};
enum { PATHS_COUNT = sizeof PATHS / sizeof *PATHS };

static enum MHD_Result not_found(connection *c) {
    char text[64 + PATHS_COUNT * 24];
    size_t used = (size_t)snprintf(text, sizeof text, "not found; there are /");
    for (size_t i = 0; i < PATHS_COUNT && used < sizeof text; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, ", %s%s", PATHS[i].path, i + 1 < PATHS_COUNT ? "" : "\n");
    return http_say(c, MHD_HTTP_NOT_FOUND, text);
}

enum MHD_Result http_answer(connection *c, const char *path, const char *method) {
    if (strcmp(method, MHD_HTTP_METHOD_POST) == 0 && strcmp(path, SYMBOL_PATH) == 0) return symbols(c);
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return http_say(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    for (size_t i = 0; i < PATHS_COUNT; i++) {
        if (strcmp(path, PATHS[i].path) != 0) continue;
        if (PATHS[i].reply) return PATHS[i].reply(c);
        return answer_job(c, &(job){.render = PATHS[i].render}, PATHS[i].type);
    }
    for (const http_asset *a = http_assets; a->path; a++)
        if (strcmp(path, a->path) == 0)
            return answer(c, MHD_HTTP_OK, a->type, (void *)(uintptr_t)a->bytes, a->length, MHD_RESPMEM_PERSISTENT);
    return not_found(c);
}
