// A query: two tables of 20,000 rows are built, joined end to end and made one piece. us of processor a query, by
// turns.
#include "spread.hpp"

#include <tslab/arrow.hpp>

#include <arrow/api.h>

#include <cstdlib>

static std::shared_ptr<arrow::Table> table(arrow::MemoryPool *pool) {
    arrow::Int64Builder numbers(pool);
    arrow::StringBuilder texts(pool);
    for (int64_t i = 0; i < 20000; i++)
        if (!numbers.Append(i).ok() || !texts.Append("a text in a row").ok()) std::abort();
    auto schema = arrow::schema({arrow::field("n", arrow::int64()), arrow::field("t", arrow::utf8())});
    return arrow::Table::Make(schema, {numbers.Finish().ValueOrDie(), texts.Finish().ValueOrDie()});
}

static void query(arrow::MemoryPool *pool) {
    auto both = arrow::ConcatenateTables({table(pool), table(pool)}).ValueOrDie()->CombineChunks(pool).ValueOrDie();
    if (both->num_rows() != 40000) std::abort();
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
    std::vector<way> ways = {{"system pool", [] { query(arrow::system_memory_pool()); }}};
    arrow::MemoryPool *jemalloc = nullptr, *mimalloc = nullptr;
    if (arrow::jemalloc_memory_pool(&jemalloc).ok()) ways.push_back({"jemalloc's pool", [=] { query(jemalloc); }});
    if (arrow::mimalloc_memory_pool(&mimalloc).ok()) ways.push_back({"mimalloc's pool", [=] { query(mimalloc); }});
    ways.push_back({"`arrow_pool`, a domain a query", [] {
                        tslab::domain d("query");
                        tslab::arrow_pool pool(d);
                        query(&pool);
                    }});
    tslab::domain kept("queries", EPOCH_CHURN);
    tslab::arrow_pool pool(kept);
    ways.push_back({"`arrow_pool`, one domain", [&] { query(&pool); }});
    measure(ways, rounds, 20);
    return 0;
}
