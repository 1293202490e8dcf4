/*
 * The text of a message (message.h): one line, built in a buffer of its own. It allocates no memory and uses no
 * stream. So it works in a signal handler, and while a lock of libc is held. A word that does not fit is left out; the
 * line still ends.
 */
#ifndef TS_OS_TEXT_H
#define TS_OS_TEXT_H

#include "base/attr.h"

#include <inttypes.h>

#define TS_TEXT_BYTES 512u

typedef struct ts_text {
    char text[TS_TEXT_BYTES + 1];
    size_t used;
} ts_text;

void ts_text_put(ts_text *line, const char *text);
/* Adds at most `most` bytes of a text in quotation marks. Quotation marks and backslashes in it get a backslash.
   Control characters, and bytes that are not UTF-8, become '?'. */
void ts_text_quoted(ts_text *line, const char *text, size_t most);
/* Adds a text with words in it, as printf does, of three kinds: %s, PRIu64, and # with PRIx64, which begins with 0x. */
void ts_text_add(ts_text *line, const char *format, ...) TS_PRINTF(2, 3);
/* Adds a newline, and a zero behind it. */
void ts_text_end(ts_text *line);
/* Ends the line and writes it. Caller holds no lock, because a function of the program may be called. errno is as
   before. */
void ts_text_write(ts_text *line);
/* Writes a line of its own: "tslab: ", and what ts_text_add adds. */
void ts_tell(const char *format, ...) TS_PRINTF(1, 2);

#endif
