/*
 * Call stacks in a child of fork, while a thread of the parent has the lock of dl_iterate_phdr: nobody gives that back
 * in the child, which waits for nothing. stack.c is compiled once more, in place of the library's, and may be told that
 * the C library has no _dl_find_object.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "errands.h"
#include "proc.h"
#include "unit.h"

#include "os/os.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>

static bool is_old;
static inline void *find_symbol(void *where, const char *name) {
    return is_old && strcmp(name, "_dl_find_object") == 0 ? NULL : dlsym(where, name);
}
#define dlsym(where, name) find_symbol((where), (name))
#include "os/stack.c"

#ifdef HAS_UNWINDER
#define WALKS true
#else
#define WALKS false
#endif

static SlabAllocator *sampled; /* every object with its call stack */
static bool has_lock;          /* a thread that the child does not have has it */
static bool walks;             /* the child */

static unsigned frames(void) {
    void *frame[16];
    return ts_os_stack(frame, 16);
}

static void count_module(void *count, const ts_os_module *module) { *(unsigned *)count += module->end != 0; }

static void look(void *unused) {
    unsigned modules = 0;
    (void)unused;
    SUP_CHECK(slab_malloc(sampled, 100) != NULL, "a sampled object");
    SUP_CHECK((frames() > 1) == walks, "%u frames", frames());
    if (has_lock && walks) return; /* there it would wait (docs/limits.md) */
    ts_os_modules(count_module, &modules);
    SUP_CHECK((modules > 0) == (walks || !WALKS), "%u modules", modules);
    ts_os_stack_prepare();
    SUP_CHECK((frames() > 1) == walks, "prepared there: %u frames", frames());
}

static void fork_and_look(void) {
    int status = sup_child(look, NULL, SUP_CHILD_SECONDS, NULL, 0);
    SUP_CHECK(status == 0, "the child ended with status %d%s", status, status == SIGALRM ? " (it hung)" : "");
}

static int fork_with_the_lock(struct dl_phdr_info *info, size_t bytes, void *unused) {
    (void)info;
    (void)bytes;
    (void)unused;
    let(fork_and_look);
    return 1;
}

static void forked(void **state) {
    (void)state;
    if (SUP_EMULATED) skip(); /* qemu aborts in children of programs with threads */
    sampled = slab_allocator_create_ex(&(SlabOptions){.size = sizeof(SlabOptions), .sample_stacks = 1});
    assert_non_null(sampled);
    for (unsigned turn = 0; turn < 2; turn++) {
        is_old = turn == 0;
        bool has_unwinder = find_unwinder(), alone = ts_os_is_alone();
        assert_true(has_unwinder == WALKS);
        walks = WALKS && (alone || walks_without_lock());
        fork_and_look();
        begin();
        has_lock = true;
        walks = WALKS && walks_without_lock();
        (void)dl_iterate_phdr(fork_with_the_lock, NULL);
        has_lock = false;
        end();
    }
    slab_allocator_free(sampled);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(forked)};
    return cmocka_run_group_tests_name("os.stack", tests, NULL, NULL);
}
