/* The allocators that the page, the server and the public functions show: with their numbers, names and findings. */
#ifndef TS_API_VIEWS_H
#define TS_API_VIEWS_H

#include "advice/advice.h"

/* Of slab_allocator_default; 0: there is none yet. Written once. */
extern TS_HIDDEN _Atomic uintptr_t ts_default_token;

/* One allocator, by its token. false: it has ended. */
bool ts_shown_one(uintptr_t token, ts_shown *out);
/* All live ones; of more than TS_VIEWS those that hold most, by rising number. Returns how many; *found: there are. */
unsigned ts_shown_all(ts_shown out[TS_VIEWS], uint32_t *found);
/* A view with its findings. NULL: no memory, or the allocator has ended. places: the modules of its stacks, too, which
   takes the loader's lock. */
ts_view *ts_shown_view(const ts_shown *shown, bool places);

#endif
