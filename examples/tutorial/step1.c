/* Step 1: a request is a domain. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tslab/tslab.h>

#include "net.h"

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* "to be or not" -> "be not or to". NULL: no memory. */
static const char *sorted(const char *text) {
    char *rest = slab_alloc_strdup(text), **words = NULL;
    size_t count = 0;
    if (!rest) return NULL;
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL; count++) {
        char **more = slab_alloc_resize(words, (count + 1) * sizeof *words);
        if (!more) return NULL;
        words = more;
        words[count] = word;
    }
    if (count == 0) return "";
    qsort(words, count, sizeof *words, by_name);
    const char *answer = words[0];
    for (size_t i = 1; i < count && answer; i++) answer = slab_alloc_printf("%s %s", answer, words[i]);
    return answer;
}

static const char *answer_to(const char *line) {
    if (strncmp(line, "sort ", 5) == 0) return sorted(line + 5);
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
