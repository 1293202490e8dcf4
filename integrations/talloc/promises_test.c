/* The promises of talloc's header, manual and guide, by talloc's interface alone: under talloc and under libtslab-talloc
   alike. Prints what fails. With the argument `report` it prints reports and messages, which the two have to share. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <talloc.h>
#include <unistd.h>

static int failures;
#define EXPECT(what) ((what) ? (void)0 : (void)(failures++, printf("line %d: %s\n", __LINE__, #what)))
#define IS(text, expected) EXPECT(is(text, expected))
static bool is(const char *text, const char *expected) { return text && strcmp(text, expected) == 0; }

static char logged[4096];
static void note_log(const char *message) { strncat(logged, message, sizeof logged - strlen(logged) - 1); }

static char order[64];
static int note_name(char *object) {
    strncat(order, talloc_get_name(object), 1);
    return 0;
}
static int refuse(char *object) {
    (void)object;
    return -1;
}
static int free_itself(char *object) {
    EXPECT(talloc_free(object) == -1);
    return 0;
}

static char *named(const void *context, size_t size, const char *name) {
    return talloc_named_const(context, size, name);
}

/* ---- made and freed --------------------------------------------------------------------------------------------------- */

struct pair {
    int a, b;
};

static void makes(void) {
    void *top = talloc_new(NULL);
    EXPECT(strncmp(talloc_get_name(top), "talloc_new: ", 12) == 0 && talloc_get_size(top) == 0 && !talloc_parent(top));
    struct pair *pair = talloc(top, struct pair);
    IS(talloc_get_name(pair), "struct pair");
    EXPECT(talloc_get_size(pair) == sizeof *pair && talloc_parent(pair) == top && (uintptr_t)pair % 16 == 0);
    struct pair *zero = talloc_zero(top, struct pair);
    EXPECT(zero && zero->a == 0 && zero->b == 0);
    struct pair *by_pointer = talloc_ptrtype(top, by_pointer);
    EXPECT(talloc_get_size(by_pointer) == sizeof *pair && strstr(talloc_get_name(by_pointer), "promises_test.c:"));
    int *numbers = talloc_array(top, int, 10);
    EXPECT(talloc_array_length(numbers) == 10 && strcmp(talloc_get_name(numbers), "int") == 0);
    EXPECT(talloc_array(top, struct pair, 0x20000000) == NULL);
    EXPECT(talloc_size(top, 0x10000000) == NULL && talloc_size(top, SIZE_MAX) == NULL);
    numbers = talloc_zero_array(top, int, 5);
    EXPECT(numbers[0] == 0 && numbers[4] == 0);
    char *copy = talloc_memdup(top, "abc", 4);
    IS(copy, "abc");
    IS(talloc_get_name(talloc_init("%d contexts", 3)), "3 contexts");
    char *with_name = talloc_named(top, 10, "%s %d", "object", 7);
    IS(talloc_get_name(with_name), "object 7");
    EXPECT(talloc_total_blocks(with_name) == 2 && talloc_get_size(with_name) == 10);
    EXPECT(talloc_total_size(top) == 3 * sizeof *pair + 40 + 20 + 4 + 10 + 9 && talloc_total_blocks(top) == 9);
    EXPECT(talloc_free(top) == 0 && talloc_free(NULL) == -1);
    for (size_t size = 0; size < 100000; size = size * 3 / 2 + 1) {
        unsigned char *p = talloc_zero_size(NULL, size);
        EXPECT(p && talloc_get_size(p) == size && (size == 0 || (p[0] == 0 && p[size - 1] == 0)));
        memset(p, 0xff, size);
        EXPECT(talloc_free(p) == 0);
    }
}

static void destructors(void) {
    char *a = named(NULL, 1, "a"), *b = named(a, 1, "b"), *c = named(b, 1, "c"), *d = named(a, 1, "d");
    talloc_set_destructor(a, note_name);
    talloc_set_destructor(b, note_name);
    talloc_set_destructor(c, note_name);
    talloc_set_destructor(d, note_name);
    order[0] = '\0';
    EXPECT(talloc_free(a) == 0);
    IS(order, "adbc"); /* a parent before its children, the newest child first */
    char *top = named(NULL, 1, "top");
    a = named(top, 1, "a"), b = named(a, 1, "b"), c = named(b, 1, "c");
    talloc_set_destructor(c, refuse);
    EXPECT(talloc_free(c) == -1 && talloc_parent(c) == b);
    EXPECT(talloc_free(a) == 0 && talloc_parent(c) == top); /* as far up as it has to */
    EXPECT(talloc_free(top) == 0 && talloc_parent(c) == NULL);
    talloc_set_destructor(c, NULL);
    EXPECT(talloc_free(c) == 0);
    a = named(NULL, 1, "a");
    talloc_set_destructor(a, free_itself);
    EXPECT(talloc_free(a) == 0);
}

static char *refuge;
static int go_away(char *object) {
    talloc_set_destructor(object, NULL);
    EXPECT(talloc_steal(refuge, object) == object);
    return -1;
}

static void loops(void) {
    char *top = named(NULL, 1, "top"), *a = named(top, 1, "a"), *b = named(a, 1, "b");
    refuge = named(NULL, 1, "refuge");
    talloc_set_destructor(b, go_away);
    EXPECT(talloc_free(a) == 0 && talloc_parent(b) == refuge && talloc_free(refuge) == 0);
    /* Each the parent of the other, and on top neither. */
    a = named(top, 1, "a"), b = named(a, 1, "b");
    EXPECT(talloc_reference(b, a) == a && talloc_unlink(top, a) == 0 && talloc_parent(a) == b && talloc_parent(b) == a);
    EXPECT(talloc_free(b) == 0 && talloc_free(top) == 0);
}

static void many_at_once(void) {
    static const unsigned counts[] = {1, 5, 63, 64, 65, 200, 3000};
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int kind = 0; kind < 6; kind++) {
            char *before[2] = {NULL, NULL};
            void *other = kind == 4 ? talloc_new(NULL) : NULL;
            char *top = named(NULL, 0, "top"), *parent = top, *left = NULL;
            for (unsigned k = 0; k < counts[i]; k++) {
                char *object = named(parent, k % 500, "x");
                memset(object, 0xee, k % 500);
                if (k % 7 == 0) parent = object;
                if (kind == 1 && k == counts[i] / 2) talloc_set_destructor(object, note_name);
                if (kind == 2 && k == counts[i] / 2) left = object;
                if (kind == 3 && k % 3 == 0 && parent != object) EXPECT(talloc_free(object) == 0);
                if (kind == 5 && k % 7 > 2) {
                    /* The newest grows and moves, the one before it is freed: whatever links them. */
                    if (k % 7 == 5) object = talloc_realloc_size(NULL, object, 3000);
                    if (k % 7 == 6) EXPECT(talloc_free(before[k % 14 == 6]) == 0);
                    before[1] = before[0], before[0] = object;
                }
                if (kind == 4 && k == counts[i] / 2) EXPECT(talloc_steal(object, other) == other);
            }
            order[0] = '\0';
            if (kind == 2) EXPECT(talloc_steal(NULL, left) == left);
            size_t blocks = left ? talloc_total_blocks(left) : 0;
            EXPECT(talloc_free(top) == 0 && strcmp(order, kind == 1 ? "x" : "") == 0);
            EXPECT(!left || (talloc_total_blocks(left) == blocks && named(left, 10, "more") && talloc_free(left) == 0));
        }
}

static void children_freed(void) {
    char *top = named(NULL, 0, "top");
    const char *name = talloc_set_name(top, "name of %s", "top");
    named(top, 1, "x");
    named(named(top, 1, "y"), 1, "z");
    talloc_free_children(top);
    EXPECT(talloc_total_blocks(top) == 2 && talloc_get_name(top) == name);
    IS(name, "name of top");
    talloc_set_name_const(top, "other");
    talloc_free_children(top);
    EXPECT(talloc_total_blocks(top) == 1);
    talloc_free_children(NULL);
    talloc_free(top);
}

/* ---- moved and referenced ------------------------------------------------------------------------------------------------ */

static void moves(void) {
    char *a = named(NULL, 1, "a"), *b = named(NULL, 1, "b"), *c = named(a, 1, "c");
    EXPECT(talloc_steal(b, c) == c && talloc_parent(c) == b && talloc_total_blocks(a) == 1);
    EXPECT(talloc_steal(b, (char *)NULL) == NULL && talloc_steal(c, c) == c && talloc_parent(c) == b);
    char *held = c, *moved = talloc_move(a, &held);
    EXPECT(moved == c && !held && talloc_parent(c) == a);
    EXPECT(talloc_reparent(b, a, c) == NULL && talloc_reparent(a, b, c) == c && talloc_parent(c) == b);
    talloc_free(a);
    EXPECT(talloc_steal(NULL, c) == c && talloc_parent(c) == NULL && talloc_parent_name(c) == NULL);
    talloc_free(b);
    EXPECT(talloc_free(c) == 0);
    /* A context that was stolen before it had anything, and one that gets something before. */
    a = named(NULL, 1, "a"), b = named(NULL, 1, "b");
    talloc_steal(a, b);
    c = named(b, 1, "c");
    char *d = named(a, 1, "d");
    EXPECT(talloc_steal(NULL, c) == c && talloc_free(a) == 0 && talloc_get_size(c) == 1 && talloc_free(c) == 0);
    (void)d;
}

static void references(void) {
    char *a = named(NULL, 1, "a"), *b = named(NULL, 1, "b"), *c = named(a, 1, "c");
    EXPECT(talloc_reference(b, c) == c && talloc_reference_count(c) == 1 && talloc_reference(b, (char *)NULL) == NULL);
    logged[0] = '\0';
    EXPECT(talloc_free(c) == -1); /* more than one parent */
    EXPECT(strncmp(logged, "ERROR: talloc_free with references at ", 38) == 0 && strstr(logged, "\treference at "));
    EXPECT(talloc_realloc_size(NULL, c, 100) == NULL);
    EXPECT(talloc_free(a) == 0 && talloc_parent(c) == b); /* the other parent keeps it */
    EXPECT(talloc_unlink(b, c) == 0 && talloc_total_blocks(b) == 1);
    a = named(NULL, 1, "a"), c = named(a, 1, "c");
    EXPECT(talloc_reference(b, c) == c && talloc_unlink(NULL, c) == -1 && talloc_unlink(a, c) == 0 &&
           talloc_parent(c) == b);
    EXPECT(talloc_unlink(a, c) == -1 && talloc_unlink(a, NULL) == -1);
    EXPECT(talloc_increase_ref_count(c) == 0 && talloc_reference_count(c) == 1 && talloc_unlink(NULL, c) == 0);
    EXPECT(talloc_reference(a, c) == c && talloc_free(a) == 0 && talloc_reference_count(c) == 0);
    logged[0] = '\0';
    a = named(NULL, 1, "a");
    EXPECT(talloc_reference(a, c) == c && talloc_steal(a, c) == c && talloc_parent(c) == a);
    EXPECT(strncmp(logged, "WARNING: talloc_steal with references at ", 41) == 0);
    EXPECT(talloc_reparent(a, b, c) == c && talloc_parent(c) == b && talloc_free(a) == 0);
    /* One that only nobody references goes up to the parent of its parent, and with that. */
    a = named(NULL, 1, "a"), c = named(named(a, 1, "x"), 1, "c");
    talloc_set_destructor(c, note_name);
    order[0] = '\0';
    EXPECT(talloc_increase_ref_count(c) == 0 && talloc_free(a) == 0);
    IS(order, "c");
    /* One that references what is above it. */
    a = named(b, 1, "a"), c = named(a, 1, "c");
    EXPECT(talloc_reference(c, a) == a && talloc_free(b) == 0);
}

/* ---- sizes, names, types ------------------------------------------------------------------------------------------------- */

static void resizes(void) {
    char *top = named(NULL, 0, "top"), *array = talloc_realloc(top, NULL, char, 10);
    EXPECT(talloc_parent(array) == top && talloc_array_length(array) == 10);
    char *children[20];
    for (int i = 0; i < 20; i++) children[i] = named(i % 2 ? array : top, 1, "child");
    memset(array, 'x', 10);
    for (size_t size = 11; size < 200000; size += size / 3) {
        array = talloc_realloc(NULL, array, char, (unsigned)size);
        EXPECT(array && talloc_get_size(array) == size && memcmp(array, "xxxxxxxxxx", 10) == 0 &&
               talloc_parent(array) == top);
    }
    for (int i = 0; i < 20; i++) EXPECT(talloc_parent(children[i]) == (i % 2 ? array : top));
    EXPECT(talloc_total_blocks(top) == 22 && talloc_total_blocks(array) == 11);
    char *same = talloc_realloc_size(NULL, array, 0x7fffffff);
    EXPECT(same == NULL && talloc_realloc(NULL, array, double, 0x20000000) == NULL && array[0] == 'x');
    array = talloc_realloc_size(NULL, array, 5);
    EXPECT(array && talloc_get_size(array) == 5);
    EXPECT(talloc_realloc(top, array, char, 0) == NULL && talloc_total_blocks(top) == 11);
    array = talloc_realloc_fn(top, NULL, 7);
    EXPECT(talloc_get_size(array) == 7);
    top = talloc_realloc_size(NULL, top, 5000); /* one that has children, and is on top */
    EXPECT(talloc_parent(array) == top && named(top, 3, "x") && talloc_free(top) == 0);
}

static const char *type_abort;
static void note_abort(const char *reason) { type_abort = reason; }
static void note_type(const char *reason) {
    static char text[200];
    strncpy(text, reason, sizeof text - 1);
    note_abort(text);
}

static void names(void) {
    struct pair *pair = talloc(NULL, struct pair);
    EXPECT(talloc_get_type(pair, struct pair) == pair && talloc_get_type(pair, int) == NULL &&
           talloc_get_type(NULL, int) == NULL);
    talloc_set_type(pair, int);
    EXPECT((void *)talloc_get_type(pair, int) == pair && talloc_get_type_abort(pair, int) == (int *)pair);
    type_abort = NULL;
    talloc_set_abort_fn(note_type);
    (void)_talloc_get_type_abort(pair, "double", "here:1");
    IS(type_abort, "here:1: Type mismatch: name[int] expected[double]");
    (void)_talloc_get_type_abort(NULL, "double", "here:2");
    IS(type_abort, "here:2: Type mismatch: name[NULL] expected[double]");
    talloc_set_abort_fn(NULL);
    talloc_set_name_const(pair, NULL);
    IS(talloc_get_name(pair), "UNNAMED");
    char *below = named(named(pair, 1, "middle"), 1, "below");
    IS(talloc_parent_name(below), "middle");
    EXPECT(talloc_find_parent_byname(below, "middle") == talloc_parent(below) &&
           !talloc_find_parent_byname(below, "other"));
    EXPECT(talloc_is_parent(below, pair) == 1 && talloc_is_parent(pair, below) == 0);
    EXPECT(talloc_check_name(below, "below") == below && talloc_check_name(below, "other") == NULL);
    talloc_free(pair);
    EXPECT(talloc_version_major() == TALLOC_VERSION_MAJOR && talloc_version_minor() == TALLOC_VERSION_MINOR);
}

static void texts(void) {
    char *top = talloc_new(NULL), *s = talloc_strdup(top, "hello");
    EXPECT(talloc_get_name(s) == s && talloc_get_size(s) == 6 && talloc_strdup(top, NULL) == NULL);
    s = talloc_strdup_append(s, " world");
    IS(s, "hello world");
    EXPECT(talloc_get_size(s) == 12 && talloc_get_name(s) == s && talloc_strdup_append(s, NULL) == s);
    s[5] = '\0';
    s = talloc_strdup_append_buffer(s, ", x");
    EXPECT(memcmp(s, "hello\0world, x", 15) == 0);
    s = talloc_strdup_append(s, "!");
    IS(s, "hello!");
    s = talloc_strndup(top, "abcdef", 3);
    IS(s, "abc");
    s = talloc_strndup_append(s, "xyz", 2);
    IS(s, "abcxy");
    s = talloc_strndup_append_buffer(s, "123", 9);
    IS(s, "abcxy123");
    s = talloc_asprintf(top, "%d %s", 5, "times");
    IS(s, "5 times");
    s = talloc_asprintf_append(s, " %c", 'z');
    s = talloc_asprintf_append_buffer(s, "%s", "");
    s = talloc_asprintf_append_buffer(s, "%2000d", 1);
    EXPECT(strlen(s) == 2009 && strncmp(s, "5 times z   ", 12) == 0 && s[2008] == '1' && talloc_get_name(s) == s);
    EXPECT(strlen(talloc_asprintf(top, "%*d", 511, 1)) == 511 && strlen(talloc_asprintf(top, "%*d", 512, 1)) == 512);
    char *none = NULL, *built = talloc_strdup(top, "");
    talloc_asprintf_addbuf(&none, "%d", 1);
    talloc_asprintf_addbuf(&built, "%d", 1);
    talloc_asprintf_addbuf(&built, "%d", 2);
    EXPECT(!none);
    IS(built, "12");
    s = talloc_strdup_append(NULL, "new");
    EXPECT(talloc_parent(s) == NULL && talloc_free(s) == 0 && !talloc_strndup(NULL, NULL, 4));
    talloc_free(top);
}

/* ---- pools, limits, tracking, threads -------------------------------------------------------------------------------------- */

static void pools(void) {
    for (unsigned size = 0; size < 20000; size = size * 2 + 300) {
        char *top = named(NULL, 0, "top"), *pool = talloc_pool(top, size), *left = named(pool, 40, "left");
        char *objects[100];
        for (int i = 0; i < 100; i++) {
            objects[i] = named(i % 5 ? pool : left, (size_t)i * 5, "in a pool");
            memset(objects[i], i, (size_t)i * 5);
        }
        for (int i = 0; i < 100; i += 3) objects[i] = talloc_realloc_size(NULL, objects[i], (size_t)i * 11 + 1);
        for (int i = 5; i < 100; i += 7) talloc_free(objects[i]), objects[i] = NULL;
        for (int i = 1; i < 100; i++) EXPECT(!objects[i] || (objects[i][0] == i && objects[i][i * 5 - 1] == i));
        EXPECT(talloc_get_size(pool) == 0 && talloc_realloc_size(NULL, pool, 10) == NULL);
        size_t blocks = talloc_total_blocks(left);
        talloc_steal(NULL, left);
        EXPECT(talloc_free(pool) == 0 && talloc_total_blocks(left) == blocks && named(left, 100, "more"));
        EXPECT(talloc_free(top) == 0 && talloc_free(left) == 0);
    }
    struct pair *pair = talloc_pooled_object(NULL, struct pair, 3, 100);
    IS(talloc_get_name(pair), "struct pair");
    EXPECT(talloc_get_size(pair) == sizeof *pair);
    for (int i = 0; i < 5; i++) EXPECT(talloc_strdup(pair, "in it") != NULL);
    EXPECT(talloc_free(pair) == 0);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void limits(void) {
    char *top = named(NULL, 10, "top"), *inner = named(top, 10, "inner"), *x = NULL;
    EXPECT(talloc_set_memlimit(top, 10000) == 0 && talloc_set_memlimit(inner, 3000) == 0);
    EXPECT(named(inner, 4000, "x") == NULL && (x = named(top, 4000, "x")) && named(top, 6000, "x") == NULL);
    EXPECT(talloc_free(x) == 0 && (x = named(top, 6000, "x")) && talloc_free(x) == 0);
    EXPECT((x = named(inner, 100, "x")) && talloc_realloc_size(NULL, x, 4000) == NULL && talloc_get_size(x) == 100);
    x = talloc_realloc_size(NULL, x, 2000);
    EXPECT(x && named(inner, 900, "y") == NULL && (x = talloc_realloc_size(NULL, x, 10)) && named(inner, 900, "y"));
    char *large = named(NULL, 20000, "large");
    EXPECT(talloc_steal(inner, large) == large && named(top, 1, "y") == NULL); /* never refused, and counted */
    EXPECT(talloc_free(large) == 0 && named(top, 1, "y"));
    EXPECT(talloc_set_memlimit(inner, 0) == 0 && named(inner, 4000, "x"));
    many_at_once(); /* in a process that counts */
    EXPECT(talloc_free(top) == 0);
}

static void tracking(void) {
    char *before = named(NULL, 3, "before");
    EXPECT(talloc_total_size(NULL) == 0 && talloc_total_blocks(NULL) == 0);
    talloc_enable_null_tracking();
    char *after = named(NULL, 4, "after");
    IS(talloc_parent_name(after), "null_context");
    EXPECT(talloc_total_size(NULL) == 4 && talloc_total_blocks(NULL) == 2 && !talloc_parent(before));
    for (int i = 0; i < 100; i++) named(after, 2, "many");
    EXPECT(talloc_total_size(NULL) == 204);
    talloc_disable_null_tracking();
    EXPECT(!talloc_parent(after) && talloc_total_size(NULL) == 0 && talloc_total_size(after) == 204);
    void *automatic = talloc_autofree_context();
    IS(talloc_get_name(automatic), "autofree_context");
    EXPECT(talloc_autofree_context() == automatic && talloc_free(automatic) == 0);
    EXPECT(talloc_autofree_context() != NULL);
    EXPECT(talloc_free(before) == 0 && talloc_free(after) == 0);
}

static void *make_and_give(void *give) {
    for (int i = 0; i < 300; i++) {
        char *top = named(NULL, 1, "of a thread"), *object = NULL;
        for (int k = 0; k < 100; k++) object = named(k % 3 ? top : object, (size_t)k, "x");
        if (i % 50 == 0) ((char **)give)[i / 50] = talloc_steal(NULL, object);
        EXPECT(talloc_free(top) == 0);
    }
    return NULL;
}

static void threads(void) {
    char *given[4][6];
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) EXPECT(pthread_create(&thread[i], NULL, make_and_give, given[i]) == 0);
    for (int i = 0; i < 4; i++) EXPECT(pthread_join(thread[i], NULL) == 0);
    char *top = named(NULL, 1, "top");
    for (int i = 0; i < 24; i++)
        EXPECT(talloc_steal(top, given[i / 6][i % 6]) && named(given[i / 6][i % 6], 30, "more"));
    EXPECT(talloc_total_blocks(top) == 49 && talloc_free(top) == 0);
}

static void forks(void) {
    char *top = named(NULL, 1, "top");
    for (int i = 0; i < 200; i++) named(top, 20, "x");
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 200; i++) EXPECT(named(top, 20, "x") != NULL);
        EXPECT(talloc_free(top) == 0 && named(NULL, 5, "y") != NULL);
        _exit(failures != 0);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT(talloc_total_blocks(top) == 201 && talloc_free(top) == 0);
}

/* ---- what is printed --------------------------------------------------------------------------------------------------------- */

static void print(const char *message) { printf("logged: %s", message); }
static void show(const void *object, int depth, int most, int is_reference, void *argument) {
    printf("%s%s %d %d %d\n", (char *)argument, talloc_get_name(object), depth, most, is_reference);
}
static void leave(const char *reason) {
    printf("abort: %s\n", reason);
    fflush(stdout);
    _exit(3);
}

static void in_child(void (*work)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        work();
        exit(0);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child);
    printf("status %x\n", (unsigned)status);
}

static void free_what_is_none(void) {
    char bytes[400];
    memset(bytes, 7, sizeof bytes);
    (void)talloc_free(bytes + 192);
}
static void ask_what_is_none(void) {
    char bytes[400];
    memset(bytes, 7, sizeof bytes);
    (void)talloc_parent(bytes + 192);
}
static void allocate_in_none(void) {
    char bytes[400];
    memset(bytes, 7, sizeof bytes);
    (void)talloc_size(bytes + 192, 3);
}
static void leak(void) {
    talloc_enable_leak_report();
    named(named(NULL, 10, "left"), 5, "in it");
}
static void leak_fully(void) {
    talloc_enable_leak_report_full();
    named(named(NULL, 10, "left"), 5, "in it");
    named(talloc_autofree_context(), 3, "not left");
}
static void leak_nothing(void) { talloc_enable_leak_report_full(); }

static void reports(void) {
    char *a = named(NULL, 10, "a"), *b = named(a, 20, "b"), *c = named(a, 30, "c"), *d = named(b, 5, "d");
    talloc_set_log_fn(print);
    talloc_set_abort_fn(leave);
    _talloc_reference_loc(c, d, "one.c:1");
    _talloc_reference_loc(NULL, d, "two.c:2");
    talloc_set_name(c, "c, number %d", 3);
    talloc_strdup(c, "a text");
    named(talloc_pool(a, 500), 3, "in a pool");
    talloc_report_full(a, stdout);
    talloc_report(a, stdout);
    talloc_report_depth_file(a, 0, 2, stdout);
    talloc_report_depth_file(a, 2, 3, stdout);
    talloc_report_depth_cb(a, 0, 1, show, "one: ");
    talloc_report_depth_cb(a, 0, -1, show, "all: ");
    talloc_report_full(NULL, stdout);
    talloc_show_parents(d, stdout);
    talloc_show_parents(NULL, stdout);
    _talloc_free(d, "three.c:3");
    _talloc_steal_loc(c, d, "four.c:4");
    talloc_set_memlimit(c, 5000);
    talloc_report_full(a, stdout);
    in_child(free_what_is_none);
    in_child(ask_what_is_none);
    in_child(allocate_in_none);
    in_child(leak);
    in_child(leak_fully);
    in_child(leak_nothing);
    talloc_set_abort_fn(NULL);
    in_child(free_what_is_none);
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "report") == 0) {
        dup2(STDOUT_FILENO, STDERR_FILENO);
        reports();
        return 0;
    }
    talloc_set_log_fn(note_log);
    makes();
    destructors();
    loops();
    many_at_once();
    children_freed();
    moves();
    references();
    resizes();
    names();
    texts();
    pools();
    tracking();
    threads();
    forks();
    limits();
    printf("promises_test: %d failures\n", failures);
    return failures != 0;
}
