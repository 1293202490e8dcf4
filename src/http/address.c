/* Addresses to listen on: HOST:PORT, [IPV6]:PORT, :PORT or PORT. Without a host it is the loopback. */
#include "http/address.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct addrinfo *http_address_resolve(const char *address) {
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
