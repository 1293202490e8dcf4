/*
 * The server: libmicrohttpd with one thread that polls, so that slow clients wait for nobody and nobody for them. Each
 * request renders from a snapshot of its own; nothing is kept between requests.
 *
 * `mutex` guards `server`; a start and a stop that meet it taken answer false instead of waiting.
 */
#include <tslab/http.h>

#include "http/assets.h"
#include "http/metrics.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_ADDRESS "127.0.0.1:9464"
#define CONNECTIONS 64u
#define IDLE_SECONDS 5u /* a client that sends or takes nothing for so long is cut off */
#define REQUEST_MEMORY 16384u
#define ALLOCATORS 256u
#define LIMIT_DEFAULT 100u
#define LIMIT_MAX 10000u

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct MHD_Daemon *server;
static SlabAllocator *served; /* NULL: the one that holds most; constant while the server runs */
static atomic_uint under_way; /* requests that are being answered */
static atomic_int
    listens_on; /* the server's port, 0: none runs. Written under the mutex; slab_http_port takes none, so that
                           nobody is refused because of it */

/* ---- what is served --------------------------------------------------------------------------------------------- */

static SlabAllocator *choose(void) {
    if (served) return served;
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

typedef size_t renderer(SlabAllocator *, char *, size_t);

typedef struct job {
    renderer *render; /* NULL: epochs */
    bool without;     /* it has something to show when there is no allocator, too */
    SlabEpochOrder order;
    size_t limit;
} job;

static size_t run(const job *j, SlabAllocator *a, char *buffer, size_t capacity) {
    return j->render ? j->render(a, buffer, capacity) : slab_stats_epochs_json(a, j->order, j->limit, buffer, capacity);
}

/* The whole text, of malloc; NULL: no memory, or nothing to show. */
static char *render(const job *j, size_t *length) {
    size_t capacity = 65536;
    SlabAllocator *a = choose();
    for (unsigned tries = 0; (a || j->without) && tries < 8; tries++) {
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

/* ---- answers -------------------------------------------------------------------------------------------------------- */

typedef struct MHD_Connection connection;

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
    if (strncmp(type, "text/html", 9) == 0)
        (void)MHD_add_response_header(r, "Content-Security-Policy",
                                      "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
                                      "connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'");
    enum MHD_Result result = MHD_queue_response(c, status, r);
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result say(connection *c, unsigned status, const char *text) {
    return answer(c, status, "text/plain; charset=utf-8", (void *)(uintptr_t)text, strlen(text), MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result answer_job(connection *c, const job *j, const char *type) {
    size_t length;
    char *text = render(j, &length);
    if (!text) return say(c, MHD_HTTP_SERVICE_UNAVAILABLE, "no allocator to show, or no memory\n");
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
        return answer_job(c, &(job){openmetrics_text, true, 0, 0},
                          "application/openmetrics-text; version=1.0.0; charset=utf-8");
    return answer_job(c, &(job){prometheus_text, true, 0, 0}, "text/plain; version=0.0.4; charset=utf-8");
}

static enum MHD_Result epochs(connection *c) {
    job j = {NULL, false, SLAB_EPOCHS_LARGEST, LIMIT_DEFAULT};
    const char *sort = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "sort");
    const char *limit = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "limit");
    if (sort && strcmp(sort, "age") == 0)
        j.order = SLAB_EPOCHS_OLDEST;
    else if (sort && strcmp(sort, "bytes") != 0)
        return say(c, MHD_HTTP_BAD_REQUEST, "sort: not one of bytes, age\n");
    if (limit) {
        if (!*limit || strspn(limit, "0123456789") != strlen(limit) || strlen(limit) > 5)
            return say(c, MHD_HTTP_BAD_REQUEST, "limit: not a number from 0 to 10000\n");
        j.limit = strtoul(limit, NULL, 10);
        if (j.limit > LIMIT_MAX) return say(c, MHD_HTTP_BAD_REQUEST, "limit: not a number from 0 to 10000\n");
    }
    return answer_job(c, &j, "application/json");
}

static enum MHD_Result healthz(connection *c) { return say(c, MHD_HTTP_OK, "ok\n"); }

/* Beside the files of the dashboard: "/" and what it loads. */
static const struct {
    const char *path;
    enum MHD_Result (*reply)(connection *); /* NULL: what render gives */
    renderer *render;
    const char *type;
} PATHS[] = {
    {"/metrics", metrics, NULL, NULL},
    {"/stats.json", NULL, slab_stats_json, "application/json"},
    {"/stats.txt", NULL, slab_stats_text, "text/plain; charset=utf-8"},
    {"/epochs.json", epochs, NULL, NULL},
    {"/doctor.txt", NULL, slab_stats_doctor, "text/plain; charset=utf-8"},
    {"/stacks.json", NULL, slab_stacks_json, "application/json"},
    {"/stacks.txt", NULL, slab_stacks_text, "text/plain; charset=utf-8"},
    {"/view", NULL, slab_stats_view, "application/octet-stream"},
    {"/healthz", healthz, NULL, NULL},
};
enum { PATHS_COUNT = sizeof PATHS / sizeof *PATHS };

static enum MHD_Result not_found(connection *c) {
    char text[64 + PATHS_COUNT * 16];
    size_t used = (size_t)snprintf(text, sizeof text, "not found; there are /");
    for (size_t i = 0; i < PATHS_COUNT && used < sizeof text; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, ", %s%s", PATHS[i].path, i + 1 < PATHS_COUNT ? "" : "\n");
    return say(c, MHD_HTTP_NOT_FOUND, text);
}

static enum MHD_Result route(connection *c, const char *path, const char *method) {
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return say(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    for (size_t i = 0; i < PATHS_COUNT; i++) {
        if (strcmp(path, PATHS[i].path) != 0) continue;
        if (PATHS[i].reply) return PATHS[i].reply(c);
        return answer_job(c, &(job){PATHS[i].render, false, 0, 0}, PATHS[i].type);
    }
    for (const http_asset *a = http_assets; a->path; a++)
        if (strcmp(path, a->path) == 0)
            return answer(c, MHD_HTTP_OK, a->type, (void *)(uintptr_t)a->bytes, a->length, MHD_RESPMEM_PERSISTENT);
    return not_found(c);
}

/* The first call of a request has its head, the next ones what it uploads, which is dropped, and the last one is answered. */
static enum MHD_Result on_request(void *unused, connection *c, const char *path, const char *method,
                                  const char *version, const char *upload, size_t *upload_bytes, void **seen) {
    static int marker;
    (void)unused, (void)version, (void)upload;
    if (!*seen) {
        *seen = &marker;
        atomic_fetch_add(&under_way, 1);
        return MHD_YES;
    }
    if (*upload_bytes) {
        *upload_bytes = 0;
        return MHD_YES;
    }
    return route(c, path, method);
}

static void on_completed(void *unused, connection *c, void **seen, enum MHD_RequestTerminationCode code) {
    (void)unused, (void)c, (void)code;
    if (*seen) atomic_fetch_sub(&under_way, 1);
    *seen = NULL;
}

/* Of paths and arguments, which end at their first zero byte: one that stands for such a byte remains escaped as it is,
   so that it is no other. */
static size_t unescape(void *unused, connection *c, char *text) {
    (void)unused, (void)c;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

/* What libmicrohttpd has to say of bad clients is nobody's business. */
static void say_nothing(void *unused, const char *format, va_list args) { (void)unused, (void)format, (void)args; }

/* ---- start and stop ------------------------------------------------------------------------------------------------- */

/* "HOST:PORT" and its kin into a list of addresses; NULL with errno. The caller frees it. */
static struct addrinfo *resolve(const char *address) {
    char host[256] = "127.0.0.1";
    const char *colon = strrchr(address, ':'), *port = colon ? colon + 1 : address;
    size_t n = colon ? (size_t)(colon - address) : 0;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list = NULL;
    errno = EINVAL;
    if (!*port || strspn(port, "0123456789") != strlen(port) || strlen(port) > 5 || atoi(port) > 65535) return NULL;
    if (n >= sizeof host) return NULL;
    if (n > 0) {
        bool v6 = address[0] == '[';
        if (v6 && (n < 3 || address[n - 1] != ']')) return NULL;
        if (!v6 && memchr(address, ':', n)) return NULL;
        memcpy(host, address + v6, n - 2 * v6);
        host[n - 2 * v6] = 0;
    }
    if (getaddrinfo(host, port, &hints, &list) != 0) {
        errno = EINVAL;
        return NULL;
    }
    return list;
}

/* A socket that listens; -1 with errno. Made here, so that it is clear why it cannot be. */
static int listen_at(const struct addrinfo *list) {
    int error = EINVAL;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        const int on = 1;
        int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        if (fd < 0) {
            error = errno;
            continue;
        }
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 128) == 0) return fd;
        error = errno;
        (void)close(fd);
    }
    errno = error;
    return -1;
}

/* The server's thread is not here: its socket is closed, so that the port is the parent's alone, and the rest is left. */
static void in_child(void) {
    if (server) {
        const union MHD_DaemonInfo *info = MHD_get_daemon_info(server, MHD_DAEMON_INFO_LISTEN_FD);
        if (info) (void)close(info->listen_fd);
    }
    server = NULL;
    served = NULL;
    atomic_store(&listens_on, 0);
    atomic_store(&under_way, 0);
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    http_metrics_in_child();
}

static bool start_locked(SlabAllocator *allocator, const char *address) {
    SlabClassStats stats;
    if (server) {
        errno = EALREADY;
        return false;
    }
    if (allocator && !slab_stats_class(allocator, 0, &stats)) {
        errno = EINVAL;
        return false;
    }
    struct addrinfo *list = resolve(address ? address : DEFAULT_ADDRESS);
    int fd = list ? listen_at(list) : -1;
    int error = errno;
    if (list) freeaddrinfo(list);
    errno = error;
    if (fd < 0) return false;
    struct stat own;
    bool known = fstat(fd, &own) == 0;
    served = allocator;
    sigset_t all, before;
    sigfillset(&all); /* the program's signals are for the program's threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    server = MHD_start_daemon(MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ERROR_LOG | MHD_USE_ITC, 0, NULL,
                              NULL, on_request, NULL, MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL,
                              MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS,
                              MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                              (size_t)REQUEST_MEMORY, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
                              MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_END);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (server) return true;
    /* Some of its failures close the socket and some do not; the number may be another thread's file by now. */
    struct stat now;
    if (known && fstat(fd, &now) == 0 && now.st_dev == own.st_dev && now.st_ino == own.st_ino) (void)close(fd);
    errno = EAGAIN;
    return false;
}

static int port_of_server(void) {
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server, MHD_DAEMON_INFO_LISTEN_FD);
    if (!info || getsockname(info->listen_fd, (struct sockaddr *)&at, &bytes) != 0) return 0;
    return ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                          : ((struct sockaddr_in *)&at)->sin_port);
}

bool slab_http_start(SlabAllocator *allocator, const char *address) {
    if (pthread_mutex_trylock(&mutex) != 0) {
        errno = EALREADY;
        return false;
    }
    bool started = start_locked(allocator, address);
    int error = errno;
    if (started) atomic_store(&listens_on, port_of_server());
    (void)pthread_mutex_unlock(&mutex);
    errno = error;
    return started;
}

bool slab_http_stop(void) {
    if (pthread_mutex_trylock(&mutex) != 0) return false;
    bool runs = server != NULL;
    if (runs) {
        atomic_store(&listens_on, 0);
        int fd = MHD_quiesce_daemon(server); /* no new connections; those that there are go on */
        for (unsigned i = 0; i < 100 && atomic_load(&under_way) > 0; i++)
            (void)nanosleep(&(struct timespec){0, 10000000}, NULL);
        MHD_stop_daemon(server);
        if (fd >= 0) (void)close(fd);
        server = NULL;
        served = NULL;
        atomic_store(&under_way, 0);
    }
    (void)pthread_mutex_unlock(&mutex);
    return runs;
}

int slab_http_port(void) { return atomic_load(&listens_on); }

/* ---- without code ------------------------------------------------------------------------------------------------------ */

__attribute__((constructor)) static void begin(void) {
    (void)pthread_atfork(NULL, NULL, in_child);
    /* Who starts a program that has more rights than he has opens no socket in it. */
#if defined(__linux__)
    const char *address = secure_getenv("TSLAB_HTTP");
#else
    const char *address = getenv("TSLAB_HTTP");
#endif
    if (!address || !*address || strcmp(address, "0") == 0) return;
    if (!slab_http_start(NULL, address)) fprintf(stderr, "tslab: TSLAB_HTTP=\"%.64s\": %s\n", address, strerror(errno));
}
