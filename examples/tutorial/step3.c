/* Step 3: a parser that somebody else wrote, and its errors. */
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <tslab/tslab.h>

#include "net.h"

/* jansson frees its own objects. In a scope their place is not used again; the end frees it. */
static void release(void *pointer) { (void)slab_release(pointer); }

static const char *sum_of(const char *text) {
    json_error_t error;
    json_t *list = json_loads(text, 0, &error);
    if (!list) return slab_alloc_printf("column %d: %s", error.column, error.text);
    if (!json_is_array(list)) return "that is no list";
    double sum = 0;
    size_t i;
    json_t *each;
    json_array_foreach(list, i, each) {
        if (!json_is_number(each)) return slab_alloc_printf("item %zu is no number", i + 1);
        sum += json_number_value(each);
    }
    return slab_alloc_printf("%g", sum);
}

static const char *answer_to(const char *line) {
    if (strncmp(line, "sum ", 4) == 0) return sum_of(line + 4);
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
    json_set_alloc_funcs(slab_alloc, release);
    int listener = net_listen(argc, argv);
    for (;;) {
        int client = net_accept(listener);
        char line[LINE_BYTES];
        while (net_read_line(client, line)) serve_request(client, line);
        close(client);
    }
}
