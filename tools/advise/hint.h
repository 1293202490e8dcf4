/* Where a domain would go into a source of C, and the lines as a unified diff. */
#ifndef ADVISE_HINT_H
#define ADVISE_HINT_H

#include <stdbool.h>
#include <stdio.h>

/*
 * A domain around each call of the function that begins at that line: the includes, its beginning, and its end before
 * each return. NULL: the diff was written. Otherwise nothing was, and the answer says why: only returns on a line of
 * their own, of nothing, a name or a number, can be told to be the same after the domain's end.
 * name: the function's; label: a literal's text; flags: of epoch_domain_create_ex.
 */
const char *hint_write(const char *file, unsigned line, const char *name, const char *flags, FILE *out);

/* Whether the source shows a loop around the line, in the function that the line is in. */
bool hint_is_in_loop(const char *file, unsigned line);

#endif
