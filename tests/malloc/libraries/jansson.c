/* JSON is parsed, changed and written again. */
#include "captured.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static json_t *parse(unsigned request) {
    char text[8000];
    int used = snprintf(text, sizeof text, "{\"id\": %u, \"lines\": [", request);
    for (unsigned i = 0; i < 80; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s{\"name\": \"part %u\", \"price\": %u.5}",
                         i ? ", " : "", i, request % 9 + i);
    (void)snprintf(text + used, sizeof text - (size_t)used, "]}");
    json_error_t error;
    json_t *value = json_loads(text, 0, &error);
    CHECK(value && json_array_size(json_object_get(value, "lines")) == 80);
    return value;
}

static char *change_and_print(json_t *value, unsigned request) {
    json_t *lines = json_object_get(value, "lines");
    for (size_t i = 0; i < 40; i++) CHECK(json_array_remove(lines, i) == 0);
    CHECK(json_object_set_new(value, "sum", json_integer(request)) == 0);
    char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
    CHECK(text && strstr(text, "\"sum\":") && strstr(text, "part 79"));
    return text;
}

static void serve(unsigned request) {
    json_t *value = parse(request);
    free(change_and_print(value, request));
    json_decref(value);
}

static void drop(unsigned request) { (void)change_and_print(parse(request), request); }

static void begin(void) { serve(0); }
static void end(void) {}

const library tested = {begin, serve, drop, end};
