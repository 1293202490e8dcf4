/* See net.h. */
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

_Noreturn static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint16_t port_of(const char *text) {
    char *end;
    long port = strtol(text, &end, 10);
    if (end == text || *end || port < 0 || port > 65535) {
        fprintf(stderr, "'%s' is no port\n", text);
        exit(2);
    }
    return (uint16_t)port;
}

int net_listen(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(7000)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (argc > 1) address.sin_port = htons(port_of(argv[1]));
    signal(SIGPIPE, SIG_IGN);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0) fail("socket");
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    socklen_t length = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, length) != 0) fail("bind");
    if (listen(listener, 64) != 0) fail("listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    printf("listening on 127.0.0.1:%u\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int net_accept(int listener) {
    int client;
    do client = accept(listener, NULL, NULL);
    while (client < 0 && errno == EINTR);
    if (client < 0) fail("accept");
    return client;
}

bool net_read_line(int client, char line[LINE_BYTES]) {
    size_t length = 0;
    char next;
    while (read(client, &next, 1) == 1) {
        if (next == '\n') {
            line[length] = '\0';
            return true;
        }
        if (next != '\r' && length + 1 < LINE_BYTES) line[length++] = next;
    }
    return false;
}

void net_write_line(int client, const char *line) {
    struct iovec parts[2] = {{(void *)(size_t)line, strlen(line)}, {(void *)(size_t) "\n", 1}};
    ssize_t left = (ssize_t)(parts[0].iov_len + 1);
    while (left > 0) {
        ssize_t done = writev(client, parts, 2);
        if (done <= 0) return; /* the client is gone: the next read says so */
        left -= done;
        for (int i = 0; i < 2 && done > 0; i++) {
            size_t part = (size_t)done < parts[i].iov_len ? (size_t)done : parts[i].iov_len;
            parts[i].iov_base = (char *)parts[i].iov_base + part;
            parts[i].iov_len -= part;
            done -= (ssize_t)part;
        }
    }
}
