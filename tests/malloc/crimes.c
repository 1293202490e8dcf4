#define _GNU_SOURCE
#include "crimes.h"

#include "malloc_test.h"

#include <malloc.h>
#include <stdint.h>
#include <string.h>

#if SIZE_MAX == UINT64_MAX || defined(__s390__)
#define SIZE "m"
#else
#define SIZE "j"
#endif

/* The operators of C++, by the names of the Itanium ABI. */
void *of_new(size_t) __asm__("_Znw" SIZE);
void *of_new_array(size_t) __asm__("_Zna" SIZE);
void by_delete(void *) __asm__("_ZdlPv");
void by_delete_array(void *) __asm__("_ZdaPv");
void by_delete_sized(void *, size_t) __asm__("_ZdlPv" SIZE);
void by_delete_array_sized(void *, size_t) __asm__("_ZdaPv" SIZE);

/* ---- the scene --------------------------------------------------------------------------------------------------- */

#define OTHERS 64
#define FEW 8 /* of large ones */

static char *others[OTHERS];
static size_t other_count, other_bytes;
static char *victim;

static char mark_of(size_t i) { return (char)('a' + i % 26); }

/* Objects of the same size, with the victim among them, so that it has live neighbours where the allocator has
   neighbours. */
static void set_scene(size_t bytes) {
    other_bytes = bytes;
    other_count = bytes > 100000 ? FEW : OTHERS;
    for (size_t i = 0; i < other_count; i++) {
        if (i == other_count / 2) victim = malloc(bytes);
        others[i] = malloc(bytes);
        CHECK(others[i] && victim == victim);
        memset(others[i], mark_of(i), bytes);
    }
    CHECK(victim != NULL);
    memset(victim, 'V', bytes);
}

static bool are_others_whole(void) {
    for (size_t i = 0; i < other_count; i++)
        for (size_t k = 0; k < other_bytes; k++)
            if (others[i][k] != mark_of(i)) return false;
    return true;
}

/* New objects are each a place of its own, and in nobody else's. */
static bool are_new_ones_apart(void) {
    enum { NEW = 32 };
    char *fresh[NEW];
    bool apart = true;
    for (size_t i = 0; i < NEW; i++) {
        fresh[i] = malloc(other_bytes);
        CHECK(fresh[i] != NULL);
        for (size_t k = 0; k < i; k++)
            apart &= fresh[i] >= fresh[k] + other_bytes || fresh[k] >= fresh[i] + other_bytes;
        for (size_t k = 0; k < other_count; k++)
            apart &= fresh[i] >= others[k] + other_bytes || others[k] >= fresh[i] + other_bytes;
        memset(fresh[i], 'N', other_bytes);
    }
    for (size_t i = 0; i < NEW; i++) free(fresh[i]);
    return apart;
}

static bool learnt; /* the crime has read bytes that it should not */

_Noreturn void crime_run(const crime *c, size_t bytes) {
    set_scene(bytes);
    c->commit(bytes);
    bool whole = are_others_whole();
    bool apart = are_new_ones_apart();
    whole &= are_others_whole();
    for (size_t i = 0; i < other_count; i++) free(others[i]);
    other_count = 0;
    (void)are_new_ones_apart();
    exit(whole && apart && !learnt ? CRIME_HARMLESS : CRIME_DONE);
}

/* ---- over and under ---------------------------------------------------------------------------------------------- */

#define MILLION 1000000

static char source[MILLION + (1 << 20)];

static char *at(ptrdiff_t offset) { return (char *)hidden(victim) + offset; }

static void write_over(ptrdiff_t offset) {
    *(volatile char *)at(offset) = 'A';
    free(victim);
}
static void copy_over(ptrdiff_t offset, size_t n) {
    memset(source, 'A', sizeof source);
    memcpy(at(offset), source, hidden_size(n));
    free(victim);
}
static void read_over(ptrdiff_t offset) {
    volatile char byte = *(volatile char *)at(offset);
    (void)byte;
    learnt = true;
    free(victim);
}

#define BY(n)                                                                                     \
    static void over_index_##n(size_t bytes) { write_over((ptrdiff_t)(bytes + (n)-1)); }          \
    static void over_copy_##n(size_t bytes) { copy_over(0, bytes + (n)); }                        \
    static void over_read_##n(size_t bytes) { read_over((ptrdiff_t)(bytes + (n)-1)); }            \
    static void under_index_##n(size_t bytes) { (void)bytes, write_over(-(ptrdiff_t)(n)); }       \
    static void under_copy_##n(size_t bytes) { copy_over(-(ptrdiff_t)(n), (size_t)(n) + bytes); } \
    static void under_read_##n(size_t bytes) { (void)bytes, read_over(-(ptrdiff_t)(n)); }
BY(1)
BY(32)
BY(1000000)

static void zero_write(size_t bytes) {
    (void)bytes;
    char *p = malloc(hidden_size(0));
    *(volatile char *)hidden(p) = 'A';
    free(p);
    free(victim);
}
static void zero_read(size_t bytes) {
    (void)bytes;
    char *p = malloc(hidden_size(0));
    volatile char byte = *(volatile char *)hidden(p);
    (void)byte;
    learnt = true;
    free(p);
    free(victim);
}

/* One byte further than all that is the object's, where nothing has ever been. Of 104 and 1000 bytes, in slots of 112
   and 1024; others are not among others. */
static void over_word_1(size_t bytes) {
    size_t n = bytes < 1000 ? 104 : 1000, slot = bytes < 1000 ? 112 : 1024;
    char *p = malloc(n);
    *((volatile char *)hidden(p) + slot) = 'A';
    free(p);
    free(victim);
}

/* Of many, the object that is nearest to where its slab begins. */
static void under_first_1(size_t bytes) {
    size_t n = bytes < 1000 ? 40 : bytes < 100000 ? 1000 : 8170, least = SIZE_MAX;
    static char *p[1000];
    char *first = NULL;
    for (size_t i = 0; i < 1000; i++) {
        p[i] = malloc(n);
        CHECK(p[i] != NULL);
        if ((uintptr_t)p[i] % 16384 >= least) continue;
        least = (uintptr_t)p[i] % 16384;
        first = p[i];
    }
    *((volatile char *)hidden(first) - 1) = 'A';
    for (size_t i = 0; i < 1000; i++) free(p[i]);
    free(victim);
}

/* The victim lives on. */
static void exit_over_1(size_t bytes) { *(volatile char *)at((ptrdiff_t)bytes) = 'A'; }
static void exit_under_1(size_t bytes) {
    (void)bytes;
    *(volatile char *)at(-1) = 'A';
}

/* ---- after free -------------------------------------------------------------------------------------------------- */

/* Until the victim's place is another object's, which then is the answer; NULL: it does not become one. */
static char *reuse(size_t bytes) {
    for (int i = 0; i < 20000; i++) {
        char *p = malloc(bytes);
        if (p == hidden(victim)) return memset(p, 'R', bytes);
        free(p);
    }
    return NULL;
}

static void free_write(size_t bytes) {
    free(victim);
    memset(at(0), 'A', bytes);
}
static void free_write_byte(size_t bytes) {
    free(victim);
    *(volatile char *)at((ptrdiff_t)bytes / 2) = 'A';
}
/* The word before it, between live neighbours. */
static void free_under(size_t bytes) {
    (void)bytes;
    free(victim);
    *(volatile size_t *)(void *)at(-(ptrdiff_t)sizeof(size_t)) = 1;
}
/* The word before it, where its neighbours were freed, and have left the quarantine. */
static void free_under_alone(size_t bytes) {
    for (size_t i = 0; i < other_count; i++) free(others[i]);
    other_count = 0;
    for (int i = 0; i < 50000; i++) free(malloc(hidden_size(bytes == 24 ? 200 : 24)));
    free_under(bytes);
    exit(CRIME_HARMLESS);
}
static void free_under_aligned(size_t bytes) {
    free(victim);
    for (size_t alignment = 32; alignment < 16384; alignment *= 2) {
        CHECK((victim = memalign(alignment, bytes)) != NULL);
        free_under(bytes);
    }
}
static void free_write_failed(size_t bytes) {
    free(victim);
    for (int i = 0; i < 10; i++) {
        CHECK(malloc(hidden_size(SIZE_MAX / 4)) == NULL);
        CHECK(malloc(hidden_size(SIZE_MAX / 64 * 3)) == NULL);
    }
    memset(at(0), 'A', bytes);
}
static void free_read(size_t bytes) {
    free(victim);
    volatile char byte = *(volatile char *)at((ptrdiff_t)bytes / 2);
    learnt = byte == 'V';
}
static void reuse_write(size_t bytes) {
    free(victim);
    char *p = reuse(bytes);
    memset(at(0), 'A', bytes);
    if (p) learnt = p[0] != 'R';
    free(p);
}
static void reuse_read(size_t bytes) {
    free(victim);
    char *p = reuse(bytes);
    volatile char byte = *(volatile char *)at(0);
    learnt = p && byte == 'R';
    free(p);
}
static void reuse_contents(size_t bytes) {
    free(victim);
    for (int i = 0; i < 2000; i++) {
        char *p = malloc(bytes);
        for (size_t k = 0; k < bytes; k++) learnt |= p[k] == 'V';
        free(p);
    }
}

/* ---- frees ------------------------------------------------------------------------------------------------------- */

static void twice_direct(size_t bytes) {
    (void)bytes;
    free(victim);
    free(hidden(victim));
}
static void twice_delayed(size_t bytes) {
    free(victim);
    void *p[50];
    for (int i = 0; i < 50; i++) p[i] = malloc(bytes + 5000);
    for (int i = 0; i < 50; i++) free(p[i]);
    free(hidden(victim));
}
static void twice_interleaved(size_t bytes) {
    void *p = malloc(bytes);
    free(victim);
    free(p);
    free(hidden(victim));
}
static void twice_reused(size_t bytes) {
    free(victim);
    char *p = reuse(bytes);
    free(hidden(victim)); /* p, if that is its place */
    char *q = malloc(bytes);
    learnt = p && p == q;
    free(p);
    free(q);
}
static void twice_resized(size_t bytes) {
    free(victim);
    void *p = realloc(hidden(victim), bytes * 2);
    free(p);
}

static void free_stack(size_t bytes) {
    (void)bytes;
    char here[256];
    free(hidden(here + 64));
    free(victim);
}
static void free_alloca(size_t bytes) {
    (void)bytes;
    free(hidden(__builtin_alloca(256)));
    free(victim);
}
static void free_static(size_t bytes) {
    static char here[256];
    (void)bytes;
    free(hidden(here + 64));
    free(victim);
}
static void free_far(size_t bytes) {
    (void)bytes;
    free(hidden((void *)(uintptr_t)0x7ffffffff0));
    free(victim);
}
static void free_unaligned(size_t bytes) {
    (void)bytes;
    free(at(1));
    free(victim);
}
static void free_interior(size_t bytes) {
    free(at((ptrdiff_t)(bytes / 2) & -16));
    free(victim);
}
static void free_before(size_t bytes) {
    (void)bytes;
    free(at(-16));
    free(victim);
}

/* ---- mismatched -------------------------------------------------------------------------------------------------- */

static void new_free(size_t bytes) { free(hidden(of_new(bytes))), free(victim); }
static void new_array_free(size_t bytes) { free(hidden(of_new_array(bytes))), free(victim); }
static void malloc_delete(size_t bytes) { (void)bytes, by_delete(hidden(victim)); }
static void malloc_delete_array(size_t bytes) { (void)bytes, by_delete_array(hidden(victim)); }
static void new_delete_array(size_t bytes) { by_delete_array(hidden(of_new(bytes))), free(victim); }
static void new_array_delete(size_t bytes) { by_delete(hidden(of_new_array(bytes))), free(victim); }
static void new_realloc(size_t bytes) { free(realloc(hidden(of_new(bytes)), bytes * 2)), free(victim); }
static void delete_less(size_t bytes) { by_delete_sized(hidden(of_new(bytes)), hidden_size(bytes / 2)), free(victim); }
static void delete_more(size_t bytes) { by_delete_array_sized(hidden(of_new_array(bytes)), bytes * 2), free(victim); }

#define CRIME(name, kind) \
    { #name, name, kind }
#define ALL_BY(n)                                                                                            \
    CRIME(over_index_##n, (n) == 1 ? CRIME_STOPPED : CRIME_INDEXED), CRIME(over_copy_##n, CRIME_STOPPED),    \
        CRIME(over_read_##n, CRIME_READS), CRIME(under_index_##n, (n) == 1 ? CRIME_STOPPED : CRIME_INDEXED), \
        CRIME(under_copy_##n, CRIME_STOPPED), CRIME(under_read_##n, CRIME_READS)

const crime crimes[] = {
    ALL_BY(1),
    ALL_BY(32),
    ALL_BY(1000000),
    CRIME(over_word_1, CRIME_STOPPED),
    CRIME(under_first_1, CRIME_STOPPED),
    CRIME(exit_over_1, CRIME_AT_EXIT),
    CRIME(exit_under_1, CRIME_AT_EXIT),
    CRIME(zero_write, CRIME_STOPPED),
    CRIME(zero_read, CRIME_STOPPED),
    CRIME(free_write, CRIME_STOPPED),
    CRIME(free_write_byte, CRIME_STOPPED),
    CRIME(free_under, CRIME_STOPPED),
    CRIME(free_under_alone, CRIME_STOPPED),
    CRIME(free_under_aligned, CRIME_STOPPED),
    CRIME(free_write_failed, CRIME_STOPPED),
    CRIME(free_read, CRIME_READS),
    CRIME(reuse_write, CRIME_REUSED),
    CRIME(reuse_read, CRIME_READS),
    CRIME(reuse_contents, CRIME_CONTENTS),
    CRIME(twice_direct, CRIME_STOPPED),
    CRIME(twice_delayed, CRIME_STOPPED),
    CRIME(twice_interleaved, CRIME_STOPPED),
    CRIME(twice_reused, CRIME_STOPPED),
    CRIME(twice_resized, CRIME_STOPPED),
    CRIME(free_stack, CRIME_STOPPED),
    CRIME(free_alloca, CRIME_STOPPED),
    CRIME(free_static, CRIME_STOPPED),
    CRIME(free_far, CRIME_STOPPED),
    CRIME(free_unaligned, CRIME_STOPPED),
    CRIME(free_interior, CRIME_STOPPED),
    CRIME(free_before, CRIME_STOPPED),
    CRIME(new_free, CRIME_MISMATCH),
    CRIME(new_array_free, CRIME_MISMATCH),
    CRIME(malloc_delete, CRIME_MISMATCH),
    CRIME(malloc_delete_array, CRIME_MISMATCH),
    CRIME(new_delete_array, CRIME_MISMATCH),
    CRIME(new_array_delete, CRIME_MISMATCH),
    CRIME(new_realloc, CRIME_MISMATCH),
    CRIME(delete_less, CRIME_MISMATCH),
    CRIME(delete_more, CRIME_MISMATCH),
};
const size_t crime_count = sizeof crimes / sizeof *crimes;
