/*
 * One line of text for who reads the library's messages (message.h), built in a buffer of its own: no memory is
 * allocated and no stream is used, so that it works in a signal handler and while a lock of libc is held. What does not
 * fit is left out; the line still ends.
 */
#ifndef TS_BASE_LINE_H
#define TS_BASE_LINE_H

#include "base/attr.h"

#define TS_LINE_BYTES 512u

typedef struct ts_line {
    char text[TS_LINE_BYTES + 1];
    size_t used;
} ts_line;

void ts_line_text(ts_line *line, const char *text);
/* In quotation marks; quotation marks and backslashes get a backslash, control characters and bytes that are not of UTF-8
   become '?'. At most `most` bytes of a text that ends with a zero. */
void ts_line_quoted(ts_line *line, const char *text, size_t most);
void ts_line_decimal(ts_line *line, uint64_t number);
/* With 0x. */
void ts_line_hex(ts_line *line, uint64_t number);
/* A newline, and a zero behind it. */
void ts_line_end(ts_line *line);
/* Ends the line and says it. Holding no lock: a function of the program may be called. errno is as before. */
void ts_line_write(ts_line *line);

#endif
