/*
 * Each thread has a slot of the shared memory, whose ring it alone writes. It claims one at its first event and leaves
 * it when it ends. A full ring waits for the tool; a thread that finds the tool gone switches the recorder off.
 *
 * Fork. A child begins with all locks as they are, also those of the unwinder. So the forking thread waits until no
 * other thread is in a hook: it sets `paused`, then reads each slot's `busy`; a hook sets `busy`, then reads `paused`.
 * All four are sequentially consistent, so one of the two sees the other.
 */
#define _GNU_SOURCE
#include "record/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAME_EVERY 1024u /* events between two looks at the thread's name */

_Thread_local record_thread record_self;
record_shared *record_memory;
_Atomic int record_state;

static _Atomic uint32_t paused;
static pthread_key_t end_key;
static bool has_key;

uint64_t record_now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - record_memory->start_ns;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value, long ns) {
    struct timespec t = {0, ns};
    (void)syscall(SYS_futex, word, RECORD_FUTEX_WAIT, value, &t, NULL, 0);
}

static void wake_tool(void) {
    record_shared *m = record_memory;
    int error = errno;
    if (!atomic_load(&m->tool_sleeps)) return;
    (void)atomic_fetch_add(&m->work, 1);
    (void)syscall(SYS_futex, &m->work, RECORD_FUTEX_WAKE, 1, NULL, NULL, 0);
    errno = error;
}

/* ---- the ring ---------------------------------------------------------------------------------------------------- */

/* Also one that nobody has waited for yet. */
static bool is_tool_gone(void) {
    char path[64], text[256] = "";
    if (atomic_load(&record_memory->is_over)) return true;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)record_memory->tool_pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT;
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    const char *state = n > 0 ? strrchr(text, ')') : NULL;
    return n <= 0 || (state && (state[2] == 'Z' || state[2] == 'X'));
}

/* Returns when the ring has room, or the recorder is off. */
static bool wait_for_room(record_slot *s) {
    int error = errno;
    while (record_self.head - atomic_load_explicit(&s->tail, memory_order_acquire) >= RECORD_RING) {
        uint32_t room = atomic_load(&s->room);
        if (record_self.head - atomic_load(&s->tail) < RECORD_RING) break;
        wake_tool();
        futex_wait(&s->room, room, 20000000);
        if (!is_tool_gone()) continue;
        atomic_store(&record_state, RECORD_OFF);
        return errno = error, false;
    }
    errno = error;
    return true;
}

void record_put(const raw_event *e) {
    record_slot *s = record_self.slot;
    if (UNLIKELY(record_self.head - atomic_load_explicit(&s->tail, memory_order_acquire) >= RECORD_RING) &&
        !wait_for_room(s))
        return;
    s->ring[record_self.head % RECORD_RING] = *e;
    /* Release: the tool reads the event behind it. */
    atomic_store_explicit(&s->head, ++record_self.head, memory_order_release);
    if (UNLIKELY(record_self.head % (RECORD_RING / 2) == 0)) wake_tool();
}

void record_put_text(raw_event *e, const char *text, size_t bytes) {
    e->size = bytes;
    record_put(e);
    for (size_t at = 0; at < bytes; at += RECORD_NOTE_BYTES) {
        raw_event part = {.kind = NOTE_TEXT};
        memcpy(&part, text + at, bytes - at < RECORD_NOTE_BYTES ? bytes - at : RECORD_NOTE_BYTES);
        record_put(&part);
    }
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

static void put_name(void) {
    char name[RECORD_THREAD_NAME] = "";
    (void)prctl(PR_GET_NAME, name, 0, 0, 0);
    if (memcmp(name, record_self.name, sizeof name) == 0) return;
    memcpy(record_self.name, name, sizeof name);
    raw_event e = {.time_ns = record_now(), .kind = NOTE_NAME};
    memcpy(&e.address, name, sizeof name);
    record_put(&e);
}

static record_slot *claim(void) {
    static _Atomic uint32_t hint;
    record_shared *m = record_memory;
    const uint32_t first = atomic_load_explicit(&hint, memory_order_relaxed);
    for (uint32_t i = 0; i < RECORD_SLOTS; i++) {
        record_slot *s = &m->slot[(first + i) % RECORD_SLOTS];
        uint32_t none = SLOT_FREE;
        if (atomic_load_explicit(&s->state, memory_order_relaxed) != SLOT_FREE ||
            !atomic_compare_exchange_strong(&s->state, &none, SLOT_OWNED))
            continue;
        atomic_store_explicit(&hint, (first + i + 1) % RECORD_SLOTS, memory_order_relaxed);
        return s;
    }
    atomic_fetch_add(&m->full_slots, 1);
    return NULL;
}

static bool take_slot(void) {
    record_slot *s = claim();
    if (!s) return false;
    record_self.slot = s;
    record_self.head = atomic_load(&s->head);
    atomic_store(&s->busy, 0);
    atomic_store(&s->process, record_process_number);
    atomic_store(&s->thread, atomic_fetch_add(&record_memory->threads, 1) + 1);
    memset(record_self.name, 0, sizeof record_self.name);
    record_self.turn_is_on = false;
    record_slot_is_new();
    raw_event e = {.time_ns = record_now(), .kind = RAW_THREAD_START, .address = (uint64_t)syscall(SYS_gettid)};
    record_put(&e);
    put_name();
    if (has_key) (void)pthread_setspecific(end_key, &record_self);
    return true;
}

static void leave_slot(void) {
    record_slot *s = record_self.slot;
    raw_event e = {.time_ns = record_now(), .kind = RAW_THREAD_END};
    put_name();
    record_put(&e);
    record_self.slot = NULL;
    atomic_store(&s->busy, 0);
    atomic_store(&s->state, SLOT_LEFT);
}

/* The other destructors of the thread free, too: it leaves in the last round that the C library makes. */
static void thread_ends(void *self) {
    if (!record_self.slot) return;
    if (++record_self.ends < 4) {
        (void)pthread_setspecific(end_key, self);
        return;
    }
    record_self.inside = true;
    leave_slot();
    record_self.inside = false;
}

void record_threads_init(void) { has_key = pthread_key_create(&end_key, thread_ends) == 0; }

/* ---- hooks begin and end ----------------------------------------------------------------------------------------- */

static bool enter(void) {
    record_slot *s = record_self.slot;
    for (;;) {
        atomic_store(&s->busy, 1);
        if (LIKELY(!atomic_load(&paused)) || record_self.is_forking) return true;
        atomic_store(&s->busy, 0);
        (void)sched_yield();
    }
}

bool record_begin_slow(void) {
    int error = errno;
    record_self.inside = true;
    if (UNLIKELY(atomic_load_explicit(&record_state, memory_order_acquire) != RECORD_ON)) {
        record_attach();
        if (atomic_load(&record_state) != RECORD_ON) return record_self.inside = false, errno = error, false;
    }
    if (UNLIKELY(!record_self.slot) && !take_slot()) return record_self.inside = false, errno = error, false;
    (void)enter();
    if (UNLIKELY(record_self.head % NAME_EVERY == 0)) put_name();
    errno = error;
    return true;
}

void record_end(void) {
    if (record_self.slot) atomic_store_explicit(&record_self.slot->busy, 0, memory_order_release);
    record_self.inside = false;
}

/* ---- fork -------------------------------------------------------------------------------------------------------- */

void record_threads_pause(void) {
    record_self.is_forking = true;
    atomic_store(&paused, 1);
    for (uint32_t i = 0; i < RECORD_SLOTS; i++) {
        record_slot *s = &record_memory->slot[i];
        if (s == record_self.slot) continue;
        while (atomic_load(&s->state) == SLOT_OWNED && atomic_load(&s->process) == record_process_number &&
               atomic_load(&s->busy) && atomic_load(&record_state) == RECORD_ON)
            (void)sched_yield();
    }
}

void record_threads_go_on(void) {
    atomic_store(&paused, 0);
    record_self.is_forking = false;
}

void record_threads_forget(void) {
    record_self.slot = NULL;
    record_self.ends = 0;
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

void record_turn(void) {
    record_shared *m = record_memory;
    if (!m || m->sample != SAMPLE_TURNS) return;
    atomic_fetch_add_explicit(&m->turns, 1, memory_order_relaxed);
    bool on = record_self.turn++ % m->turn_of < m->turn_on;
    if (on == record_self.turn_is_on || !record_begin()) return;
    record_self.turn_is_on = on;
    raw_event e = {.time_ns = record_now(), .kind = RAW_WINDOW, .size = on};
    record_put(&e);
    record_end();
}
