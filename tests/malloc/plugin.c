/* A library that is loaded in unusual ways: it allocates, frees, and runs threads, by the malloc that it finds. As an
   audit library it allocates at each event. */
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char *of_thread; /* thread storage of a library that was loaded late is allocated at first use */

char *plugin_make(size_t bytes);
char *plugin_make(size_t bytes) {
    char *p = malloc(bytes);
    if (p) memset(p, 'x', bytes);
    return p;
}

/* Objects of its constructor, in the first thread and in another. */
#define EARLY 6
static const size_t early_bytes[EARLY] = {8, 3000, 100000, 140000, 300000, 5000000};
static char *early[2][EARLY];

static void *allocate_early(void *which) {
    char **at = which;
    for (int i = 0; i < EARLY; i++) at[i] = plugin_make(early_bytes[i]);
    return NULL;
}

__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    (void)allocate_early(early[0]);
    /* As an audit library it comes before the process's libc. Memory that the loader allocates for a thread then, libc
       frees in a child of fork as its own, and aborts: with its own malloc, too. */
    if (getenv("LD_AUDIT")) return;
    if (pthread_create(&thread, NULL, allocate_early, early[1]) == 0) (void)pthread_join(thread, NULL);
}

/* Half of it grows. 0: all of it was there and had its contents. */
int plugin_free_early(void);
int plugin_free_early(void) {
    for (int i = 0; i < 2 * EARLY; i++) {
        char *p = early[i % 2][i / 2];
        size_t bytes = early_bytes[i / 2];
        if (!p || p[0] != 'x' || p[bytes - 1] != 'x') return 1;
        char *q = i / 2 % 2 ? p : realloc(p, 2 * bytes);
        if (!q || q[0] != 'x' || q[bytes - 1] != 'x') return 2;
        free(q);
    }
    return 0;
}

void plugin_take(void *p);
void plugin_take(void *p) { free(p); }

static void *work(void *arg) {
    for (int i = 0; i < 100; i++) {
        free(of_thread);
        of_thread = malloc(100);
    }
    free(of_thread);
    of_thread = NULL;
    return arg;
}

int plugin_work(void);
int plugin_work(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0) return 1;
    (void)work(NULL);
    return 0;
}

unsigned la_version(unsigned version) {
    free(malloc(1000));
    return version;
}
unsigned la_objopen(struct link_map *map, Lmid_t id, uintptr_t *cookie) {
    char *copy = strdup(map->l_name);
    (void)id, (void)cookie;
    free(copy);
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}
