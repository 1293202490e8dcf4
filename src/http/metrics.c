/*
 * A list of samples, those of a metric side by side, in the order in which the metrics came.
 *
 * `mutex` guards the list and is held while a sample is read, so that nothing is read after its removal. Every change
 * of the list is one store, so a child of fork finds it whole, whatever the other threads were at.
 */
#include "http/metrics.h"

#include "advice/advice.h"
#include "api/api.h"
#include "base/base.h"

#include <tslab/http.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MAX 1000u
#define LABELS_MAX 16u
#define TEXT_MAX 1000u /* bytes of a name, a help or a value */
#define RESERVED "temporal_slab_"
#define COUNTER_END "_total"

typedef struct sample sample;
struct sample {
    _Atomic(sample *) next;
    int kind;
    char *name, *help; /* with `labels` in the one block of memory that the sample is in */
    char *labels;      /* as between the braces, sorted by name; "": none */
    double (*read)(void *arg);
    void *arg;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(sample *) first;    /* mutex */
static unsigned count;             /* mutex */
static _Thread_local bool reading; /* this thread holds mutex and runs a `read` */

static sample *load(_Atomic(sample *) *at) {
    return atomic_load_explicit(at, memory_order_relaxed);
} /* mutex orders it */

/* ---- what may be added ------------------------------------------------------------------------------------------- */

static bool is_name(const char *s) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return s && *s && !(*s >= '0' && *s <= '9') && strspn(s, letters) == strlen(s) && strlen(s) <= TEXT_MAX;
}

static bool is_text(const char *s) {
    if (!s || strlen(s) > TEXT_MAX) return false;
    while (*s) {
        unsigned n = ts_utf8_length(s);
        if (n == 0) return false;
        s += n;
    }
    return true;
}

static bool ends_as_counter(const char *name) {
    size_t n = strlen(name), end = sizeof COUNTER_END - 1;
    return n > end && strcmp(name + n - end, COUNTER_END) == 0;
}

static bool is_valid(const SlabHttpMetric *m) {
    if (!m || m->size < sizeof *m || !is_name(m->name) || !m->read) return false;
    if (strncmp(m->name, RESERVED, sizeof RESERVED - 1) == 0) return false;
    if (m->kind != SLAB_HTTP_COUNTER && m->kind != SLAB_HTTP_GAUGE) return false;
    if (ends_as_counter(m->name) != (m->kind == SLAB_HTTP_COUNTER)) return false;
    return is_text(m->help) && *m->help;
}

/* The labels of a metric, sorted by name. SIZE_MAX: they are not valid. */
static size_t sorted_labels(const SlabHttpMetric *m, const char *pairs[LABELS_MAX][2]) {
    size_t n = 0;
    for (const char *const *at = m->labels; at && at[0]; at += 2, n++) {
        if (n == LABELS_MAX || !is_name(at[0]) || strncmp(at[0], "__", 2) == 0 || !is_text(at[1])) return SIZE_MAX;
        size_t i = n;
        for (; i > 0 && strcmp(pairs[i - 1][0], at[0]) > 0; i--) memcpy(pairs[i], pairs[i - 1], sizeof pairs[i]);
        if (i > 0 && strcmp(pairs[i - 1][0], at[0]) == 0) return SIZE_MAX;
        pairs[i][0] = at[0];
        pairs[i][1] = at[1];
    }
    /* A label without a value is as none: the two would be one series. */
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (*pairs[i][1]) memmove(pairs[kept++], pairs[i], sizeof pairs[i]);
    return kept;
}

static void put_labels(ts_sink *s, const char *const pairs[][2], size_t n) {
    for (size_t i = 0; i < n; i++) {
        ts_put(s, i ? "," : "");
        ts_put(s, pairs[i][0]);
        ts_put(s, "=");
        ts_put_quoted(s, pairs[i][1]);
    }
}

/* NULL with errno: EINVAL, ENOMEM. */
static sample *make(const SlabHttpMetric *m) {
    const char *pairs[LABELS_MAX][2];
    size_t n = is_valid(m) ? sorted_labels(m, pairs) : SIZE_MAX;
    if (n == SIZE_MAX) {
        errno = EINVAL;
        return NULL;
    }
    ts_sink measure = ts_sink_buffer(NULL, 0);
    put_labels(&measure, (const char *const(*)[2])pairs, n);
    size_t labels = ts_sink_end(&measure) + 1, name = strlen(m->name) + 1, help = strlen(m->help) + 1;
    sample *made = malloc(sizeof *made + labels + name + help);
    if (!made) return NULL;
    *made = (sample){.kind = m->kind, .labels = (char *)(made + 1), .read = m->read, .arg = m->arg};
    ts_sink s = ts_sink_buffer(made->labels, labels);
    put_labels(&s, (const char *const(*)[2])pairs, n);
    (void)ts_sink_end(&s);
    made->name = memcpy(made->labels + labels, m->name, name);
    made->help = memcpy(made->name + name, m->help, help);
    return made;
}

/* OpenMetrics names a counter without _total, and gives its family three names: that one, and with _total and _created
   behind it. Another family has none of them. */
static size_t base_bytes(const sample *s) {
    return strlen(s->name) - (s->kind == SLAB_HTTP_COUNTER ? sizeof COUNTER_END - 1 : 0);
}

static bool is_name_of(const sample *family, const char *name, size_t bytes) {
    size_t base = base_bytes(family);
    if (bytes < base || memcmp(family->name, name, base) != 0) return false;
    if (bytes == base) return true;
    if (family->kind != SLAB_HTTP_COUNTER) return false;
    static const char *const ends[] = {COUNTER_END, "_created"};
    for (unsigned i = 0; i < 2; i++)
        if (strlen(ends[i]) == bytes - base && memcmp(name + base, ends[i], bytes - base) == 0) return true;
    return false;
}

/* Both are one family, or their names clash. */
static bool share_a_name(const sample *a, const sample *b) {
    return is_name_of(a, b->name, base_bytes(b)) || is_name_of(b, a->name, base_bytes(a)) ||
           is_name_of(a, b->name, strlen(b->name)) || is_name_of(b, a->name, strlen(a->name));
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* Behind the last sample of its metric. 0, or the error. */
static int insert_locked(sample *new) {
    _Atomic(sample *) *at = &first, *behind = NULL;
    if (count >= SAMPLES_MAX) return ENOSPC;
    for (sample *s; (s = load(at)) != NULL; at = &s->next) {
        if (!share_a_name(s, new)) continue;
        if (strcmp(s->name, new->name) != 0 || s->kind != new->kind || strcmp(s->help, new->help) != 0) return EINVAL;
        if (strcmp(s->labels, new->labels) == 0) return EEXIST;
        behind = &s->next;
    }
    if (!behind) behind = at;
    atomic_store_explicit(&new->next, load(behind), memory_order_relaxed);
    atomic_store_explicit(behind, new, memory_order_release); /* with all that it points to, for a child of fork */
    count++;
    return 0;
}

bool slab_http_metric_add(const SlabHttpMetric *metric) {
    TS_OWN_MEMORY;
    if (reading) {
        errno = EDEADLK;
        return false;
    }
    sample *new = make(metric);
    if (!new) return false;
    (void)pthread_mutex_lock(&mutex);
    int error = insert_locked(new);
    (void)pthread_mutex_unlock(&mutex);
    if (error == 0) return true;
    free(new);
    errno = error;
    return false;
}

bool slab_http_metric_remove(const SlabHttpMetric *metric) {
    if (reading) {
        errno = EDEADLK;
        return false;
    }
    sample *like = make(metric), *found;
    if (!like) return false;
    (void)pthread_mutex_lock(&mutex);
    _Atomic(sample *) *at = &first;
    while ((found = load(at)) != NULL &&
           (strcmp(found->name, like->name) != 0 || strcmp(found->labels, like->labels) != 0))
        at = &found->next;
    if (found) {
        atomic_store_explicit(at, load(&found->next), memory_order_relaxed);
        count--;
    }
    (void)pthread_mutex_unlock(&mutex);
    free(like);
    free(found);
    if (!found) errno = ENOENT;
    return found != NULL;
}

void http_metrics_in_child(void) {
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    reading = false;
    count = 0;
    for (sample *s = load(&first); s; s = load(&s->next)) count++;
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void put_family(ts_sink *s, const sample *of, bool openmetrics) {
    size_t n = strlen(of->name);
    if (openmetrics && of->kind == SLAB_HTTP_COUNTER) n -= sizeof COUNTER_END - 1;
    ts_put(s, "# HELP ");
    ts_put_bytes(s, of->name, n);
    ts_put(s, " ");
    for (const char *c = of->help; *c; c++) {
        if (*c == '\\' || *c == '\n' || (openmetrics && *c == '"')) ts_put(s, "\\");
        ts_put_bytes(s, *c == '\n' ? "n" : c, 1);
    }
    ts_put(s, "\n# TYPE ");
    ts_put_bytes(s, of->name, n);
    ts_put(s, of->kind == SLAB_HTTP_COUNTER ? " counter\n" : " gauge\n");
}

static void put_value(ts_sink *s, double value) {
    char text[64];
    if (isnan(value)) {
        ts_put(s, "NaN");
    } else if (isinf(value)) {
        ts_put(s, value > 0 ? "+Inf" : "-Inf");
    } else if (fabs(value) < 9007199254740992.0 && value == (double)(int64_t)value) {
        snprintf(text, sizeof text, "%.0f", value);
        ts_put(s, text);
    } else {
        snprintf(text, sizeof text, "%.17g", value);
        /* The program's locale may have another sign for the point, of several bytes. */
        size_t whole = strspn(text, "-0123456789"), sign = strcspn(text + whole, "0123456789");
        bool point = text[whole] && text[whole] != 'e';
        ts_put_bytes(s, text, whole);
        if (point) ts_put(s, ".");
        ts_put(s, point ? text + whole + sign : text + whole);
    }
}

size_t http_metrics_render(bool openmetrics, char *buffer, size_t capacity) {
    ts_sink out = ts_sink_buffer(buffer, capacity);
    sample *before = NULL;
    (void)pthread_mutex_lock(&mutex);
    reading = true;
    for (sample *s = load(&first); s; before = s, s = load(&s->next)) {
        double value = s->read(s->arg);
        if (!before || strcmp(before->name, s->name) != 0) put_family(&out, s, openmetrics);
        if (s->kind == SLAB_HTTP_COUNTER && !(value >= 0)) continue;
        ts_put(&out, s->name);
        if (*s->labels) {
            ts_put(&out, "{");
            ts_put(&out, s->labels);
            ts_put(&out, "}");
        }
        ts_put(&out, " ");
        put_value(&out, value);
        ts_put(&out, "\n");
    }
    reading = false;
    (void)pthread_mutex_unlock(&mutex);
    return ts_sink_end(&out);
}
