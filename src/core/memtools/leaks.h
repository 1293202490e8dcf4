/*
 * What a search for leaks sees: memcheck's, and that of LeakSanitizer, which is in AddressSanitizer too.
 *
 * LeakSanitizer looks for pointers in the memory that objects may have (ts_care_start), and knows nothing of the rest
 * of the region. Memcheck takes every page that can be read and written for a place where the program keeps pointers.
 * The region has two kinds of pages that are none:
 *
 *     lines        magazines and blocks know objects, also those that the program has forgotten
 *     objects      one that is lost would keep what it points to; memcheck follows what is in live objects by itself,
 *     as it
 *                  knows them one by one (care.h)
 *
 * So when the process ends these can be read, and not be written any more. Memcheck searches after that. Who writes
 * there once more, in a later destructor or in a thread that goes on, meets the handler of the fault, which opens the
 * region again for good.
 *
 * What lies in lines on the program's behalf, the arguments of cleanups, is copied for both of them when the process
 * ends.
 */
#ifndef TS_MEMTOOLS_LEAKS_H
#define TS_MEMTOOLS_LEAKS_H

/* Once, with the region and the tables there; nothing where neither tool is. each: shows what the program has given
   to be kept. */
void ts_leaks_start(void (*each)(void (*keep)(void *pointer)));

#endif
