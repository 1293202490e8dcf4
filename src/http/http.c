/*
 * The server: libmicrohttpd with one thread that polls, so that slow clients wait for nobody and nobody for them.
 *
 * `mutex` guards what is not said to be atomic; a start and a stop that meet it taken answer false instead of waiting.
 *
 * A child of fork has the port only after its parent. It closes its copies of the server's sockets, so the port stays
 * the parent's alone while that lives. Then a thread of the child waits for the end of the process that serves: it is
 * the one that a call of daemon() leaves behind. That thread sleeps, and holds no descriptor that a daemon could close.
 */
#include <tslab/http.h>

#include "api/api.h"
#include "http/address.h"
#include "http/answers.h"
#include "http/history.h"
#include "http/hosts.h"
#include "http/metrics.h"
#include "http/places.h"
#include "os/own_file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_ADDRESS "127.0.0.1:9464"
#define BACKLOG 1024
#define IDLE_SECONDS 5u /* a client that sends or takes nothing for so long is cut off */
#define REQUEST_MEMORY 16384u
#define WAITING_STACK_BYTES ((size_t)256 << 10)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct MHD_Daemon *server;
static ts_own_file listener; /* the server's socket */
/* What runs, or what a child waits for. */
static struct {
    SlabAllocator *allocator;
    struct sockaddr_storage at; /* with the port that was free */
    socklen_t at_bytes;
    unsigned flags;
    pid_t owner;  /* the process that serves, or served */
    bool waiting; /* in a child: for the end of `awaited` */
} plan;
/* Written in a child before it has another thread. */
static struct {
    pid_t owner;
    bool is_parent; /* of this process */
    int port;
} awaited;
static atomic_uint
    turn; /* rises with each start and stop; a thread that waits goes if it has. Written under the mutex */
static atomic_int listens_on; /* the server's port, 0: none runs. Written under the mutex; slab_http_port takes none, so
                                 that nobody is refused because of it */

/* ---- requests ---------------------------------------------------------------------------------------------------- */

typedef struct MHD_Connection connection;

static const char FOREIGN_HOST[] =
    "403: this server is on the loopback interface and is not called so; it answers to localhost, 127.0.0.1 and "
    "[::1].\n"
    "Another name is allowed by " HTTP_HOSTS_VARIABLE "=NAME,... in its environment, or SlabHttpOptions.hosts.\n";

/* The first call of a request has its head, the next ones what it uploads, which is dropped, and the last one is
   answered. */
static enum MHD_Result on_request(void *unused, connection *c, const char *path, const char *method,
                                  const char *version, const char *upload, size_t *upload_bytes, void **seen) {
    static int marker;
    (void)unused, (void)version, (void)upload;
    if (!*seen) {
        *seen = &marker;
        http_places_asked(c);
        return MHD_YES;
    }
    if (*upload_bytes) {
        *upload_bytes = 0;
        return MHD_YES;
    }
    if (!http_hosts_allow(MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST)))
        return http_say(c, MHD_HTTP_FORBIDDEN, FOREIGN_HOST);
    return http_answer(c, path, method);
}

static void on_completed(void *unused, connection *c, void **seen, enum MHD_RequestTerminationCode code) {
    (void)unused, (void)code;
    if (*seen) http_places_answered(c);
    *seen = NULL;
}

/* Paths and arguments end at their first zero byte. So an escape that stands for a zero byte remains escaped, and the
   text is no other. */
static size_t unescape(void *unused, connection *c, char *text) {
    (void)unused, (void)c;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

/* What libmicrohttpd has to say of bad clients is nobody's business. */
static void say_nothing(void *unused, const char *format, va_list args) { (void)unused, (void)format, (void)args; }

/* A program may have more rights than the user that starts it. Then the environment opens no socket, and allows no
   name. */
static const char *environment(const char *name) {
#if defined(__linux__)
    return secure_getenv(name);
#else
    return getenv(name);
#endif
}

static int port_of(const struct sockaddr_storage *at) {
    return ntohs(at->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)at)->sin6_port
                                           : ((const struct sockaddr_in *)at)->sin_port);
}

/* ---- start and stop ---------------------------------------------------------------------------------------------- */

/* A socket that listens there; -1 with errno. Made here, so that it is clear why it cannot be. */
static int listen_on(int family, const struct sockaddr *at, socklen_t bytes) {
    const int on = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at, bytes) == 0 && listen(fd, BACKLOG) == 0) return fd;
    int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

static int listen_at(const struct addrinfo *list) {
    errno = EINVAL;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        int fd = listen_on(a->ai_family, a->ai_addr, a->ai_addrlen);
        if (fd >= 0) return fd;
    }
    return -1;
}

/* The server on that socket, which is its own from here on, or closed. */
static bool run_locked(int fd) {
    listener = ts_own_file_of(fd);
    http_answers_show(plan.allocator);
    http_places_reset();
    sigset_t before;
    ts_private_signals_block(&before);
    server = MHD_start_daemon(
        MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ERROR_LOG | MHD_USE_ITC, 0, NULL, NULL, on_request,
        NULL, MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)REQUEST_MEMORY, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_NOTIFY_CONNECTION,
        http_places_change, NULL, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_END);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (server) {
        ts_private_threads_count(1); /* until it ends, the thread of libmicrohttpd is there */
        plan.owner = getpid();
        plan.waiting = false;
        atomic_fetch_add(&turn, 1);
        atomic_store(&listens_on, port_of(&plan.at));
        http_history_start(plan.allocator);
        return true;
    }
    /* Some of its failures close the socket and some do not; the number may be another thread's file by now. */
    ts_own_file_close(&listener);
    errno = EAGAIN;
    return false;
}

/* One line, to where all messages of the library go. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    slab_message(text);
}

/* The names it answers to. The list of the environment is for the user that starts the program: a wrong name there is
   said. A wrong name of the program's own is an error. */
static bool set_hosts(const char *address, const char *const *names) {
    const struct sockaddr *at = (const struct sockaddr *)&plan.at;
    const char *colon = strrchr(address, ':'), *list = environment(HTTP_HOSTS_VARIABLE);
    size_t own = colon && *address != '[' ? (size_t)(colon - address) : 0;
    if (http_hosts_set(at, address, own, names, list)) return true;
    if (!list || !http_hosts_set(at, address, own, names, NULL)) return false;
    say("tslab: " HTTP_HOSTS_VARIABLE "=\"%.64s\": more than 32 names, or one is too long", list);
    return true;
}

static bool start_locked(const SlabHttpOptions *o) {
    SlabClassStats stats;
    const char *address = o->address ? o->address : DEFAULT_ADDRESS;
    if (server) {
        errno = EALREADY;
        return false;
    }
    if ((o->allocator && !slab_stats_class(o->allocator, 0, &stats)) || (o->flags & ~SLAB_HTTP_NOT_IN_CHILDREN)) {
        errno = EINVAL;
        return false;
    }
    struct addrinfo *list = http_address_resolve(address);
    int fd = list ? listen_at(list) : -1;
    int error = errno;
    if (list) freeaddrinfo(list);
    errno = error;
    if (fd < 0) return false;
    plan.allocator = o->allocator;
    plan.flags = o->flags;
    plan.at_bytes = sizeof plan.at;
    if (getsockname(fd, (struct sockaddr *)&plan.at, &plan.at_bytes) == 0 && set_hosts(address, o->hosts))
        return run_locked(fd);
    (void)close(fd);
    errno = EINVAL;
    return false;
}

bool slab_http_start_ex(const SlabHttpOptions *options) {
    SlabHttpOptions o = {.size = sizeof o};
    TS_OWN_MEMORY;
    if (!options || options->size < offsetof(SlabHttpOptions, flags) + sizeof o.flags || options->size > 4096) {
        errno = EINVAL;
        return false;
    }
    /* What a later header has behind this one's must be 0 here. */
    for (size_t i = sizeof o; i < options->size; i++) {
        if (((const unsigned char *)options)[i] == 0) continue;
        errno = EINVAL;
        return false;
    }
    memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    if (pthread_mutex_trylock(&mutex) != 0) {
        errno = EALREADY;
        return false;
    }
    bool started = start_locked(&o);
    int error = errno;
    (void)pthread_mutex_unlock(&mutex);
    errno = error;
    return started;
}

bool slab_http_start(SlabAllocator *allocator, const char *address) {
    const SlabHttpOptions o = {.size = sizeof o, .allocator = allocator, .address = address};
    return slab_http_start_ex(&o);
}

/* libmicrohttpd ends the program when its socket is no socket of its own, and closes the number in any case. So its
   thread stays then, without a port. */
static void end_server(void) {
    if (ts_own_file_is_open(&listener)) {
        (void)MHD_quiesce_daemon(server); /* no new connections; those that there are go on */
        for (unsigned i = 0; i < 100 && http_places_under_way() > 0; i++)
            (void)nanosleep(&(struct timespec){0, 10000000}, NULL);
        ts_private_threads_count(-1);
        MHD_stop_daemon(server);
    }
    ts_own_file_close(&listener);
    server = NULL;
}

bool slab_http_stop(void) {
    TS_OWN_MEMORY;
    if (pthread_mutex_trylock(&mutex) != 0) return false;
    bool runs = server != NULL;
    atomic_fetch_add(&turn, 1); /* a thread that waits for the parent's end waits no more */
    plan.waiting = false;
    if (runs) {
        atomic_store(&listens_on, 0);
        end_server();
        http_history_stop();
        http_places_reset();
    }
    (void)pthread_mutex_unlock(&mutex);
    return runs;
}

int slab_http_port(void) { return atomic_load(&listens_on); }

/* ---- children of fork -------------------------------------------------------------------------------------------- */

/* How long the n-th look lets on itself wait: a daemon's parent ends at once, others with the machine. */
static struct timespec pause_of(unsigned n) {
    return n < 50    ? (struct timespec){0, 20000000}
           : n < 100 ? (struct timespec){0, 200000000}
                     : (struct timespec){2, 0};
}

/* Without a descriptor, which the program could close and have again as another file's. A process that has ended
   keeps its id until its parent has asked how it ended, but it has no program. */
static bool is_owner_alive(void) {
    char path[64], link[8];
    if (awaited.is_parent) return getppid() == awaited.owner;
    if (kill(awaited.owner, 0) != 0 && errno == ESRCH) return false;
    snprintf(path, sizeof path, "/proc/%ld/exe", (long)awaited.owner);
    return readlink(path, link, sizeof link) >= 0 || errno != ENOENT ||
           readlink("/proc/self/exe", link, sizeof link) < 0;
}

/* The port is free when the process is gone, and a little later if that is still going. 0, or an error. */
static int take_over(unsigned mine) {
    int error = EADDRINUSE;
    for (unsigned n = 0; error == EADDRINUSE && n < 50; n++) {
        if (n > 0) (void)nanosleep(&(struct timespec){0, 20000000}, NULL);
        (void)pthread_mutex_lock(&mutex);
        if (atomic_load(&turn) != mine) {
            error = 0;
        } else {
            int fd = listen_on(plan.at.ss_family, (const struct sockaddr *)&plan.at, plan.at_bytes);
            error = fd >= 0 && run_locked(fd) ? 0 : errno;
        }
        (void)pthread_mutex_unlock(&mutex);
    }
    return error;
}

static void wait_and_take_over(unsigned mine) {
    for (unsigned n = 0;; n++) {
        const struct timespec pause = pause_of(n);
        (void)nanosleep(&pause, NULL);
        ts_private_last_thread_look();
        if (atomic_load(&turn) != mine) return;
        if (!is_owner_alive()) break;
    }
    int error = take_over(mine);
    if (error)
        say("tslab: process %ld does not go on with the statistics of process %ld on port %d: %s", (long)getpid(),
            (long)awaited.owner, awaited.port, strerror(error));
}

static void *wait_for_owner(void *argument) {
    ts_private_threads_count(1);
    wait_and_take_over((unsigned)(uintptr_t)argument);
    ts_private_threads_count(-1);
    return NULL;
}

static void start_waiting(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t before;
    int error = pthread_attr_init(&attributes);
    if (!error) {
        (void)pthread_attr_setstacksize(&attributes, WAITING_STACK_BYTES);
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        ts_private_signals_block(&before);
        error = pthread_create(&thread, &attributes, wait_for_owner, (void *)(uintptr_t)atomic_load(&turn));
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void)pthread_attr_destroy(&attributes);
    }
    plan.waiting = error == 0;
    if (error)
        say("tslab: process %ld will not go on with its parent's statistics on port %d: %s", (long)getpid(),
            awaited.port, strerror(error));
}

/* The server's thread is not here: its sockets are closed, so that the port is the parent's alone, and the rest is
   left. */
static void in_child(void) {
    bool heir = server ? !(plan.flags & SLAB_HTTP_NOT_IN_CHILDREN) : plan.waiting;
    if (server) {
        ts_own_file_close(&listener);
        http_places_in_child();
    }
    awaited.owner = plan.owner;
    awaited.is_parent = server != NULL;
    awaited.port = port_of(&plan.at);
    plan.waiting = false;
    server = NULL;
    atomic_fetch_add(&turn, 1);
    atomic_store(&listens_on, 0);
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    http_metrics_in_child();
    http_history_in_child();
    /* 0: the parent is in another PID namespace, so its end cannot be seen. */
    if (heir && getppid() != 0) start_waiting();
}

/* ---- without code ------------------------------------------------------------------------------------------------ */

__attribute__((constructor)) static void begin(void) {
    (void)pthread_atfork(NULL, NULL, in_child);
    const char *address = environment("TSLAB_HTTP");
    if (!address || !*address || strcmp(address, "0") == 0) return;
    if (slab_http_start(NULL, address)) return;
    /* tslab run says which process is to serve. Those that this one starts find the port taken, as they should. */
    const char *owner = environment("TSLAB_HTTP_OWNER");
    if (errno != EADDRINUSE || !owner || strtol(owner, NULL, 10) == (long)getpid())
        say("tslab: TSLAB_HTTP=\"%.64s\": %s", address, strerror(errno));
}
