/* foreign.c once more, its functions by other names beside the library's: for tests that have given it places to stop
   at. */
#ifndef HEAP_TEST_FOREIGN_STEPPED_H
#define HEAP_TEST_FOREIGN_STEPPED_H

#define ts_foreign_free stepped_free
#define ts_foreign_drain stepped_drain
#define ts_foreign_drain_flushed stepped_drain_flushed
#define ts_foreign_drain_some stepped_drain_some
#define ts_foreign_drain_for stepped_drain_for
#define ts_foreign_drain_for_all stepped_drain_for_all
#define ts_foreign_queue stepped_queue
#define ts_foreign_pending stepped_pending
#define ts_foreign_give_closed stepped_give_closed
#define ts_foreign_drain_closing stepped_take_off
#define ts_foreign_lend stepped_lend
#define ts_foreign_lent_back stepped_lent_back
#define ts_foreign_return stepped_return
#define ts_foreign_all_freed stepped_all_freed
#define ts_foreign_drain_slab stepped_take_in
bool ts_foreign_all_freed(uint32_t unit, uint64_t word);
void ts_foreign_drain_slab(ts_block *block, uint32_t unit, uint64_t word);
void ts_foreign_return(uint32_t unit);
void ts_foreign_drain(ts_heap *heap);
void ts_foreign_drain_closing(ts_heap *heap, uint32_t unit);
size_t ts_foreign_drain_some(ts_heap *heap, unsigned most);
#include "cache/foreign.c"
#undef ts_foreign_free
#undef ts_foreign_drain
#undef ts_foreign_drain_flushed
#undef ts_foreign_drain_some
#undef ts_foreign_drain_for
#undef ts_foreign_drain_for_all
#undef ts_foreign_queue
#undef ts_foreign_pending
#undef ts_foreign_give_closed
#undef ts_foreign_drain_closing
#undef ts_foreign_lend
#undef ts_foreign_lent_back
#undef ts_foreign_return
#undef ts_foreign_all_freed
#undef ts_foreign_drain_slab

#endif
