/* hard.c once more, for hard_steps_test.c. */
#define _GNU_SOURCE
#include "api/api.h"
#include "base/base.h"
#include "malloc/hard_parts.h"
#include "malloc/hard_word.h"

#include "hard_steps_parts.h"

#define tm_hard_load(at) (hard_step(), (tm_hard_load)(at))
#define tm_hard_load_seq(at) (hard_step(), (tm_hard_load_seq)(at))
#define tm_hard_change(at, from, to) (hard_step(), (tm_hard_change)(at, from, to))
#define tm_hard_life(home) (hard_step(), (tm_hard_life)(home))
#define tm_hard_is_drawn_wide(at, bytes) (hard_step(), (tm_hard_is_drawn_wide)(at, bytes))
#define tm_hard_draw(at, bytes) (hard_step(), (tm_hard_draw)(at, bytes))

#include "malloc/hard.c"
