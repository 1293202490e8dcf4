#include "walk/check_parts.h"

#include "domain/domain.h"

static bool check_queue(ts_check *check, const ts_heap *heap, uint64_t first) {
    for (uint64_t unit = first; unit; unit = ts_load_relaxed(&ts_slab_at((uint32_t)unit)->queue_next)) {
        REQUIRE(unit <= UINT32_MAX && ts_unit_of((uint32_t)unit) < check->high[TS_NORMAL],
                "heap %u: its queue of foreign frees leads to unit %llu", heap->id, (unsigned long long)unit);
        uint8_t *found = ts_check_unit(check, (uint32_t)unit);
        REQUIRE((*found & TS_USE_QUEUED) == 0, "unit %llu is on two queues, or twice on one", (unsigned long long)unit);
        REQUIRE(ts_load_relaxed(ts_unit_word((uint32_t)unit)) & TS_UNIT_FOREIGN,
                "unit %llu is on a queue, and its word does not say so", (unsigned long long)unit);
        *found |= TS_USE_QUEUED;
        check->queued++;
    }
    return true;
}

static bool check_condemned(ts_check *check, const ts_heap *heap, const ts_block *first) {
    uint64_t n = 0;
    for (const ts_block *b = first; b; b = (const ts_block *)(ts_load_relaxed(&b->left) & ~TS_LEFT_MARKS)) {
        REQUIRE(ts_check_in_lines(b) && n++ < check->lines, "heap %u: the list of condemned blocks is broken",
                heap->id);
        uintptr_t marks = ts_load_relaxed(&b->left) & TS_LEFT_MARKS;
        REQUIRE(marks != 0, "heap %u: a block on the list of those that are left is not marked", heap->id);
        if (!(marks & TS_POST_END)) {
            REQUIRE(!(marks & TS_POST_FLUSH) || ts_load_relaxed(&b->open_id) == TS_ID_NEVER,
                    "heap %u: a block that is left is open", heap->id);
            REQUIRE(ts_load_relaxed(&b->heap) == heap, "heap %u: a block that is left is another's", heap->id);
            continue;
        }
        REQUIRE(ts_era(b) != ts_load_relaxed(&b->era), "heap %u: a condemned block is alive", heap->id);
        REQUIRE(ts_load_relaxed(&b->heap) == heap, "heap %u: a condemned block is another's", heap->id);
        check->allocator[b->share->allocator->record.index].condemned++;
    }
    return true;
}

static bool check_scopes(ts_check *check, const ts_heap *heap) {
    if (heap->spare_scope && !ts_check_claim_lines(check, heap->spare_scope, sizeof(ts_domain_scope), "a spare scope"))
        return false;
    for (const ts_domain_scope *s = heap->tls ? heap->tls->domain : NULL; s; s = s->outer)
        if (!ts_check_claim_lines(check, s, sizeof *s, "a domain entered")) return false;
    return true;
}

static bool check_tls(ts_check *check, const ts_heap *heap) {
    const ts_tls *tls = heap->tls;
    REQUIRE(tls->heap == heap, "heap %u: its thread has another", heap->id);
    uintptr_t token = ts_load_relaxed(&tls->token);
    REQUIRE((token == UINTPTR_MAX) == (tls->share_key == TS_KEY_NO_SHARE) || token == TS_TOKEN_CALLED,
            "heap %u: half bound to an allocator", heap->id);
    if (token != UINTPTR_MAX && token != TS_TOKEN_CALLED) {
        const ts_share *share = ts_line_address(tls->share_key >> TS_KEY_SHARE_SHIFT);
        REQUIRE(ts_check_in_lines(share) && share->heap == heap && share->token == token &&
                    tls->share_key == ts_share_key(share),
                "heap %u: bound to a share that is not its own", heap->id);
    }
    const ts_churn_block *private_block = ts_load_relaxed(&tls->private_block);
    REQUIRE(private_block == &ts_no_block || ts_check_in_lines(private_block), "heap %u: malloc's block at %p",
            heap->id, (const void *)private_block);
    uint64_t private_word = ts_load_relaxed(&tls->private_word);
    if (private_word != TS_WORD_NONE) {
        const ts_block *bins = &tls->private_bins->b;
        uint64_t key = ts_word_era(private_word) | bins->share->open_key;
        REQUIRE(ts_word_line(private_word) == ts_line_of(bins) && ts_load_relaxed(&bins->heap) == heap &&
                    ts_load_relaxed(&bins->key) == key,
                "heap %u: the block of malloc is not its own, or not open", heap->id);
    }
    REQUIRE(tls->block == &ts_no_block || ts_check_in_lines(tls->block), "heap %u: cached block at %p", heap->id,
            (void *)tls->block);
    REQUIRE(tls->rolling == &ts_no_block || ts_check_in_lines(tls->rolling), "heap %u: cached rolling block at %p",
            heap->id, (void *)tls->rolling);
    const ts_scope_block *scope = ts_load_relaxed(&tls->scope);
    REQUIRE(scope == &ts_no_scope || ts_check_in_lines(scope), "heap %u: cached scope block at %p", heap->id,
            (const void *)scope);
    REQUIRE(tls->last == &ts_no_scope || ts_check_in_lines(tls->last), "heap %u: scope block used last at %p", heap->id,
            (const void *)tls->last);
    REQUIRE(!ts_is_in_op(tls), "heap %u: its thread is inside of an operation", heap->id);
    return true;
}

bool ts_check_heaps(ts_check *check, bool forked) {
    uint32_t waiting = 0;
    for (ts_heap *h = ts_heaps(); h; h = h->next) check->lost_heaps += ts_load_relaxed(&h->state) == TS_HEAP_LOST;
    for (ts_heap *h = ts_heaps(); h; h = h->next) {
        uint32_t state = ts_load_relaxed(&h->state);
        if (!ts_check_claim_lines(check, h, sizeof *h, "a heap")) return false;
        check->heaps++;
        REQUIRE((ts_load_relaxed(&h->revoked) & (TS_REVOKED | TS_UNHOLDABLE)) == 0,
                "heap %u is revoked, and nobody holds it", h->id);
        if (!check_queue(check, h, ts_load_relaxed(&h->queue)) || !check_queue(check, h, ts_load_relaxed(&h->backlog)))
            return false;
        /* Of threads that vanished in a fork. */
        if (state == TS_HEAP_LOST || (forked && state == TS_HEAP_STARTING)) continue;
        REQUIRE(state == TS_HEAP_LIVE || state == TS_HEAP_ABANDONED, "heap %u: state %u", h->id, state);
        REQUIRE((state == TS_HEAP_LIVE) == (h->tls != NULL), "heap %u: state %u, thread at %p", h->id, state,
                (void *)h->tls);
        REQUIRE(!h->listed_free || (state == TS_HEAP_ABANDONED && !ts_heap_first_block(h)),
                "heap %u is free and in use", h->id);
        waiting += state == TS_HEAP_ABANDONED && !h->listed_free && !h->is_threadless;
        if (h->tls && !check_tls(check, h)) return false;
        if (!check_condemned(check, h, ts_load_relaxed(&h->inbox)) ||
            !check_condemned(check, h, ts_load_relaxed(&h->ending)))
            return false;
        if (!check_scopes(check, h) || !ts_check_heap(check, h)) return false;
    }
    REQUIRE(waiting == ts_load_relaxed(&ts_heaps_abandoned), "%u heaps of ended threads have blocks, %u counted",
            waiting, ts_load_relaxed(&ts_heaps_abandoned));
    return true;
}
