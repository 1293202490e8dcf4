/*
 * The player: does what the operations say with the process's own malloc. Its own memory is mapped shared, and what it
 * measures is anonymous memory, so it measures the allocator alone, less what the process had before the first
 * operation. Between operations it calls nothing that allocates, but for pthread_create.
 */
#include "common/domain_calls.h"
#include "replay/ops.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 64, STACK_BYTES = 256 << 10, PAGE = 4096, LINE = 64, ROLLUP_BYTES = 4096, END_WAIT_NS = 20000 };

typedef struct slot {
    unsigned char *object;
    uint64_t bytes;
    _Atomic uint32_t turn; /* released by the operation before a hand-over, acquired by the one behind it */
} slot;

typedef struct player_thread {
    uint32_t number;
    uint32_t windows_known; /* all before it are done */
    uint64_t allocs, frees, reallocs;
    buckets alloc_ns, free_ns;
    EpochDomain *domain; /* of the turn that is open */
} player_thread;

static struct {
    const ops_head *head;
    const ops_stream *stream;
    const op *ops;
    play_mode mode;
    slot *slots;
    _Atomic uint32_t *window; /* threads that have not done their operations of it. A decrement releases them */
    player_thread *threads;
    _Atomic uint32_t running;
    domain_calls domains;
    uint64_t clock_ns, base_bytes;
    play_result *result;
} player;

static void *shared_memory(size_t bytes) {
    void *at = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) _exit(PLAY_NO_MEMORY);
    return at;
}

static uint64_t clock_now(clockid_t clock) {
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What two readings of the clock take at least. */
static uint64_t clock_cost(void) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t from = clock_now(CLOCK_MONOTONIC), to = clock_now(CLOCK_MONOTONIC);
        if (to - from < least) least = to - from;
    }
    return least;
}

/* Anonymous memory of the process: exact, as the kernel walks its pages; 0: it does not tell. */
static uint64_t anonymous_bytes(void) {
    char text[ROLLUP_BYTES];
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) (void)close(fd);
    if (n <= 0) return 0;
    text[n] = 0;
    const char *line = strstr(text, "\nAnonymous:");
    return line ? strtoull(line + sizeof "\nAnonymous:" - 1, NULL, 10) << 10 : 0;
}

static uint64_t resident_now(void) {
    uint64_t bytes = anonymous_bytes();
    return bytes > player.base_bytes ? bytes - player.base_bytes : 0;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void pause_spin(unsigned *spins) {
    if (++*spins > SPINS) (void)sched_yield();
}

/* A program writes its small objects whole; of a large one each page is written. */
static void touch(unsigned char *object, uint64_t from, uint64_t to) {
    volatile unsigned char *at = object;
    const uint64_t step = to - from <= PAGE ? LINE : PAGE;
    for (; from < to; from += step) at[from] = 1;
    if (to) at[to - 1] = 1;
}

static void do_alloc(const op *o, slot *s) {
    void *object = NULL;
    if (o->scoped)
        object = o->align_log2 > 4 ? player.domains.alloc_aligned((size_t)1 << o->align_log2, o->size)
                                   : player.domains.alloc(o->size);
    else if (!o->align_log2)
        object = malloc(o->size);
    else if (posix_memalign(&object, o->align_log2 < 3 ? sizeof(void *) : (size_t)1 << o->align_log2, o->size) != 0)
        object = NULL;
    if (!object) _exit(PLAY_NO_MEMORY);
    s->object = object;
}

static void do_realloc(const op *o, slot *s) {
    const size_t size = o->size ? o->size : 1;
    void *object = o->scoped ? player.domains.resize(s->object, size) : realloc(s->object, size);
    if (!object) _exit(PLAY_NO_MEMORY);
    s->object = object;
}

static void count_time(buckets *of, uint64_t from) {
    uint64_t took = clock_now(CLOCK_MONOTONIC) - from;
    of->count[bucket_of(took > player.clock_ns ? took - player.clock_ns : 0)]++;
}

/* The end of a turn frees its objects: it counts as one free of the tail. */
static void do_turn(player_thread *t, const op *o) {
    const domain_calls *d = &player.domains;
    if (player.mode == PLAY_NOTHING) return;
    if (o->kind == OP_TURN) {
        t->domain = d->create(d->allocator(), NULL, o->size ? EPOCH_DOMAIN_CAPTURE | EPOCH_DOMAIN_DRAIN : 0);
        if (!t->domain || !d->enter(t->domain)) _exit(PLAY_NO_MEMORY);
        return;
    }
    const uint64_t from = player.mode == PLAY_MEASURE ? clock_now(CLOCK_MONOTONIC) : 0;
    if (!d->leave(t->domain)) _exit(PLAY_BROKEN);
    d->destroy(t->domain);
    if (player.mode == PLAY_MEASURE) count_time(&t->free_ns, from);
}

static void do_memory(player_thread *t, const op *o, slot *s) {
    const bool calls = player.mode != PLAY_NOTHING, measures = player.mode == PLAY_MEASURE;
    /* An object is there before it is freed, and none before it is allocated: the order of the threads holds. */
    if (calls && (o->kind == OP_ALLOC) == (s->object != NULL)) _exit(PLAY_BROKEN);
    if (o->kind != OP_ALLOC && calls && s->bytes) (void)*(volatile unsigned char *)s->object; /* as a program does */
    const uint64_t from = measures ? clock_now(CLOCK_MONOTONIC) : 0;
    if (o->scoped && o->kind == OP_FREE) {
        s->object = NULL;
        return;
    }
    if (o->kind == OP_FREE) {
        if (calls) free(s->object);
        if (measures) count_time(&t->free_ns, from);
        s->object = NULL;
        t->frees++;
        return;
    }
    uint64_t touched = 0;
    if (o->kind == OP_ALLOC) {
        if (calls) do_alloc(o, s);
        if (measures) count_time(&t->alloc_ns, from);
        t->allocs++;
    } else {
        if (calls) do_realloc(o, s);
        touched = s->bytes;
        t->reallocs++;
    }
    s->bytes = o->size;
    if (calls && touched < o->size) touch(s->object, touched, o->size);
}

static void change_window(player_thread *t, const op *o) {
    unsigned spins = 0;
    if (o->turn) (void)atomic_fetch_sub_explicit(&player.window[o->turn - 1], 1, memory_order_acq_rel);
    if (o->slot == UINT32_MAX) return;
    while (t->windows_known + 1 < o->slot) {
        if (atomic_load_explicit(&player.window[t->windows_known], memory_order_acquire) == 0)
            t->windows_known++;
        else
            pause_spin(&spins);
    }
}

static void *run_thread(void *arg);

static void start_thread(uint32_t number) {
    pthread_attr_t attributes;
    pthread_t thread;
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    (void)atomic_fetch_add(&player.running, 1);
    if (pthread_create(&thread, &attributes, run_thread, &player.threads[number]) != 0) _exit(PLAY_NO_MEMORY);
    (void)pthread_attr_destroy(&attributes);
}

static void do_op(player_thread *t, const op *o) {
    unsigned spins = 0;
    if (o->kind == OP_WINDOW) {
        change_window(t, o);
    } else if (o->kind == OP_START) {
        start_thread(o->slot);
    } else if (o->kind == OP_TURN || o->kind == OP_TURN_END) {
        do_turn(t, o);
    } else if (o->kind == OP_SAMPLE) {
        if (player.mode == PLAY_MEASURE) player.result->resident[o->slot] = resident_now();
    } else {
        slot *s = &player.slots[o->slot];
        while (o->waits && atomic_load_explicit(&s->turn, memory_order_acquire) != o->turn) pause_spin(&spins);
        do_memory(t, o, s);
        if (o->tells) atomic_store_explicit(&s->turn, o->turn + 1, memory_order_release);
    }
}

static void *run_thread(void *arg) {
    player_thread *t = arg;
    const ops_stream *stream = &player.stream[t->number];
    const op *o = player.ops + stream->first;
    for (uint64_t i = 0; i < stream->count; i++) do_op(t, &o[i]);
    (void)atomic_fetch_sub(&player.running, 1);
    return NULL;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static bool is_from(const char *library) {
    Dl_info info;
    void *(*function)(size_t) = malloc;
    void *address;
    memcpy(&address, &function, sizeof address);
    if (!dladdr(address, &info) || !info.dli_fname) return false;
    const char *slash = strrchr(info.dli_fname, '/'), *wanted = strrchr(library, '/');
    const char *name = slash ? slash + 1 : info.dli_fname;
    wanted = wanted ? wanted + 1 : library;
    /* The loader may know it by a longer name: libx.so.2 as libx.so.2.1. */
    return strncmp(name, wanted, strlen(wanted)) == 0;
}

static bool map_operations(int fd) {
    struct stat file;
    if (fstat(fd, &file) != 0 || (size_t)file.st_size < sizeof(ops_head)) return false;
    char *at = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (at == MAP_FAILED) return false;
    void *head = at;
    player.head = head;
    if (player.head->magic != OPS_MAGIC || player.head->bytes > (uint64_t)file.st_size) return false;
    void *streams = at + player.head->streams_at, *windows = at + player.head->windows_at;
    void *ops = at + player.head->ops_at;
    player.stream = streams;
    player.ops = ops;
    player.window = shared_memory(player.head->windows * sizeof *player.window);
    for (uint32_t i = 0; i < player.head->windows; i++) atomic_init(&player.window[i], ((const uint32_t *)windows)[i]);
    return true;
}

static bool write_result(void) {
    const char *at = (const char *)player.result;
    for (size_t left = sizeof *player.result; left > 0;) {
        ssize_t n = write(STDOUT_FILENO, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        left -= (size_t)n;
    }
    return true;
}

int play(int ops_fd, play_mode mode, const char *library) {
    if (!is_from(library)) return PLAY_WRONG_ALLOCATOR;
    if (mode == PLAY_PROBE) return 0;
    if (!map_operations(ops_fd)) return PLAY_BROKEN;
    player.mode = mode;
    (void)domain_calls_find(&player.domains); /* where the allocator has none, no operation asks for one */
    player.slots = shared_memory(player.head->slots * sizeof *player.slots);
    player.threads = shared_memory(player.head->threads * sizeof *player.threads);
    player.result = shared_memory(sizeof *player.result);
    for (uint32_t i = 0; i < player.head->threads; i++) player.threads[i].number = i;
    player.clock_ns = clock_cost();
    player.base_bytes = anonymous_bytes();
    atomic_store(&player.running, 1);
    const uint64_t from = clock_now(CLOCK_MONOTONIC), cpu_from = clock_now(CLOCK_PROCESS_CPUTIME_ID);
    if (player.head->threads) (void)run_thread(&player.threads[0]);
    while (player.head->threads && atomic_load(&player.running) > 0)
        (void)nanosleep(&(struct timespec){0, END_WAIT_NS}, NULL);
    player.result->time_ns = clock_now(CLOCK_MONOTONIC) - from;
    player.result->cpu_ns = clock_now(CLOCK_PROCESS_CPUTIME_ID) - cpu_from;
    player.result->final_bytes = resident_now();
    for (uint32_t i = 0; i < player.head->threads; i++) {
        const player_thread *t = &player.threads[i];
        player.result->allocs += t->allocs;
        player.result->frees += t->frees;
        player.result->reallocs += t->reallocs;
        buckets_add(&player.result->alloc_ns, &t->alloc_ns);
        buckets_add(&player.result->free_ns, &t->free_ns);
    }
    return write_result() ? 0 : PLAY_BROKEN;
}
