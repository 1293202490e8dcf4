#include "common/endpoint.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)256 << 20)
#define TIMEOUT_S 10

int endpoint_open(target *t, const char *text) {
    const char *rest = text + strlen("http://");
    size_t n = strcspn(rest, "/?#");
    const char *path = rest + n;
    if (path[0] && strcmp(path, "/") != 0) {
        say("'%s': give the address alone, such as http://127.0.0.1:9464", text);
        return EXIT_USAGE;
    }
    char *host = strndup(rest, n);
    char *port = host ? strrchr(host, ':') : NULL;
    if (port && strchr(port, ']')) port = NULL; /* of an IPv6 address */
    if (port) *port++ = 0;
    char *name = host;
    if (name && name[0] == '[') {
        name[strcspn(name, "]")] = 0;
        name++;
    }
    bool is_port = !port || (*port && strlen(port) <= 5 && strspn(port, "0123456789") == strlen(port));
    if (is_port && port) is_port = strtoul(port, NULL, 10) - 1 < 65535;
    if (!name || !*name || !is_port) {
        say("'%s' is no URL such as http://127.0.0.1:9464", text);
        free(host);
        return EXIT_USAGE;
    }
    t->host = strdup(name);
    t->port = strdup(port ? port : "80");
    free(host);
    return t->host && t->port ? EXIT_DONE : EXIT_NO_TARGET;
}

static int connect_to(const target *t) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int error = getaddrinfo(t->host, t->port, &hints, &list), fd = -1;
    if (error) {
        say("%s: %s", t->host, gai_strerror(error));
        return -1;
    }
    const struct timeval limit = {TIMEOUT_S, 0};
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd < 0) continue;
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            error = errno;
            (void)close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    if (fd < 0) say("http://%s:%s: %s", t->host, t->port, strerror(error ? error : errno));
    return fd;
}

static bool send_all(int fd, const char *text, size_t bytes) {
    while (bytes > 0) {
        ssize_t n = send(fd, text, bytes, MSG_NOSIGNAL);
        if (n <= 0 && !(n < 0 && errno == EINTR)) return false;
        if (n > 0) {
            text += n;
            bytes -= (size_t)n;
        }
    }
    return true;
}

/* All that comes until the other side closes. */
static char *receive_all(int fd, size_t *length) {
    size_t room = 65536, used = 0;
    char *text = malloc(room + 1);
    while (text) {
        ssize_t n = recv(fd, text + used, room - used, 0);
        if (n == 0) break;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 || used + (size_t)n > ANSWER_MAX) {
            free(text);
            return NULL;
        }
        used += (size_t)n;
        if (used < room) continue;
        char *more = realloc(text, 2 * room + 1);
        if (!more) free(text);
        text = more;
        room *= 2;
    }
    if (text) text[used] = 0;
    *length = used;
    return text;
}

/* Content-Length of the head; -1: none. */
static long long content_length(const char *head, const char *end) {
    for (const char *line = strstr(head, "\r\n"); line && line < end; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, "Content-Length:", 15) == 0) return strtoll(line + 17, NULL, 10);
    return -1;
}

char *endpoint_get(const target *t, const char *path, const char *accept, size_t *length) {
    char request[512];
    int fd = connect_to(t);
    if (fd < 0) return NULL;
    /* HTTP/1.0: the answer ends with the connection, and is not sent in chunks. */
    bool six = strchr(t->host, ':') != NULL;
    int n = snprintf(request, sizeof request, "GET %s HTTP/1.0\r\nHost: %s%s%s:%s\r\nAccept: %s\r\n\r\n", path,
                     six ? "[" : "", t->host, six ? "]" : "", t->port, accept ? accept : "*/*");
    size_t got = 0;
    char *answer =
        n > 0 && (size_t)n < sizeof request && send_all(fd, request, (size_t)n) ? receive_all(fd, &got) : NULL;
    int error = errno;
    (void)close(fd);
    if (!answer) {
        say("http://%s:%s%s: %s", t->host, t->port, path, error == EAGAIN ? "no answer in time" : strerror(error));
        return NULL;
    }
    char *body = strstr(answer, "\r\n\r\n");
    int status = 0;
    if (!body || sscanf(answer, "HTTP/1.%*d %d", &status) != 1) {
        say("http://%s:%s%s: the answer is not HTTP", t->host, t->port, path);
    } else if (status != 200) {
        /* The first line of its answer, if that is text. */
        size_t said = strstr(answer, "text/plain") ? strcspn(body + 4, "\r\n") : 0;
        say("http://%s:%s%s: status %d%s%.*s", t->host, t->port, path, status, said ? ": " : "",
            (int)(said < 200 ? said : 200), body + 4);
    } else {
        long long wanted = content_length(answer, body);
        body += 4;
        *length = got - (size_t)(body - answer);
        if (wanted >= 0 && (size_t)wanted != *length) {
            say("http://%s:%s%s: the answer is cut off", t->host, t->port, path);
        } else {
            memmove(answer, body, *length + 1);
            return answer;
        }
    }
    free(answer);
    return NULL;
}
