/* hard_large.c once more, for hard_steps_test.c. */
#define _GNU_SOURCE
#include "api/api.h"
#include "base/base.h"
#include "malloc/hard_parts.h"
#include "malloc/hard_word.h"

#include <sys/mman.h>

#include "hard_steps_parts.h"

#define tm_hard_is_drawn(at, bytes) (hard_step(), (tm_hard_is_drawn)(at, bytes))
#define tm_hard_draw(at, bytes) (hard_step(), (tm_hard_draw)(at, bytes))
#define mprotect(at, bytes, access) (hard_step(), (mprotect)(at, bytes, access))
#define madvise(at, bytes, advice) (hard_step(), (madvise)(at, bytes, advice))

#include "malloc/hard_large.c"
