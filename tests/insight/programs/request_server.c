/* A server of requests: all that a request allocates dies with it, but for a session in 3,000 objects. */
#include "common.h"

typedef struct Header {
    struct Header *next;
    char text[40];
} Header;

static void *sessions[4000];
static size_t session_count;

FUNCTION static Header *parse_headers(unsigned count) {
    Header *first = NULL;
    for (unsigned i = 0; i < count; i++) {
        Header *header = get(sizeof *header);
        header->next = first;
        first = header;
    }
    return first;
}

FUNCTION static char *render(unsigned length) {
    char *text = get(64);
    for (unsigned size = 64; size < length; size *= 2) {
        text = realloc(text, size * 2);
    }
    return text;
}

FUNCTION static void remember_session(void) {
    if (session_count < sizeof sessions / sizeof *sessions) {
        sessions[session_count++] = get(200);
    }
}

FUNCTION static unsigned handle_request(unsigned number) {
    Header *headers = parse_headers(20 + random_below(20));
    char *answer = render(500 + random_below(4000));
    if (number % 100 == 0) {
        remember_session();
    }
    unsigned sum = (unsigned)answer[0];
    free(answer);
    while (headers) {
        Header *next = headers->next;
        free(headers);
        headers = next;
    }
    return sum;
}

int main(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 5000; i++) {
        sum += handle_request(i);
    }
    printf("%u %zu\n", sum, session_count);
    return 0;
}
