/* Memory that libc allocates for itself while a thread is inside of a domain that captures, and uses when the domain
   has ended (runtime.c); and that its functions that hand out memory give the domain's (handed.c). */
#define _GNU_SOURCE
#include "malloc_test.h"

#include <tslab/malloc.h>
#include <tslab/stats.h>

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <iconv.h>
#include <libintl.h>
#include <limits.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <regex.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static SlabAllocator *a;
static EpochDomain *d;

static uint64_t live(void) {
    SlabEpochStats stats;
    CHECK(slab_stats_epoch(a, SLAB_ALL_CLASSES, epoch_domain_epoch(d), &stats));
    return stats.live_objects;
}
static void enter(void) {
    d = epoch_domain_create_ex(a, "captured", EPOCH_DOMAIN_CAPTURE);
    CHECK(d && epoch_domain_enter(d));
}
/* Other objects take the domain's memory. */
static void leave(void) {
    CHECK(epoch_domain_exit(d));
    epoch_domain_destroy(d);
    for (size_t bytes = 16; bytes < 70000; bytes *= 2)
        for (int i = 0; i < 64; i++) {
            void *p = malloc(bytes);
            CHECK(p != NULL);
            memset(p, 0x5a, bytes);
        }
}
static uint64_t refused(void) {
    SlabGlobalStats stats;
    CHECK(slab_stats_global(a, &stats));
    return stats.rejected_frees_total;
}

/* ---- memory that libc keeps -------------------------------------------------------------------------------------- */

static FILE *file;
static const char *said;

#ifndef MALLOC_TEST_STATIC
static void loader_fails(void) { CHECK(dlsym(RTLD_DEFAULT, "no_such_function") == NULL); }
static void library_fails(void) { CHECK(dlopen("/no/such/library.so", RTLD_NOW) == NULL); }
static void error_is_read(void) {
    const char *text = dlerror();
    CHECK(text && (strstr(text, "no_such_function") || strstr(text, "/no/such/library.so")));
    CHECK(dlsym(RTLD_DEFAULT, "another_one") == NULL && strstr(dlerror(), "another_one") && !dlerror());
}

#endif

static void open_outside(void) {
    file = tmpfile();
    CHECK(file && fputs("0123456789", file) >= 0);
    rewind(file);
    CHECK(fgetc(file) == '0');
}
static void push_back(void) { CHECK(ungetc('a', file) == 'a' && ungetc('b', file) == 'b' && ungetc('c', file) == 'c'); }
static void read_back(void) {
    char text[16] = "";
    CHECK(fgets(text, sizeof text, file) && strcmp(text, "cba123456789") == 0 && fclose(file) == 0);
}
static void open_inside(void) {
    open_outside();
    push_back();
}

static int ticks;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ticked = PTHREAD_COND_INITIALIZER;
static timer_t timer;
static void tick(union sigval value) {
    pthread_mutex_lock(&mutex);
    ticks += value.sival_int;
    pthread_cond_signal(&ticked);
    pthread_mutex_unlock(&mutex);
}
static void make_timer(void) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tick, .sigev_value.sival_int = 1};
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
}
static void timer_ticks(void) {
    const struct itimerspec soon = {.it_value.tv_nsec = 1000000};
    CHECK(timer_settime(timer, 0, &soon, NULL) == 0);
    pthread_mutex_lock(&mutex);
    while (ticks == 0) pthread_cond_wait(&ticked, &mutex);
    pthread_mutex_unlock(&mutex);
    CHECK(timer_delete(timer) == 0);
}

static void texts(void) {
    said = strsignal(SIGRTMIN + 9);
    CHECK(said && strerror(123456));
}
static void texts_again(void) {
    CHECK(strstr(said, "9") && strstr(strsignal(SIGRTMIN + 7), "7") && strstr(strerror(654321), "654321"));
}
static void environment(void) { CHECK(setenv("KEPT_TEST", "a value", 1) == 0 && unsetenv("NOT_THERE") == 0); }
static void environment_again(void) {
    CHECK(strcmp(getenv("KEPT_TEST"), "a value") == 0 && setenv("KEPT_TEST", "another value of it", 1) == 0);
    CHECK(setenv("KEPT_TEST_2", "x", 1) == 0 && getenv("KEPT_TEST_2"));
}
#ifndef MALLOC_TEST_STATIC
static iconv_t how = (iconv_t)-1;
static regex_t expression;

static void zone(void) {
    time_t now = 0;
    CHECK(setenv("TZ", "ABC-3DEF", 1) == 0 && localtime(&now));
}
static void zone_again(void) {
    time_t now = 0;
    CHECK(strcmp(localtime(&now)->tm_zone, "ABC") == 0 && setenv("TZ", "UTC", 1) == 0 && localtime(&now));
}
static void locales(void) {
    CHECK(setlocale(LC_ALL, "C.UTF-8") || setlocale(LC_ALL, "C"));
    CHECK(bindtextdomain("kept", "/tmp") && textdomain("kept"));
}
static void locales_again(void) {
    wchar_t wide[8];
    CHECK(mbstowcs(wide, "text", 8) == 4 && setlocale(LC_ALL, "C") && strcmp(textdomain(NULL), "kept") == 0);
    CHECK(strcmp(bindtextdomain("kept", NULL), "/tmp") == 0 && strcmp(gettext("x"), "x") == 0 &&
          textdomain("messages"));
}
static void conversion(void) { how = iconv_open("UTF-16LE", "UTF-8"); }
static void conversion_again(void) {
    if (how == (iconv_t)-1) return; /* it has no such conversion */
    char in[] = "text", out[16], *from = in, *to = out;
    size_t in_bytes = 4, out_bytes = 16;
    CHECK(iconv(how, &from, &in_bytes, &to, &out_bytes) == 0 && iconv_close(how) == 0);
}
static void users(void) { (void)getpwuid(0), (void)getservbyname("http", "tcp"), (void)gethostbyname("localhost"); }
static void patterns(void) { CHECK(regcomp(&expression, "^(a|b)+[0-9]*$", REG_EXTENDED) == 0); }
static void patterns_again(void) {
    CHECK(regexec(&expression, "abba42", 0, NULL, 0) == 0);
    regfree(&expression);
}
#endif
static int exits;
static void at_the_end(void) { exits++; }
static void handlers(void) {
    for (int i = 0; i < 100; i++) CHECK(atexit(at_the_end) == 0);
}
static void handlers_again(void) { CHECK(atexit(at_the_end) == 0); }

#ifndef MALLOC_TEST_STATIC
static char *streamed;
static size_t streamed_bytes;
static void memory_stream(void) {
    file = open_memstream(&streamed, &streamed_bytes);
    CHECK(file && fputs("a text", file) >= 0 && fflush(file) == 0);
}
static void memory_stream_again(void) {
    for (int i = 0; i < 1000; i++) CHECK(fputs(", and more", file) >= 0);
    CHECK(fflush(NULL) == 0 && fclose(file) == 0 && strncmp(streamed, "a text, and more", 16) == 0);
    free(streamed);
}
#endif

/* In a static program libc is told by a few functions alone. */
static const struct {
    void (*outside)(void), (*inside)(void), (*after)(void);
} kept[] = {
    {open_outside, push_back, read_back},
    {NULL, open_inside, read_back},
    {NULL, make_timer, timer_ticks},
    {NULL, texts, texts_again},
    {NULL, environment, environment_again},
    {NULL, handlers, handlers_again},
#ifndef MALLOC_TEST_STATIC
    {NULL, loader_fails, error_is_read},
    {NULL, library_fails, error_is_read},
    {NULL, zone, zone_again},
    {NULL, locales, locales_again},
    {NULL, conversion, conversion_again},
    {NULL, users, users},
    {NULL, patterns, patterns_again},
    {NULL, memory_stream, memory_stream_again},
#endif
};

static void test_kept(void) {
    for (unsigned i = 0; i < sizeof kept / sizeof *kept; i++) {
        uint64_t before = refused();
        if (kept[i].outside) kept[i].outside();
        enter();
        kept[i].inside();
        uint64_t of_domain = live();
        leave();
        if (of_domain != 0) fprintf(stderr, "row %u: %u objects are the domain's\n", i, (unsigned)of_domain);
        CHECK(of_domain == 0);
        kept[i].after();
        CHECK(refused() == before);
    }
}

#ifndef MALLOC_TEST_STATIC
/* ---- memory that libc hands out ---------------------------------------------------------------------------------- */

#define HANDED(call)                                           \
    do {                                                       \
        uint64_t before_ = live();                             \
        void *p_ = (call);                                     \
        CHECK(p_ &&slab_owns(a, p_) && live() == before_ + 1); \
        free(p_);                                              \
        CHECK(live() == before_);                              \
    } while (0)

static char *printed(const char *format, ...) {
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int n = vasprintf(&text, format, arguments);
    va_end(arguments);
    CHECK(n == (int)strlen(text));
    return text;
}
static char *printed_long(void) {
    char *text;
    CHECK(asprintf(&text, "%0500d", 7) == 500 && strlen(text) == 500 && text[499] == '7');
    return text;
}
static int is_plain(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void test_handed_out(void) {
    char here[PATH_MAX], *line = NULL;
    size_t room = 0;
    struct dirent **list;
    CHECK(getcwd(here, sizeof here) == here);
    enter();
    CHECK(getcwd(here, sizeof here) == here && live() == 0);
    HANDED(strdup("a text"));
    HANDED(strndup("a text", 3));
    HANDED(wcsdup(L"a text"));
    HANDED(printed("%s %d", "a text", 7));
    HANDED(printed_long());
    HANDED(getcwd(NULL, 0));
    HANDED(get_current_dir_name());
    HANDED(realpath("/proc/self/..", NULL));
    HANDED(canonicalize_file_name("/proc/self/.."));
    HANDED(tempnam("/tmp", "kept"));
    CHECK(realpath("/no/such/file", NULL) == NULL && errno == ENOENT && live() == 0);
    char *copied = strndup("a text", 3), *text = printed("%s %d", "a text", 7);
    CHECK(strcmp(copied, "a t") == 0 && strcmp(text, "a text 7") == 0);

    FILE *lines = tmpfile();
    CHECK(lines && fprintf(lines, "short\n%01000d\n", 7) == 1007);
    rewind(lines);
    uint64_t before = live();
    CHECK(getline(&line, &room, lines) == 6 && strcmp(line, "short\n") == 0 && live() == before + 1);
    CHECK(getline(&line, &room, lines) == 1001 && line[999] == '7' && slab_owns(a, line) && live() == before + 1);
    CHECK(fclose(lines) == 0);

    before = live();
    int n = scandir("/proc/self", &list, is_plain, alphasort);
    CHECK(n > 10 && live() == before + (unsigned)n + 1);
    for (int i = 0; i < n; i++) CHECK(slab_owns(a, list[i]) && is_plain(list[i]));
    CHECK(scandir("/no/such/folder", &list, NULL, NULL) == -1 && errno == ENOENT);
    leave();
    line = strdup("outside");
    CHECK(strcmp(line, "outside") == 0 && strcmp(printed("%d", 7), "7") == 0 && getcwd(NULL, 0));
}

#else
static void test_handed_out(void) {
    enter();
    CHECK(strdup("a text") && live() == 1);
    leave();
}
#endif

#ifndef MALLOC_TEST_STATIC
/* A library of a name service is a part of libc, and keeps its copies. */
static void test_name_service(const char *path) {
    const char *(*keep)(const char *text);
    void *library = dlopen(path, RTLD_NOW), *symbol = library ? dlsym(library, "nss_keep") : NULL;
    CHECK(symbol != NULL);
    memcpy(&keep, &symbol, sizeof keep);
    enter();
    const char *text = keep("a name");
    CHECK(text && live() == 0);
    leave();
    CHECK(strcmp(text, "a name") == 0);
}
#endif

int main(int argc, char **argv) {
    a = slab_malloc_allocator();
    CHECK(slab_malloc_active() && a != NULL);
    test_kept();
    test_handed_out();
#ifndef MALLOC_TEST_STATIC
    CHECK(argc == 2);
    test_name_service(argv[1]);
#endif
    (void)argc, (void)argv;
    printf("what libc keeps, and what it hands out\n");
    return 0;
}
