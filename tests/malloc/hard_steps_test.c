/*
 * Two threads that free or resize the same object of the hard mode at the same instant: one of them gets it, the other
 * is refused, and touches nothing of it. The second call comes before each look of the first at shared words, as if by
 * another thread.
 */
#define _GNU_SOURCE
#include "check.h"
#include "malloc/hard.h"
#include "malloc/hard_parts.h"

#include "hard_steps_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The hard mode's calls of the rest of the library. */
void *tm_process_alloc_rest(size_t alignment, size_t size, bool zero, tm_kind kind) {
    (void)alignment, (void)size, (void)zero, (void)kind;
    return NULL;
}

static void (*meanwhile)(void);
static unsigned steps_left, stopped_at;

void hard_step(void) {
    if (meanwhile && steps_left-- == 0) {
        void (*fn)(void) = meanwhile;
        meanwhile = NULL;
        fn();
    }
}

/* ---- objects and calls ------------------------------------------------------------------------------------------- */

static const struct kind {
    size_t alignment, size;
} kinds[] = {{16, 40}, {16, 5000}, {16, 20000}, {4096, 20000}, {16, 200000}, {16, 300000}, {16, 200007}};

typedef struct call {
    const char *name;
    size_t (*to)(size_t size); /* NULL: it frees */
    bool empties;              /* the quarantine, too */
} call;

static size_t less_by_one(size_t size) { return size - 1; }
static size_t four_times(size_t size) { return 4 * size; }
static size_t an_eighth(size_t size) { return size / 8; }

static const call calls[] = {
    {"free", NULL, false},           {"free, and what waits leaves", NULL, true},
    {"resize", less_by_one, false},  {"move up", four_times, false},
    {"move down", an_eighth, false},
};

typedef struct outcome {
    const call *call;
    tm_hard_answer answer;
    void *result;
} outcome;

static size_t object_bytes;
static char *object;
static outcome first, second;

static void run(outcome *o) {
    o->result = NULL;
    if (o->call->to)
        o->answer = tm_hard_realloc(object, o->call->to(object_bytes), &o->result);
    else
        o->answer = tm_hard_free("free", object, TM_BY_MALLOC, TM_SIZE_UNKNOWN);
    if (!o->call->empties) return;
    (void)tm_hard_wait_less(SIZE_MAX);
    (void)tm_hard_large_wait_less(SIZE_MAX);
}
static void run_second(void) { run(&second); }

static bool has_ended_object(const outcome *o) { return o->answer == TM_HARD_DONE && o->result != object; }

/* The object's copy in another place. */
static void end_moved(const outcome *o) {
    if (!has_ended_object(o) || !o->result) return;
    const char *p = o->result;
    size_t bytes = o->call->to(object_bytes);
    for (size_t i = 0; i < bytes && i < object_bytes - 1; i++) /* the other may have made it less by one */
        SUP_CHECK(p[i] == 7, "%s has moved other bytes than the object's, at %zu", o->call->name, i);
    SUP_CHECK(tm_hard_free("free", o->result, TM_BY_MALLOC, bytes) == TM_HARD_DONE, "what %s made", o->call->name);
}

/* ---- messages: both calls are crimes of one kind, and none writes beyond an object ------------------------------- */

static void listen(const char *text, size_t bytes, void *unused) {
    (void)bytes, (void)unused;
    SUP_CHECK(!strstr(text, "overwritten") && !strstr(text, "written after"), "%s while %s: %s", second.call->name,
              first.call->name, text);
}

/* ---- every pair -------------------------------------------------------------------------------------------------- */

/* false: the first has fewer steps. */
static bool at_step(const struct kind *kind, unsigned step) {
    object_bytes = kind->size;
    object = tm_hard_alloc(kind->alignment, object_bytes, false, TM_BY_MALLOC);
    SUP_CHECK(object != NULL, "no memory");
    memset(object, 7, object_bytes);
    steps_left = step;
    meanwhile = run_second;
    run(&first);
    bool met = meanwhile == NULL;
    meanwhile = NULL;
    if (!met) run_second();
    unsigned ends = (unsigned)has_ended_object(&first) + has_ended_object(&second);
    const char *one = first.call->name, *other = second.call->name;
    SUP_CHECK(ends <= 1, "%zu bytes, step %u: %s and %s both had it", object_bytes, step, one, other);
    SUP_CHECK(first.answer == TM_HARD_DONE || second.answer == TM_HARD_DONE, "%zu bytes, step %u: neither %s nor %s",
              object_bytes, step, one, other);
    end_moved(&first);
    end_moved(&second);
    bool lives = tm_hard_free("free", object, TM_BY_MALLOC, TM_SIZE_UNKNOWN) == TM_HARD_DONE;
    SUP_CHECK(lives == (ends == 0), "%zu bytes, step %u: %s, and %s meanwhile: it %s", object_bytes, step, one, other,
              lives ? "lives" : "is gone");
    return met;
}

/* ---- a neighbour that is allocated, and written to, while an object is freed; and freed again -------------------- */

static char *neighbour;
static unsigned gap; /* steps until it is freed */
static bool is_taken, was_taken;

static void take_neighbour(void) {
    for (int i = 0; i < 1000; i++) {
        char *p = tm_hard_alloc(16, object_bytes, false, TM_BY_MALLOC);
        SUP_CHECK(p != NULL, "no memory");
        memset(p, 7, object_bytes);
        is_taken = was_taken = p == neighbour;
        if (is_taken) return;
    }
    SUP_CHECK(false, "the place is not used again");
}

static void let_all_go(void) {
    (void)tm_hard_wait_less(SIZE_MAX);
    (void)tm_hard_large_wait_less(SIZE_MAX);
}

static void end_neighbour(void) {
    (void)tm_hard_free("free", neighbour, TM_BY_MALLOC, TM_SIZE_UNKNOWN);
    let_all_go();
    is_taken = false;
}

static void take_neighbour_for_a_while(void) {
    take_neighbour();
    steps_left = gap;
    meanwhile = end_neighbour;
}

/* The slot behind the object is free from then on. */
static void make_neighbours(size_t slot) {
    char *p[100];
    object = NULL;
    for (int i = 0; i < 100; i++) {
        SUP_CHECK((p[i] = tm_hard_alloc(16, object_bytes, false, TM_BY_MALLOC)) != NULL, "no memory");
        memset(p[i], 7, object_bytes);
        if (i == 0 || object || p[i] != p[i - 1] + slot) continue;
        object = p[i - 1];
        neighbour = p[i];
    }
    SUP_CHECK(object != NULL, "no two objects lie side by side");
    for (int i = 0; i < 100; i++)
        if (p[i] != object && p[i] != neighbour) (void)tm_hard_free("free", p[i], TM_BY_MALLOC, TM_SIZE_UNKNOWN);
    let_all_go();
    (void)tm_hard_free("free", neighbour, TM_BY_MALLOC, TM_SIZE_UNKNOWN);
    let_all_go();
}

/* false: there are fewer steps until it is taken, or from there until it is freed. */
static bool meet_neighbour(size_t size, size_t slot, unsigned step, unsigned until_freed) {
    object_bytes = size;
    make_neighbours(slot);
    steps_left = step;
    gap = until_freed;
    was_taken = false;
    meanwhile = take_neighbour_for_a_while;
    SUP_CHECK(tm_hard_free("free", object, TM_BY_MALLOC, TM_SIZE_UNKNOWN) == TM_HARD_DONE, "free");
    bool met = meanwhile == NULL;
    meanwhile = NULL;
    if (is_taken) end_neighbour();
    let_all_go();
    return met;
}

/* Returns how many pairs of steps there were. */
static unsigned meet_at_all_steps(size_t size, size_t slot) {
    unsigned pairs = 0, step = 0;
    do {
        for (unsigned until_freed = 0; meet_neighbour(size, slot, step, until_freed); until_freed++) pairs++;
        step++;
    } while (was_taken);
    return pairs;
}

/* Two lives of the neighbour: the first lets the slot seem to be written to, and the second lies between the looks that
   come then. */
enum { TURNS = 4 };
static unsigned gaps[TURNS], turn; /* steps until it is taken, freed, taken again, freed again */

static void turn_neighbour(void) {
    if (turn % 2 == 0)
        take_neighbour();
    else
        end_neighbour();
    if (++turn == TURNS) return;
    steps_left = gaps[turn];
    meanwhile = turn_neighbour;
}

/* Returns how many of the turns were met. */
static unsigned meet_two_lives(size_t size, size_t slot) {
    object_bytes = size;
    make_neighbours(slot);
    turn = 0;
    steps_left = gaps[0];
    meanwhile = turn_neighbour;
    SUP_CHECK(tm_hard_free("free", object, TM_BY_MALLOC, TM_SIZE_UNKNOWN) == TM_HARD_DONE, "free");
    meanwhile = NULL;
    if (is_taken) end_neighbour();
    let_all_go();
    return turn;
}

/* At all steps: a gap that no turn is behind begins again, and the one before it goes on. Returns how many times all
   turns were met. */
static unsigned meet_two_lives_at_all_steps(size_t size, size_t slot) {
    unsigned times = 0;
    memset(gaps, 0, sizeof gaps);
    for (;;) {
        unsigned last = meet_two_lives(size, slot);
        if (last == TURNS) {
            times++;
            gaps[TURNS - 1]++;
            continue;
        }
        if (last == 0) return times;
        for (unsigned i = last; i < TURNS; i++) gaps[i] = 0;
        gaps[last - 1]++;
    }
}

/* ---- the look at live objects at the end, while another thread frees one ----------------------------------------- */

static bool look(void *home, size_t bytes, void *unused) {
    (void)unused;
    if (object < (char *)home || object >= (char *)home + bytes) return true;
    const char *fault = tm_hard_fault_of_live(home);
    SUP_CHECK(fault == NULL, "%zu bytes, freed while it was looked at: %s", object_bytes, fault);
    return false;
}

static bool meet_look(const struct kind *kind, EpochId epoch, unsigned step) {
    object_bytes = kind->size;
    object = tm_hard_alloc(kind->alignment, object_bytes, false, TM_BY_MALLOC);
    SUP_CHECK(object != NULL, "no memory");
    memset(object, 7, object_bytes);
    second.call = &calls[step % 2]; /* it waits, or is the core's */
    steps_left = step / 2;
    meanwhile = run_second;
    (void)slab_walk(tm_target_allocator(&tm_hard), epoch, look, NULL);
    bool met = meanwhile == NULL;
    meanwhile = NULL;
    if (!met) run_second();
    return met;
}

/* The other thread frees the object, and allocates another of its size there before the look is over. */
static void make_another(void) {
    char *passed_over[100];
    unsigned count = 0;
    do {
        char *p = passed_over[count++] = tm_hard_alloc(16, object_bytes, false, TM_BY_MALLOC);
        SUP_CHECK(p != NULL && count < 100, "the place is not used again");
        memset(p, 7, object_bytes);
    } while (passed_over[count - 1] != object);
    while (--count > 0) (void)tm_hard_free("free", passed_over[count - 1], TM_BY_MALLOC, TM_SIZE_UNKNOWN);
    let_all_go();
}

static void end_for_another(void) {
    run_second();
    was_taken = true;
    steps_left = gap;
    meanwhile = make_another;
}

static bool meet_look_at_another(size_t size, EpochId epoch, unsigned step, unsigned until_made) {
    object_bytes = size;
    object = tm_hard_alloc(16, object_bytes, false, TM_BY_MALLOC);
    SUP_CHECK(object != NULL, "no memory");
    memset(object, 7, object_bytes);
    second.call = &calls[1];
    steps_left = step;
    gap = until_made;
    was_taken = false;
    meanwhile = end_for_another;
    (void)slab_walk(tm_target_allocator(&tm_hard), epoch, look, NULL);
    bool met = meanwhile == NULL;
    meanwhile = NULL;
    if (met || !was_taken) run_second();
    return met;
}

static void look_at_another_at_all_steps(size_t size, EpochId epoch) {
    unsigned step = 0;
    do {
        for (unsigned until_made = 0; meet_look_at_another(size, epoch, step, until_made);) until_made++;
        step++;
    } while (was_taken);
    SUP_CHECK(step > 4, "%zu bytes: %u steps of the look", size, step);
}

/* That other object grows where it is, is written to, and shrinks again, before the look is over. */
static char *grown;

static void shrink_again(void) {
    outcome back = {.call = NULL};
    if (grown != object) return;
    back.answer = tm_hard_realloc(object, object_bytes, &back.result);
    SUP_CHECK(back.answer == TM_HARD_DONE, "resize");
    object = grown = back.result;
}

static void grow(void) {
    void *result;
    SUP_CHECK(tm_hard_realloc(object, object_bytes + 8, &result) == TM_HARD_DONE && result, "resize");
    memset(result, 7, object_bytes + 8);
    grown = result;
    was_taken = true;
    steps_left = gap;
    meanwhile = shrink_again;
}

static bool meet_look_at_resized(size_t size, EpochId epoch, unsigned step, unsigned until_back) {
    object_bytes = size;
    object = grown = tm_hard_alloc(16, object_bytes, false, TM_BY_MALLOC);
    SUP_CHECK(object != NULL, "no memory");
    memset(object, 7, object_bytes);
    steps_left = step;
    gap = until_back;
    was_taken = false;
    meanwhile = grow;
    (void)slab_walk(tm_target_allocator(&tm_hard), epoch, look, NULL);
    bool met = meanwhile == NULL;
    meanwhile = NULL;
    SUP_CHECK(tm_hard_free("free", grown, TM_BY_MALLOC, TM_SIZE_UNKNOWN) == TM_HARD_DONE, "free");
    let_all_go();
    return met;
}

static void look_at_resized_at_all_steps(size_t size, EpochId epoch) {
    unsigned step = 0;
    do {
        for (unsigned until_back = 0; meet_look_at_resized(size, epoch, step, until_back);) until_back++;
        step++;
    } while (was_taken);
    SUP_CHECK(step > 4, "%zu bytes: %u steps of the look", size, step);
}

/* ---- freed twice at once, and the span is an aligned object's before the second free is done --------------------- */

static char *aligned;

static void end_for_aligned(void) {
    char *const span = object - 16;
    run_second();
    if (second.answer != TM_HARD_DONE) return; /* the first had it */
    for (int i = 0; i < 1000; i++) {
        aligned = tm_hard_alloc(4096, object_bytes, false, TM_BY_MALLOC);
        SUP_CHECK(aligned != NULL, "no memory");
        memset(aligned, 7, object_bytes);
        if (aligned == span + 4096) return;
    }
    SUP_CHECK(false, "the span is not used again");
}

static bool meet_aligned(unsigned step) {
    object_bytes = 20000;
    object = tm_hard_alloc(16, object_bytes, false, TM_BY_MALLOC);
    SUP_CHECK(object != NULL, "no memory");
    memset(object, 7, object_bytes);
    aligned = NULL;
    first.call = &calls[0];
    second.call = &calls[1];
    steps_left = step;
    meanwhile = end_for_aligned;
    run(&first);
    bool met = meanwhile == NULL;
    meanwhile = NULL;
    for (size_t i = 0; aligned && i < object_bytes; i++)
        SUP_CHECK(aligned[i] == 7, "step %u: an object of another place was cleared, at %zu", step, i);
    if (aligned) SUP_CHECK(tm_hard_free("free", aligned, TM_BY_MALLOC, object_bytes) == TM_HARD_DONE, "aligned");
    let_all_go();
    return met;
}

/* ---- a fork while an object is allocated: its child finds slots as a thread has left them that is no more -------- */

static bool look_at_slot(void *home, size_t bytes, void *unused) {
    (void)unused;
    const char *fault = tm_hard_fault_of_live(home);
    SUP_CHECK(fault == NULL, "%zu bytes at %p: %s", bytes, home, fault);
    return true;
}

static void use_slots_in_child(void) {
    enum { COUNT = 600 };
    static char *p[COUNT];
    pid_t child = fork();
    SUP_CHECK(child >= 0, "no process");
    if (child > 0) {
        int status;
        SUP_CHECK(waitpid(child, &status, 0) == child && status == 0, "a child of fork, step %u", stopped_at);
        return;
    }
    for (int i = 0; i < COUNT; i++) {
        p[i] = tm_hard_alloc(16, object_bytes, false, TM_BY_MALLOC);
        SUP_CHECK(p[i] != NULL, "no memory");
        memset(p[i], 7, object_bytes);
    }
    (void)slab_walk(tm_target_allocator(&tm_hard), tm_target_epoch(&tm_hard), look_at_slot, NULL);
    for (int i = 0; i < COUNT; i++)
        SUP_CHECK(tm_hard_free("free", p[i], TM_BY_MALLOC, object_bytes) == TM_HARD_DONE, "free");
    let_all_go();
    _exit(0);
}

static int fork_after; /* so many allocations */

/* A slab of each use has words of the one before, with slots of other bytes. Only an allocation that begins a slab has
   so many steps. */
static bool meet_fork(size_t size, size_t before, unsigned step) {
    enum { COUNT = 2000 };
    static char *p[COUNT];
    for (int i = 0; i < COUNT; i++) {
        p[i] = tm_hard_alloc(16, before, false, TM_BY_MALLOC);
        SUP_CHECK(p[i] != NULL, "no memory");
    }
    for (int i = 0; i < COUNT; i++) (void)tm_hard_free("free", p[i], TM_BY_MALLOC, TM_SIZE_UNKNOWN);
    let_all_go();
    object_bytes = size;
    int count = 0;
    for (; count < COUNT && (count <= fork_after || meanwhile); count++) {
        if (count == fork_after) meanwhile = use_slots_in_child;
        stopped_at = steps_left = step;
        p[count] = tm_hard_alloc(16, size, false, TM_BY_MALLOC);
        SUP_CHECK(p[count] != NULL, "no memory");
    }
    bool met = meanwhile == NULL;
    meanwhile = NULL;
    for (int i = 0; i < count; i++) SUP_CHECK(tm_hard_free("free", p[i], TM_BY_MALLOC, size) == TM_HARD_DONE, "free");
    let_all_go();
    return met;
}

/* At the first step of each of 400 allocations, of which some begin a slab: the core has given a slot that has no word
   yet. */
static void fork_at_each(size_t size, size_t before) {
    for (fork_after = 0; fork_after < 400; fork_after++)
        SUP_CHECK(meet_fork(size, before, 0), "%zu bytes: no fork at allocation %d", size, fork_after);
    fork_after = 0;
}

int main(void) {
    (void)setenv("TSLAB_ON_MISUSE", "report", 1);
    SlabAllocator *allocator = slab_allocator_create();
    EpochId epoch = epoch_open(allocator, "hard", EPOCH_CHURN);
    first.call = second.call = &calls[0];
    slab_set_message_sink(listen, NULL);
    SUP_CHECK(tm_hard_start(allocator, epoch, TS_HARDEN_CANARY | TS_HARDEN_QUARANTINE | TS_HARDEN_GUARD),
              "tm_hard_start");
    unsigned met = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
            for (size_t j = 0; j < sizeof calls / sizeof *calls; j++) {
                first.call = &calls[i];
                second.call = &calls[j];
                unsigned step = 0;
                while (at_step(&kinds[k], step)) step++;
                SUP_CHECK(step >= 2, "%zu bytes: %s has %u steps", object_bytes, first.call->name, step);
                met += step;
            }
    unsigned step = meet_at_all_steps(40, 48);
    SUP_CHECK(step > 40, "%u steps beside a neighbour", step);
    (void)meet_at_all_steps(1000, 1024);
    step = meet_two_lives_at_all_steps(8, 16);
    SUP_CHECK(step > 30, "%u times two lives of a neighbour", step);
    for (step = 0; meet_aligned(step);) step++;
    SUP_CHECK(step > 3, "%u steps of the free", step);
    for (step = 0; meet_fork(1000, 300, step);) step++;
    SUP_CHECK(step > 60, "%u steps of the allocation that begins a slab", step);
    for (step = 0; meet_fork(500, 1000, step);) step++;
    fork_at_each(1000, 240);
    fork_at_each(500, 240);
    for (step = 0; meet_fork(20000, 1000, step);) step++;

    SUP_CHECK(tm_hard_large_keep_accessible(), "nobody hides anything");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (step = 0; meet_look(&kinds[k], epoch, step);) step++;
        SUP_CHECK(step > 4, "%zu bytes: %u steps of the look", object_bytes, step);
    }
    look_at_another_at_all_steps(40, epoch);
    look_at_another_at_all_steps(5000, epoch);
    look_at_another_at_all_steps(200000, epoch);
    static const size_t resized[] = {30, 5000, 20000, 200007};
    for (size_t i = 0; i < sizeof resized / sizeof *resized; i++) look_at_resized_at_all_steps(resized[i], epoch);
    printf("met at %u steps\n", met);
    return 0;
}
