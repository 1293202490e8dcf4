/*
 * The program that the tests of the server talk to. Obeys lines and answers each with one:
 *     start ADDRESS|-   slab_http_start: "ok PORT", or the name of the error ("-": NULL)
 *     start with NAMES  slab_http_start_ex on 127.0.0.1:0 with these hosts (with commas between them): the same
 *     start here        slab_http_start_ex on 127.0.0.1:0, not in children: the same
 *     start refused     slab_http_start_ex with invalid arguments: "ok", or the accepted one
 *     stop              slab_http_stop: "true" or "false"
 *     fill N            N labelled epochs with three objects each: "ok"
 *     domains           a domain with a limit, five children of it, and children of these, each with an object: "ok"
 *     port              slab_http_port
 *     fork              a child that lives for ten seconds and holds nothing: its process id
 *     daemon            daemon(), whose parent ends: "ok" from the child, which goes on with the lines
 *     daemon twice      the same by two forks, whose first two processes end
 *     fork twice        a grandchild that lives for ten seconds; its parent ends, and this process lives: its id
 *     fork serve        a child that starts a server of its own: its port, its process id; it lives for ten seconds
 *     fork reused       the socket's number is a file of the program's, here and in a child, over a stop: "yes" or "no"
 *     fork last         a child whose only thread ends by pthread_exit: its status, when it has ended
 *     last              the only thread ends by pthread_exit: "over" from a handler of exit
 *     metrics add       adds metrics of all kinds: "ok"
 *     metrics remove    takes them out again: "ok"
 *     metrics refused   adds invalid metrics: "ok", or the accepted one
 *     metrics churn     two threads add and remove for half a second: "ok"
 */
#include <tslab/http.h>

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static SlabAllocator *allocator;

static const char *name_of(int error) {
    return error == EALREADY     ? "EALREADY"
           : error == EINVAL     ? "EINVAL"
           : error == EADDRINUSE ? "EADDRINUSE"
                                 : strerror(error);
}

static void start(const char *address) {
    if (slab_http_start(allocator, strcmp(address, "-") == 0 ? NULL : address))
        printf("ok %d\n", slab_http_port());
    else
        puts(name_of(errno));
}

static void start_with(const char *names, unsigned flags) {
    const char *hosts[64];
    char text[1024], *rest = text, *name;
    size_t n = 0;
    snprintf(text, sizeof text, "%s", names);
    while ((name = strtok_r(rest, ",", &rest)) != NULL && n < 63) hosts[n++] = name;
    hosts[n] = NULL;
    const SlabHttpOptions options = {.size = sizeof options, .address = "127.0.0.1:0", .hosts = hosts, .flags = flags};
    if (slab_http_start_ex(&options))
        printf("ok %d\n", slab_http_port());
    else
        puts(name_of(errno));
}

static void start_refused(void) {
    static const char *const too_many[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l",
                                           "m", "n", "o", "p", "q", "r", "s", "t", "u", "v", "w", "x",
                                           "y", "z", "1", "2", "3", "4", "5", "6", "7", "8", NULL};
    static const char *const empty[] = {"good", "", NULL};
    char long_name[300];
    memset(long_name, 'a', sizeof long_name);
    long_name[sizeof long_name - 1] = 0;
    const char *const too_long[] = {long_name, NULL};
    struct {
        SlabHttpOptions options;
        char more;
    } larger = {{.size = sizeof larger, .address = "127.0.0.1:0"}, 1};
    const SlabHttpOptions all[] = {
        {.size = 0, .address = "127.0.0.1:0"},
        {.size = sizeof(SlabHttpOptions) - 8, .address = "127.0.0.1:0"},
        {.size = sizeof(SlabHttpOptions), .address = "127.0.0.1:0", .flags = 2},
        {.size = sizeof(SlabHttpOptions), .address = "127.0.0.1:0", .hosts = too_many},
        {.size = sizeof(SlabHttpOptions), .address = "127.0.0.1:0", .hosts = too_long},
        {.size = sizeof(SlabHttpOptions), .address = "127.0.0.1:0", .hosts = empty},
        {.size = sizeof(SlabHttpOptions), .address = "nonsense"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (slab_http_start_ex(&all[i]) || errno != EINVAL || slab_http_port() != 0) printf("%zu, ", i);
    if (slab_http_start_ex(NULL) || errno != EINVAL) printf("NULL, ");
    if (slab_http_start_ex(&larger.options) || errno != EINVAL) printf("what is not known, ");
    puts("ok");
}

static void fill(unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        char label[32];
        snprintf(label, sizeof label, "phase \"%u\" <b>", i % 12);
        EpochId epoch = epoch_open(allocator, label, i % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        for (unsigned k = 0; k < 3; k++)
            if (!slab_malloc_epoch(allocator, 64 + 100 * k, epoch)) exit(1);
        if (i % 4 == 3) (void)epoch_close(allocator, epoch);
    }
    puts("ok");
}

/* A second allocator, which holds more than the first one. */
static void make_second(void) {
    SlabAllocator *more = slab_allocator_create();
    EpochId epoch = more ? epoch_open(more, "second", EPOCH_CHURN) : EPOCH_NONE;
    for (unsigned k = 0; k < 5000; k++)
        if (!slab_malloc_epoch(more, 2000, epoch)) exit(1);
    puts("ok");
}

static void make_domains(void) {
    EpochDomain *server = epoch_domain_create_ex(allocator, "server", 0);
    bool good = server && epoch_domain_set_limit(server, 1000000);
    for (unsigned i = 0; good && i < 5; i++) {
        EpochDomain *request = epoch_domain_create_child(server, "request", 0);
        EpochDomain *query = request ? epoch_domain_create_child(request, "query", 0) : NULL;
        good = query && epoch_domain_alloc(request, 100) && epoch_domain_alloc(query, 100);
    }
    puts(good ? "ok" : strerror(errno));
}

static void wake(int number) { (void)number; }
/* ---- metrics of the program -------------------------------------------------------------------------------------- */

static double value_of(void *arg) { return *(const double *)arg; }

#define LABELS(...) \
    (const char *const[]) { __VA_ARGS__, NULL }
#define METRIC(n, h, k, l, r, a) \
    { sizeof(SlabHttpMetric), n, h, k, l, r, a }

/* The answers of add and remove to a `read`: the sum of results other than EDEADLK. */
static double called_back(void *unused) {
    const SlabHttpMetric m = METRIC("x", "X.", SLAB_HTTP_GAUGE, NULL, value_of, unused);
    double wrong = 0;
    if (slab_http_metric_add(&m) || errno != EDEADLK) wrong += 1;
    if (slab_http_metric_remove(&m) || errno != EDEADLK) wrong += 2;
    return wrong;
}

static void add_or_remove(bool add) {
    static double values[] = {0, 12345678901234567.0, 0.125, -3, NAN, INFINITY, -INFINITY, 1e300, -1, 7, 6.5};
    const SlabHttpMetric all[] = {
        METRIC("jobs_total", "Jobs.", SLAB_HTTP_COUNTER, LABELS("queue", "a", "kind", "x"), value_of, &values[0]),
        METRIC("plain", "A plain one.", SLAB_HTTP_GAUGE, NULL, value_of, &values[2]),
        /* Of a metric that is not the last. */
        METRIC("jobs_total", "Jobs.", SLAB_HTTP_COUNTER, LABELS("kind", "\"q\"\\\n\x01\xc3\xa4", "queue", "b"),
               value_of, &values[9]),
        METRIC("jobs_total", "Jobs.", SLAB_HTTP_COUNTER, LABELS("queue", "below"), value_of, &values[8]),
        METRIC("jobs_total", "Jobs.", SLAB_HTTP_COUNTER, LABELS("queue", "nan"), value_of, &values[4]),
        METRIC("odd", "Says \"odd\",\\ in\ntwo lines.", SLAB_HTTP_GAUGE, LABELS("v", "nan"), value_of, &values[4]),
        METRIC("odd", "Says \"odd\",\\ in\ntwo lines.", SLAB_HTTP_GAUGE, LABELS("v", "inf"), value_of, &values[5]),
        METRIC("odd", "Says \"odd\",\\ in\ntwo lines.", SLAB_HTTP_GAUGE, LABELS("v", "-inf"), value_of, &values[6]),
        METRIC("odd", "Says \"odd\",\\ in\ntwo lines.", SLAB_HTTP_GAUGE, LABELS("v", "large"), value_of, &values[7]),
        METRIC("odd", "Says \"odd\",\\ in\ntwo lines.", SLAB_HTTP_GAUGE, LABELS("v", "long"), value_of, &values[1]),
        METRIC("odd", "Says \"odd\",\\ in\ntwo lines.", SLAB_HTTP_GAUGE, LABELS("v", "minus"), value_of, &values[3]),
        METRIC("odd", "Says \"odd\",\\ in\ntwo lines.", SLAB_HTTP_GAUGE, LABELS("v", "half"), value_of, &values[10]),
        METRIC("called_back", "0.", SLAB_HTTP_GAUGE, NULL, called_back, NULL),
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (add ? slab_http_metric_add(&all[i]) : slab_http_metric_remove(&all[i])) continue;
        printf("%zu: %s\n", i, strerror(errno));
        return;
    }
    puts("ok");
}

static void refused(void) {
    static double zero;
    const struct {
        SlabHttpMetric metric;
        int error;
    } all[] = {
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, NULL, value_of, &zero), 0},
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, NULL, value_of, NULL), EEXIST},
        {METRIC("good", "Other.", SLAB_HTTP_GAUGE, LABELS("a", "b"), value_of, &zero), EINVAL},
        {METRIC("good_total", "G.", SLAB_HTTP_COUNTER, LABELS("a", "b"), value_of, &zero), EINVAL},
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("a", "1", "b", "2"), value_of, &zero), 0},
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("b", "2", "a", "1"), value_of, &zero), EEXIST},
        /* A label without a value is as none; a counter's family has three names. */
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("c", ""), value_of, &zero), EEXIST},
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("c", "", "b", "2", "a", "1"), value_of, &zero), EEXIST},
        {METRIC("good_created", "G.", SLAB_HTTP_GAUGE, NULL, value_of, &zero), 0},
        {METRIC("c_total", "C.", SLAB_HTTP_COUNTER, NULL, value_of, &zero), 0},
        {METRIC("c", "C.", SLAB_HTTP_GAUGE, NULL, value_of, &zero), EINVAL},
        {METRIC("c_created", "C.", SLAB_HTTP_GAUGE, NULL, value_of, &zero), EINVAL},
        {METRIC("c_total_total", "C.", SLAB_HTTP_COUNTER, NULL, value_of, &zero), EINVAL},
        {METRIC("d_created", "D.", SLAB_HTTP_GAUGE, NULL, value_of, &zero), 0},
        {METRIC("d_total", "D.", SLAB_HTTP_COUNTER, NULL, value_of, &zero), EINVAL},
        {METRIC("e_total_total", "E.", SLAB_HTTP_COUNTER, NULL, value_of, &zero), 0},
        {METRIC("e_total", "E.", SLAB_HTTP_COUNTER, NULL, value_of, &zero), EINVAL},
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("b", "2", "b", "1"), value_of, &zero), EINVAL},
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("", "2"), value_of, &zero), EINVAL},
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("1a", "2"), value_of, &zero), EINVAL},
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("a-b", "2"), value_of, &zero), EINVAL},
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("__name__", "2"), value_of, &zero), EINVAL},
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("a"), value_of, &zero), EINVAL}, /* no value */
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("a", "\xff"), value_of, &zero), EINVAL},
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("a", "\xc3"), value_of, &zero), EINVAL},
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("a", "\xc0\x80"), value_of, &zero), EINVAL},     /* too long */
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("a", "\xed\xa0\x80"), value_of, &zero), EINVAL}, /* a surrogate */
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("a", "\xf4\x90\x80\x80"), value_of, &zero), EINVAL},
        {METRIC("good", "G.", SLAB_HTTP_GAUGE, LABELS("a", "\xf0\x9f\x92\xbe"), value_of, &zero), 0},
        {METRIC("other", "G.", SLAB_HTTP_GAUGE,
                LABELS("a", "", "b", "", "c", "", "d", "", "e", "", "f", "", "g", "", "h", "", "i", "", "j", "", "k",
                       "", "l", "", "m", "", "n", "", "o", "", "p", ""),
                value_of, &zero),
         0},
        {METRIC("other", "G.", SLAB_HTTP_GAUGE,
                LABELS("a", "", "b", "", "c", "", "d", "", "e", "", "f", "", "g", "", "h", "", "i", "", "j", "", "k",
                       "", "l", "", "m", "", "n", "", "o", "", "p", "", "q", ""),
                value_of, &zero),
         EINVAL},
        {METRIC("", "G.", SLAB_HTTP_GAUGE, NULL, value_of, &zero), EINVAL},
        {METRIC(NULL, "G.", SLAB_HTTP_GAUGE, NULL, value_of, &zero), EINVAL},
        {METRIC("9x", "G.", SLAB_HTTP_GAUGE, NULL, value_of, &zero), EINVAL},
        {METRIC("a:b", "G.", SLAB_HTTP_GAUGE, NULL, value_of, &zero), EINVAL}, /* as recording rules are named */
        {METRIC("a b", "G.", SLAB_HTTP_GAUGE, NULL, value_of, &zero), EINVAL},
        {METRIC("temporal_slab_x", "G.", SLAB_HTTP_GAUGE, NULL, value_of, &zero), EINVAL},
        {METRIC("x_total", "G.", SLAB_HTTP_GAUGE, NULL, value_of, &zero), EINVAL},
        {METRIC("x", "G.", SLAB_HTTP_COUNTER, NULL, value_of, &zero), EINVAL},
        {METRIC("_total", "G.", SLAB_HTTP_COUNTER, NULL, value_of, &zero), EINVAL},
        {METRIC("x", "G.", 7, NULL, value_of, &zero), EINVAL},
        {METRIC("x", NULL, SLAB_HTTP_GAUGE, NULL, value_of, &zero), EINVAL},
        {METRIC("x", "", SLAB_HTTP_GAUGE, NULL, value_of, &zero), EINVAL},
        {METRIC("x", "\x80", SLAB_HTTP_GAUGE, NULL, value_of, &zero), EINVAL},
        {METRIC("x", "X.", SLAB_HTTP_GAUGE, NULL, NULL, &zero), EINVAL},
        {{0, "x", "X.", SLAB_HTTP_GAUGE, NULL, value_of, &zero}, EINVAL},
    };
    size_t good = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        errno = 0;
        bool added = slab_http_metric_add(&all[i].metric);
        good += added;
        if (added != (all[i].error == 0) || (!added && errno != all[i].error)) printf("%zu: %s, ", i, strerror(errno));
    }
    if (slab_http_metric_add(NULL) || errno != EINVAL) printf("NULL, ");
    SlabHttpMetric many = METRIC("many", "Many.", SLAB_HTTP_GAUGE, NULL, value_of, &zero);
    size_t n = 0;
    for (char text[24]; n < 2000; n++) {
        snprintf(text, sizeof text, "%zu", n);
        many.labels = LABELS("n", text);
        if (!slab_http_metric_add(&many)) break;
    }
    if (n + good != 1000 || errno != ENOSPC) printf("%zu samples, %s, ", n + good, strerror(errno));
    for (char text[24]; n-- > 0;) {
        snprintf(text, sizeof text, "%zu", n);
        many.labels = LABELS("n", text);
        if (!slab_http_metric_remove(&many)) printf("not removed: %zu, ", n);
    }
    many.labels = LABELS("n", "0");
    if (slab_http_metric_remove(&many) || errno != ENOENT) printf("removed twice, ");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].error == 0 && !slab_http_metric_remove(&all[i].metric)) printf("not removed: %zu, ", i);
    puts("ok");
}

/* Reads memory that is gone after the removal. */
static double value_of_heap(void *arg) { return **(double *const *)arg; }

static void *churn_one(void *seed) {
    double *value = NULL, *at;
    const char *text = seed;
    const struct timespec brief = {0, 1000};
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do {
        at = value = malloc(sizeof *value);
        if (!value) return NULL;
        *value = 1;
        double **box = &at;
        SlabHttpMetric m = METRIC("churn", "Comes and goes.", SLAB_HTTP_GAUGE, LABELS("who", text), value_of_heap, box);
        if (!slab_http_metric_add(&m)) return NULL;
        (void)nanosleep(&brief, NULL);
        if (!slab_http_metric_remove(&m)) return NULL;
        *value = 2;
        at = NULL; /* a read would crash */
        free(value);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < 500);
    return seed;
}

static void churn(void) {
    static char names[][2] = {"a", "b"};
    pthread_t threads[2];
    bool good = true;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, churn_one, names[i]) != 0) exit(1);
    for (int i = 0; i < 2; i++) {
        void *end;
        (void)pthread_join(threads[i], &end);
        good = good && end == (void *)names[i];
    }
    puts(good ? "ok" : "failed");
}

/* ---- children ---------------------------------------------------------------------------------------------------- */

static void fork_server(void) {
    int pipes[2], port = 0;
    if (pipe(pipes) != 0) exit(1);
    pid_t child = fork();
    if (child == 0) {
        if (slab_http_start(NULL, "127.0.0.1:0")) port = slab_http_port();
        if (write(pipes[1], &port, sizeof port) != sizeof port) _exit(1);
        sleep(10);
        _exit(0);
    }
    if (read(pipes[0], &port, sizeof port) != sizeof port) exit(1);
    printf("%d %ld\n", port, (long)child);
}

static void say_over(void) { puts("over"); }

static void end_last_thread(void) {
    (void)atexit(say_over);
    pthread_exit(NULL);
}

static void fork_last(void) {
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        (void)fclose(stdout);
        pthread_exit(NULL);
    }
    (void)waitpid(child, &status, 0);
    printf("%d\n", status);
}

static void twice(bool parent_ends) {
    int pipes[2];
    pid_t grandchild = 0;
    if (pipe(pipes) != 0) exit(1);
    pid_t child = fork();
    if (child == 0) {
        pid_t other = fork();
        if (other != 0) _exit(write(pipes[1], &other, sizeof other) != sizeof other);
        if (parent_ends) return;
        sleep(10);
        _exit(0);
    }
    if (parent_ends) _exit(0);
    if (read(pipes[0], &grandchild, sizeof grandchild) != sizeof grandchild) exit(1);
    (void)waitpid(child, NULL, 0);
    printf("%ld\n", (long)grandchild);
}

/* The number of the socket that listens. */
static int listener(void) {
    for (int fd = 3; fd < 1024; fd++) {
        int listens = 0;
        socklen_t bytes = sizeof listens;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && listens) return fd;
    }
    return -1;
}

static bool is_still(int fd, const struct stat *file) {
    struct stat now;
    return fstat(fd, &now) == 0 && now.st_dev == file->st_dev && now.st_ino == file->st_ino;
}

static bool stays_reused(void) {
    struct stat file;
    FILE *own = tmpfile();
    int fd = listener(), status = 1;
    if (!own || fd < 0 || dup2(fileno(own), fd) != fd || fstat(fd, &file) != 0) return false;
    pid_t child = fork();
    if (child == 0) _exit(is_still(fd, &file) ? 0 : 1);
    return waitpid(child, &status, 0) == child && status == 0 && slab_http_stop() && is_still(fd, &file);
}

int main(void) {
    char line[1024];
    (void)setlocale(LC_ALL, ""); /* the user's locale; the formats do not change with it */
    allocator = slab_allocator_default();
    if (!allocator) return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "start ", 6) == 0) {
            if (strcmp(line, "start refused") == 0)
                start_refused();
            else if (strcmp(line, "start here") == 0)
                start_with("", SLAB_HTTP_NOT_IN_CHILDREN);
            else if (strncmp(line, "start with ", 11) == 0)
                start_with(line + 11, 0);
            else
                start(line + 6);
        } else if (strcmp(line, "daemon") == 0) {
            if (daemon(1, 1) != 0) return 1;
            puts("ok");
        } else if (strcmp(line, "daemon twice") == 0) {
            twice(true);
            puts("ok");
        } else if (strcmp(line, "fork last") == 0) {
            fork_last();
        } else if (strcmp(line, "last") == 0) {
            end_last_thread();
        } else if (strcmp(line, "fork twice") == 0) {
            twice(false);
        } else if (strcmp(line, "stop") == 0) {
            puts(slab_http_stop() ? "true" : "false");
        } else if (strncmp(line, "fill ", 5) == 0) {
            fill((unsigned)atoi(line + 5));
        } else if (strcmp(line, "second") == 0) {
            make_second();
        } else if (strcmp(line, "domains") == 0) {
            make_domains();
        } else if (strcmp(line, "port") == 0) {
            printf("%d\n", slab_http_port());
        } else if (strcmp(line, "metrics add") == 0 || strcmp(line, "metrics remove") == 0) {
            add_or_remove(strcmp(line, "metrics add") == 0);
        } else if (strcmp(line, "metrics refused") == 0) {
            refused();
        } else if (strcmp(line, "metrics churn") == 0) {
            churn();
        } else if (strcmp(line, "fork serve") == 0) {
            fork_server();
        } else if (strcmp(line, "fork reused") == 0) {
            puts(stays_reused() ? "yes" : "no");
        } else if (strcmp(line, "fork") == 0) {
            pid_t child = fork();
            if (child == 0) {
                signal(SIGTERM, wake);
                sleep(10);
                exit(0);
            }
            printf("%ld\n", (long)child);
        } else {
            puts("?");
        }
        fflush(stdout);
    }
    return 0;
}
