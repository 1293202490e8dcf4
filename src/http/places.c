#include "http/places.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TAKES_LONG_NS 1000000000u
#define AT_ONCE 16u /* the server accepts fewer before it looks at those that leave */

/* From the most to the least willing to go. */
typedef enum standing { LEAVING, ASKING, IDLE, ANSWERED } standing;

typedef struct place {
    atomic_int fd;          /* + 1; 0: nobody's. Atomic, as `inode`, for a child of fork */
    _Atomic uint64_t inode; /* of the socket */
    standing standing;
    uint64_t since_ns;
} place;

static place places[HTTP_CONNECTIONS];
static atomic_uint under_way;

static uint64_t now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t inode_of(int fd) {
    struct stat s;
    return fstat(fd, &s) == 0 && S_ISSOCK(s.st_mode) ? (uint64_t)s.st_ino : 0;
}

static bool is_before(const place *a, const place *b) {
    return a->standing != b->standing ? a->standing < b->standing : a->since_ns < b->since_ns;
}

/* Takes a place from the slowest but `newest`, if there are too many. The server finds its connection ended. While
   there is room an answer has a second to be taken. */
static void make_room(const place *newest) {
    place *slowest = NULL;
    unsigned count = 0, leaving = 0;
    for (unsigned i = 0; i < HTTP_CONNECTIONS; i++) {
        place *p = &places[i];
        if (atomic_load_explicit(&p->fd, memory_order_relaxed) == 0) continue;
        count++;
        leaving += p->standing == LEAVING;
        if (p == newest || p->standing == LEAVING) continue;
        if (!slowest || is_before(p, slowest)) slowest = p;
    }
    if (count - leaving <= HTTP_PLACES || !slowest) return;
    bool is_full = count > HTTP_CONNECTIONS - AT_ONCE;
    if (slowest->standing == ANSWERED && newest->since_ns - slowest->since_ns < TAKES_LONG_NS && !is_full) return;
    slowest->standing = LEAVING;
    (void)shutdown(atomic_load_explicit(&slowest->fd, memory_order_relaxed) - 1, SHUT_RDWR);
}

static void arrive(struct MHD_Connection *connection, void **at) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    place *p = places;
    while (p < places + HTTP_CONNECTIONS && atomic_load_explicit(&p->fd, memory_order_relaxed) != 0) p++;
    if (!info || p == places + HTTP_CONNECTIONS) return; /* without a place it is never the slowest */
    p->standing = ASKING;
    p->since_ns = now_ns();
    atomic_store_explicit(&p->inode, inode_of(info->connect_fd), memory_order_relaxed);
    atomic_store_explicit(&p->fd, info->connect_fd + 1, memory_order_relaxed);
    *at = p;
    make_room(p);
}

void http_places_change(void *unused, struct MHD_Connection *connection, void **at,
                        enum MHD_ConnectionNotificationCode what) {
    (void)unused;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        arrive(connection, at);
    } else if (*at) {
        /* Before the server closes the descriptor. */
        atomic_store_explicit(&((place *)*at)->fd, 0, memory_order_relaxed);
        *at = NULL;
    }
}

static void stand(struct MHD_Connection *connection, standing how) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    place *p = info ? info->socket_context : NULL;
    if (!p || p->standing == LEAVING) return;
    p->standing = how;
    p->since_ns = now_ns();
}

void http_places_asked(struct MHD_Connection *connection) {
    atomic_fetch_add(&under_way, 1);
    stand(connection, ANSWERED);
}

void http_places_answered(struct MHD_Connection *connection) {
    atomic_fetch_sub(&under_way, 1);
    stand(connection, IDLE);
}

unsigned http_places_under_way(void) { return atomic_load(&under_way); }

void http_places_reset(void) {
    for (unsigned i = 0; i < HTTP_CONNECTIONS; i++) atomic_store_explicit(&places[i].fd, 0, memory_order_relaxed);
    atomic_store(&under_way, 0);
}

void http_places_in_child(void) {
    for (unsigned i = 0; i < HTTP_CONNECTIONS; i++) {
        int fd = atomic_load_explicit(&places[i].fd, memory_order_relaxed) - 1;
        uint64_t inode = atomic_load_explicit(&places[i].inode, memory_order_relaxed);
        /* The server went on while the process was copied: the number may be another file's. */
        if (fd >= 0 && inode != 0 && inode_of(fd) == inode) (void)close(fd);
    }
    http_places_reset();
}
