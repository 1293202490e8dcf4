/* See pattern.h. It allocates with malloc, and never frees. */
#include "pattern.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct Pattern {
    char letter; /* 0: the end */
    Pattern *next;
};

Pattern *pattern_read(const char *text) {
    Pattern *pattern = malloc(sizeof *pattern);
    if (!pattern) return NULL;
    *pattern = (Pattern){*text, NULL};
    if (*text && !(pattern->next = pattern_read(text + 1))) return NULL;
    return pattern;
}

static bool is(const Pattern *p, const char *word, size_t letters) {
    if (p->letter == '*') return is(p->next, word, letters) || (letters > 0 && is(p, word + 1, letters - 1));
    if (p->letter == '\0' || letters == 0) return p->letter == '\0' && letters == 0;
    return (p->letter == '?' || p->letter == *word) && is(p->next, word + 1, letters - 1);
}

char *pattern_find(const Pattern *pattern, const char *text) {
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        size_t letters = strcspn(text, " ");
        if (is(pattern, text, letters)) return strndup(text, letters);
        text += letters;
    }
    return NULL;
}
