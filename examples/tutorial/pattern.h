/* Somebody else's code, which is not to be changed: patterns of words. ? is any letter, * is any letters. */
#ifndef TUTORIAL_PATTERN_H
#define TUTORIAL_PATTERN_H

typedef struct Pattern Pattern;

/* NULL: no memory. */
Pattern *pattern_read(const char *text);
/* A copy of the first word of the text that the pattern is. NULL: none, or no memory. */
char *pattern_find(const Pattern *pattern, const char *text);

#endif
