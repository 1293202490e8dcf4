/* Step 7: code that calls malloc and cannot be changed: a domain that captures. */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <tslab/malloc.h>
#include <tslab/stats.h>
#include <tslab/tslab.h>

#include "net.h"
#include "pattern.h"

/* "b?d bad bed" -> "bad". pattern.c allocates with malloc, and frees nothing. */
static const char *match(char *text) {
    char *words = strchr(text, ' ');
    if (!words) return "a pattern and words, please";
    *words++ = '\0';
    Pattern *pattern = pattern_read(text);
    if (!pattern) return NULL;
    const char *found = pattern_find(pattern, words);
    return found ? found : "no word is that";
}

static const char *live_objects(void) {
    static uint64_t at_first;
    SlabGlobalStats stats;
    slab_stats_global(slab_malloc_allocator(), &stats);
    if (at_first == 0) at_first = stats.live_objects;
    return slab_alloc_printf("%lld more objects are live than at first", (long long)(stats.live_objects - at_first));
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
