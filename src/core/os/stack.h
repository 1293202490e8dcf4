/*
 * Call stacks: return addresses of the calling thread, and where the code lies that they point into.
 *
 * The compiler's unwinder (libgcc) walks the stack by the unwind tables of the code, which needs no frame pointers and stops at code
 * that has no tables. A walk also stops at the first address that is in no module: code that the program has made while it runs may
 * have tables that the unwinder ends the program at. The unwinder is loaded when it is needed, and linked weakly in a static program:
 * where there is none, there are no stacks.
 */
#ifndef TS_OS_STACK_H
#define TS_OS_STACK_H

#include "base/attr.h"

#define TS_OS_PATH_BYTES 240u

typedef struct ts_os_module {
    uint64_t base;       /* an address of the code less base is the address in its file */
    uint64_t start, end; /* of what is mapped */
    const char *path;    /* "" : unknown */
    bool is_program;     /* not a library */
} ts_os_module;

/* Makes ready what ts_os_stack needs, which may allocate and load a library. Once, holding nothing. */
void ts_os_stack_prepare(void);
/* The return addresses of the calling thread from its innermost frame on, at most `capacity`. Returns how many; 0: the
   system cannot tell. Does not allocate after ts_os_stack_prepare. Holding nothing: the loader's lock may be taken. */
unsigned ts_os_stack(void **frames, unsigned capacity);
/* The number by which the system knows the calling thread; 0: not known. */
uint32_t ts_os_thread_number(void);
/* Its name, as the system shows it, ended by a zero; "": it has none. */
#define TS_OS_THREAD_NAME_BYTES 16u
void ts_os_thread_name(char name[TS_OS_THREAD_NAME_BYTES]);
/* The same of the process's thread of that number. false: there is none, or it cannot be seen. */
bool ts_os_name_of_thread(uint32_t number, char name[TS_OS_THREAD_NAME_BYTES]);
/* Whether the program was started by a loader, and may load libraries; else it is linked statically. */
bool ts_os_has_loader(void);
/* Shows every program and library that is loaded, under the loader's lock. */
void ts_os_modules(void (*fn)(void *arg, const ts_os_module *module), void *arg);

#endif
