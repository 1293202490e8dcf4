/*
 * Where a thread waits for more work: the next turn begins when one of these returns. Only for --sample turn=N/M.
 */
#define _GNU_SOURCE
#include "record/inside.h"
#include "record/next.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>

#define WAITS(type, name, parameters, values)      \
    EXPORT type name parameters {                  \
        static type(*next) parameters;             \
        if (UNLIKELY(!next)) NEXT(next, #name);    \
        type result = next values;                 \
        if (record_self.depth == 0) record_turn(); \
        return result;                             \
    }

WAITS(int, epoll_wait, (int fd, struct epoll_event *events, int n, int ms), (fd, events, n, ms))
WAITS(int, epoll_pwait, (int fd, struct epoll_event *events, int n, int ms, const sigset_t *mask),
      (fd, events, n, ms, mask))
WAITS(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
WAITS(int, ppoll, (struct pollfd * fds, nfds_t n, const struct timespec *t, const sigset_t *mask), (fds, n, t, mask))
WAITS(int, select, (int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t), (n, r, w, e, t))
WAITS(int, pselect, (int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t, const sigset_t *mask),
      (n, r, w, e, t, mask))
WAITS(ssize_t, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags))
WAITS(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
