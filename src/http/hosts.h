/*
 * By which names the server may be called. A web page of another origin can make its own name resolve to the loopback
 * address (DNS rebinding) and would then read what is served there with the user's browser. The browser says the name
 * in `Host`, so a server on the loopback interface answers to names that no stranger can have: localhost, addresses of
 * the loopback, the name that it was started with, and those that the program or its user allows.
 *
 * On another address every name is answered, unless names are allowed: then these, and addresses.
 */
#ifndef TS_HTTP_HOSTS_H
#define TS_HTTP_HOSTS_H

#include <stdbool.h>
#include <sys/socket.h>

#define HTTP_HOSTS_VARIABLE "TSLAB_HTTP_HOSTS"

/* `at`: the address that the server is bound to. own: the name of it, of that length, as the start was told; 0: none.
   names: NULL, or names that end with NULL. list: NULL, or names with commas between them. "*" is every name. While
   the server does not run. false: a name is empty or above 253 bytes, or there are more than 32. */
bool http_hosts_set(const struct sockaddr *at, const char *own, size_t own_bytes, const char *const *names,
                    const char *list);
/* Whether a request with that header is answered. NULL: it has none, as no browser's has. */
bool http_hosts_allow(const char *header);

#endif
