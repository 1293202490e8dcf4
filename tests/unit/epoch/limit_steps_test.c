/* A limit that is set while a thread ends or resets the epoch, or allocates in it (limit.c). */
#include "ending.h"
#include "epoch/epoch.h"

#define UNIT ((size_t)16384)
#define LIMIT 4 /* units */
static bool limited;
static void keep_no_line(const char *line, size_t bytes, void *argument) {
    (void)line;
    (void)bytes;
    (void)argument;
}
static const ts_account *got; /* the account that it has then, or had */
static void limit(void) {
    limited = epoch_set_limit(allocator, epoch, LIMIT * UNIT);
    got = atomic_load(&entry->account);
}
static void limit_epoch(void) {
    limit();
    atomic_store(&done, true);
}
static void limit_and_close_epoch(void) {
    limit();
    close_epoch();
}
/* The second call finds the work that the first has left. */
static void limit_epoch_twice(void) {
    limit();
    limit_epoch();
}

/* As many of a quarter of a unit as it takes. */
static unsigned fill_epoch(void) {
    unsigned n = 0;
    errno = 0;
    while (n < 100 && slab_malloc_epoch(allocator, 4000, epoch)) {
        n++;
    }
    SUP_CHECK(errno == ENOMEM, "it has no limit");
    return n;
}

static size_t held_bytes(void) { return ts_limit_held(atomic_load(&entry->allocator), epoch); }

/* Every block of the epoch has its account, which holds what they hold; or is left to this thread, which takes it up
   before its next slab. */
static void check_account(unsigned at, bool may_be_left) {
    const ts_account *account = atomic_load(&entry->account);
    uint64_t units = 0;
    SUP_CHECK(account != NULL, "step %u: it has none", at);
    for (const ts_block *b = atomic_load(&entry->blocks); b; b = ts_epoch_next_block(b)) {
        if (may_be_left && (atomic_load(&b->left) & TS_POST_COUNT) && ts_heap_is_notified(atomic_load(&b->heap))) {
            continue;
        }
        SUP_CHECK(ts_block_account(b) == account, "step %u: a block is not counted", at);
        units += atomic_load(&b->slabs);
    }
    SUP_CHECK(atomic_load(&account->units) == units && held_bytes() == units * UNIT, "step %u: %u units are counted",
              at, (unsigned)atomic_load(&account->units));
}

static unsigned limited_at_each_step(void (*fn)(void), bool reset) {
    unsigned met = 0;
    other = fn;
    for (unsigned at = 0;; at++) {
        make_domain();
        limited = false;
        got = NULL;
        bool all, emptied = end_meanwhile(at, reset, &all);
        met += has_met;
        SUP_CHECK(emptied || ended, "step %u: the reset", at);
        if (reset && limited && atomic_load(&entry->record.id) == epoch) { /* closed and empty it has ended */
            check_account(at, true);
            SUP_CHECK(ended || fill_epoch() <= LIMIT * 4, "step %u: beyond the limit", at);
            check_account(at, ended);
        }
        if (reset) {
            SUP_CHECK(limited || all, "step %u: no limit", at);
            epoch_domain_destroy(domain);
        }
        SUP_CHECK(!atomic_load(&entry->account), "step %u: an account of an epoch that has ended", at);
        SUP_CHECK(!got || got->refs == 0, "step %u: a reference is left", at);
        sup_check_identities(allocator);
        sup_check_empty(allocator);
        if (all) {
            return met;
        }
    }
}

/* A limit that meets the end or the reset holds when that is over. */
static void beside_an_end(void **state) {
    (void)state;
    void (*const calls[])(void) = {limit_epoch, limit_epoch_twice, limit_and_close_epoch};
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        assert_true(limited_at_each_step(calls[i], false) >= 5);
        assert_true(limited_at_each_step(calls[i], true) >= 5);
    }
}

static atomic_bool in_the_middle, goes_on;
static bool dies; /* the epoch, before the operation is over */
static unsigned filled;
/* Three objects are in it when the operation begins. */
static void be_in_the_middle(void) {
    for (unsigned i = 0; i < 3; i++) {
        SUP_CHECK(slab_malloc_epoch(allocator, 4000, epoch) != NULL, "an object");
    }
    ts_op_begin(&ts_thread);
    atomic_store(&in_the_middle, true);
    while (!atomic_load(&goes_on)) {
        sup_sleep_ms(1);
    }
    ts_op_end(&ts_thread);
    if (dies) {
        slab_thread_idle();
    } else {
        filled = fill_epoch();
    }
}

/* A thread that allocates in the epoch is not waited for either: it is counted when that is over, and the limit holds
   for it. */
static void beside_an_allocation(void **state) {
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        dies = i >= 2;
        epoch = epoch_open(allocator, "limited", i % 2 ? EPOCH_CHURN : EPOCH_SCOPE);
        entry = ts_table_at(&ts_epochs, ts_table_index(&ts_epochs, epoch));
        atomic_store(&in_the_middle, false);
        atomic_store(&goes_on, false);
        let_begin(be_in_the_middle);
        while (!atomic_load(&in_the_middle)) {
            sup_sleep_ms(1);
        }
        assert_true(epoch_set_limit(allocator, epoch, LIMIT * UNIT));
        ts_block *block = atomic_load(&entry->blocks);
        assert_int_equal(atomic_load(&block->left) & TS_LEFT_MARKS, TS_POST_COUNT);
        assert_true(ts_heap_is_notified(other_heap));
        assert_int_equal(entry->pins, 0);
        assert_null(ts_block_account(block));
        if (dies) {
            assert_true(epoch_destroy(allocator, epoch));
            assert_int_equal(atomic_load(&block->left) & TS_LEFT_MARKS, TS_POST_COUNT | TS_POST_END);
        }
        atomic_store(&goes_on, true);
        meet();
        if (!dies) {
            assert_int_equal(3 + filled, LIMIT * 4);
            check_account(i, false);
            assert_true(epoch_destroy(allocator, epoch));
        }
        assert_int_equal(atomic_load(&block->left), 0);
        assert_null(atomic_load(&entry->account));
    }
}

/* A block that is left can be of a use of the entry that is over, while the next has an account. */
static void of_another_use(void **state) {
    (void)state;
    make_domain();
    assert_true(epoch_set_limit(allocator, epoch, LIMIT * UNIT));
    ts_block *block = atomic_load(&entry->blocks);
    ts_account *account = atomic_load(&entry->account);
    assert_ptr_equal(ts_block_account(block), account);
    ts_block_set_account(block, NULL);
    assert_int_equal(atomic_load(&account->units), 0);
    atomic_store(&account->epoch, epoch + 1);
    ts_block_count(block);
    assert_null(ts_block_account(block));
    atomic_store(&account->epoch, epoch);
    ts_block_count(block);
    check_account(0, false);
    epoch_domain_destroy(domain);
}

static void allocate_one(void) { SUP_CHECK(slab_malloc_epoch(allocator, 4000, epoch) != NULL, "an object"); }

/* A block that is left to the heap of an ended thread stays there until it is worked off. */
static void not_taken_over(void **state) {
    (void)state;
    epoch = epoch_open(allocator, "limited", EPOCH_CHURN);
    entry = ts_table_at(&ts_epochs, ts_table_index(&ts_epochs, epoch));
    let(allocate_one);
    ts_heap *old = other_heap;
    ts_block *block = atomic_load(&entry->blocks);
    end();
    assert_int_equal(atomic_load(&old->state), TS_HEAP_ABANDONED);
    ts_heap_post_count(old, block);
    allocate_one();
    assert_ptr_equal(atomic_load(&block->heap), old);
    assert_true(epoch_set_limit(allocator, epoch, LIMIT * UNIT));
    check_account(0, false);
    assert_true(ts_heap_notify(old));
    ts_heap_run_posted(old);
    ts_heap_drop(old);
    assert_int_equal(atomic_load(&block->left), 0);
    check_account(1, false);
    (void)fill_epoch();
    assert_ptr_equal(atomic_load(&block->heap), ts_heap_mine());
    assert_true(epoch_destroy(allocator, epoch));
    begin();
}

int main(void) {
    slab_set_message_sink(keep_no_line, NULL); /* each limit that is reached has one */
    const struct CMUnitTest tests[] = {WITH(beside_an_end), WITH(beside_an_allocation), WITH(of_another_use),
                                       WITH(not_taken_over)};
    if (!ts_os_native.barrier_all()) {
        return 77; /* nobody holds another thread's heap */
    }
    return cmocka_run_group_tests_name("epoch.limit_steps", tests, NULL, NULL);
}
