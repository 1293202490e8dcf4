/* Step 6: sessions. There is a leak in this program: find it with `tslab doctor`. */
#include <string.h>
#include <unistd.h>

#include <tslab/tslab.h>

#include "net.h"

/* A session begins with "login" and ends with "logout"; its epoch is closed then. */
typedef struct Session {
    EpochId epoch;
    char *name, *motto;
} Session;

static Session session;

static char *keep(const char *text) {
    char *kept = slab_malloc_epoch(slab_allocator_default(), strlen(text) + 1, session.epoch);
    return kept ? strcpy(kept, text) : NULL;
}

static const char *login(const char *name) {
    if (session.epoch != EPOCH_NONE) return "log out first";
    session.epoch = epoch_open(slab_allocator_default(), "session", EPOCH_CHURN);
    session.name = keep(name);
    session.motto = keep("no motto");
    return session.name && session.motto ? "welcome" : NULL;
}

static const char *set_motto(const char *text) {
    if (session.epoch == EPOCH_NONE) return "log in first";
    char *motto = keep(text);
    if (!motto) return NULL;
    session.motto = motto;
    return "ok";
}

static const char *logout(void) {
    if (session.epoch == EPOCH_NONE) return "log in first";
    const char *answer = slab_alloc_printf("goodbye, %s (%s)", session.name, session.motto);
    slab_release(session.name);
    slab_release(session.motto);
    epoch_close(slab_allocator_default(), session.epoch);
    session.epoch = EPOCH_NONE;
    return answer;
}

static const char *answer_to(const char *line) {
    if (strncmp(line, "login ", 6) == 0) return login(line + 6);
    if (strncmp(line, "motto ", 6) == 0) return set_motto(line + 6);
    if (strcmp(line, "logout") == 0) return logout();
    return slab_alloc_printf("what is '%s'?", line);
}

static void serve_request(int client, const char *line) {
    EpochDomain *request = epoch_domain_create_ex(NULL, "request", 0);
    if (request && epoch_domain_enter(request)) {
        const char *answer = answer_to(line);
        net_write_line(client, answer ? answer : "out of memory");
        epoch_domain_exit(request);
    }
    epoch_domain_destroy(request);
}

int main(int argc, char **argv) {
    int listener = net_listen(argc, argv);
    for (;;) {
        int client = net_accept(listener);
        char line[LINE_BYTES];
        while (net_read_line(client, line)) serve_request(client, line);
        close(client);
    }
}
