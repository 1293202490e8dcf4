/*
 * In an archive (libtslab-malloc.a) the linker takes one file for each name that is still missing. A program would get
 * malloc from here and what it asks for later from libc's archive, whose file has a malloc too. So the first file that
 * is taken needs all that have names of libc's.
 */
#ifndef TM_MALLOC_STATIC_H
#define TM_MALLOC_STATIC_H

#ifdef TSLAB_MALLOC_STATIC

#include "base/base.h"

typedef void (*tm_part)(void);
extern TS_HIDDEN const tm_part tm_static_parts[];

#endif

#endif
