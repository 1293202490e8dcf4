#include "http/hosts.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

#define NAMES 32u
#define NAME_BYTES 254u

/* Written while the server does not run. */
static char allowed[NAMES + 1][NAME_BYTES];
static unsigned count;
static bool on_loopback, every;

static bool is_loopback_4(const struct in_addr *a) { return ntohl(a->s_addr) >> 24 == 127; }

static bool is_loopback_6(const struct in6_addr *a) {
    return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

static bool is_loopback(const struct sockaddr *at) {
    if (at->sa_family == AF_INET) return is_loopback_4(&((const struct sockaddr_in *)(const void *)at)->sin_addr);
    if (at->sa_family == AF_INET6) return is_loopback_6(&((const struct sockaddr_in6 *)(const void *)at)->sin6_addr);
    return false;
}

static bool add(const char *name, size_t bytes) {
    if (bytes > 1 && name[bytes - 1] == '.') bytes--; /* "localhost." is localhost */
    if (bytes == 0 || bytes >= NAME_BYTES || count > NAMES) return false;
    memcpy(allowed[count], name, bytes);
    allowed[count++][bytes] = 0;
    if (bytes == 1 && *name == '*') every = true;
    return true;
}

bool http_hosts_set(const struct sockaddr *at, const char *own, size_t own_bytes, const char *const *names,
                    const char *list) {
    bool good = true;
    count = 0;
    every = false;
    on_loopback = is_loopback(at);
    for (; good && names && *names; names++) good = add(*names, strlen(*names));
    for (const char *n = list; good && n && *n;) {
        n += strspn(n, ", \t");
        size_t bytes = strcspn(n, ", \t");
        if (bytes > 0) good = add(n, bytes);
        n += bytes;
    }
    if (!on_loopback && count == 0) every = true;
    if (good && own_bytes > 0) good = add(own, own_bytes);
    return good;
}

bool http_hosts_allow(const char *header) {
    char name[NAME_BYTES];
    if (!header || every) return true;
    bool bracket = *header == '[';
    const char *from = header + bracket, *end = bracket ? strchr(from, ']') : from + strcspn(from, ":");
    if (!end || (size_t)(end - from) >= sizeof name) return false;
    const char *port = end + bracket;
    if (*port && (*port != ':' || strspn(port + 1, "0123456789") != strlen(port + 1))) return false;
    size_t bytes = (size_t)(end - from);
    memcpy(name, from, bytes);
    if (bytes > 1 && name[bytes - 1] == '.') bytes--;
    name[bytes] = 0;
    struct in_addr four;
    struct in6_addr six;
    if (bracket) return inet_pton(AF_INET6, name, &six) == 1 && (!on_loopback || is_loopback_6(&six));
    if (inet_pton(AF_INET, name, &four) == 1 && (!on_loopback || is_loopback_4(&four))) return true;
    if (strcasecmp(name, "localhost") == 0) return true;
    for (unsigned i = 0; i < count; i++)
        if (strcasecmp(name, allowed[i]) == 0) return true;
    return false;
}
