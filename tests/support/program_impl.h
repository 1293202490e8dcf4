/*
 * Inside of the program runner: the model. Included by program*.c only.
 *
 * Model in short: an object is live from the call that made it until a free, a destroy or reset of its epoch,
 * or the end of its allocator. `epochs` keeps a record of every epoch the program has seen, in whatever state.
 */
#ifndef SUP_PROGRAM_IMPL_H
#define SUP_PROGRAM_IMPL_H

#include "check.h"
#include "program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <tslab/stats.h>

#define PROG_DEPTH 24              /* domains entered at once */
#define PROG_CLEANUPS 6            /* callbacks per domain */
#define PROG_OLD 8                 /* ids of epochs that are gone, kept for stale use */
#define PROG_SURE_BYTES (8u << 20) /* up to here an allocation without a budget must succeed */
#define PROG_NEVER_BYTES ((size_t)1 << (sizeof(size_t) < 8 ? 30 : 46)) /* from here on it cannot */

enum model_state { MODEL_ACTIVE, MODEL_CLOSED, MODEL_GONE };

struct model_epoch {
    EpochId id;
    int allocator;
    unsigned flags;
    enum model_state state;
    uint64_t live;    /* objects of this program in it */
    atomic_uint lent; /* objects of it that other programs hold; they decrement it */
    bool was_lent;    /* its exact figures are not known any more */
    bool rolling;
    struct model_epoch *next; /* all of the program */
};

struct model_object {
    void *address;
    size_t size;
    size_t usable;
    uint64_t key;
    SlabHandle handle;
    struct model_epoch *epoch;
    int allocator;
    bool live;
    bool received; /* made by another program: the epoch belongs to that one */
};

struct model_cleanup {
    struct prog *program;
    int domain;
    int sequence;
};

struct model_domain {
    EpochDomain *domain;
    struct model_epoch *epoch;
    int allocator;
    bool alive;
    bool wrapped;
    bool auto_close;
    int cleanups; /* outstanding */
    struct model_cleanup cleanup[PROG_CLEANUPS];
};

struct prog {
    struct prog_config config;
    SlabAllocator *allocators[PROG_ALLOCATORS];
    bool alive[PROG_ALLOCATORS];
    bool budgeted[PROG_ALLOCATORS];
    struct model_epoch *rolling[PROG_ALLOCATORS];
    struct model_epoch *epochs[PROG_EPOCHS];
    struct model_domain domains[PROG_DOMAINS];
    struct model_object objects[PROG_OBJECTS];
    int stack[PROG_DEPTH];
    int depth;
    EpochId old[PROG_OLD];
    int old_allocator[PROG_OLD];
    unsigned old_next;
    struct model_epoch *all_epochs;
    uint64_t next_key;
    uint64_t rejected[PROG_ALLOCATORS];
    bool cleanup_wrong;
    char why[512];
};

#define EXPECT(program, condition, ...)                  \
    do {                                                 \
        if (!(condition)) {                              \
            prog_note(program, #condition, __VA_ARGS__); \
            return false;                                \
        }                                                \
    } while (0)

/* One C statement of the trace, before the call is made. */
#define TRACE(program, ...)                                             \
    do {                                                                \
        if ((program)->config.trace != NULL) {                          \
            (void)fprintf((program)->config.trace, "    " __VA_ARGS__); \
            (void)fputc('\n', (program)->config.trace);                 \
        }                                                               \
    } while (0)

SUP_PRINTF(3, 4) void prog_note(struct prog *program, const char *condition, const char *format, ...);

static inline bool prog_together(const struct prog *program) { return program->config.mail != NULL; }

/* Objects */
bool prog_object_op(struct prog *program, const struct prog_op *op);
bool prog_free_slot(struct prog *program, int slot);
bool prog_check_object(struct prog *program, int slot);
void prog_kill_epoch(struct prog *program, struct model_epoch *epoch);
void prog_drop_object(struct prog *program, struct model_object *object);
int prog_find_address(const struct prog *program, int allocator, const void *address);
int prog_find_handle(const struct prog *program, int allocator, SlabHandle handle);
/* Enters a new live object in the model and fills it. zeroed: its bytes must be 0 now. */
bool prog_adopt(struct prog *program, int slot, int allocator, struct model_epoch *epoch, void *address, size_t size,
                size_t alignment, bool zeroed);

/* Epochs and domains */
bool prog_epoch_op(struct prog *program, const struct prog_op *op);
bool prog_domain_op(struct prog *program, const struct prog_op *op);
struct model_epoch *prog_rolling(struct prog *program, int allocator);
struct model_epoch *prog_new_epoch(struct prog *program, EpochId id, int allocator, unsigned flags);
bool prog_destroy_domain(struct prog *program, int slot);
void prog_remember_old(struct prog *program, const struct model_epoch *epoch);
/* Model of the end of an epoch that the caller has destroyed. */
void prog_epoch_gone(struct prog *program, struct model_epoch *epoch);

/* Allocators, misuse and queries */
bool prog_allocator_op(struct prog *program, const struct prog_op *op);
bool prog_misuse_op(struct prog *program, const struct prog_op *op);
bool prog_stats(struct prog *program, int allocator);
bool prog_figures(struct prog *program, int allocator);
bool prog_ensure_allocator(struct prog *program, int allocator, unsigned choice);
bool prog_free_allocator(struct prog *program, int allocator);

/* Mailboxes */
bool prog_mail_op(struct prog *program, const struct prog_op *op);

#endif
