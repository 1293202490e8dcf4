/* A library that is loaded in unusual ways: it allocates, frees, and runs threads, by whatever malloc it finds. As an
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
