/* Step 7: code that calls malloc and cannot be changed: a domain that captures. */
#include <regex.h>
#include <string.h>
#include <unistd.h>

#include <tslab/malloc.h>
#include <tslab/stats.h>
#include <tslab/tslab.h>

#include "net.h"

/* "b.d bad bed" -> the first match. regcomp() allocates with malloc, and nobody calls regfree(). */
static const char *match(char *text) {
    char *subject = strchr(text, ' ');
    if (!subject) return "an expression and a text, please";
    *subject++ = '\0';
    regex_t expression;
    regmatch_t found;
    int error = regcomp(&expression, text, REG_EXTENDED);
    if (error != 0) {
        char *why = slab_alloc(256);
        if (why) regerror(error, &expression, why, 256);
        return why;
    }
    if (regexec(&expression, subject, 1, &found, 0) != 0) return "no match";
    return slab_alloc_strndup(subject + found.rm_so, (size_t)(found.rm_eo - found.rm_so));
}

static const char *live_objects(void) {
    SlabGlobalStats stats;
    slab_stats_global(slab_malloc_allocator(), &stats);
    return slab_alloc_printf("%llu objects are live", (unsigned long long)stats.live_objects);
}

static const char *answer_to(char *line) {
    if (strncmp(line, "match ", 6) == 0) return match(line + 6);
    if (strcmp(line, "live") == 0) return live_objects();
    return slab_alloc_printf("what is '%s'?", line);
}

static void serve_request(int client, char *line) {
    EpochDomain *request = epoch_domain_create_ex(slab_malloc_allocator(), "request", EPOCH_DOMAIN_CAPTURE);
    if (request && epoch_domain_enter(request)) {
        const char *answer = answer_to(line);
        epoch_domain_exit(request); /* what sends the answer is not the request's */
        net_write_line(client, answer ? answer : "out of memory");
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
