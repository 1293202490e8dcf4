#ifndef STRIPPED_LIBRARY_H
#define STRIPPED_LIBRARY_H

#include <stddef.h>

/* The result of `allocate`, called on one of three ways. */
void *library_take(unsigned way, void *(*allocate)(size_t), size_t size);

#endif
