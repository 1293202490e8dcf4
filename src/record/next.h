/* The functions behind the hooks. */
#ifndef RECORD_NEXT_H
#define RECORD_NEXT_H

#include <string.h>

#pragma GCC visibility push(hidden)
/* The function of that name of the libraries behind this one; NULL: there is none. */
void *record_next(const char *name);
/* Whether the program does not call this library's malloc, but one of its own. */
bool record_calls_own_malloc(void);
#pragma GCC visibility pop

#define NEXT(pointer, name)                         \
    do {                                            \
        void *found_ = record_next(name);           \
        memcpy(&(pointer), &found_, sizeof found_); \
    } while (0)

#endif
