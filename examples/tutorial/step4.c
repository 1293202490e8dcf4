/* Step 4: a thread for each connection, and a table that all of them share. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tslab/tslab.h>

#include "net.h"

typedef struct Connection {
    EpochDomain *domain;
    int client;
} Connection;

/* ---- the table: objects of any thread, in an epoch of its own ---- */

typedef struct Entry {
    struct Entry *next;
    int count;
    char name[];
} Entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static SlabAllocator *allocator;
static EpochId table_epoch;
static Entry *table;

static int count_visit(const char *name) {
    int count = -1;
    pthread_mutex_lock(&lock);
    Entry *entry = table;
    while (entry && strcmp(entry->name, name) != 0) entry = entry->next;
    if (!entry && (entry = slab_malloc_epoch(allocator, sizeof *entry + strlen(name) + 1, table_epoch)) != NULL) {
        entry->count = 0;
        strcpy(entry->name, name);
        entry->next = table;
        table = entry;
    }
    if (entry) count = ++entry->count;
    pthread_mutex_unlock(&lock);
    return count;
}

/* ---- a connection ---- */

static const char *answer_to(const char *line) {
    if (strncmp(line, "visit ", 6) != 0) return slab_alloc_printf("what is '%s'?", line);
    int count = count_visit(line + 6);
    return count < 0 ? NULL : slab_alloc_printf("%s: %d", line + 6, count);
}

static void serve_request(Connection *connection, const char *line) {
    EpochDomain *request = epoch_domain_create_child(connection->domain, "request", 0);
    if (request && epoch_domain_enter(request)) {
        const char *answer = answer_to(line);
        net_write_line(connection->client, answer ? answer : "out of memory");
        epoch_domain_exit(request);
    }
    epoch_domain_destroy(request);
}

/* The thread enters the domain that main() gave up: from now on it is this thread's. */
static void *serve_connection(void *argument) {
    Connection *connection = argument;
    int client = connection->client;
    EpochDomain *domain = connection->domain;
    char line[LINE_BYTES];
    if (epoch_domain_enter(domain)) {
        while (net_read_line(client, line)) serve_request(connection, line);
        epoch_domain_exit(domain);
    }
    epoch_domain_destroy(domain);
    close(client);
    return NULL;
}

static void start_connection(int client) {
    pthread_t thread;
    EpochDomain *domain = epoch_domain_create_ex(NULL, "connection", EPOCH_CHURN);
    Connection *connection = epoch_domain_alloc(domain, sizeof *connection);
    if (connection) {
        *connection = (Connection){domain, client};
        epoch_domain_hand_over(domain);
        if (pthread_create(&thread, NULL, serve_connection, connection) == 0) {
            pthread_detach(thread);
            return;
        }
        epoch_domain_enter(domain); /* no thread: it is ours again */
        epoch_domain_exit(domain);
    }
    epoch_domain_destroy(domain);
    close(client);
}

int main(int argc, char **argv) {
    allocator = slab_allocator_default();
    table_epoch = epoch_open(allocator, "table", EPOCH_CHURN);
    int listener = net_listen(argc, argv);
    for (;;) start_connection(net_accept(listener));
}
