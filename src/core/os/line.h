/*
 * One line of a message (message.h), built in a buffer of its own. (Elsewhere a line is 64 bytes of metadata.) It
 * allocates no memory and uses no stream. So it works in a signal handler, and while a lock of libc is held. Text
 * that does not fit is left out; the line still ends.
 */
#ifndef TS_OS_LINE_H
#define TS_OS_LINE_H

#include "base/attr.h"

#include <inttypes.h>

#define TS_LINE_BYTES 512u

typedef struct ts_line {
    char text[TS_LINE_BYTES + 1];
    size_t used;
} ts_line;

void ts_line_text(ts_line *line, const char *text);
/* Adds at most `most` bytes of a text in quotation marks. Quotation marks and backslashes in it get a backslash.
   Control characters, and bytes that are not UTF-8, become '?'. */
void ts_line_quoted(ts_line *line, const char *text, size_t most);
/* Adds a text with words in it, as printf does, of three kinds: %s, PRIu64, and # with PRIx64, which begins with 0x. */
void ts_line_add(ts_line *line, const char *format, ...) TS_PRINTF(2, 3);
/* Adds a newline, and a zero behind it. */
void ts_line_end(ts_line *line);
/* Ends the line and writes it. Caller holds no lock, because a function of the program may be called. errno is as
   before. */
void ts_line_write(ts_line *line);
/* Writes a line of its own: "tslab: ", and what ts_line_add adds. */
void ts_tell(const char *format, ...) TS_PRINTF(1, 2);

#endif
