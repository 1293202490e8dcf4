// A request: a message of 1,000 entries is parsed, one like it is built, and that is serialized. us of processor a
// request, by turns.
#include "spread.hpp"

#include <tslab/protobuf.hpp>

#include <google/protobuf/struct.pb.h>

#include <cstdlib>

using google::protobuf::Arena;
using google::protobuf::Struct;

static void answer(Struct *asked, Struct *answered, const std::string &text) {
    if (!asked->ParseFromString(text)) std::abort();
    for (const auto &entry : asked->fields()) (*answered->mutable_fields())[entry.first].set_number_value(1);
    if (answered->SerializeAsString().empty()) std::abort();
}

static void on(Arena *arena, const std::string &text) {
    answer(Arena::CreateMessage<Struct>(arena), Arena::CreateMessage<Struct>(arena), text);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
    Struct filled;
    for (int i = 0; i < 1000; i++)
        (*filled.mutable_fields())["entry number " + std::to_string(i)]
            .mutable_list_value()
            ->add_values()
            ->set_number_value(i);
    const std::string text = filled.SerializeAsString();
    tslab::domain kept("rounds");
    measure({{"messages on the heap",
              [&] {
                  Struct asked, answered;
                  answer(&asked, &answered, text);
              }},
             {"an arena",
              [&] {
                  Arena arena;
                  on(&arena, text);
              }},
             {"`protobuf_arena`, a domain a request",
              [&] {
                  tslab::domain request("request");
                  on(tslab::make<tslab::protobuf_arena>(request, request)->get(), text);
              }},
             {"`protobuf_arena`, a domain that is reset",
              [&] {
                  on(tslab::make<tslab::protobuf_arena>(kept, kept)->get(), text);
                  kept.reset();
              }}},
            rounds, 100);
    return 0;
}
