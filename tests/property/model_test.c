/*
 * Property test: random programs over every call of the public API against a model (tests/support/program.h).
 *
 *     model_test [--seed N] [--programs N] [--ops N] [--threads N]
 *
 * First programs one after another, each a function of the seed and its number alone; one that fails is shrunk and
 * printed as C. Some of them with TSLAB_STRICT and TSLAB_HINTS, too. Then programs side by side in threads that pass
 * each other objects. All run in a forked child: their effects on the process end with it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "identities.h"
#include "proc.h"
#include "program.h"
#include "rng.h"
#include "shrink.h"

#include "supply/supply.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM_SECONDS 60u /* one program, in any build */
#define SHRINK_SECONDS 40.0
#define ROUNDS 4u
#define OF_OPTIONS 8u /* one program in so many for each option */

struct shared {
    volatile uint64_t program; /* the one that runs now */
};

struct series {
    struct sup_args args;
    struct shared *shared;
    struct prog_op *ops;
    const char *option; /* NULL: none */
};

static void generate(const struct sup_args *args, uint64_t number, struct prog_op *ops) {
    struct sup_rng rng = {sup_mix(args->seed) ^ sup_mix(number + 1)};
    for (uint64_t i = 0; i < args->ops; i++) {
        prog_generate(&rng, &ops[i]);
    }
}

static void run_programs(struct series *series, uint64_t first, uint64_t end) {
    prog_quiet();
    for (uint64_t number = first; number < end; number++) {
        char why[512] = "";
        size_t at = 0;
        series->shared->program = number;
        ts_pieces_after = number % 4 == 0 ? TS_PIECES_AFTER : 0;
        (void)alarm(PROGRAM_SECONDS);
        generate(&series->args, number, series->ops);
        prog_large_are_far(number % 2 != 0);
        if (!prog_run(series->ops, series->args.ops, NULL, &at, why, sizeof why)) {
            (void)fprintf(stderr, "FAIL model_test --seed %" PRIu64 ": program %" PRIu64 ", operation %zu: %s\n",
                          series->args.seed, number, at, why);
            (void)fflush(NULL);
            _exit(1);
        }
    }
}

static void run_series(void *argument) {
    struct series *series = argument;
    run_programs(series, 0, series->args.programs);
}

/* The default allocator takes its options from the environment, before the first program. */
static void run_with_option(void *argument) {
    struct series *series = argument;
    (void)setenv(series->option, "1", 1); /* NOLINT(concurrency-mt-unsafe) */
    run_programs(series, series->args.programs, series->args.programs + series->args.programs / OF_OPTIONS + 1);
}

static void report(struct series *series, int status) {
    uint64_t number = series->shared->program;
    if (WIFSIGNALED(status)) {
        (void)fprintf(stderr, "FAIL model_test --seed %" PRIu64 ": program %" PRIu64 " ended by signal %d\n",
                      series->args.seed, number, WTERMSIG(status));
    }
    if (series->option != NULL) {
        (void)fprintf(stderr, "with %s=1\n", series->option);
        (void)setenv(series->option, "1", 1); /* NOLINT(concurrency-mt-unsafe) */
    }
    generate(&series->args, number, series->ops);
    prog_large_are_far(number % 2 != 0);
    if (!shrink_fails(series->ops, series->args.ops)) {
        (void)fprintf(stderr, "program %" PRIu64 " does not fail alone, only after the ones before it\n", number);
        return;
    }
    size_t count = shrink_program(series->ops, series->args.ops, SHRINK_SECONDS);
    shrink_print(series->ops, count);
}

/* ---- side by side ---- */

struct together {
    struct sup_args args;
    struct prog_mail *mail;
    pthread_barrier_t barrier;
    unsigned round;
};

struct runner {
    struct together *together;
    unsigned self;
};

/* Of one thread in one round. */
static uint64_t together_ops(const struct sup_args *args) {
    return args->ops * args->programs / ROUNDS / args->threads / 2 + 1;
}

static void *run_together(void *argument) {
    struct runner *runner = argument;
    struct together *all = runner->together;
    struct prog_config config = {.mail = all->mail,
                                 .self = runner->self,
                                 .key = ((uint64_t)(runner->self + 1) << 40) + ((uint64_t)all->round << 32)};
    struct sup_rng rng = {sup_mix(all->args.seed ^ config.key)};
    struct prog *program = prog_new(&config);
    uint64_t count = together_ops(&all->args);
    for (uint64_t i = 0; i < count; i++) {
        struct prog_op op;
        prog_generate(&rng, &op);
        SUP_CHECK(prog_step(program, &op), "thread %u, round %u, operation %" PRIu64 ": %s", runner->self, all->round,
                  i, prog_why(program));
    }
    (void)pthread_barrier_wait(&all->barrier);
    SUP_CHECK(prog_give_back(program), "thread %u, round %u: %s", runner->self, all->round, prog_why(program));
    (void)pthread_barrier_wait(&all->barrier);
    SUP_CHECK(prog_finish(program), "thread %u, round %u: %s", runner->self, all->round, prog_why(program));
    (void)pthread_barrier_wait(&all->barrier);
    prog_delete(program);
    return NULL;
}

static void run_rounds(void *argument) {
    struct together all = {.args = *(const struct sup_args *)argument};
    prog_quiet();
    unsigned threads = (unsigned)all.args.threads;
    struct runner *runners = calloc(threads, sizeof *runners);
    pthread_t *ids = calloc(threads, sizeof *ids);
    SUP_CHECK(runners != NULL && ids != NULL, "out of memory");
    SUP_CHECK(pthread_barrier_init(&all.barrier, NULL, threads) == 0, "pthread_barrier_init");
    all.mail = prog_mail_new(threads);
    for (all.round = 0; all.round < ROUNDS; all.round++) {
        prog_large_are_far(all.round % 2 != 0);
        for (unsigned i = 0; i < threads; i++) {
            runners[i] = (struct runner){&all, i};
            SUP_CHECK(pthread_create(&ids[i], NULL, run_together, &runners[i]) == 0, "pthread_create");
        }
        for (unsigned i = 0; i < threads; i++) {
            (void)pthread_join(ids[i], NULL);
        }
        sup_check_identities(slab_allocator_default());
        SUP_CHECK(sup_live_objects(slab_allocator_default()) == 0, "%" PRIu64 " objects live after round %u",
                  sup_live_objects(slab_allocator_default()), all.round);
    }
    prog_mail_delete(all.mail);
    (void)pthread_barrier_destroy(&all.barrier);
    free(runners);
    free(ids);
}

int main(int argc, char **argv) {
    struct series series = {.args = {.seed = 1, .programs = SUP_SCALED(600), .ops = 2000, .threads = 8}};
    sup_args_parse(argc, argv, &series.args);
    if (series.args.ops == 0 || series.args.threads == 0 || series.args.threads > 256) {
        (void)fprintf(stderr, "--ops must be at least 1, --threads 1 to 256\n");
        return 2;
    }
    series.shared = mmap(NULL, sizeof *series.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    series.ops = calloc(series.args.ops, sizeof *series.ops);
    SUP_CHECK(series.shared != MAP_FAILED && series.ops != NULL, "out of memory");
    prog_measure_seldom();
    double start = sup_now_s();
    static const char *const options[] = {NULL, "TSLAB_STRICT", "TSLAB_HINTS"};
    int status = 0;
    for (unsigned i = 0; i < sizeof options / sizeof options[0]; i++) {
        series.option = options[i];
        status = sup_child(series.option ? run_with_option : run_series, &series, PROGRAM_SECONDS, NULL, 0);
        if (status != 0) {
            report(&series, status);
            return 1;
        }
    }
    double between = sup_now_s();
    status = sup_child(run_rounds, &series.args, 0, NULL, 0);
    if (status != 0) {
        (void)fprintf(stderr, "FAIL model_test --seed %" PRIu64 " --threads %" PRIu64 ": side by side, status %d\n",
                      series.args.seed, series.args.threads, status);
        return 1;
    }
    uint64_t alone = (series.args.programs + 2 * (series.args.programs / OF_OPTIONS + 1)) * series.args.ops;
    uint64_t together = together_ops(&series.args) * ROUNDS * series.args.threads;
    (void)printf("model_test: seed %" PRIu64 ", %" PRIu64 " programs one by one in %.1f s, then %" PRIu64
                 " threads side by side in %.1f s: good\n",
                 series.args.seed, series.args.programs, between - start, series.args.threads, sup_now_s() - between);
    (void)printf("operations: %" PRIu64 "\n", alone + together);
    free(series.ops);
    return 0;
}
