/* What the files of the hard mode have of each other; see hard.h. */
#ifndef TM_MALLOC_HARD_PARTS_H
#define TM_MALLOC_HARD_PARTS_H

#include "api/api.h"
#include "malloc/hard.h"

/* A ts_harden; constant after the start. */
extern TS_HIDDEN uint32_t tm_hard_parts;
TS_ALWAYS_INLINE bool tm_hard_has(ts_harden part) { return (tm_hard_parts & part) != 0; }

/* ---- places (and hard_word.h) ------------------------------------------------------------------------------------ */

#define TM_HARD_WORD_BYTES sizeof(uint64_t)
#define TM_HARD_FRONT_BYTES ((size_t)16) /* before the object in the first slot of a slab */

static inline size_t tm_hard_in_unit(const void *p) { return (uintptr_t)p & (TS_PRIVATE_UNIT - 1); }
/* The word of a slot or span. */
static inline _Atomic uint64_t *tm_hard_word_at(char *home, size_t bytes) {
    return (_Atomic uint64_t *)(void *)(home + bytes - TM_HARD_WORD_BYTES);
}
static inline _Atomic uint64_t *tm_hard_front_of(char *p) {
    return (_Atomic uint64_t *)(void *)(p - TM_HARD_WORD_BYTES);
}
/* The place with which the word of a slot is mixed: where its object begins, if there can be one. */
static inline char *tm_hard_name(char *home, size_t bytes) {
    return tm_hard_in_unit(home) == 0 && bytes > TM_HARD_FRONT_BYTES ? home + TM_HARD_FRONT_BYTES : home;
}
static inline char *tm_hard_home_of_name(char *p, size_t bytes) {
    return tm_hard_in_unit(p) == TM_HARD_FRONT_BYTES && bytes > TM_HARD_FRONT_BYTES ? p - TM_HARD_FRONT_BYTES : p;
}

/* ---- slots (hard_slot.c) ----------------------------------------------------------------------------------------- */

void tm_hard_slot_start(SlabAllocator *allocator);
/* An object that the core has just given, which the slot has room for. */
void *tm_hard_begin_slot(char *home, size_t bytes, size_t size, tm_kind kind);
/* The same where it has not: the first slot of a slab, which nothing of ours lies before. It waits from now on. */
void tm_hard_pass_over(char *home, size_t bytes);
/* It is the core's from now on. */
void tm_hard_free_slot(char *home, size_t bytes, uint32_t use);
/* The word of the slot before that at home is right, or there is none. */
bool tm_hard_is_word_before(const char *home, size_t bytes);

/* Whether no thread of this process has been given the live slot, or it is an object of the core's own functions. word:
   that of the slot, which is none then. */
bool tm_hard_is_lost(const char *slot, uint64_t word);
/* Whether the slot behind that at home is free, and was written to. use: of the slab. */
bool tm_hard_is_written_behind(const char *home, size_t bytes, uint32_t use);
void tm_hard_draw_behind(char *end, size_t slack); /* hard.c */

/* ---- the quarantine (hard_wait.c) -------------------------------------------------------------------------------- */

#define TM_HARD_USES ((uint32_t)1 << 20)

typedef struct tm_hard_waiting {
    char *p;
    size_t bytes; /* of its slot or span, a multiple of 16 */
    uint32_t use; /* of its slab, modulo TM_HARD_USES; of a span 0 */
    bool span;
} tm_hard_waiting;

void tm_hard_wait_start(void);
/* The object waits from now on; which others leave it for that is a matter of chance. */
void tm_hard_wait(const tm_hard_waiting *object);
/* Some of what waits leaves, so many bytes of it if there are. Returns how many. */
size_t tm_hard_wait_less(size_t bytes);
size_t tm_hard_waiting_bytes(void); /* of a moment ago */
/* What leaves the quarantine (hard.c): looked at, and the core's from now on. */
void tm_hard_release(const tm_hard_waiting *object);
/* When the process ends: all that waits is looked at. */
void tm_hard_wait_look(void);
/* One of it (hard.c). */
void tm_hard_look(const tm_hard_waiting *object);
/* The LIFE at home, where a slot or a span begins: a number that is another once an object of ours there has left (and
   that others' leaving may change, too). */
uint32_t tm_hard_life(const char *home);
/* An object at home leaves: before its word, or its record, says so. */
void tm_hard_end_life(const char *home);
/* So much more lies around objects that live. */
void tm_hard_add_around(size_t more, size_t less);
/* A number that can be foretold only by reading this thread's memory. */
uint64_t tm_hard_random(void);

/* ---- large objects (hard_large.c) -------------------------------------------------------------------------------- */

#define TM_HARD_LARGE_BYTES ((size_t)128 << 10)

/* As tm_hard_alloc. */
void *tm_hard_large_alloc(size_t alignment, size_t size, bool zero, tm_kind kind);
/* With room to grow. size: TM_HARD_LARGE_BYTES at least. */
void *tm_hard_large_alloc_growing(size_t size);
/* For realloc. DONE: the object is the caller's alone from now on, and was looked at; the next three need that. */
tm_hard_answer tm_hard_large_take(const char *call, void *p, size_t *bytes);
/* Where it is; it lives then. false: it is not possible. */
bool tm_hard_large_resize(void *p, size_t size);
/* It lives as it was. */
void tm_hard_large_give_back(void *p);
/* It is freed. */
void tm_hard_large_end(void *p);
/* OTHER: p is no large object that lives or waits. */
tm_hard_answer tm_hard_large_free(const char *call, void *p, tm_kind kind, size_t size);
tm_hard_answer tm_hard_large_usable(const void *p, size_t *bytes);
/* Whether home is the start of a span with a large object in it, whose ends are not to be touched. */
bool tm_hard_is_large(const char *home);
bool tm_hard_large_start(void);
/* Nothing becomes inaccessible any more. false: some thread may still be doing so. */
bool tm_hard_large_keep_accessible(void);
/* Since that call: nothing is resized where it is. */
bool tm_hard_looks_at_all(void);
/* What is wrong with the live object in the span at home; NULL: nothing, or there is none that lives. */
const char *tm_hard_large_fault(const char *home);
size_t tm_hard_large_wait_less(size_t bytes);
size_t tm_hard_large_waiting_bytes(void);

/* ---- objects of no bytes (hard_none.c) --------------------------------------------------------------------------- */

/* NULL: there is no place with that alignment. */
void *tm_hard_none_alloc(size_t alignment, tm_kind kind);
/* OTHER: p is not in the range. */
tm_hard_answer tm_hard_none_free(const char *call, void *p, tm_kind kind, size_t size);
bool tm_hard_is_none(const void *p); /* in the range */
bool tm_hard_none_is_live(const void *p);
bool tm_hard_none_start(void);

/* ---- the end of the process (hard_look.c) ------------------------------------------------------------------------ */

/* What is wrong with what lives in the slot or span at home; NULL: nothing, or nothing lives there (hard.c). Other
   threads may go on, but nothing becomes inaccessible. */
const char *tm_hard_fault_of_live(char *home);

/* ---- what is said (hard_tell.c) ---------------------------------------------------------------------------------- */

/* The kind and size by which a live object is freed, beside its own. */
void tm_hard_compare(const char *call, const void *p, tm_kind kind, tm_kind own, size_t size, size_t bytes);
void tm_hard_tell(const char *call, const void *p, const char *why);
/* What is written around an object, or to what is free. */
void tm_hard_tell_of_canary(const char *call, const void *p, const char *why);
void tm_hard_tell_written(const char *call, const void *p);
tm_hard_answer tm_hard_refuse(const char *call, const void *p, const char *why);

#endif
