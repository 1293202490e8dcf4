/*
 * json_docs: real JSON documents, parsed, walked and printed again by a real parser (jansson) on malloc or
 * temporal-slab. A request is one document.
 *
 *     malloc    the parser's own free: json_decref of the tree, free of the text
 *     tslab     a domain per document, left and destroyed; the tree is never walked to free it
 *
 * The first pass is not timed. It frees everything one by one, on either allocator, and so proves that the
 * parser keeps nothing of one document for the next: objects that survive in its static data cannot live in a domain.
 * The output of each document is hashed there, and again in the last pass, after the timed ones.
 *
 * Without --allocator both are run, each in a process of its own, and their outputs are compared: any difference is
 * exit 1.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>
#include <tslab/stats.h>
#include <tslab/tslab.h>

#include "json_corpus.h"
#include "report.h"
#include "rss.h"

#define TOOL "json_docs"
#define DEFAULT_PATH "/usr/share/iso-codes/json"
#define LOAD_FLAGS (JSON_DECODE_ANY | JSON_ALLOW_NUL)
#define DUMP_FLAGS (JSON_ENCODE_ANY | JSON_INDENT(2))
#define HASH_SEED 20240229u /* of the parser's tables: the same in every process */
#define SECONDS_MAX 3600.0
#define SAMPLE_MAX_MS 60000u

typedef struct Settings {
    bool both;
    WlAllocator allocator;
    double seconds;
    uint64_t rss_sample_ms;
    const char *json_path;
} Settings;

typedef struct Outcome {
    uint64_t requests;
    uint64_t rounds;
    uint64_t elapsed_ns;
    uint64_t invalid;  /* documents that are no JSON */
    uint64_t failures; /* requests without memory */
    uint64_t wrong;    /* requests whose tree or output differs from the first pass */
    bench_hist latencies;
    RssSeries series;
    MemoryReport memory;
    SlabGlobalStats stats;
    LeakReport leaks;
} Outcome;

/* ---- the parser's memory ---------------------------------------------------------------------- */

static SlabAllocator *slab; /* constant while documents are parsed; NULL for malloc */

/* Blocks that the parser holds; counted in the first pass only. */
static int64_t held_blocks;
static uint64_t refused_frees;

static void *domain_malloc(size_t bytes) { return slab_alloc(bytes); }

static void domain_free(void *block) {
    if (!slab_free(slab, block)) refused_frees++;
}

static void *counted_malloc(size_t bytes) {
    void *block = slab != NULL ? slab_alloc(bytes) : malloc(bytes);
    if (block != NULL) held_blocks++;
    return block;
}

static void counted_free(void *block) {
    if (block != NULL) held_blocks--;
    if (slab == NULL)
        free(block);
    else
        domain_free(block);
}

static void use_counted_hooks(void) { json_set_alloc_funcs(counted_malloc, counted_free); }

static void use_plain_hooks(void) {
    if (slab != NULL)
        json_set_alloc_funcs(domain_malloc, domain_free);
    else
        json_set_alloc_funcs(malloc, free);
}

/* ---- one document ----------------------------------------------------------------------------- */

typedef struct Walk {
    uint64_t nodes;
    uint64_t string_bytes; /* of strings and keys */
} Walk;

/* As deep as the document; the parser refuses more than 2048 levels. */
static void walk_tree(json_t *node, Walk *walk) {
    walk->nodes++;
    if (json_is_string(node)) {
        walk->string_bytes += json_string_length(node);
    } else if (json_is_array(node)) {
        size_t count = json_array_size(node);
        for (size_t i = 0; i < count; i++) walk_tree(json_array_get(node, i), walk);
    } else if (json_is_object(node)) {
        const char *key;
        json_t *value;
        json_object_foreach(node, key, value) {
            walk->string_bytes += strlen(key);
            walk_tree(value, walk);
        }
    }
}

static uint64_t fnv1a(const char *text, size_t length) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static EpochDomain *enter_domain(const Document *document) {
    EpochDomain *domain = epoch_domain_create_ex(slab, document->name, EPOCH_SCOPE);
    if (domain != NULL && !epoch_domain_enter(domain)) {
        epoch_domain_destroy(domain);
        domain = NULL;
    }
    return domain;
}

static bool same_output(const Document *document, const Walk *walk, size_t output_bytes) {
    return walk->nodes == document->nodes && walk->string_bytes == document->string_bytes &&
           output_bytes == document->output_bytes;
}

/* The first pass: fills in the results of the document, and frees everything one by one. */
static void examine_document(Document *document, Outcome *outcome, bool quiet) {
    EpochDomain *domain = slab != NULL ? enter_domain(document) : NULL;
    if (slab != NULL && domain == NULL)
        wl_die(BENCH_EXIT_FAILED, TOOL, "%s: no domain: %s", document->path, strerror(errno));
    json_error_t error;
    json_t *tree = json_loadb(document->text, document->bytes, LOAD_FLAGS, &error);
    if (tree == NULL) {
        outcome->invalid++;
        if (!quiet) fprintf(stderr, TOOL ": %s:%d:%d: %s\n", document->path, error.line, error.column, error.text);
    } else {
        Walk walk = {0, 0};
        walk_tree(tree, &walk);
        char *output = json_dumps(tree, DUMP_FLAGS);
        if (output == NULL) wl_die(BENCH_EXIT_FAILED, TOOL, "%s: cannot be printed again: no memory", document->path);
        document->output_bytes = strlen(output);
        document->output_hash = fnv1a(output, document->output_bytes);
        document->nodes = walk.nodes;
        document->string_bytes = walk.string_bytes;
        document->usable = true;
        json_decref(tree);
        counted_free(output);
    }
    if (held_blocks != 0)
        wl_die(BENCH_EXIT_FAILED, TOOL, "%s: the parser keeps %" PRId64 " blocks after the document is freed",
               document->path, held_blocks);
    if (slab != NULL) {
        SlabEpochStats stats;
        if (slab_stats_epoch(slab, SLAB_ALL_CLASSES, epoch_domain_epoch(domain), &stats) && stats.live_objects != 0)
            wl_die(BENCH_EXIT_FAILED, TOOL, "%s: everything is freed, the domain counts %" PRIu64 " live objects",
                   document->path, stats.live_objects);
        epoch_domain_destroy(domain);
    }
}

/* A request. hash: also compares the output itself, not only its length. Returns its time. */
static uint64_t serve_document(const Document *document, Outcome *outcome, bool hash) {
    uint64_t begin_ns = bench_now_ns();
    EpochDomain *domain = slab != NULL ? enter_domain(document) : NULL;
    json_t *tree = NULL;
    char *output = NULL;
    Walk walk = {0, 0};
    size_t output_bytes = 0;
    if (slab == NULL || domain != NULL) tree = json_loadb(document->text, document->bytes, LOAD_FLAGS, NULL);
    if (tree != NULL) {
        walk_tree(tree, &walk);
        output = json_dumps(tree, DUMP_FLAGS);
    }
    if (output == NULL) {
        outcome->failures++;
    } else {
        output_bytes = strlen(output);
        if (!same_output(document, &walk, output_bytes) ||
            (hash && fnv1a(output, output_bytes) != document->output_hash))
            outcome->wrong++;
    }
    if (slab == NULL) {
        json_decref(tree);
        free(output);
    } else {
        epoch_domain_destroy(domain);
    }
    return bench_now_ns() - begin_ns;
}

/* ---- a run ------------------------------------------------------------------------------------ */

static size_t usable_documents(const Corpus *corpus) {
    size_t count = 0;
    for (size_t i = 0; i < corpus->count; i++) count += corpus->documents[i].usable;
    return count;
}

/* Of an even number of documents the one in the middle by size, otherwise NULL. It is served twice a round:
   the median is then a time of that document, and not of a neighbour of the gap between two. */
static const Document *middle_document(const Corpus *corpus) {
    size_t usable = usable_documents(corpus);
    if (usable % 2 != 0) return NULL;
    /* The smallest size that more than half of the documents do not exceed, found bit by bit from above. */
    size_t size = SIZE_MAX;
    for (size_t bit = SIZE_MAX / 2 + 1; bit != 0; bit /= 2) {
        size_t fitting = 0;
        for (size_t i = 0; i < corpus->count; i++)
            fitting += corpus->documents[i].usable && corpus->documents[i].bytes <= size - bit;
        if (fitting > usable / 2) size -= bit;
    }
    for (size_t i = 0; i < corpus->count; i++)
        if (corpus->documents[i].usable && corpus->documents[i].bytes == size) return &corpus->documents[i];
    return NULL;
}

static void serve_timed(const Document *document, Outcome *outcome) {
    bench_hist_add(&outcome->latencies, serve_document(document, outcome, false));
    outcome->requests++;
}

static void timed_rounds(const Corpus *corpus, double seconds, Outcome *outcome) {
    const Document *middle = middle_document(corpus);
    uint64_t begin_ns = bench_now_ns();
    uint64_t limit_ns = (uint64_t)(seconds * (double)WL_NS_PER_S);
    do {
        for (size_t i = 0; i < corpus->count; i++) {
            const Document *document = &corpus->documents[i];
            if (document->usable) serve_timed(document, outcome);
            if (document == middle) serve_timed(document, outcome);
        }
        outcome->rounds++;
        outcome->elapsed_ns = bench_now_ns() - begin_ns;
    } while (outcome->elapsed_ns < limit_ns);
}

static void run(const Settings *settings, Corpus *corpus, Outcome *outcome, bool quiet) {
    MemoryReport *memory = &outcome->memory;
    corpus_load(corpus, quiet);
    memory->series = &outcome->series;
    memory->sample_ms = settings->rss_sample_ms;
    memory->before_bytes = bench_rss_bytes();
    rss_series_init(&outcome->series);
    if (!rss_sampler_start(&outcome->series, settings->rss_sample_ms))
        wl_die(BENCH_EXIT_FAILED, TOOL, "no thread for the memory samples");
    use_counted_hooks();
    for (size_t i = 0; i < corpus->count; i++)
        if (corpus->documents[i].text != NULL) examine_document(&corpus->documents[i], outcome, quiet);
    use_plain_hooks();
    if (usable_documents(corpus) != 0) {
        timed_rounds(corpus, settings->seconds, outcome);
        for (size_t i = 0; i < corpus->count; i++)
            if (corpus->documents[i].usable) serve_document(&corpus->documents[i], outcome, true);
    }
    json_set_alloc_funcs(malloc, free);
    rss_sampler_stop();
    memory->after_bytes = bench_rss_bytes();
    memory->after_destroy_bytes = memory->after_bytes;
    memory_report_finish(memory);
    if (slab != NULL && (!slab_stats_global(slab, &outcome->stats) || !leak_report_collect(slab, &outcome->leaks)))
        wl_die(BENCH_EXIT_FAILED, TOOL, "no statistics: %s", strerror(errno));
}

static double requests_per_s(const Outcome *outcome) {
    return outcome->elapsed_ns == 0 ? 0.0 : (double)outcome->requests * 1e9 / (double)outcome->elapsed_ns;
}

static void print_outcome(WlAllocator allocator, const Corpus *corpus, const Outcome *outcome) {
    uint64_t input = 0, output = 0, nodes = 0;
    for (size_t i = 0; i < corpus->count; i++) {
        input += corpus->documents[i].usable ? corpus->documents[i].bytes : 0;
        output += corpus->documents[i].output_bytes;
        nodes += corpus->documents[i].nodes;
    }
    printf("JSON documents with %s (%s), jansson %s\n", wl_allocator_name(allocator),
           allocator == WL_TSLAB ? slab_version() : "of the system", jansson_version_str());
    printf("documents               %zu, %.2f MiB, %" PRIu64 " nodes, printed again in %.2f MiB; %" PRIu64
           " invalid, %zu unreadable\n",
           usable_documents(corpus), (double)input / (1024.0 * 1024.0), nodes, (double)output / (1024.0 * 1024.0),
           outcome->invalid, corpus->unreadable);
    printf("requests                %" PRIu64 ", %.1f/s, %" PRIu64 " rounds; %" PRIu64 " without memory, %" PRIu64
           " with another output than at first\n",
           outcome->requests, requests_per_s(outcome), outcome->rounds, outcome->failures, outcome->wrong);
    report_print_latencies(&outcome->latencies);
    report_print_allocator(allocator == WL_TSLAB ? &outcome->stats : NULL);
    report_print_memory(&outcome->memory, allocator);
    report_print_leaks(allocator == WL_TSLAB ? &outcome->leaks : NULL);
}

static json_t *documents_json(const Corpus *corpus) {
    json_t *documents = json_array();
    for (size_t i = 0; i < corpus->count; i++) {
        const Document *document = &corpus->documents[i];
        if (!document->usable) continue;
        char hash[24];
        snprintf(hash, sizeof hash, "%016" PRIx64, document->output_hash);
        json_array_append_new(documents, json_pack("{s:s%, s:I, s:I, s:s, s:I, s:I}", "path", document->path,
                                                   strlen(document->path), "bytes", (json_int_t)document->bytes,
                                                   "output_bytes", (json_int_t)document->output_bytes, "output_fnv1a",
                                                   hash, "nodes", (json_int_t)document->nodes, "string_bytes",
                                                   (json_int_t)document->string_bytes));
    }
    return documents;
}

static json_t *outcome_json(const Settings *settings, WlAllocator allocator, const Corpus *corpus,
                            const Outcome *outcome) {
    bool tslab = allocator == WL_TSLAB;
    json_t *options =
        json_pack("{s:f, s:I}", "seconds", settings->seconds, "rss_sample_ms", (json_int_t)settings->rss_sample_ms);
    json_t *leaked =
        json_pack("{s:o, s:o}", "objects", tslab ? json_integer((json_int_t)outcome->leaks.objects) : json_null(),
                  "by_epoch_label", report_json_leaks(tslab ? &outcome->leaks : NULL));
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:f, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}",
                     "tool", TOOL, "workload", "documents", "allocator", wl_allocator_name(allocator), "tslab_version",
                     slab_version(), "options", options, "elapsed_s", (double)outcome->elapsed_ns / 1e9, "requests",
                     (json_int_t)outcome->requests, "rounds", (json_int_t)outcome->rounds, "requests_per_s",
                     requests_per_s(outcome), "allocation_failures", (json_int_t)outcome->failures, "wrong",
                     (json_int_t)outcome->wrong, "invalid", (json_int_t)outcome->invalid, "unreadable",
                     (json_int_t)corpus->unreadable, "documents", documents_json(corpus), "latency_ns",
                     report_json_latencies(&outcome->latencies), "rss", report_json_memory(&outcome->memory), "leaked",
                     leaked, "tslab", report_json_allocator(tslab ? &outcome->stats : NULL));
}

/* Requirements that hold for any figures. */
static int check(const Corpus *corpus, const Outcome *outcome, bool quiet) {
    if (usable_documents(corpus) == 0) {
        if (!quiet) fprintf(stderr, TOOL ": no document could be read\n");
        return BENCH_EXIT_FAILED;
    }
    if (outcome->wrong != 0 || refused_frees != 0 || outcome->leaks.objects != 0) {
        fprintf(stderr,
                TOOL ": %" PRIu64 " outputs changed, slab_free refused %" PRIu64 " blocks, %" PRIu64
                     " objects are left\n",
                outcome->wrong, refused_frees, outcome->leaks.objects);
        return BENCH_EXIT_FAILED;
    }
    if (outcome->failures != 0) {
        fprintf(stderr, TOOL ": %" PRIu64 " requests found no memory\n", outcome->failures);
        return BENCH_EXIT_FAILED;
    }
    return 0;
}

/* Runs one allocator in this process. json: receives the results, or NULL. */
static int run_one(const Settings *settings, WlAllocator allocator, Corpus *corpus, json_t **json, bool quiet) {
    Outcome *outcome = bench_map(sizeof *outcome);
    if (allocator == WL_TSLAB) {
        slab = slab_allocator_create();
        if (slab == NULL) wl_die(BENCH_EXIT_FAILED, TOOL, "no allocator: %s", strerror(errno));
    }
    run(settings, corpus, outcome, quiet);
    int code = check(corpus, outcome, quiet);
    if (usable_documents(corpus) != 0) print_outcome(allocator, corpus, outcome);
    if (json != NULL) *json = outcome_json(settings, allocator, corpus, outcome);
    slab_allocator_free(slab);
    slab = NULL;
    return code;
}

/* ---- both allocators -------------------------------------------------------------------------- */

/* Runs one allocator in a child; its results come back through an unnamed file. NULL if it sent none. */
static json_t *run_child(const Settings *settings, WlAllocator allocator, Corpus *corpus, bool quiet, int *code) {
    FILE *results = tmpfile();
    if (results == NULL) wl_die(BENCH_EXIT_FAILED, TOOL, "no temporary file: %s", strerror(errno));
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) wl_die(BENCH_EXIT_FAILED, TOOL, "no process: %s", strerror(errno));
    if (child == 0) {
        json_t *json = NULL;
        int result = run_one(settings, allocator, corpus, &json, quiet);
        if (json_dumpf(json, results, 0) != 0 || fflush(NULL) != 0) result = BENCH_EXIT_FAILED;
        _exit(result);
    }
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : BENCH_EXIT_FAILED;
    if (!WIFEXITED(status))
        fprintf(stderr, TOOL ": the run with %s ended by signal %d\n", wl_allocator_name(allocator), WTERMSIG(status));
    rewind(results);
    json_t *json = json_loadf(results, 0, NULL);
    fclose(results);
    return json;
}

/* Whether both printed the same documents alike; says which do not. */
static bool compare_outputs(json_t *first, json_t *second) {
    json_t *left = json_object_get(first, "documents");
    json_t *right = json_object_get(second, "documents");
    bool same = json_array_size(left) == json_array_size(right);
    if (!same)
        fprintf(stderr, TOOL ": malloc served %zu documents, tslab %zu\n", json_array_size(left),
                json_array_size(right));
    for (size_t i = 0; same && i < json_array_size(left); i++) {
        json_t *document = json_array_get(left, i);
        if (!json_equal(document, json_array_get(right, i))) {
            fprintf(stderr, TOOL ": %s: malloc and tslab print it differently\n",
                    json_string_value(json_object_get(document, "path")));
            same = false;
        }
    }
    return same;
}

static int run_both(const Settings *settings, Corpus *corpus, json_t **json) {
    int malloc_code, tslab_code;
    json_t *with_malloc = run_child(settings, WL_MALLOC, corpus, false, &malloc_code);
    json_t *with_tslab = run_child(settings, WL_TSLAB, corpus, true, &tslab_code);
    int code = malloc_code != 0 ? malloc_code : tslab_code;
    bool same = with_malloc != NULL && with_tslab != NULL && compare_outputs(with_malloc, with_tslab);
    if (code == 0 && same)
        printf("malloc and tslab print all %zu documents alike\n",
               json_array_size(json_object_get(with_malloc, "documents")));
    *json =
        json_pack("{s:s, s:b, s:[o*, o*]}", "tool", TOOL, "same_output", (int)same, "runs", with_malloc, with_tslab);
    return code == 0 && !same ? BENCH_EXIT_FAILED : code;
}

/* ---- the command line ------------------------------------------------------------------------- */

static void print_help(void) {
    printf("usage: " TOOL " [OPTION]... [PATH]...\n"
           "Parses, walks and prints JSON documents: files, and *.json below directories\n"
           "(default " DEFAULT_PATH ").\n\n"
           "  --allocator=tslab|malloc   default: one after the other, and their output is compared\n"
           "  --seconds=N                default 4: whole rounds over the documents, until so long has passed\n"
           "  --rss_sample_ms=N          default 10\n"
           "  --json=FILE                the results as JSON\n"
           "  --help\n");
}

_Noreturn static void bad_value(const char *option, const char *value, const char *wanted) {
    wl_die(BENCH_EXIT_USAGE, TOOL, "--%s=%s: %s", option, value, wanted);
}

enum {
    OPT_ALLOCATOR = 256,
    OPT_SECONDS,
    OPT_RSS_SAMPLE,
    OPT_JSON,
    OPT_HELP,
};

static void parse_options(int argc, char **argv, Settings *settings) {
    static const struct option long_options[] = {
        {"allocator", required_argument, NULL, OPT_ALLOCATOR},
        {"seconds", required_argument, NULL, OPT_SECONDS},
        {"rss_sample_ms", required_argument, NULL, OPT_RSS_SAMPLE},
        {"json", required_argument, NULL, OPT_JSON},
        {"help", no_argument, NULL, OPT_HELP},
        {NULL, 0, NULL, 0},
    };
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (option != ':' && option != '?') wl_check_value(TOOL, argv);
        switch (option) {
        case OPT_ALLOCATOR:
            if (!wl_allocator_parse(optarg, &settings->allocator))
                bad_value("allocator", optarg, "must be tslab or malloc");
            settings->both = false;
            break;
        case OPT_SECONDS:
            if (!wl_parse_double(optarg, 0.0, true, SECONDS_MAX, &settings->seconds))
                bad_value("seconds", optarg, "must be seconds, more than 0 and at most 3600");
            break;
        case OPT_RSS_SAMPLE:
            if (!wl_parse_u64(optarg, 1, SAMPLE_MAX_MS, &settings->rss_sample_ms))
                bad_value("rss_sample_ms", optarg, "must be a number from 1 to 60000");
            break;
        case OPT_JSON:
            if (*optarg == '\0') bad_value("json", optarg, "needs a file name");
            settings->json_path = optarg;
            break;
        case OPT_HELP:
        case 'h': print_help(); exit(0);
        default: wl_bad_option(TOOL, option, argv);
        }
    }
}

int main(int argc, char **argv) {
    Settings settings = {.both = true, .seconds = 4.0, .rss_sample_ms = 10};
    static char default_path[] = DEFAULT_PATH;
    char *default_paths[] = {default_path};
    parse_options(argc, argv, &settings);
    FILE *file = settings.json_path != NULL ? report_open_json(settings.json_path, TOOL) : NULL;

    Corpus corpus = {NULL, 0, 0};
    if (optind < argc)
        corpus_collect(&corpus, argv + optind, (size_t)(argc - optind));
    else
        corpus_collect(&corpus, default_paths, 1);
    json_object_seed(HASH_SEED);

    json_t *json = NULL;
    int code;
    if (settings.both && corpus.count != 0)
        code = run_both(&settings, &corpus, &json);
    else
        code = run_one(&settings, settings.allocator, &corpus, &json, false);
    if (file != NULL)
        report_write_json(json, file, settings.json_path, TOOL);
    else
        json_decref(json);
    return code;
}
