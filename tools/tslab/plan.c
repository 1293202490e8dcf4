#include "tslab/plan.h"

#include "common/frames.h"
#include "common/json.h"
#include "tslab/launch.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The limits of src/malloc/plan.c. */
enum { MODULES = 64, EPOCHS = 16, SITES = 1024, LABEL = 20 };

typedef struct site {
    uint64_t caller_of, module, address, epoch;
    frames_step step;
    unsigned given; /* a bit for each of its keys */
    bool is_parent;
} site;

typedef struct plan {
    struct {
        char path[PATH_MAX], id[FRAMES_ID];
    } module[MODULES];
    char epoch[EPOCHS][LABEL];
    size_t modules, epochs, sites;
    site site[SITES];
    char wrong[PATH_MAX]; /* the value that is none */
} plan;

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static bool is_number(const char *text, uint64_t most, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long n = *text >= '0' && *text <= '9' ? strtoull(text, &end, 0) : (end = NULL, 0);
    *out = n;
    return end && *end == 0 && errno == 0 && n <= most;
}

static bool take_module(plan *p, size_t i, const char *key, const char *value) {
    if (strcmp(key, "path") == 0) return snprintf(p->module[i].path, PATH_MAX, "%s", value) < PATH_MAX && *value == '/';
    if (strcmp(key, "build_id") != 0) return true;
    return snprintf(p->module[i].id, FRAMES_ID, "%s", value) < FRAMES_ID &&
           strspn(value, "0123456789abcdef") == strlen(value) && *value && strlen(value) % 2 == 0;
}

/* Modules and epochs come before sites, and parents before their children. */
static bool take_site(plan *p, size_t i, const char *key, const char *value) {
    static const char *const keys[] = {"caller_of", "module", "return_address", "epoch"};
    site *s = &p->site[i];
    uint64_t *const to[] = {&s->caller_of, &s->module, &s->address, &s->epoch};
    const uint64_t most[] = {i, p->modules ? p->modules - 1 : 0, UINT64_MAX, p->epochs};
    for (unsigned k = 0; k < 4; k++) {
        if (strcmp(key, keys[k]) != 0) continue;
        s->given |= 1u << k;
        return p->modules && is_number(value, most[k], to[k]);
    }
    return true;
}

/* The number behind a list's name, and the rest of the path; false: it is not in that list. */
static bool is_in(const char *path, const char *list, size_t *number, const char **rest) {
    size_t n = strlen(list);
    char *end;
    if (strncmp(path, list, n) != 0 || path[n] != '.') return false;
    *number = strtoul(path + n + 1, &end, 10);
    *rest = *end == '.' ? end + 1 : end;
    return true;
}

static bool take(void *arg, const char *path, const char *value) {
    plan *p = arg;
    size_t i;
    const char *key;
    bool good = true;
    if (is_in(path, "modules", &i, &key)) {
        p->modules = i + 1;
        good = i < MODULES && take_module(p, i, key, value);
    } else if (is_in(path, "epochs", &i, &key)) {
        p->epochs = i + 1;
        good = i < EPOCHS && snprintf(p->epoch[i], LABEL, "%s", value) < LABEL && !strpbrk(value, ",;");
    } else if (is_in(path, "sites", &i, &key)) {
        p->sites = i + 1;
        good = i < SITES && take_site(p, i, key, value);
    }
    if (!good) snprintf(p->wrong, sizeof p->wrong, "%s is %.64s, which no plan has", path, value);
    return good;
}

static bool is_whole(plan *p) {
    for (size_t i = 0; i < p->modules; i++)
        if (!p->module[i].path[0] || !p->module[i].id[0])
            return snprintf(p->wrong, sizeof p->wrong, "modules.%zu lacks its path or build_id", i), false;
    for (size_t i = 0; i < p->sites; i++)
        if (p->site[i].given != 0xf) return snprintf(p->wrong, sizeof p->wrong, "sites.%zu lacks a key", i), false;
    if (p->sites == 0) snprintf(p->wrong, sizeof p->wrong, "it names no sites: no object of the program lives long");
    return p->sites != 0;
}

/* ---- the machine's files ----------------------------------------------------------------------------------------- */

/* -1: done; else an exit code. */
static int look_at(plan *p, size_t number) {
    const char *path = p->module[number].path, *id = p->module[number].id;
    frames *f = frames_open(path);
    if (!f) return launch_fail(EXIT_CANNOT, "%s, of which the plan is, is not here or no ELF file", path);
    int code = -1;
    if (strcmp(frames_build_id(f), id) != 0) {
        const char *own = frames_build_id(f);
        code = launch_fail(EXIT_CANNOT, "%s has build id %s, and the plan is of build id %s: record it anew", path,
                           *own ? own : "none", id);
    }
    for (size_t i = 0; code < 0 && i < p->sites; i++)
        if (p->site[i].is_parent && p->site[i].module == number) p->site[i].step = frames_above(f, p->site[i].address);
    frames_close(f);
    return code;
}

static int hand_over(const plan *p) {
    const size_t most = 4096 + MODULES * FRAMES_ID + SITES * 48;
    char *text = malloc(most);
    size_t n = 0;
    if (!text) return launch_fail(EXIT_CANNOT, "no memory");
    n += (size_t)snprintf(text + n, most - n, "1;");
    for (size_t i = 0; i < p->epochs; i++) n += (size_t)snprintf(text + n, most - n, "%s,", p->epoch[i]);
    n += (size_t)snprintf(text + n, most - n, ";");
    for (size_t i = 0; i < p->modules; i++) n += (size_t)snprintf(text + n, most - n, "%s,", p->module[i].id);
    n += (size_t)snprintf(text + n, most - n, ";");
    for (size_t i = 0; i < p->sites; i++) {
        const site *s = &p->site[i];
        n += (size_t)snprintf(text + n, most - n, "%" PRIx64 ".%" PRIx64 ".%" PRIx64 ".%x.%x.%" PRIx64 ",",
                              s->caller_of, s->module, s->address, s->step.up, s->step.saved, s->epoch);
    }
    int code = setenv("TSLAB_PLAN", text, 1) == 0 ? -1 : launch_fail(EXIT_CANNOT, "%s", strerror(errno));
    free(text);
    return code;
}

int plan_apply(const char *file) {
    plan *p = calloc(1, sizeof *p);
    if (!p) return launch_fail(EXIT_CANNOT, "no memory");
    const char *error = json_read(file, take, p);
    if (error || p->wrong[0] || !is_whole(p)) {
        int code = launch_fail(EXIT_CANNOT, "--plan %s: %s", file, error ? error : p->wrong);
        free(p);
        return code;
    }
    for (size_t i = 0; i < p->sites; i++)
        if (p->site[i].caller_of) p->site[p->site[i].caller_of - 1].is_parent = true;
    int code = -1;
    for (size_t i = 0; code < 0 && i < p->modules; i++) code = look_at(p, i);
    size_t lost = 0;
    for (size_t i = 0; i < p->sites; i++) lost += p->site[i].is_parent && p->site[i].step.up == 0;
    if (code < 0 && lost)
        (void)launch_fail(
            0, "the callers of %zu of %zu sites are not looked at: the unwind tables do not say where they stand", lost,
            p->sites);
    if (code < 0) code = hand_over(p);
    free(p);
    return code;
}
