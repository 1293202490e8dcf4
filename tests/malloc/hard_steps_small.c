/* hard.c once more, for hard_steps_test.c. */
#define _GNU_SOURCE
#include "api/api.h"
#include "base/base.h"
#include "malloc/hard_parts.h"
#include "malloc/hard_word.h"

#include "hard_steps_parts.h"

#define ts_hard_load(at) (hard_step(), (ts_hard_load)(at))
#define ts_hard_load_seq(at) (hard_step(), (ts_hard_load_seq)(at))
#define ts_hard_change(at, from, to) (hard_step(), (ts_hard_change)(at, from, to))
#define ts_hard_is_drawn_wide(at, bytes) (hard_step(), (ts_hard_is_drawn_wide)(at, bytes))
#define ts_hard_draw(at, bytes) (hard_step(), (ts_hard_draw)(at, bytes))

#include "malloc/hard.c"
