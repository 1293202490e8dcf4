/*
 * Code that the program has made while it runs, with tables for unwinding that have no rule for the caller, as
 * compilers of scripts register them: the unwinder ends a program that asks it for the caller of such a frame. A
 * sampled stack ends there.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "check.h"
#include "unit.h"

#include <tslab/stats.h>

#if defined(__x86_64__) && defined(__GLIBC__)
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static SlabAllocator *allocator;

__attribute__((noinline)) static void allocates(void) { assert_non_null(slab_malloc(allocator, 100)); }

/* sub $8,%rsp; call *%rdi; add $8,%rsp; ret */
static const unsigned char CODE[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3};

/* A description of the code that says of nothing where it is: one common part, one of the code, an end. */
static struct {
    uint32_t common_bytes, common_id;
    unsigned char version, augmentation, code_align, data_align, return_register, none[3];
    uint32_t bytes, common;
    uint64_t from, length;
    uint32_t end;
} __attribute__((packed)) table = {.common_bytes = 12,
                                   .version = 1,
                                   .code_align = 1,
                                   .data_align = 0x78, /* -8 */
                                   .return_register = 16,
                                   .bytes = 20,
                                   .common = 20};

static void a_stack_ends_at_generated_code(void **state) {
    static SlabStackSample rows[16];
    void (*begin)(void *) = NULL;
    void (*code)(void (*)(void)) = NULL;
    (void)state;
    void *library = dlopen("libgcc_s.so.1", RTLD_NOW), *symbol = library ? dlsym(library, "__register_frame") : NULL;
    if (!symbol) skip();
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    memcpy(page, CODE, sizeof CODE);
    table.from = (uintptr_t)page;
    table.length = 4096;
    memcpy(&begin, &symbol, sizeof begin);
    memcpy(&code, &page, sizeof code);
    begin(&table);
    SlabOptions options = {.size = sizeof options, .sample_stacks = 1};
    assert_non_null(allocator = slab_allocator_create_ex(&options));
    code(allocates);
    assert_int_equal(slab_stacks(allocator, EPOCH_NONE, rows, 16), 1);
    /* The caller of slab_malloc, and the address in the code behind its call. */
    assert_int_equal(rows[0].frame_count, 2);
    assert_in_range((uintptr_t)rows[0].frames[0], (uintptr_t)allocates, (uintptr_t)allocates + 200);
    assert_int_equal(rows[0].frames[1], (uintptr_t)page + 6);
    slab_allocator_free(allocator);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_stack_ends_at_generated_code)};
    return cmocka_run_group_tests_name("process.generated", tests, NULL, NULL);
}
#else
#include <stdio.h>

int main(void) {
    puts("process.generated: skipped, the generated code is of x86-64");
    return 77;
}
#endif
