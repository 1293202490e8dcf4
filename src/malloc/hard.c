#define _GNU_SOURCE
#include "malloc/hard.h"

#include "api/api.h"
#include "base/base.h"
#include "malloc/hard_parts.h"
#include "malloc/hard_word.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

_Static_assert(TM_HARD_USES == (uint32_t)1 << TM_HARD_SLACK_BITS, "a word has room for it");

#define WORD_BYTES TM_HARD_WORD_BYTES
#define SLOT_SIZES 14336u
#define MOST ((size_t)PTRDIFF_MAX / 2) /* bytes of an object, with what lies around it */

uint64_t tm_hard_secret[2];
unsigned char tm_hard_canary;

/* Constant after the start. */
static uint16_t slots[SLOT_SIZES / 16 + 1]; /* [(size + 15) / 16]: bytes of the slot; 0: a span */

static SlabAllocator *mine(void) { return tm_target_allocator(&tm_hard); }

static size_t slot_bytes(size_t size) { return size <= SLOT_SIZES ? slots[(size + 15) / 16] : 0; }

/* ---- start ------------------------------------------------------------------------------------------------------- */

static void draw_secret(void) {
    if (getrandom(tm_hard_secret, sizeof tm_hard_secret, GRND_NONBLOCK) != (ssize_t)sizeof tm_hard_secret) {
        struct timespec now;
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        tm_hard_secret[0] = (uint64_t)now.tv_nsec * UINT64_C(0x9e3779b97f4a7c15) ^ (uintptr_t)&now;
        tm_hard_secret[1] = tm_hard_secret[0] * UINT64_C(0xd1342543de82ef95) + (uintptr_t)draw_secret;
    }
    tm_hard_secret[1] |= 1;
    tm_hard_canary = 0x80 | (unsigned char)(tm_hard_secret[0] >> 57);
}

bool tm_hard_start(SlabAllocator *allocator, EpochId epoch, uint32_t parts) {
    tm_hard_parts = parts;
    draw_secret();
    for (unsigned i = 0; i <= SLOT_SIZES / 16; i++) slots[i] = (uint16_t)ts_private_slot_bytes(allocator, i * 16u);
    tm_hard_slot_start(allocator);
    tm_hard_wait_start();
    if (!tm_hard_none_start() || !tm_hard_large_start()) return false;
    ts_store_relaxed(&tm_hard.epoch, epoch);
    /* release: partner of tm_target_allocator */
    atomic_store_explicit(&tm_hard.allocator, allocator, memory_order_release);
    return true;
}

/* ---- allocation -------------------------------------------------------------------------------------------------- */

/* Before the word is written. */
void tm_hard_draw_behind(char *end, size_t slack) {
    if (TS_LIKELY(tm_hard_has(TS_HARDEN_CANARY))) tm_hard_draw(end, tm_hard_canary_bytes(slack));
}

/* front: bytes before the object in its span; 0: none, and no word there. */
static void *begin_span(char *home, size_t bytes, size_t front, size_t size, tm_kind kind) {
    char *p = home + front;
    size_t slack = bytes - WORD_BYTES - front - size;
    if (front) tm_hard_store(tm_hard_front_of(p), tm_hard_word(p, TM_HARD_FRONT));
    tm_hard_draw_behind(p + size, slack);
    tm_hard_store(tm_hard_word_at(home, bytes), tm_hard_word(p, tm_hard_fields(TM_HARD_LIVE, kind, slack)));
    tm_hard_add_around(bytes, size);
    return p;
}

static void *alloc_span(size_t alignment, size_t size, bool zero, tm_kind kind) {
    SlabAllocator *allocator = mine();
    EpochId epoch = tm_target_epoch(&tm_hard);
    ts_private_place place;
    size_t front = alignment < TS_PRIVATE_UNIT ? alignment : 0, whole = front + size + WORD_BYTES;
    char *home;
    if (whole <= SLOT_SIZES) whole = SLOT_SIZES + 1;
    if (front)
        home = zero ? slab_calloc_epoch(allocator, 1, whole, epoch) : slab_malloc_epoch(allocator, whole, epoch);
    else
        home = slab_aligned_epoch(allocator, alignment, whole, epoch);
    if (!home) return NULL;
    if (!ts_private_find(allocator, home, &place)) abort(); /* the program has freed what it was not given */
    char *p = begin_span(home, place.bytes, front, size, kind);
    return zero && !front ? memset(p, 0, size) : p;
}

/* In a slot if there is one with that alignment, and it is not the first of its slab. */
static void *alloc_aligned(size_t alignment, size_t size, bool zero, tm_kind kind) {
    SlabAllocator *allocator = mine();
    for (int i = 0; i < 2 && slot_bytes(size + WORD_BYTES) != 0; i++) {
        ts_private_place place;
        char *home = slab_aligned_epoch(allocator, alignment, size + WORD_BYTES, tm_target_epoch(&tm_hard));
        if (!home) return NULL;
        if (!ts_private_find(allocator, home, &place)) abort(); /* as in alloc_span */
        if (place.span) {
            (void)slab_free(allocator, home);
            break;
        }
        if (tm_hard_in_unit(home) != 0) return tm_hard_begin_slot(home, place.bytes, size, kind);
        tm_hard_pass_over(home, place.bytes);
    }
    return alloc_span(alignment, size, zero, kind);
}

/* In a slot of so many bytes. */
static void *alloc_slot(size_t bytes, size_t size, tm_kind kind) {
    char *home = slab_malloc_epoch(mine(), size + WORD_BYTES, tm_target_epoch(&tm_hard));
    if (TS_UNLIKELY(!home)) return NULL;
    size_t whole = TM_HARD_FRONT_BYTES + size + WORD_BYTES;
    if (TS_UNLIKELY(tm_hard_in_unit(home) == 0) && whole > bytes) {
        tm_hard_pass_over(home, bytes);
        bytes = slot_bytes(whole);
        if (!bytes) return alloc_span(16, size, true, kind);
        home = slab_malloc_epoch(mine(), whole, tm_target_epoch(&tm_hard));
        if (!home) return NULL;
    }
    return tm_hard_begin_slot(home, bytes, size, kind); /* clear for calloc, too */
}

static void *alloc(size_t alignment, size_t size, bool zero, tm_kind kind) {
    size_t bytes = alignment <= 16 ? slot_bytes(size + WORD_BYTES) : 0;
    if (TS_LIKELY(bytes != 0 && size != 0)) return alloc_slot(bytes, size, kind);
    void *p = size == 0 && tm_hard_has(TS_HARDEN_GUARD) ? tm_hard_none_alloc(alignment, kind) : NULL;
    if (p) return p;
    if (size >= TM_HARD_LARGE_BYTES) return tm_hard_large_alloc(alignment, size, zero, kind);
    return alignment <= 16 && !bytes ? alloc_span(16, size, zero, kind) : alloc_aligned(alignment, size, zero, kind);
}

#define LEAST_ROOM ((size_t)64 << 10)

/* An allocation of so many bytes, with what lies around it, has failed. As many waiting objects leave as it needs, if
   that can help: a size that an attacker chooses does not end the quarantine. false: it cannot help. */
TS_COLD static bool make_room(size_t bytes) {
    size_t needed = ts_private_useful_bytes(mine(), bytes, tm_hard_large_waiting_bytes() + tm_hard_waiting_bytes());
    if (needed == 0) return false;
    if (needed < LEAST_ROOM) needed = LEAST_ROOM;
    size_t left = tm_hard_large_wait_less(needed);
    if (left < needed) left += tm_hard_wait_less(needed - left);
    return left > 0;
}

void *tm_hard_alloc(size_t alignment, size_t size, bool zero, tm_kind kind) {
    if (TS_UNLIKELY(size > MOST)) {
        errno = ENOMEM;
        return NULL;
    }
    int before = errno;
    void *p = alloc(alignment, size, zero, kind);
    if (TS_LIKELY(p != NULL) || errno != ENOMEM) return p;
    /* What leaves may lie where it helps nobody. */
    for (int i = 0; !p && i < 4 && make_room(size + alignment + 2 * TS_PRIVATE_UNIT); i++)
        p = alloc(alignment, size, zero, kind);
    errno = p ? before : ENOMEM;
    return p;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

typedef struct object {
    char *p, *home;
    size_t bytes; /* from home on */
    uint64_t word;
    uint32_t life; /* of a span */
    uint32_t use;
    bool span, inner; /* inner: p is the start of a span, and the object in it begins elsewhere */
} object;

/* Where the object in a span begins. */
TS_COLD static char *begin_of_span(char *home, size_t bytes) {
    for (size_t front = 16; front < TS_PRIVATE_UNIT && front < bytes; front *= 2)
        if (tm_hard_load(tm_hard_front_of(home + front)) == tm_hard_word(home + front, TM_HARD_FRONT))
            return home + front;
    return home;
}

static bool is_inner(char *home, size_t bytes) { return tm_hard_is_large(home) || begin_of_span(home, bytes) != home; }

/* By the start of a slot, or of a span; or by what lies one alignment behind that of a span, or 16 bytes behind that of
   the first slot of a slab. The object may be over. */
static bool find(const void *p, object *o) {
    ts_private_place place;
    size_t offset = tm_hard_in_unit(p);
    o->p = (char *)(uintptr_t)p;
    o->home = o->p;
    if (!ts_private_find(mine(), p, &place)) {
        o->home = o->p - offset;
        if (offset < 16 || !ts_is_pow2(offset) || !ts_private_find(mine(), o->home, &place) || place.bytes <= offset ||
            (!place.span && offset != TM_HARD_FRONT_BYTES) || tm_hard_is_large(o->home))
            return false;
    }
    /* Objects of other epochs (what is captured, or is allocated by the core's own functions) have no word, and are
       not touched: they may be in zones. */
    if (TS_UNLIKELY(place.epoch != tm_target_epoch(&tm_hard))) return false;
    o->bytes = place.bytes;
    o->use = place.span ? 0 : place.use % TM_HARD_USES;
    o->span = place.span;
    o->life = place.span ? tm_hard_life(o->home) : 0; /* before all that is read of the object */
    o->inner = o->home == o->p && (o->span ? is_inner(o->home, o->bytes) : offset == 0);
    if (TS_UNLIKELY(o->inner)) return true;
    o->word = tm_hard_load(tm_hard_word_at(o->home, place.bytes));
    if (TS_LIKELY(tm_hard_is_word(p, o->word))) return true;
    /* The program may have allocated in the process's epoch by the core's own functions, while it could know it. */
    if (place.epoch != tm_target_epoch(&tm_hard)) return false;
    return o->home == o->p || tm_hard_load(tm_hard_front_of(o->p)) == tm_hard_word(p, TM_HARD_FRONT);
}

static size_t size_of(const object *o) {
    return o->bytes - WORD_BYTES - (size_t)(o->p - o->home) - tm_hard_slack_of(o->word);
}

static bool is_front_right(const object *o) {
    if (o->home != o->p) return tm_hard_load(tm_hard_front_of(o->p)) == tm_hard_word(o->p, TM_HARD_FRONT);
    return o->span || tm_hard_is_word_before(o->home, o->bytes);
}

static const char *const damaged = "the bytes behind it are overwritten", *const damaged_before =
                                                                              "the bytes before it are overwritten";

/* What is wrong with a live object; NULL: nothing. */
static const char *fault_of(const object *o) {
    if (TS_UNLIKELY(!tm_hard_has(TS_HARDEN_CANARY))) return NULL;
    size_t slack = tm_hard_slack_of(o->word);
    const char *end = o->home + o->bytes - WORD_BYTES - slack;
    if (TS_UNLIKELY(!tm_hard_is_drawn_wide(end, tm_hard_canary_bytes(slack)))) return damaged;
    if (TS_UNLIKELY(!is_front_right(o))) return damaged_before;
    if (!o->span && TS_UNLIKELY(tm_hard_is_written_behind(o->home, o->bytes, o->use))) return damaged;
    return NULL;
}

static const char *const not_given = "freed already, or never given out";

static const char *why_not_live(uint64_t word) {
    return tm_hard_state_of(word) == TM_HARD_WAITS ? "freed already" : "not an object";
}

tm_hard_answer tm_hard_usable(const void *p, size_t *bytes) {
    object o;
    *bytes = 0;
    if (tm_hard_is_none(p)) return tm_hard_none_is_live(p) ? TM_HARD_DONE : TM_HARD_REFUSED;
    if (find(p, &o)) {
        if (o.inner || !tm_hard_is_word(p, o.word) || tm_hard_state_of(o.word) != TM_HARD_LIVE) return TM_HARD_REFUSED;
        *bytes = size_of(&o);
        return TM_HARD_DONE;
    }
    return tm_hard_large_usable(p, bytes);
}

const char *tm_hard_fault_of_live(char *home) {
    ts_private_place place;
    uint32_t life = tm_hard_life(home);
    if (tm_hard_is_large(home)) {
        const char *fault = tm_hard_large_fault(home);
        return fault && tm_hard_life(home) == life ? fault : NULL;
    }
    if (!ts_private_find(mine(), home, &place)) return NULL;
    object o = {.home = home, .bytes = place.bytes, .use = place.use % TM_HARD_USES, .span = place.span};
    o.p = place.span ? begin_of_span(home, place.bytes) : tm_hard_name(home, place.bytes);
    tm_hard_place *at = tm_hard_word_at(home, place.bytes);
    o.word = tm_hard_load_seq(at); /* partner: resize_here */
    bool right = tm_hard_is_word(o.p, o.word);
    if (right && tm_hard_state_of(o.word) != TM_HARD_LIVE) return NULL;
    /* Nothing is known of a slot that another thread has just been given. */
    bool known = right || (ts_private_is_own(mine(), home) && !tm_hard_is_lost(home, o.word));
    const char *fault = right ? fault_of(&o) : known ? damaged : NULL;
    /* acquire fence: a thread that frees it changes the word before it touches the bytes */
    atomic_thread_fence(memory_order_acquire);
    return fault && tm_hard_load(at) == o.word && tm_hard_life(home) == life ? fault : NULL;
}

/* ---- free -------------------------------------------------------------------------------------------------------- */

/* What of it was ever written: all of a slot; of a span not the rest behind the canary. */
static size_t used_bytes(const char *p, const char *home, size_t bytes, uint64_t word, bool span) {
    size_t slack = span ? tm_hard_slack_of(word) : 0, before = (size_t)(p - home) + WORD_BYTES;
    if (slack > bytes - before) slack = bytes - before; /* a word that was written over */
    return bytes - before - slack + (span ? tm_hard_canary_bytes(slack) : 0);
}

static void clear_and_wait(const object *o) {
    memset(o->p, 0, used_bytes(o->p, o->home, o->bytes, o->word, o->span));
    const tm_hard_waiting waiting = {.p = o->p, .bytes = o->bytes, .use = o->use, .span = o->span};
    tm_hard_add_around(size_of(o), o->bytes);
    tm_hard_wait(&waiting);
}

static uint64_t waiting_word(const object *o, tm_kind kind, size_t slack) {
    return tm_hard_word(o->p, tm_hard_fields(TM_HARD_WAITS, kind, slack));
}

/* Whether the core still has the object that was found. Else another thread has freed it since, and it has left the
   quarantine: its word is gone, and may be another's. In a slot that would be the same word again; in a span another
   object can begin elsewhere, but has another life. */
TS_COLD static bool is_there_still(const object *o) {
    ts_private_place place;
    return ts_private_find(mine(), o->home, &place) && place.bytes == o->bytes && place.span == o->span &&
           (place.span ? tm_hard_life(o->home) == o->life : place.use % TM_HARD_USES == o->use);
}

/* Makes a live object the caller's alone (invariant 1): only then are its bytes looked at. NULL, or why it is not. */
static const char *take(object *o) {
    tm_hard_place *at = tm_hard_word_at(o->home, o->bytes);
    for (;;) {
        if (TS_UNLIKELY(!tm_hard_is_word(o->p, o->word))) return is_there_still(o) ? damaged : not_given;
        if (TS_UNLIKELY(tm_hard_state_of(o->word) != TM_HARD_LIVE)) return why_not_live(o->word);
        uint64_t waits = waiting_word(o, tm_hard_kind_of(o->word), tm_hard_slack_of(o->word));
        bool taken = tm_hard_change(at, o->word, waits);
        o->word = taken ? waits : tm_hard_load(at); /* another thread frees or resizes it at this instant */
        if (TS_LIKELY(taken)) return NULL;
    }
}

/* The same where the word is written over. false: another thread was first. */
TS_COLD static bool take_damaged(object *o, tm_kind kind) {
    uint64_t waits = waiting_word(o, kind, 0);
    if (!tm_hard_change(tm_hard_word_at(o->home, o->bytes), o->word, waits)) return false;
    o->word = waits;
    return true;
}

/* Looks at an object that is taken, and is freed or resized as one of that kind and size. */
static void look_at_taken(const char *call, const object *o, tm_kind kind, size_t size) {
    const char *fault = fault_of(o);
    if (TS_UNLIKELY(fault != NULL)) tm_hard_tell(call, o->p, fault);
    tm_hard_compare(call, o->p, kind, tm_hard_kind_of(o->word), size, size_of(o));
}

static tm_hard_answer free_found(const char *call, object *o, tm_kind kind, size_t size) {
    const char *why = o->inner ? not_given : take(o);
    if (TS_UNLIKELY(why == damaged)) {
        if (!take_damaged(o, kind)) return tm_hard_refuse(call, o->p, not_given);
        tm_hard_tell_of_canary(call, o->p, damaged);
    } else if (TS_UNLIKELY(why != NULL)) {
        return tm_hard_refuse(call, o->p, why);
    } else {
        look_at_taken(call, o, kind, size);
    }
    clear_and_wait(o);
    return TM_HARD_DONE;
}

tm_hard_answer tm_hard_free(const char *call, void *p, tm_kind kind, size_t size) {
    object o;
    if (TS_LIKELY(find(p, &o))) return free_found(call, &o, kind, size);
    tm_hard_answer answer = tm_hard_large_free(call, p, kind, size);
    return answer == TM_HARD_OTHER ? tm_hard_none_free(call, p, kind, size) : answer;
}

static bool is_still_clear(const tm_hard_waiting *w, const char *home, uint64_t word) {
    return tm_hard_is_word(w->p, word) && tm_hard_state_of(word) == TM_HARD_WAITS &&
           tm_hard_is_clear(w->p, used_bytes(w->p, home, w->bytes, word, w->span));
}

static char *home_of(const tm_hard_waiting *w) {
    return w->span ? w->p - tm_hard_in_unit(w->p) : tm_hard_home_of_name(w->p, w->bytes);
}

/* What lies before an object that waits: its front word, or the word of the slot before, as for one that lives. */
static void look_before(const tm_hard_waiting *w, char *home) {
    const object o = {.p = w->p, .home = home, .bytes = w->bytes, .span = w->span};
    if (TS_UNLIKELY(!is_front_right(&o))) tm_hard_tell_of_canary("free", w->p, damaged_before);
}

void tm_hard_look(const tm_hard_waiting *w) {
    char *home = home_of(w);
    if (!is_still_clear(w, home, tm_hard_load(tm_hard_word_at(home, w->bytes)))) tm_hard_tell_written("free", w->p);
    look_before(w, home);
}

void tm_hard_release(const tm_hard_waiting *w) {
    char *home = home_of(w);
    tm_hard_place *at = tm_hard_word_at(home, w->bytes);
    uint64_t word = tm_hard_load(at);
    if (TS_UNLIKELY(!is_still_clear(w, home, word))) {
        tm_hard_tell_written("free", w->p);
        memset(w->p, 0, used_bytes(w->p, home, w->bytes, word, w->span));
    }
    look_before(w, home);
    tm_hard_end_life(home);
    if (home != w->p) tm_hard_store(tm_hard_front_of(w->p), 0);
    if (w->span)
        tm_hard_store(at, 0);
    else
        tm_hard_free_slot(home, w->bytes, w->use);
    (void)slab_free(mine(), home);
}

/* ---- realloc ----------------------------------------------------------------------------------------------------- */

/* An object that realloc has taken. */
typedef enum of_kind { SMALL, LARGE, NONE } of_kind; /* a slot or a span; hard_large.c; hard_none.c */
typedef struct taken {
    of_kind of;
    object o;     /* SMALL */
    void *p;      /* or not */
    size_t bytes; /* that the program has asked for */
} taken;

/* DONE: it is the caller's alone, but for one of no bytes, and was looked at. */
static tm_hard_answer take_any(void *p, taken *t) {
    t->p = p;
    t->bytes = 0;
    if (find(p, &t->o)) {
        t->of = SMALL;
        const char *why = t->o.inner ? not_given : take(&t->o);
        if (why == damaged) {
            if (!take_damaged(&t->o, TM_BY_MALLOC)) return tm_hard_refuse("realloc", p, not_given);
            tm_hard_tell_of_canary("realloc", p, damaged);
        } else if (why) {
            return tm_hard_refuse("realloc", p, why);
        } else {
            look_at_taken("realloc", &t->o, TM_BY_MALLOC, TM_SIZE_UNKNOWN);
        }
        t->bytes = size_of(&t->o);
        return TM_HARD_DONE;
    }
    t->of = tm_hard_is_none(p) ? NONE : LARGE;
    if (t->of == LARGE) return tm_hard_large_take("realloc", p, &t->bytes);
    return tm_hard_none_is_live(p) ? TM_HARD_DONE : tm_hard_refuse("realloc", p, not_given);
}

/* The object lives, with so many bytes between its end and the word. */
static void live_again(const object *o, size_t slack) {
    (void)tm_hard_change(tm_hard_word_at(o->home, o->bytes), o->word,
                         tm_hard_word(o->p, tm_hard_fields(TM_HARD_LIVE, TM_BY_MALLOC, slack)));
}

/* Where it is, if it fits and what becomes less does not waste the better half. Not while the process ends: a look at
   what lives would find the same word after two resizes. seq_cst: the look sees that the object is taken, or this
   thread sees that there are looks (hard_look.c). */
static bool resize_here(const object *o, size_t size) {
    if (tm_hard_looks_at_all()) return false;
    size_t room = o->bytes - WORD_BYTES - (size_t)(o->p - o->home), before = size_of(o);
    if (size > room || (size < room / 2 && size < before)) return false;
    if (size < before) memset(o->p + size, 0, before - size);
    size_t slack = room - size;
    if (tm_hard_has(TS_HARDEN_CANARY))
        tm_hard_draw(o->p + size, tm_hard_canary_bytes(slack)); /* and nothing of the word */
    live_again(o, slack);
    tm_hard_add_around(before, size);
    return true;
}

static bool resize_taken(const taken *t, size_t size) {
    return t->of == SMALL ? resize_here(&t->o, size) : t->of == LARGE && tm_hard_large_resize(t->p, size);
}

/* It lives on as it was. */
static void give_back(const taken *t) {
    if (t->of == SMALL)
        live_again(&t->o, tm_hard_slack_of(t->o.word));
    else if (t->of == LARGE)
        tm_hard_large_give_back(t->p);
}

static void end_taken(const taken *t) {
    if (t->of == SMALL)
        clear_and_wait(&t->o);
    else if (t->of == LARGE)
        tm_hard_large_end(t->p);
    else
        (void)tm_hard_none_free("realloc", t->p, TM_BY_MALLOC, TM_SIZE_UNKNOWN);
}

static void *alloc_moved(size_t before, size_t size) {
    int error = errno;
    void *q = before < size && size >= TM_HARD_LARGE_BYTES && size <= MOST ? tm_hard_large_alloc_growing(size) : NULL;
    errno = error;
    if (!q) q = tm_hard_alloc(16, size, false, TM_BY_MALLOC);
    return q ? q : tm_process_alloc_rest(16, size, false, TM_BY_MALLOC);
}

tm_hard_answer tm_hard_realloc(void *p, size_t size, void **result) {
    taken t;
    *result = NULL;
    tm_hard_answer answer = take_any(p, &t);
    if (answer == TM_HARD_REFUSED) errno = EINVAL;
    if (answer != TM_HARD_DONE) return answer;
    if (resize_taken(&t, size)) {
        *result = p;
        return TM_HARD_DONE;
    }
    void *q = alloc_moved(t.bytes, size);
    if (!q) {
        give_back(&t);
        return TM_HARD_DONE;
    }
    memcpy(q, p, size < t.bytes ? size : t.bytes);
    end_taken(&t);
    *result = q;
    return TM_HARD_DONE;
}
