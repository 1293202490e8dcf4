/*
 * The memory that a search for leaks sees: memcheck's, and LeakSanitizer's, which is in AddressSanitizer, too.
 *
 * LeakSanitizer looks for pointers in the memory that objects may have (ts_care_start), and knows nothing of the rest
 * of the region. Memcheck takes each page that can be read and written for a place where the program keeps pointers.
 * Two kinds of pages of the region are no such places:
 *
 *     lines      magazines and blocks know objects, also those that the program has forgotten
 *     objects    a lost object would keep the objects that it points to; memcheck follows pointers in live objects by
 *                itself, as it knows them one by one (care.h)
 *
 * So when the process ends these pages become read-only, and memcheck searches after that. A later write, in a
 * destructor or in a thread that goes on, meets the handler of the fault, which opens the region again for good.
 *
 * The program's own pointers in lines, the arguments of cleanups, are copied for both tools when the process ends.
 */
#ifndef TS_MEMTOOLS_LEAKS_H
#define TS_MEMTOOLS_LEAKS_H

/* Once, when the region and the tables are there. Does nothing without such a tool. each: shows each pointer that the
   program keeps in lines. */
void ts_leaks_start(void (*each)(void (*keep)(void *pointer)));

#endif
