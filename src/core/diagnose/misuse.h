/* Telling of misuse, by the on_misuse of the allocator that it concerns: nothing, a line on standard error, or
   a line and abort(). The line is written without allocating and without stdio. */
#ifndef TS_DIAGNOSE_MISUSE_H
#define TS_DIAGNOSE_MISUSE_H

#include "epoch/epoch.h"
#include "os/text.h"

/* The mode of the environment, for calls that concern no known allocator. */
extern _Atomic int ts_misuse_default;

/* Finds words for what was refused. src/observe sets it when there is a region. */
typedef struct ts_misuse_words {
    void (*pointer)(ts_text *line, uintptr_t allocator, const void *p);
    void (*handle)(ts_text *line, uintptr_t allocator, SlabHandle handle);
    void (*origin)(const void *p); /* writes the stacks that are kept of the pointer's object, in lines of their own */
} ts_misuse_words;
extern TS_HIDDEN _Atomic(const ts_misuse_words *) ts_misuse_finder;

/* In place of a token: any allocator might have had the pointer. */
#define TS_ANY_ALLOCATOR UINTPTR_MAX

/* A handle, or if that is NULL a pointer. why: the reason; NULL: it is no live object of the allocator. */
void ts_misuse(uintptr_t allocator, const char *call, const void *p, const SlabHandle *handle, const char *why);
/* A call that frees and was refused: it is counted, too. */
void ts_misuse_free(uintptr_t allocator, const char *call, const void *p, const SlabHandle *handle, const char *why);
/* ts_misuse of a pointer, without an abort. */
void ts_misuse_mention(uintptr_t allocator, const char *call, const void *p, const char *why);
/* The SlabOnMisuse of an allocator. One that has ended keeps its mode until its record has another use. In that moment
   it may be the mode of that use. */
int ts_misuse_mode(uintptr_t allocator);
/* A call that is refused for its arguments, or where it is made. With the option `hints` it is a hint where misuse is
   ignored. caller: where the program goes on. asks: it may be a question, as for what the process does not have, and
   ends no program. */
void ts_misuse_call(uintptr_t allocator, const char *call, const char *why, bool asks, const void *caller);
/* A domain that the call may not have; a hint as above, once a domain. token: its allocator; 0: not known. epoch: its
   own; NULL: not known. */
void ts_misuse_domain(const char *call, uint64_t domain, const char *why, uintptr_t token, const EpochId *epoch);
/* Memory that is given out and was written while it was free, which is no call's fault: seen by an allocation. */
void ts_misuse_written(uintptr_t allocator, const void *p, uint64_t at, uint32_t kind, uint64_t bytes, EpochId epoch,
                       bool freed);
/* A byte of a slab that is taken again was written: the slab was free or dead when it went back. */
void ts_misuse_written_free(uintptr_t allocator, const void *at);

/* Adds "class N" and the like. bytes: of an object of a scope slab or of a span. */
void ts_misuse_put_kind(ts_text *line, uint32_t kind, uint64_t bytes);

/* Hints: mistakes of new users that are no errors, told once a call site, by the option `hints`. Never an abort. */
static inline bool ts_hints(const ts_allocator *allocator) { return TS_UNLIKELY(allocator->settings.hints != 0); }
/* Tells that the call did something, unless it was told of that place already. caller: where the program goes on. */
void ts_hint(const char *call, const char *what, const void *caller);

#endif
