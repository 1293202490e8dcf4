/* Step 2: a connection is a domain, and each of its requests is a child of it. */
#include <string.h>
#include <unistd.h>

#include <tslab/tslab.h>

#include "net.h"

typedef struct Connection {
    EpochDomain *domain;
    int client;
    const char *name;
} Connection;

static void close_client(void *argument) {
    Connection *connection = argument;
    close(connection->client);
}

/* Closes the client where it fails. */
static Connection *open_connection(int client) {
    EpochDomain *domain = epoch_domain_create_ex(NULL, "connection", EPOCH_CHURN);
    Connection *connection = epoch_domain_alloc(domain, sizeof *connection);
    if (!connection || !epoch_domain_on_destroy(domain, close_client, connection)) {
        epoch_domain_destroy(domain);
        close(client);
        return NULL;
    }
    *connection = (Connection){domain, client, "nobody"};
    return connection;
}

/* The name is made in the request, then moved to the connection, where it outlives the request. */
static const char *set_name(Connection *connection, const char *name) {
    char *made = slab_alloc_printf("%s the Great", name);
    char *moved = made ? slab_promote(connection->domain, made) : NULL;
    if (!moved) return NULL;
    if (strcmp(connection->name, "nobody") != 0) slab_release((void *)(size_t)connection->name);
    connection->name = moved;
    return "ok";
}

static const char *answer_to(Connection *connection, const char *line) {
    if (strncmp(line, "name ", 5) == 0) return set_name(connection, line + 5);
    if (strcmp(line, "hello") == 0) return slab_alloc_printf("hello, %s", connection->name);
    return slab_alloc_printf("what is '%s'?", line);
}

static void serve_request(Connection *connection, const char *line) {
    EpochDomain *request = epoch_domain_create_child(connection->domain, "request", 0);
    if (request && epoch_domain_enter(request)) {
        const char *answer = answer_to(connection, line);
        net_write_line(connection->client, answer ? answer : "out of memory");
        epoch_domain_exit(request);
    }
    epoch_domain_destroy(request);
}

int main(int argc, char **argv) {
    int listener = net_listen(argc, argv);
    for (;;) {
        Connection *connection = open_connection(net_accept(listener));
        if (!connection) continue;
        char line[LINE_BYTES];
        while (net_read_line(connection->client, line)) serve_request(connection, line);
        epoch_domain_destroy(
            connection->domain); /* first what is left of requests, then close_client, then all memory */
    }
}
