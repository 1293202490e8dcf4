#ifndef STRIPPED_LIBRARY_H
#define STRIPPED_LIBRARY_H

#include <stddef.h>

/* What `allocate` gives, called on one of three ways. */
void *library_take(unsigned way, void *(*allocate)(size_t), size_t size);

#endif
