/*
 * Call stacks: return addresses of the calling thread, and the modules that they point into.
 *
 * The compiler's unwinder (libgcc) walks the stack by the unwind tables of the code. That needs no frame pointers,
 * and stops at code without tables. A walk also stops at the first address outside of all modules: code that a
 * program makes while it runs may have tables at which the unwinder ends the program. The unwinder is loaded when it
 * is needed, and linked weakly in a static program. Without an unwinder there are no stacks.
 */
#ifndef TS_OS_STACK_H
#define TS_OS_STACK_H

#include "base/attr.h"

#define TS_OS_PATH_BYTES 240u

typedef struct ts_os_module {
    uint64_t base;       /* an address of the code less base is the address in its file */
    uint64_t start, end; /* the mapped range */
    const char *path;    /* "" : unknown */
    bool is_program;     /* not a library */
} ts_os_module;

/* Prepares ts_os_stack; may allocate and load a library. Once; the caller holds no lock. */
void ts_os_stack_prepare(void);
/* In a child of fork whose parent had other threads. */
void ts_os_stack_fork_child(void);
/* The return addresses of the calling thread from its innermost frame on, at most `capacity`. Returns how many; 0: the
   system cannot tell. Does not allocate after ts_os_stack_prepare. Caller holds no lock, because it may take the
   loader's lock. */
unsigned ts_os_stack(void **frames, unsigned capacity);
/* The number by which the system knows the calling thread; 0: not known. */
uint32_t ts_os_thread_number(void);
/* The name of the calling thread, as the system shows it, ended by a zero; "": it has none. */
#define TS_OS_THREAD_NAME_BYTES 16u
void ts_os_thread_name(char name[TS_OS_THREAD_NAME_BYTES]);
/* The name of the thread with this number in the process. false: there is no such thread, or it cannot be seen. */
bool ts_os_name_of_thread(uint32_t number, char name[TS_OS_THREAD_NAME_BYTES]);
/* Whether the program was started by a loader, and may load libraries; else it is linked statically. */
bool ts_os_has_loader(void);
/* Shows every program and library that is loaded, under the loader's lock. */
void ts_os_modules(void (*fn)(void *arg, const ts_os_module *module), void *arg);

#endif
