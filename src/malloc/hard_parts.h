/* What the files of the hard mode have of each other; see hard.h. */
#ifndef TS_MALLOC_HARD_PARTS_H
#define TS_MALLOC_HARD_PARTS_H

#include "api/private.h"
#include "malloc/hard.h"

/* A ts_harden; constant after the start. */
extern TS_HIDDEN uint32_t ts_hard_parts;
TS_ALWAYS_INLINE bool ts_hard_has(ts_harden part) { return (ts_hard_parts & part) != 0; }

/* ---- the quarantine (hard_wait.c) -------------------------------------------------------------------------------- */

#define TS_HARD_USES ((uint32_t)1 << 20)

typedef struct ts_hard_waiting {
    char *p;
    size_t bytes; /* of its slot or span, a multiple of 16 */
    uint32_t use; /* of its slab, modulo TS_HARD_USES; of a span 0 */
    bool span;
} ts_hard_waiting;

void ts_hard_wait_start(void);
/* The object waits from now on; which others leave it for that is a matter of chance. */
void ts_hard_wait(const ts_hard_waiting *object);
/* Some of what waits leaves, so many bytes of it if there are. Returns how many. */
size_t ts_hard_wait_less(size_t bytes);
size_t ts_hard_waiting_bytes(void); /* of a moment ago */
/* What leaves the quarantine (hard.c): looked at, and the core's from now on. */
void ts_hard_release(const ts_hard_waiting *object);
/* What waits when the process ends (hard.c): looked at. */
void ts_hard_look(const ts_hard_waiting *object);
/* A number that nobody can foretell who does not read this thread's memory. */
uint64_t ts_hard_random(void);

/* ---- large objects (hard_large.c) -------------------------------------------------------------------------------- */

#define TS_HARD_LARGE_BYTES ((size_t)128 << 10)

/* As ts_hard_alloc. */
void *ts_hard_large_alloc(size_t alignment, size_t size, bool zero, ts_kind kind);
/* With room to grow. size: TS_HARD_LARGE_BYTES at least. */
void *ts_hard_large_alloc_growing(size_t size);
/* For realloc. DONE: the object is the caller's alone from now on, and was looked at; the next three are for who has that. */
ts_hard_answer ts_hard_large_take(const char *call, void *p, size_t *bytes);
/* Where it is; it lives then. false: it is not possible. */
bool ts_hard_large_resize(void *p, size_t size);
/* It lives as it was. */
void ts_hard_large_give_back(void *p);
/* It is freed. */
void ts_hard_large_end(void *p);
/* OTHER: p is no large object that lives or waits. */
ts_hard_answer ts_hard_large_free(const char *call, void *p, ts_kind kind, size_t size);
ts_hard_answer ts_hard_large_usable(const void *p, size_t *bytes);
/* Whether home is the start of a span with a large object in it, whose ends are not to be touched. */
bool ts_hard_is_large(const char *home);
bool ts_hard_large_start(void);
size_t ts_hard_large_wait_less(size_t bytes);
size_t ts_hard_large_waiting_bytes(void);

/* ---- objects of no bytes (hard_none.c) --------------------------------------------------------------------------- */

/* NULL: there is no place with that alignment. */
void *ts_hard_none_alloc(size_t alignment, ts_kind kind);
/* OTHER: p is not in the range. */
ts_hard_answer ts_hard_none_free(const char *call, void *p, ts_kind kind, size_t size);
bool ts_hard_is_none(const void *p); /* in the range */
bool ts_hard_none_is_live(const void *p);
bool ts_hard_none_start(void);

/* ---- what is said (hard.c) --------------------------------------------------------------------------------------- */

/* The kind and size by which a live object is freed, beside its own. */
void ts_hard_compare(const char *call, const void *p, ts_kind kind, ts_kind own, size_t size, size_t bytes);
void ts_hard_tell(const char *call, const void *p, const char *why);
/* What is written around an object, or to what is free. */
void ts_hard_tell_of_canary(const char *call, const void *p, const char *why);
void ts_hard_tell_written(const char *call, const void *p);
ts_hard_answer ts_hard_refuse(const char *call, const void *p, const char *why);

#endif
