/*
 * A program is a list of operations over numbered slots: allocators, epochs, domains, objects. It is run
 * against the public API and against a model (a table of the live objects), and every answer and every byte is
 * compared. The effect of an operation depends on the contents of its slots at that moment, so any part of a program is
 * a program too: so a failing one can be shrunk.
 *
 * Allocator slot 0 is the process's default allocator; the others belong to the program. A program may run
 * beside others in threads of one process ("shared" mode): then it leaves out operations that would touch the objects
 * of the others, and objects of allocator 0 are passed between the programs through mailboxes.
 */
#ifndef SUP_PROGRAM_H
#define SUP_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PROG_ALLOCATORS 4
#define PROG_EPOCHS 12
#define PROG_DOMAINS 6
#define PROG_OBJECTS 192

enum prog_kind {
    PROG_MALLOC,
    PROG_MALLOC_EPOCH,
    PROG_CALLOC,
    PROG_ALIGNED,
    PROG_ALLOC_OBJ,
    PROG_SLAB_ALLOC,
    PROG_REALLOC,
    PROG_FREE,
    PROG_FREE_OBJ,
    PROG_QUERY,
    PROG_STALE_POINTER,
    PROG_STALE_HANDLE,
    PROG_GARBAGE_POINTER,
    PROG_GARBAGE_HANDLE,
    PROG_WRONG_ALLOCATOR,
    PROG_BAD_ARGUMENT,
    PROG_EPOCH_OPEN,
    PROG_EPOCH_CLOSE,
    PROG_EPOCH_DESTROY,
    PROG_EPOCH_ADVANCE,
    PROG_EPOCH_LABEL,
    PROG_EPOCH_STATE,
    PROG_OLD_EPOCH,
    PROG_DOMAIN_CREATE,
    PROG_DOMAIN_WRAP,
    PROG_DOMAIN_ENTER,
    PROG_DOMAIN_EXIT,
    PROG_DOMAIN_DESTROY,
    PROG_DOMAIN_FORCE_CLOSE,
    PROG_DOMAIN_RESET,
    PROG_DOMAIN_ON_DESTROY,
    PROG_DOMAIN_HAND_OVER,
    PROG_PROMOTE,
    PROG_STALE_DOMAIN,
    PROG_TRIM,
    PROG_RESERVE,
    PROG_BUDGET,
    PROG_THREAD_IDLE,
    PROG_ALLOCATOR_CREATE,
    PROG_ALLOCATOR_FREE,
    PROG_VERIFY,
    PROG_STATS,
    PROG_SEND,
    PROG_RECEIVE,
    PROG_FAMILY,
    PROG_RELEASE,
    PROG_RESIZE,
    PROG_WALK,
    PROG_CHILD,
    PROG_MOVE,
    PROG_END,
    PROG_OFF_DESTROY,
    PROG_LIMIT,
    PROG_MARK,
    PROG_REWIND,
    PROG_MAINTAIN,
    PROG_SAMPLE_STACKS,
    PROG_KINDS
};

struct prog_op {
    uint8_t kind;      /* enum prog_kind */
    uint8_t allocator; /* slots; a number beyond the last one is taken modulo */
    uint8_t epoch;
    uint8_t domain;
    uint16_t object;
    uint16_t extra; /* a choice within the operation */
    uint64_t size;
};

struct prog_mail; /* the mailboxes of programs that run together */

struct prog_config {
    struct prog_mail *mail; /* NULL: alone */
    unsigned self;          /* its mailbox */
    uint64_t key;           /* distinguishes the patterns of programs that run together */
    FILE *trace;            /* every call made, as C; NULL: none */
};

struct prog;

struct prog *prog_new(const struct prog_config *config);
/* false: an answer differs from the model, see prog_why. The program must not be continued then. */
bool prog_step(struct prog *program, const struct prog_op *op);
/* Together: frees objects from other programs. To be called by all before any calls prog_finish. */
bool prog_give_back(struct prog *program);
/* Destroys all it made, checks that nothing is left. */
bool prog_finish(struct prog *program);
const char *prog_why(const struct prog *program);
void prog_delete(struct prog *program);

/* The whole of it, alone: false with a reason. `failed_at`: index of the operation, count if in finish. */
bool prog_run(const struct prog_op *ops, size_t count, FILE *trace, size_t *failed_at, char *why, size_t capacity);

/* Generation. Both give only operations that prog_step takes. */
struct sup_rng;
void prog_generate(struct sup_rng *rng, struct prog_op *op);
#define PROG_OP_BYTES 10u
/* Decodes one operation from bytes; returns the bytes used, 0 at the end. */
size_t prog_decode(const uint8_t *bytes, size_t length, struct prog_op *op);
/* Decodes and runs: the body of the fuzzer. */
bool prog_run_bytes(const uint8_t *bytes, size_t length, FILE *trace, char *why, size_t capacity);

/* Statistics measure the process's resident memory, which takes longer than all else that a program does: from now on
   it is measured one time in 64. And time flies. Before the first allocation. */
void prog_measure_seldom(void);

/* Limits are hit all the time, and hints are given: those lines are left out from now on. */
void prog_quiet(void);
/* From now on objects of more than 20,000 bytes lie in the FAR part of the region, if it has one (region/region.h), or
   again only those that are as large as elsewhere. No thread allocates meanwhile. */
void prog_large_are_far(bool on);

struct prog_mail *prog_mail_new(unsigned boxes);
void prog_mail_delete(struct prog_mail *mail);

#endif
