// tslab::protobuf_arena with the real library: where blocks lie, ends in each order, limits, threads, more arenas than
// places.
#include "check.hpp"

#include <tslab/protobuf.hpp>

#include <google/protobuf/struct.pb.h>

#include <memory>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using google::protobuf::Arena;
using google::protobuf::ListValue;
using google::protobuf::Struct;

static Struct *fill(Arena *arena, int n) {
    auto *message = Arena::CreateMessage<Struct>(arena);
    for (int i = 0; i < n; i++) {
        auto &fields = *message->mutable_fields();
        fields["number " + std::to_string(i)].set_number_value(i);
        fields["a text that is longer than a string keeps in itself " + std::to_string(i)].set_string_value(
            std::string(100, 'x'));
        fields["list"].mutable_list_value()->add_values()->set_bool_value(true);
    }
    return message;
}

static void is_filled(const Struct &message, int n) {
    CHECK(message.fields().size() == static_cast<std::size_t>(2 * n + 1));
    for (int i = 0; i < n; i++) CHECK(message.fields().at("number " + std::to_string(i)).number_value() == i);
    CHECK(message.fields().at("list").list_value().values_size() == n);
}

static void blocks_lie_in_the_domain() {
    tslab::domain d("arena");
    {
        tslab::protobuf_arena arena(d);
        CHECK(arena.in_domain());
        Struct *message = fill(arena.get(), 1000);
        is_filled(*message, 1000);
        CHECK(slab_owns(d.allocator(), message) || epoch_domain_held(d.get()) >= arena->SpaceAllocated());
        CHECK(live(d) > 3 && epoch_domain_held(d.get()) >= arena->SpaceUsed());
        std::string text = message->SerializeAsString();
        auto *again = Arena::CreateMessage<Struct>(arena.get());
        CHECK(again->ParseFromString(text));
        is_filled(*again, 1000);
        arena->Reset();
        CHECK(live(d) <= 1);
        is_filled(*fill(arena.get(), 10), 10);
    }
    CHECK(live(d) == 0); // each block was given back
    CHECK(misuses(d.allocator()) == 0);
}

static int ended;
struct counted {
    ~counted() { ended++; }
};

static void it_ends_with_the_domain() {
    std::uint64_t before = misuses(slab_allocator_default());
    {
        tslab::domain d("request");
        auto *arena = tslab::make<tslab::protobuf_arena>(d, d);
        is_filled(*fill(arena->get(), 100), 100);
        arena->get()->Own(new counted); // on the heap: the end of the arena takes it along
        CHECK(ended == 0);
    }
    CHECK(ended == 1);
    tslab::domain d("rounds");
    for (int i = 0; i < 1000; i++) { // more than there are places: each round gives its own back
        auto *arena = tslab::make<tslab::protobuf_arena>(d, d);
        CHECK(arena->in_domain());
        is_filled(*fill(arena->get(), 10), 10);
        if (i % 2 == 0) CHECK(tslab::destroy(d, arena));
        d.reset();
    }
    CHECK(misuses(slab_allocator_default()) == before);
}

static void options_stay() {
    alignas(16) static char first[4096];
    google::protobuf::ArenaOptions options;
    options.initial_block = first;
    options.initial_block_size = sizeof first;
    options.start_block_size = 8192;
    tslab::domain d("options");
    tslab::protobuf_arena arena(d, options);
    auto *message = reinterpret_cast<char *>(Arena::CreateMessage<Struct>(arena.get()));
    CHECK(message >= first && message < first + sizeof first && live(d) == 0);
    is_filled(*fill(arena.get(), 100), 100);
    CHECK(live(d) > 0);
}

static void a_limit_is_bad_alloc() {
    tslab::domain d("limited");
    CHECK(epoch_domain_set_limit(d.get(), 1 << 20));
    tslab::protobuf_arena arena(d);
    auto *list = Arena::CreateMessage<ListValue>(arena.get());
    CHECK_THROWS(std::bad_alloc, for (int i = 0; i < 1 << 20; i++) list->add_values()->set_number_value(i));
    CHECK(list->values_size() > 1000 && epoch_domain_held(d.get()) <= 1 << 20);
    for (int i = 0; i < list->values_size() - 1; i++) CHECK(list->values(i).number_value() == i);
    arena->Reset();
    is_filled(*fill(arena.get(), 10), 10);
}

// Each thread that uses an arena gets blocks of its own: they are the domain's, though none of them has entered it.
static void threads() {
    tslab::domain d("threads");
    std::vector<std::unique_ptr<tslab::protobuf_arena>> arenas;
    for (int i = 0; i < 8; i++) arenas.push_back(std::make_unique<tslab::protobuf_arena>(d));
    std::vector<std::thread> all;
    for (int t = 0; t < 4; t++) {
        all.emplace_back([&] {
            for (int round = 0; round < 20; round++)
                for (auto &arena : arenas) is_filled(*fill(arena->get(), 20), 20);
        });
    }
    for (auto &t : all) t.join();
    std::size_t bytes = 0;
    for (auto &arena : arenas) bytes += arena->get()->SpaceAllocated();
    CHECK(epoch_domain_held(d.get()) >= bytes);
    arenas.clear();
    CHECK(live(d) == 0);

    all.clear(); // places are claimed and left at once
    for (int t = 0; t < 4; t++) {
        all.emplace_back([] {
            tslab::domain own("own");
            for (int round = 0; round < 500; round++) {
                tslab::protobuf_arena one(own), two(own);
                CHECK(one.in_domain() && two.in_domain());
                is_filled(*fill(one.get(), 2), 2);
                is_filled(*fill(two.get(), 3), 3);
            }
            CHECK(live(own) == 0);
        });
    }
    for (auto &t : all) t.join();
}

static void more_arenas_than_places() {
    tslab::domain d("many");
    std::vector<std::unique_ptr<tslab::protobuf_arena>> arenas;
    for (std::size_t i = 0; i < tslab::detail::arena_places; i++) {
        arenas.push_back(std::make_unique<tslab::protobuf_arena>(d));
        CHECK(arenas.back()->in_domain());
    }
    std::uint64_t objects = live(d);
    tslab::protobuf_arena beyond(d);
    CHECK(!beyond.in_domain());
    is_filled(*fill(beyond.get(), 100), 100);
    CHECK(live(d) == objects);
    arenas.erase(arenas.begin() + 100);
    tslab::protobuf_arena again(d);
    CHECK(again.in_domain());
}

static void fork_copies() {
    tslab::domain d("fork");
    tslab::protobuf_arena arena(d);
    Struct *message = fill(arena.get(), 100);
    pid_t child = fork();
    if (child == 0) {
        is_filled(*message, 100);
        is_filled(*fill(arena.get(), 1000), 1000);
        arena->Reset();
        std::_Exit(live(d) <= 1 ? 0 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    is_filled(*message, 100);
}

int main() {
    blocks_lie_in_the_domain();
    it_ends_with_the_domain();
    options_stay();
    a_limit_is_bad_alloc();
    threads();
    more_arenas_than_places();
    fork_copies();
    google::protobuf::ShutdownProtobufLibrary();
    std::puts("protobuf: ok");
    return 0;
}
