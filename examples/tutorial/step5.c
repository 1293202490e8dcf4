/* Step 5: a request may hold so much, and all of the server so much. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tslab/tslab.h>

#include "net.h"

#define REQUEST_BYTES ((size_t)256 << 10)
#define SERVER_BYTES ((size_t)64 << 20)

/* "3 ab" -> "ababab" */
static const char *repeated(const char *text) {
    char *rest;
    unsigned long times = strtoul(text, &rest, 10);
    while (*rest == ' ') rest++;
    size_t length = strlen(rest);
    if (times > REQUEST_BYTES || length == 0) return "that is too much, or nothing";
    char *answer = slab_alloc(times * length + 1);
    if (!answer) return NULL;
    for (unsigned long i = 0; i < times; i++) memcpy(answer + i * length, rest, length);
    answer[times * length] = '\0';
    return answer;
}

static const char *answer_to(const char *line) {
    if (strncmp(line, "repeat ", 7) == 0) return repeated(line + 7);
    return slab_alloc_printf("what is '%s'?", line);
}

static void serve_request(int client, const char *line) {
    EpochDomain *request = epoch_domain_create_ex(NULL, "request", 0);
    if (request && epoch_domain_set_limit(request, REQUEST_BYTES) && epoch_domain_enter(request)) {
        const char *answer = answer_to(line);
        net_write_line(client, answer            ? answer
                               : errno == ENOMEM ? "that is more than a request may hold"
                                                 : strerror(errno));
        epoch_domain_exit(request);
    }
    epoch_domain_destroy(request);
}

int main(int argc, char **argv) {
    setenv("TSLAB_BACKGROUND", "1", 0); /* before the first call of the library */
    slab_set_budget(slab_allocator_default(), SERVER_BYTES);
    int listener = net_listen(argc, argv);
    for (;;) {
        int client = net_accept(listener);
        char line[LINE_BYTES];
        while (net_read_line(client, line)) serve_request(client, line);
        close(client);
    }
}
