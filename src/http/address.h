/* The addresses that the server listens on. `tslab run --http` reads them, too. */
#ifndef HTTP_ADDRESS_H
#define HTTP_ADDRESS_H

struct addrinfo;

/* "HOST:PORT" and its kin as a list of addresses; NULL with errno. The caller calls freeaddrinfo. */
struct addrinfo *http_address_resolve(const char *address);

#endif
