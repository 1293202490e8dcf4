/*
 * The statistics page: views of allocators in shared memory that another process can read, also when this one hangs.
 * Switched on by TSLAB_SHM=1; Linux only.
 *
 * A thread of the page's own takes a view of each allocator each TS_PAGE_INTERVAL_NS and writes it; of more than
 * TS_PAGE_ALLOCATORS of those that hold most. A view takes no lock but the loader's, and that one only where it shows
 * sampled stacks (ts_view_modules), so the page stays true while every other thread hangs outside of the loader; when
 * the process is stopped, the page stands at what was true an interval before at most. The program's own threads do
 * nothing for it.
 * The memory is a memfd that is found at /proc/PID/fd under the name TS_PAGE_NAME: it needs no name in a file system,
 * can be opened by the same user and root only, for reading only (sealed), and goes with the process. A child of fork
 * gets a page of its own.
 *
 * Two banks: a view is written into the one that is not shown, then `turn` rises and shows it (its lowest bit is the
 * bank). A reader copies the bank of the turn that it read and looks at the turn again: unchanged, what it copied is
 * whole. A writer that stops in the middle never keeps a reader from the last whole bank.
 */
#define _GNU_SOURCE
#include "advice/advice.h"
#include "advice/growth.h"
#include "os/os.h"
#include "os/shared.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static ts_shared memory = {.file = {.fd = -1}};
static ts_page *page; /* in it; written by the page's thread only, once it runs */

static void write_bank(ts_page_bank *bank) {
    ts_shown shown[TS_VIEWS];
    uint32_t views = 0;
    unsigned count = ts_shown_all(shown, &bank->allocators);
    for (unsigned i = 0; i < count; i++) {
        ts_view *view = ts_shown_view(&shown[i], true);
        if (!view) continue;
        memcpy(&bank->view[views++], view, sizeof *view);
        ts_view_free(view);
    }
    bank->views = views;
    bank->written_ns = ts_os->wall_ns();
}

static void write_page(void) {
    uint64_t turn = ts_load_relaxed(&page->turn);
    /* A reader may still be in that bank, which the last turn but one showed. If it meets a word that is written there
       next, it finds that the turn has risen since. Partner: the reader's acquire fence before its second look. */
    atomic_thread_fence(memory_order_release);
    write_bank(&page->bank[(turn + 1) & 1]);
    ts_store_release(&page->turn, turn + 1); /* partner: the reader's acquire */
}

static void let_go(void) {
    ts_shared_end(&memory);
    page = NULL;
}

static bool start(void) {
    if (!ts_shared_make(&memory, TS_PAGE_NAME, sizeof *page)) return false;
    page = memory.at;
    page->magic = TS_PAGE_MAGIC;
    page->version = SLAB_STATS_VERSION;
    page->bytes = (uint32_t)sizeof *page;
    page->pid = (uint64_t)getpid();
    page->interval_ns = TS_PAGE_INTERVAL_NS;
    return ts_own_thread_start(TS_PAGE_THREAD, write_page, TS_PAGE_INTERVAL_NS);
}

static void start_or_say(void) {
    if (start()) return;
    const char *why = errno == EFBIG ? "ulimit -f allows no file of its size" : strerror(errno);
    ts_tell("TSLAB_SHM=1: no statistics page: %s", why);
    let_go();
}

/* The mapping is shared with the parent, and its thread is not here. */
void ts_page_fork_child(void) {
    bool had = page != NULL;
    int before = errno;
    ts_own_thread_forget(TS_PAGE_THREAD);
    let_go();
    if (had) start_or_say();
    errno = before;
}

static void find_http(void *found, const ts_os_module *m) {
    const char *slash = strrchr(m->path, '/');
    if (strncmp(slash ? slash + 1 : m->path, "libtslab-http", strlen("libtslab-http")) == 0) *(bool *)found = true;
}

/* TSLAB_HTTP is for a library that is not here. */
static void look_for_http(void) {
    static _Atomic uint32_t looked;
    const char *address = ts_env("TSLAB_HTTP");
    bool found = false;
    if (!address || !*address || strcmp(address, "0") == 0 || atomic_exchange(&looked, 1)) return;
    ts_os_modules(find_http, &found);
    if (found) return;
    ts_tell("TSLAB_HTTP: libtslab-http is not in this process: link or preload it, or use tslab run --http");
}

void ts_page_start(bool wanted) {
    static _Atomic uint32_t started;
    int before = errno;
    look_for_http();
    errno = before;
    if (!wanted || atomic_exchange(&started, 1)) return;
    ts_growth_watch();
    start_or_say();
    errno = before;
}
