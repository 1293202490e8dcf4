/* A converter that keeps its last document until the next one begins: each is freed in the middle of a call, between
   the reset and the reading. So the call is no turn. */
#include "common.h"

enum { DOCUMENTS = 3000, NODES = 60 };

typedef struct node {
    struct node *next;
    char text[40];
} node;

static node *first;
static char *page;

FUNCTION static void *new_memory(size_t bytes) { return get(bytes); }

FUNCTION static void free_nodes(void) {
    while (first) {
        node *next = first->next;
        free(first);
        first = next;
    }
}

FUNCTION static void read_nodes(uint32_t document) {
    for (uint32_t i = 0; i < NODES; i++) {
        node *made = new_memory(sizeof *made);
        made->next = first;
        made->text[0] = (char)(document + i);
        first = made;
    }
}

FUNCTION static uint32_t write_page(void) {
    uint32_t sum = 0;
    free(page);
    page = new_memory(64);
    for (size_t bytes = 128; bytes <= 512; bytes *= 2) {
        page = realloc(page, bytes);
        if (!page) {
            abort();
        }
    }
    for (const node *n = first; n; n = n->next) {
        sum += (unsigned char)n->text[0];
    }
    return sum;
}

static uint32_t convert(uint32_t document) {
    free_nodes();
    read_nodes(document);
    return write_page();
}

int main(void) {
    uint32_t sum = 0;
    void *settings = get(100);
    for (uint32_t i = 0; i < DOCUMENTS; i++) {
        sum += convert(i);
    }
    free(settings);
    printf("%u\n", sum);
    free_nodes();
    free(page);
    return 0;
}
