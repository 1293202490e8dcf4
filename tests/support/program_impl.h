/*
 * Inside of the program runner: the model. Included by program*.c only.
 *
 * Model in short: an object is live from the call that made it until a free, a destroy or reset of its epoch,
 * or the end of its allocator. `epochs` keeps a record of every epoch the program has seen, in any state.
 */
#ifndef SUP_PROGRAM_IMPL_H
#define SUP_PROGRAM_IMPL_H

#include "check.h"
#include "program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <tslab/stats.h>

#define PROG_DEPTH 24   /* domains entered at once */
#define PROG_CLEANUPS 6 /* callbacks per domain */
#define PROG_MARKS 32   /* as many as a domain keeps */
#define PROG_DUE (PROG_DOMAINS * (PROG_CLEANUPS + 1))
#define PROG_OLD 8                 /* ids of epochs that are gone, kept for stale use */
#define PROG_SURE_BYTES (8u << 20) /* up to here an allocation without a budget must succeed */
#define PROG_NEVER_BYTES ((size_t)1 << (sizeof(size_t) < 8 ? 30 : 46)) /* from here on it cannot */

enum model_state { MODEL_ACTIVE, MODEL_CLOSED, MODEL_GONE };
enum model_end { MODEL_STAYS, MODEL_ENDS, MODEL_DRAINS }; /* the fate of the epoch of a domain that ends */

struct model_epoch {
    EpochId id;
    int allocator;
    unsigned flags;
    enum model_state state;
    uint64_t live;    /* objects of this program in it */
    atomic_uint lent; /* objects of it that other programs hold; they decrement it */
    bool was_lent;    /* its exact figures are not known any more */
    bool rolling;
    bool other_thread;         /* another thread may have a block in it: then it has no marks */
    size_t limit;              /* bytes; 0: none */
    struct model_epoch *above; /* against whose limit it counts, too */
    uint64_t most_units;       /* that it held when that was set, or got a child: it may hold those, beyond the limit */
    struct model_epoch *next;  /* all of the program */
};

struct model_object {
    void *address;
    size_t size;
    size_t usable;
    uint64_t key;
    SlabHandle handle;
    uint64_t born; /* the event with which it got its place */
    struct model_epoch *epoch;
    int allocator;
    bool live;
    bool received; /* made by another program: the epoch belongs to that one */
};

struct model_cleanup {
    struct prog *program;
    int domain;
    int sequence;
    uint64_t born; /* the event with which it was registered; 0: it is not */
};

struct model_mark {
    SlabMark mark;
    uint64_t event;
    bool good;
};

struct model_domain {
    EpochDomain *domain;
    struct model_epoch *epoch;
    int allocator;
    bool alive;
    bool shared;
    bool kin; /* has or had a parent, child or mark */
    enum model_end end;
    int parent;    /* slot; -1: none */
    uint64_t born; /* the event with which it got that */
    struct model_cleanup cleanup[PROG_CLEANUPS];
    struct model_mark mark[PROG_MARKS]; /* the oldest first */
    int marks;
};

/* The duties of the call that runs now, in this order: run a cleanup, or end a domain. */
struct model_due {
    int domain;
    struct model_cleanup *cleanup; /* NULL: it ends */
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
    uint64_t events;
    struct model_due due[PROG_DUE];
    int due_count, due_at;
    bool elsewhere; /* the call that runs now is another thread's */
    bool strict;    /* TSLAB_STRICT: slab_alloc and its family answer EINVAL outside of domains */
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
/* Those that got their place after the event. */
void prog_kill_since(struct prog *program, struct model_epoch *epoch, uint64_t event);
/* The expected result of an allocation in this epoch; errno as the call left it. */
bool prog_check_answer(struct prog *program, int slot, const struct model_epoch *epoch, void *address, uint64_t size);
/* An allocation of so few bytes in the epoch cannot be refused, if it is open. */
bool prog_is_sure(const struct prog *program, const struct model_epoch *epoch, uint64_t size);
/* Where slab_alloc allocates. NULL: nowhere, it is EINVAL. */
bool prog_ambient(struct prog *program, struct model_epoch **epoch);
/* Enters a new live object in the model and fills it. zeroed: its bytes must be 0 now. */
bool prog_adopt(struct prog *program, int slot, int allocator, struct model_epoch *epoch, void *address, size_t size,
                size_t alignment, bool zeroed);

/* Epochs and domains */
bool prog_epoch_op(struct prog *program, const struct prog_op *op);
bool prog_domain_op(struct prog *program, const struct prog_op *op);
struct model_epoch *prog_rolling(struct prog *program, int allocator);
struct model_epoch *prog_new_epoch(struct prog *program, EpochId id, int allocator, unsigned flags);
/* How a domain is made to end. */
enum prog_how { PROG_BY_DESTROY, PROG_BY_END, PROG_BY_ANOTHER_THREAD };
bool prog_end_domain(struct prog *program, int slot, enum prog_how how);
bool prog_destroy_domain(struct prog *program, int slot);
/* Whether another program holds objects of it, or of one below it. */
bool prog_is_lent(const struct prog *program, int slot);
/* The slot gets a new domain; the one it had ends. false: it stays as it is. */
bool prog_free_domain_slot(struct prog *program, int slot);
void prog_new_domain(struct prog *program, int slot, EpochDomain *made, struct model_epoch *epoch, bool shared,
                     enum model_end end);
bool prog_check_innermost(struct prog *program);
bool prog_enter_domain(struct prog *program, int slot);
bool prog_is_below(const struct prog *program, int slot, int above);
bool prog_is_entered(const struct prog *program, int slot);
/* All that a call will do to the domain: its children born after the event, and its cleanups registered after it. */
void prog_expect_due(struct prog *program, int slot, uint64_t after);
/* It has done it, or nothing. */
bool prog_check_due(struct prog *program, int slot, bool done);
bool prog_hand_over(struct prog *program, int slot);

/* The second contract */
bool prog_family_op(struct prog *program, const struct prog_op *op);
bool prog_tree_op(struct prog *program, const struct prog_op *op);
bool prog_mark_op(struct prog *program, const struct prog_op *op);
void prog_void_marks(struct prog *program, const struct model_epoch *epoch);
/* Units that count against the limit of the epoch. */
uint64_t prog_held_units(struct prog *program, const struct model_epoch *epoch);
bool prog_is_limited(const struct model_epoch *epoch);
/* After an allocation, that was refused if address is NULL: no limit is passed, and none refuses a request that it has
   room for. */
bool prog_check_limits(struct prog *program, const struct model_epoch *epoch, const void *address, uint64_t size);
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
