#include "api/runtime.h"

#include "api/api.h"
#include "diagnose/diagnose.h"
#include "os/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MISUSE_WORDS "ignore|report|abort"

/*
 * One line per option: member, environment variable, type, and what it may be.
 * SIZE: bytes, with an optional suffix K, M, G (powers of 1024). COUNT: 0 .. 2^32 - 1. WORD: one of the words, in the
 * order of their values. LIST: some of the words with commas between them, each of which is a bit, in their order.
 */
#define OPTIONS(X)                                                     \
    X(retain_bytes, "TSLAB_RETAIN", SIZE, NULL, TS_RETAIN_BYTES)       \
    X(reclaim_policy, "TSLAB_RECLAIM", WORD, "budget|keep|at_once", 0) \
    X(sample_rate, "TSLAB_SAMPLE", COUNT, NULL, 0)                     \
    X(reserve_bytes, "TSLAB_RESERVE", SIZE, NULL, 0)                   \
    X(budget_bytes, "TSLAB_BUDGET", SIZE, NULL, 0)                     \
    X(huge_pages, "TSLAB_HUGE_PAGES", WORD, "default|on|off", 0)       \
    X(on_misuse, "TSLAB_ON_MISUSE", WORD, MISUSE_WORDS, misuse_mode()) \
    X(poison_on_free, "TSLAB_POISON", WORD, "0|1", 0)                  \
    X(record_rss, "TSLAB_RECORD_RSS", WORD, "0|1", 0)                  \
    X(guard_spans, "TSLAB_GUARD", WORD, "0|1", 0)                      \
    X(memory_tools, "TSLAB_TOOLS", WORD, "on|off|leaks", 0)            \
    X(sample_stacks, "TSLAB_SAMPLE_STACKS", SIZE, NULL, 0)             \
    X(background, "TSLAB_BACKGROUND", WORD, "0|1", 0)                  \
    X(strict, "TSLAB_STRICT", WORD, "0|1", 0)                          \
    X(hints, "TSLAB_HINTS", WORD, "0|1", 0)                            \
    X(numa, "TSLAB_NUMA", WORD, "off|local|interleave", 0)

typedef enum option_type { SIZE, COUNT, WORD, LIST } option_type;
enum {
#define X(member, name, type, words, fallback) OPTION_##member,
    OPTIONS(X)
#undef X
        OPTION_harden, /* these two of the process, and of no allocator */
    OPTION_shm
};

static bool parse_number(const char *text, bool suffix, uint64_t max, uint64_t *out) {
    char *end;
    if (text[0] < '0' || text[0] > '9') return false;
    int before = errno;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    bool fits = errno == 0;
    errno = before;
    unsigned shift = 0;
    if (suffix && *end) {
        const char *units = "KMG";
        const char *u = strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end);
        if (!u) return false;
        shift = 10u * (unsigned)(u - units + 1);
        end++;
    }
    if (!fits || *end != 0 || n > max >> shift) return false;
    *out = (uint64_t)n << shift;
    return true;
}

static bool parse_word(const char *text, size_t length, const char *words, uint64_t *out) {
    uint64_t index = 0;
    for (const char *w = words;; index++) {
        const char *end = strchr(w, '|');
        size_t n = end ? (size_t)(end - w) : strlen(w);
        if (n == length && strncasecmp(w, text, n) == 0) {
            *out = index;
            return true;
        }
        if (!end) return false;
        w = end + 1;
    }
}

static bool parse_list(const char *text, const char *words, uint64_t *out) {
    uint64_t index;
    for (*out = 0;; text++) {
        size_t length = strcspn(text, ",");
        if (!parse_word(text, length, words, &index)) return false;
        *out |= (uint64_t)1 << index;
        text += length;
        if (!*text) return true;
    }
}

static bool parse(const char *text, option_type type, const char *words, uint64_t *value) {
    switch (type) {
    case WORD: return parse_word(text, strlen(text), words, value);
    case LIST: return parse_list(text, words, value);
    default: return parse_number(text, type == SIZE, type == SIZE ? SIZE_MAX : UINT32_MAX, value);
    }
}

static uint64_t word_count(const char *words) {
    uint64_t n = 1;
    for (; *words; words++) n += *words == '|';
    return n;
}

/* The first time that this process meets it; option: its place in the table. */
static bool is_news(_Atomic uint32_t *met, unsigned option) {
    uint32_t bit = (uint32_t)1 << option;
    return (atomic_fetch_or(met, bit) & bit) == 0;
}

/* As much of it as fits, in one line. */
static const char *printable(const char *text, size_t length, char out[65]) {
    size_t n = length < 64 ? length : 64;
    for (size_t i = 0; i < n; i++) out[i] = (unsigned char)text[i] < ' ' || text[i] == 127 ? '?' : text[i];
    out[n] = 0;
    return out;
}

/* false: the variable is not set, or to no value that it can have. */
static bool from_environment(unsigned option, const char *name, option_type type, const char *words, uint64_t *value) {
    static _Atomic uint32_t met;
    const char *text = ts_env(name);
    if (!text || !*text) return false;
    bool good = parse(text, type, words, value);
    if (good || !is_news(&met, option)) return good;
    char shown[65];
    static const char *const what[] = {"a size such as 64M", "a number", "one of ", "a list of "};
    ts_tell("%s=\"%s\" is not %s%s; using the default", name, printable(text, strlen(text), shown), what[type],
            words ? words : "");
    return false;
}

/* A member of the struct that has no such value: as if it had not been given. */
TS_COLD static void warn_of_member(unsigned option, const char *member, int64_t value, const char *words) {
    static _Atomic uint32_t met;
    if (!is_news(&met, option)) return;
    ts_tell("SlabOptions.%s = %s%" PRIu64 " is none of its values (%s): as if not given", member, value < 0 ? "-" : "",
            value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value, words);
}

/* The variables that begin with TSLAB_ and mean nothing to the library; once per process. */
static void warn_unknown(void) {
    extern char **environ;
    static _Atomic uint32_t warned;
    if (!ts_env_is_trusted() || atomic_exchange(&warned, 1)) return;
    static const char *const known[] = {
#define X(member, name, type, words, fallback) name,
        OPTIONS(X)
#undef X
        /* read elsewhere */
        "TSLAB_HARDEN",
        "TSLAB_HTTP",
        "TSLAB_HTTP_OWNER",
        "TSLAB_LOG",
        "TSLAB_HTTP_HOSTS",
        "TSLAB_PLAN",
        "TSLAB_SHM"};
    for (char **e = environ; e && *e; e++) {
        if (strncmp(*e, "TSLAB_", 6) != 0) continue;
        size_t n = strcspn(*e, "=");
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found |= strlen(known[i]) == n && strncmp(*e, known[i], n) == 0;
        char shown[65];
        if (found) continue;
        ts_tell("unknown variable %s ignored", printable(*e, n, shown));
    }
}

bool ts_settings_want_page(void) {
    uint64_t value;
    return from_environment(OPTION_shm, "TSLAB_SHM", WORD, "0|1", &value) && value;
}

/* The words from the third on are the parts, in the order of their bits. Not 0: misuse stops the program, unless an
   option says otherwise. */
uint32_t ts_private_harden(void) {
    static const char words[] = "0|1|canary|quarantine|guard|kinds|sized";
    uint64_t value;
    if (!from_environment(OPTION_harden, "TSLAB_HARDEN", LIST, words, &value) || (value & 1)) return 0;
    uint32_t one = value & 2 ? TS_HARDEN_CANARY | TS_HARDEN_QUARANTINE | TS_HARDEN_GUARD | TS_HARDEN_ONE : 0;
    const char *text = ts_env("TSLAB_ON_MISUSE");
    uint64_t mode;
    if (text && parse_word(text, strlen(text), MISUSE_WORDS, &mode) && mode == SLAB_MISUSE_ABORT)
        one |= TS_HARDEN_ABORT;
    return (uint32_t)(value >> 2) | one;
}

const char *ts_private_plan(void) { return ts_env("TSLAB_PLAN"); }

/* The mode where no option says it. */
static uint64_t misuse_mode(void) { return ts_private_harden() ? SLAB_MISUSE_ABORT : SLAB_MISUSE_IGNORE; }

/* The mode for misuse that concerns no known allocator. It holds from the start, whatever an allocator's own option
   says. */
TS_AT_LOAD static void read_misuse_default(void) {
    const char *text = ts_env("TSLAB_ON_MISUSE");
    uint64_t mode;
    if (!text || !parse_word(text, strlen(text), MISUSE_WORDS, &mode)) mode = misuse_mode();
    ts_store_relaxed(&ts_misuse_default, (int)mode);
}

bool ts_settings_resolve(const SlabOptions *options, ts_settings *out) {
    SlabOptions given;
    memset(&given, 0, sizeof given);
    if (options) {
        if (options->size < sizeof(size_t)) return ts_fail(EINVAL);
        memcpy(&given, options, options->size < sizeof given ? options->size : sizeof given);
    }
    ts_messages_begin();
    warn_unknown();
    read_misuse_default(); /* set since by the program itself */
    uint32_t defaults = 0; /* bit per option: nobody gave it */
#define X(member, name, type, words, fallback)                                                       \
    {                                                                                                \
        uint64_t value = (uint64_t)given.member;                                                     \
        if ((type) == WORD && value >= word_count((words) ? (words) : "")) {                         \
            warn_of_member(OPTION_##member, #member, (int64_t)given.member, (words) ? (words) : ""); \
            value = 0;                                                                               \
        }                                                                                            \
        if (value == 0 && !from_environment(OPTION_##member, name, type, words, &value)) {           \
            value = (fallback);                                                                      \
            defaults |= (uint32_t)1 << OPTION_##member;                                              \
        }                                                                                            \
        out->member = value;                                                                         \
    }
    OPTIONS(X)
#undef X
    out->retain_given = (defaults >> OPTION_retain_bytes & 1) == 0;
    out->hints_given = (defaults >> OPTION_hints & 1) == 0;
    out->reserve_by_env = given.reserve_bytes == 0 && (defaults >> OPTION_reserve_bytes & 1) == 0;
    return true;
}
