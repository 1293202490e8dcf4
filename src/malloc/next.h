#ifndef TS_MALLOC_NEXT_H
#define TS_MALLOC_NEXT_H

/* The function of that name in the libraries behind this one; NULL: none. Takes the loader's lock; allocates where
   dlsym does. */
void *ts_malloc_next(const char *name);

#endif
