// tslab::arrow_pool with the real library: buffers, builders, tables; sums, limits, bad input, threads, an end before
// the buffers.
#include "check.hpp"

#include <tslab/arrow.hpp>

#include <arrow/api.h>

#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

static void sums() {
    tslab::domain d("sums", EPOCH_CHURN);
    tslab::arrow_pool pool(d);
    CHECK(pool.backend_name() == "tslab" && pool.bytes_allocated() == 0 && pool.max_memory() == 0);
    uint8_t *a = nullptr, *b = nullptr;
    CHECK(pool.Allocate(1000, &a).ok() && pool.Allocate(100, 4096, &b).ok());
    CHECK(reinterpret_cast<uintptr_t>(a) % 64 == 0 && reinterpret_cast<uintptr_t>(b) % 4096 == 0);
    CHECK(pool.bytes_allocated() == 1100 && pool.num_allocations() == 2 && live(d) == 2);
    std::memset(a, 7, 1000);
    for (int64_t size : {2000, 3000000, 500, 100000}) {
        int64_t before = pool.bytes_allocated() - 100;
        CHECK(pool.Reallocate(before, size, &a).ok() && reinterpret_cast<uintptr_t>(a) % 64 == 0);
        CHECK(a[0] == 7 && a[499] == 7 && pool.bytes_allocated() == size + 100);
    }
    CHECK(pool.max_memory() == 3000100 && pool.num_allocations() == 6);
    CHECK(pool.total_bytes_allocated() == 1100 + 1000 + 2998000 + 99500);
    pool.Free(a, 100000);
    pool.Free(b, 100, 4096);
    CHECK(pool.bytes_allocated() == 0 && live(d) == 0 && misuses(d.allocator()) == 0);
    uint8_t *none = nullptr, *grown = nullptr;
    CHECK(pool.Allocate(0, &none).ok() && none != nullptr && reinterpret_cast<uintptr_t>(none) % 64 == 0);
    CHECK(pool.Reallocate(0, 100, &none).ok() && pool.Reallocate(0, 10, &grown).ok() && pool.bytes_allocated() == 110);
    pool.Free(none, 100);
    pool.Free(grown, 10);
    pool.Free(nullptr, 0);
    pool.ReleaseUnused();
    CHECK(live(d) == 0);
}

static std::shared_ptr<arrow::Table> table(arrow::MemoryPool *pool, int64_t n) {
    arrow::Int64Builder numbers(pool);
    arrow::StringBuilder texts(pool);
    for (int64_t i = 0; i < n; i++) {
        CHECK(numbers.Append(i).ok() && texts.Append("text " + std::to_string(i)).ok());
    }
    auto schema = arrow::schema({arrow::field("n", arrow::int64()), arrow::field("t", arrow::utf8())});
    return arrow::Table::Make(schema, {numbers.Finish().ValueOrDie(), texts.Finish().ValueOrDie()});
}

static void tables() {
    tslab::domain d("tables");
    {
        tslab::arrow_pool pool(d);
        auto one = table(&pool, 10000);
        CHECK(pool.bytes_allocated() >= 10000 * 12 &&
              epoch_domain_held(d.get()) >= static_cast<std::size_t>(pool.bytes_allocated()));
        auto two = arrow::ConcatenateTables({one, one}).ValueOrDie()->CombineChunks(&pool).ValueOrDie();
        one.reset();
        CHECK(two->num_rows() == 20000 && two->ValidateFull().ok());
        auto numbers = std::static_pointer_cast<arrow::Int64Array>(two->column(0)->chunk(0));
        CHECK(numbers->Value(10001) == 1);
        CHECK(two->Equals(*arrow::ConcatenateTables({table(&pool, 10000), table(&pool, 10000)}).ValueOrDie()));
        two.reset();
        numbers.reset();
        CHECK(pool.bytes_allocated() == 0);
    }
    CHECK(live(d) == 0);
}

static void refusals() {
    tslab::domain d("limited");
    CHECK(epoch_domain_set_limit(d.get(), 1 << 20));
    tslab::arrow_pool pool(d);
    uint8_t *p = nullptr, *q = nullptr;
    CHECK(pool.Allocate(2 << 20, &p).IsOutOfMemory() && p == nullptr && pool.bytes_allocated() == 0);
    CHECK(pool.Allocate(1000, &p).ok());
    q = p;
    p[0] = 5;
    CHECK(pool.Reallocate(1000, 2 << 20, &p).IsOutOfMemory() && p == q && p[0] == 5 && pool.bytes_allocated() == 1000);
    CHECK(pool.Allocate(std::numeric_limits<int64_t>::max(), &q).IsOutOfMemory());
    CHECK(pool.Allocate(-1, &q).IsInvalid() && pool.Reallocate(1000, -1, &p).IsInvalid());
    for (int64_t alignment : {0, -64, 48}) CHECK(pool.Allocate(10, alignment, &q).IsInvalid());
    CHECK(!arrow::AllocateResizableBuffer(4 << 20, &pool).ok());
    arrow::Int64Builder builder(&pool);
    arrow::Status status;
    for (int i = 0; i < 1 << 20 && status.ok(); i++) status = builder.Append(i);
    CHECK(status.IsOutOfMemory() && builder.length() > 1000);
    builder.Reset();
    CHECK(pool.num_allocations() > 1 && pool.bytes_allocated() == 1000);

    // It has ended: nothing of it, nothing else, no crash.
    d.end();
    uint64_t before = misuses(slab_allocator_default());
    CHECK(pool.Allocate(10, &q).IsInvalid());
    CHECK(pool.Reallocate(1000, 2000, &p).IsInvalid());
    pool.Free(p, 1000);
    CHECK(misuses(slab_allocator_default()) > before && pool.bytes_allocated() == 1000);
}

static void buffers_that_live_on() {
    tslab::domain d("drain", EPOCH_CHURN | EPOCH_DOMAIN_DRAIN);
    EpochId epoch = d.epoch();
    tslab::arrow_pool pool(d);
    auto kept = table(&pool, 1000);
    d.end();
    CHECK(kept->ValidateFull().ok() && epoch_state(slab_allocator_default(), epoch) == EPOCH_CLOSING);
    kept.reset();
    CHECK(epoch_state(slab_allocator_default(), epoch) == EPOCH_CLOSED && pool.bytes_allocated() == 0);
}

static void it_ends_with_the_domain() {
    tslab::domain d("query");
    auto *pool = tslab::make<tslab::arrow_pool>(d, d);
    auto one = table(pool, 1000);
    CHECK(one->ValidateFull().ok());
}

static void threads() {
    tslab::domain d("threads", EPOCH_CHURN);
    tslab::arrow_pool pool(d);
    std::vector<std::shared_ptr<arrow::Table>> made(4);
    std::vector<std::thread> all;
    for (std::size_t t = 0; t < 4; t++) {
        all.emplace_back([&, t] {
            for (int64_t i = 0; i < 50; i++) made[t] = table(&pool, 100 * i + 1);
        });
    }
    for (auto &t : all) t.join();
    for (auto &one : made) CHECK(one->num_rows() == 4901 && one->ValidateFull().ok());
    CHECK(pool.bytes_allocated() > 4 * 4901 * 12 && pool.max_memory() >= pool.bytes_allocated());
    made.clear(); // in another thread than they were made in
    CHECK(pool.bytes_allocated() == 0 && live(d) == 0);
}

static void fork_copies() {
    tslab::domain d("fork");
    tslab::arrow_pool pool(d);
    auto one = table(&pool, 1000);
    pid_t child = fork();
    if (child == 0) {
        CHECK(one->ValidateFull().ok() && table(&pool, 5000)->num_rows() == 5000);
        one.reset();
        std::_Exit(pool.bytes_allocated() == 0 ? 0 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(one->ValidateFull().ok());
}

int main() {
    sums();
    tables();
    buffers_that_live_on();
    it_ends_with_the_domain();
    threads();
    fork_copies();
    refusals();
    std::puts("arrow: ok");
    return 0;
}
