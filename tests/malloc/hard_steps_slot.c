/* hard_slot.c once more, for hard_steps_test.c. */
#define _GNU_SOURCE
#include "base/base.h"
#include "malloc/hard_parts.h"
#include "malloc/hard_word.h"

#include "hard_steps_parts.h"

#define tm_hard_load(at) (hard_step(), (tm_hard_load)(at))
#define tm_hard_store(at, word) (hard_step(), (tm_hard_store)(at, word))
#define tm_hard_life(home) (hard_step(), (tm_hard_life)(home))
#define tm_hard_is_clear(at, bytes) (hard_step(), (tm_hard_is_clear)(at, bytes))

#include "malloc/hard_slot.c"
