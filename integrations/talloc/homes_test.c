/* What libtslab-talloc adds to talloc's promises, preloaded: domains with the names of contexts, their end in one step, no
   object lost, a budget that is reached, objects used after they are freed. Prints what fails. */
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <talloc.h>
#include <tslab/stats.h>
#include <tslab/tslab.h>
#include <unistd.h>

static int failures;
#define EXPECT(what) ((what) ? (void)0 : (void)(failures++, printf("line %d: %s\n", __LINE__, #what)))

static SlabGlobalStats stats(void) {
    SlabGlobalStats s;
    EXPECT(slab_stats_global(slab_allocator_default(), &s));
    return s;
}

/* Live objects in the epoch with the label; 0: there is none. */
static uint64_t live_in(const char *label) {
    EpochId ids[64];
    SlabAllocator *allocator = slab_allocator_default();
    size_t count = slab_epochs(allocator, ids, 64);
    for (size_t i = 0; i < count && i < 64; i++) {
        SlabEpochStats s;
        if (slab_stats_epoch(allocator, SLAB_ALL_CLASSES, ids[i], &s) && strcmp(s.label, label) == 0)
            return s.live_objects;
    }
    return 0;
}

static char *named(const void *context, size_t size, const char *name) {
    return talloc_named_const(context, size, name);
}

static char *tree(const char *name, unsigned objects) {
    char *top = named(NULL, 0, name), *parent = top;
    for (unsigned i = 0; i < objects; i++) {
        char *object = named(parent, i % 100, "x");
        EXPECT(object != NULL);
        if (i % 3 == 0) parent = object;
    }
    return top;
}

static void domains(void) {
    char *small = tree("a small one", 40), *large = tree("a large one", 1000);
    EXPECT(live_in("a small one") == 0 && live_in("a large one") > 900);
    talloc_set_name_const(large, "another name");
    EXPECT(live_in("a large one") == 0 && live_in("another name") > 900);
    large = _talloc_realloc(NULL, large, 5000, "grown");
    EXPECT(live_in("grown") > 900);
    talloc_set_name(large, "number %d", 3);
    EXPECT(live_in("number 3") > 900);
    EXPECT(talloc_free(large) == 0 && live_in("number 3") == 0 && talloc_free(small) == 0);
    char *pool = talloc_pool(NULL, 1000);
    talloc_set_name_const(pool, "a pool");
    for (int i = 0; i < 1000; i++) EXPECT(named(pool, 50, "x") != NULL);
    EXPECT(live_in("a pool") > 900 && talloc_free(pool) == 0 && live_in("a pool") == 0);
}

static int calls;
static int count_call(char *object) {
    (void)object;
    calls++;
    return 0;
}

/* The seams: what has a destructor or a reference, came or went, is not ended unseen. */
static void not_at_once(void) {
    for (unsigned objects = 1; objects < 300; objects += 59)
        for (unsigned seam = 0; seam < 8; seam++) {
            char *top = tree("top", objects), *other = tree("other", objects), *object = named(top, 9, "y"),
                 *own = named(object, 8, "z");
            calls = 0;
            if (seam == 0) talloc_set_destructor(own, count_call);
            if (seam == 1) EXPECT(talloc_steal(other, object) == object);
            if (seam == 2) EXPECT(talloc_reference(other, own) == own);
            if (seam == 3) EXPECT(talloc_steal(top, other) == other);
            if (seam == 4) EXPECT(talloc_reference(NULL, own) == own); /* nobody's: it goes with the top */
            if (seam == 5) {
                talloc_set_destructor(own, count_call);
                talloc_set_destructor(own, NULL);
            }
            if (seam == 6) EXPECT(talloc_reference(own, other) == other);
            if (seam == 7) EXPECT(talloc_strdup(talloc_pool(object, 100), "in a pool"));
            EXPECT(talloc_free(top) == 0 && calls == (seam == 0) && (seam == 3 || talloc_reference_count(other) == 0));
            if (seam == 1 || seam == 2) EXPECT(talloc_get_size(own) == 8 && talloc_strdup(own, "more"));
            if (seam != 3) EXPECT(talloc_free(other) == 0);
        }
}

/* Contexts that were stolen before they, or those that they came to, had allocated anything. */
static void adopted(void) {
    char *top = named(NULL, 1, "top"), *other = named(NULL, 1, "other");
    EXPECT(talloc_steal(top, other) == other && named(top, 1, "x") && named(other, 1, "y") && talloc_free(top) == 0);
    top = named(NULL, 1, "top"), other = named(NULL, 1, "other");
    EXPECT(talloc_steal(top, other) == other && named(other, 1, "y") && named(top, 1, "x") && talloc_free(top) == 0);
}

/* The list of first objects, where they move and go. */
static void moved_and_gone(void) {
    for (int moved = 0; moved < 6; moved++)
        for (int gone = 0; gone < 6; gone++) {
            char *top = named(NULL, 1, "top"), *objects[6];
            for (int i = 0; i < 6; i++) objects[i] = named(top, 10, "x");
            objects[moved] = talloc_realloc_size(NULL, objects[moved], 3000);
            EXPECT(objects[moved] && talloc_free(objects[gone]) == 0 && named(top, 10, "y") && talloc_free(top) == 0);
        }
}

/* A survivor goes on where the context is gone: its domain has no name then. */
static void survivor(void) {
    char *top = named(NULL, 1, "top"), *left = named(top, 1, "left");
    EXPECT(talloc_steal(NULL, left) == left && talloc_free(top) == 0);
    for (int i = 0; i < 100; i++) EXPECT(named(left, 1, "x") != NULL);
    EXPECT(live_in("UNNAMED") > 30 && talloc_free(left) == 0 && live_in("UNNAMED") == 0);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
/* What leaves a limited context leaves room. */
static void limits(void) {
    char *top = named(NULL, 1, "top"), *large;
    EXPECT(talloc_set_memlimit(top, 10000) == 0);
    for (int i = 0; i < 5; i++)
        EXPECT((large = named(top, 8000, "large")) && !named(top, 8000, "more") && talloc_steal(NULL, large) &&
               talloc_free(large) == 0);
    EXPECT(talloc_free(top) == 0);
}

static void without_memory(void) {
    char *top = tree("top", 100), *text = talloc_strdup(top, "text"), *array = talloc_array(top, char, 100);
    char *limited = named(NULL, 1, "limited");
    memset(array, 'x', 100);
    EXPECT(talloc_set_memlimit(limited, 3000000) == 0 && talloc_size(limited, 1) && talloc_named(top, 3, "%d", 1) &&
           talloc_init("%d", 1));
    (void)slab_trim(slab_allocator_default());
    EXPECT(slab_set_budget(slab_allocator_default(), (size_t)stats().committed_bytes + (1u << 20)));
    size_t blocks = talloc_total_blocks(top);
    uint64_t live = stats().live_objects;
    for (int i = 0; i < 3; i++) {
        EXPECT(!talloc_realloc_size(NULL, array, 2000000) && !talloc_pool(top, 2000000) &&
               !talloc_zero_size(top, 2000000));
        EXPECT(!talloc_asprintf_append(text, "%2000000d", 1) && !talloc_named(top, 3, "%2000000d", 1));
        EXPECT(!talloc_pooled_object(top, int, 10, 2000000) && !talloc_asprintf(top, "%2000000d", 1));
        EXPECT(!talloc_size(limited, 2000000));
    }
    EXPECT(talloc_total_blocks(top) == blocks && array[99] == 'x' && strcmp(text, "text") == 0 &&
           stats().live_objects == live);
    EXPECT(!talloc_set_name(array, "%2000000d", 1) && strcmp(talloc_get_name(array), "UNNAMED") == 0);
    talloc_asprintf_addbuf(&text, "%2000000d", 1);
    EXPECT(!text && talloc_total_blocks(top) == blocks - 1);
    size_t got = 0;
    while (got < 64u << 20 && named(top, 10000, "x")) got += 10000;
    EXPECT(got > 100000 && got < 2u << 20);
    EXPECT(talloc_free(top) == 0 && tree("after it", 100));
    EXPECT(slab_set_budget(slab_allocator_default(), 0));
    EXPECT(talloc_size(limited, 2000000) && talloc_free(limited) == 0);
}

/* With each allocation refused in turn: as many objects as before, or all that was asked for. */
static void every_refusal(void) {
    char *top = named(NULL, 1, "top"), *filler[20000];
    (void)slab_trim(slab_allocator_default());
    EXPECT(slab_set_budget(slab_allocator_default(), (size_t)stats().committed_bytes));
    size_t count = 0;
    for (size_t size = 8000; size > 0; size /= 2)
        while (count < 20000 && (filler[count] = named(top, size, "filler"))) count++;
    EXPECT(count < 20000);
    unsigned refused = 0;
    for (size_t left = 0; left < 8 && left < count; left++) {
        uint64_t live = stats().live_objects;
        char *context = named(NULL, 10, "context"), *object = context ? named(context, 10, "object") : NULL;
        char *reference = object ? talloc_reference(top, object) : NULL;
        if (reference) EXPECT(talloc_unlink(top, object) == 0);
        refused += !reference;
        if (context) EXPECT(talloc_free(context) == 0);
        EXPECT(stats().live_objects == live);
        EXPECT(talloc_free(filler[--count]) == 0);
    }
    EXPECT(refused > 0 && slab_set_budget(slab_allocator_default(), 0) && talloc_free(top) == 0);
}

static void leave(const char *reason) {
    _exit(strcmp(reason, "Bad talloc magic value - access after free") == 0 ? 42 : 1);
}

static void used_when_freed(unsigned objects, bool child_of_it) {
    pid_t child = fork();
    if (child == 0) {
        char *top = tree("top", objects), *object = named(top, 20, "object");
        talloc_set_abort_fn(leave);
        EXPECT(talloc_free(top) == 0);
        (void)talloc_free(child_of_it ? object : top);
        _exit(2);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

int main(void) {
    if (!strstr(slab_version(), ".")) return 1;
    free(malloc(1));
    uint64_t live = stats().live_objects;
    domains();
    not_at_once();
    adopted();
    moved_and_gone();
    survivor();
    limits();
    EXPECT(stats().live_objects == live);
    without_memory();
    every_refusal();
    for (unsigned objects = 1; objects < 300; objects += 40) {
        used_when_freed(objects, false);
        used_when_freed(objects, true);
    }
    printf("homes_test: %d failures\n", failures);
    return failures != 0;
}
