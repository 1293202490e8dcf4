/*
 * The target of the tools: the statistics page of a process (TSLAB_SHM=1 there), also in its core file, or the endpoint
 * of libtslab-http. Messages go to stderr and begin with the tool's name.
 */
#ifndef TARGET_H
#define TARGET_H

#include "advice/advice.h"
#include "advice/several.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { EXIT_DONE = 0, EXIT_FINDINGS = 1, EXIT_USAGE = 2, EXIT_NO_TARGET = 3 };

typedef struct target {
    pid_t pid;         /* as /proc has it here, not as in the process's own namespace; 0: a URL */
    int fd;            /* of the page, or the core file */
    uint64_t page_at;  /* where the page is in it */
    bool is_core;      /* a core file: the process is no more */
    int pidfd;         /* of the process; -1: there is none */
    char *host, *port; /* of the URL */
} target;

/* Whether the output is a terminal that can place its cursor (TERM is neither missing nor dumb). */
bool target_has_screen(void);

extern const char *tool_name;
/* Called before a message, if it is not NULL: gives back a screen on which it would not stay. */
extern void (*before_saying)(void);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The exit code of the tool: `code`, but EXIT_NO_TARGET, and said, if the text that stdout still holds cannot be
   written. */
int tool_end(int code);

/* text: a PID, a URL or a core file; NULL: the one process that has a page. Returns EXIT_DONE, EXIT_USAGE or
   EXIT_NO_TARGET, with a message. */
int target_open(target *t, const char *text);
void target_close(target *t);

/* Whether it is a view, and no count in it is larger than its array; its strings have an end afterwards. Any program
   may have written it. */
bool target_check_view(ts_view *view);

/* The newest whole bank of the page in `out`, which has room for one; its views have the process's id as it is here.
   false, and said: it cannot be read. */
bool target_read_page(const target *t, ts_page_bank *out);
/* The views of a page's allocators, or of the one with that number (-1: of all), which stay until the next call. *age:
   seconds since the page was written, of a process that is stopped; else 0. Returns EXIT_DONE, EXIT_USAGE or
   EXIT_NO_TARGET, with a message. */
int target_read_views(const target *t, long allocator, ts_views *out, double *age);
/* As target_read_views, of `count` views that are here, of `all` allocators. */
int target_choose(const ts_view *view, uint32_t count, uint32_t all, long allocator, ts_views *out);
/* The one that holds most. */
const ts_view *target_most(const ts_views *views);
/* How long ago that was written, and whether that is too long for a process that runs. */
bool target_is_stale(const target *t, const ts_page_bank *bank, double *seconds);
/* Whether the process whose page it is has ended; false for a URL. */
bool target_has_ended(const target *t);

#endif
