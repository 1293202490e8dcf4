/*
 * Text that others have written: names of threads, programs and functions, labels, paths, answers of servers. All of
 * it goes through here before it is shown.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Makes each character that a terminal would obey instead of show a '?' (control characters of ASCII and of U+0080 to
   U+009F), and each byte that is not of UTF-8. lines: an end of a line stays. Returns how many bytes the text has
   now, no more than before; the bytes behind it are zero. */
size_t text_tame(char *text, size_t bytes, bool lines);
/* The length of the character at text, which ends with a zero; 0: it would be a '?'. */
size_t text_character(const char *text);

/* A string of JSON, of any length. Without memory for it: null. */
void text_put_quoted(const char *text, FILE *out);
/* A command line, tamed, and cut where it is longer than a heading. */
void text_put_command(const char *command, FILE *out);

#endif
