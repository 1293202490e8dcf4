/* All in one function: a round of main's second loop is the turn, and no function is called for it. */
#include "common.h"

FUNCTION static char *copy_of(const char *text) {
    size_t bytes = strlen(text) + 1;
    return memcpy(get(bytes), text, bytes);
}

int main(void) {
    void *settings[50];
    for (unsigned i = 0; i < 50; i++) {
        settings[i] = get(100);
    }
    unsigned long sum = 0;
    for (unsigned round = 0; round < 20000; round++) {
        char *name = copy_of("a name that a round has");
        char *words[30];
        for (unsigned i = 0; i < 30; i++) {
            words[i] = copy_of("word");
        }
        char *line = get(200 + random_below(100));
        sum += (unsigned char)line[0];
        free(line);
        for (unsigned i = 0; i < 30; i++) {
            free(words[i]);
        }
        free(name);
    }
    for (unsigned i = 0; i < 50; i++) {
        free(settings[i]);
    }
    printf("%lu\n", sum);
    return 0;
}
