// Containers of the standard library: text is split, counted and sorted.
#include "captured.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using counts = std::unordered_map<std::string, std::vector<unsigned>>;

counts *count(unsigned request) {
    auto *words = new counts;
    for (unsigned i = 0; i < 400; i++)
        (*words)["a word of the request, number " + std::to_string((i * 7 + request) % 60)].push_back(i);
    CHECK(words->size() == 60);
    return words;
}

std::map<unsigned, std::string> *sort(const counts &words) {
    auto *sorted = new std::map<unsigned, std::string>;
    for (const auto &word : words) (*sorted)[word.second.front()] += word.first + ";";
    CHECK(sorted->size() == 60 && !sorted->begin()->second.empty());
    return sorted;
}

void serve(unsigned request) {
    counts *words = count(request);
    delete sort(*words);
    delete words;
}

void drop(unsigned request) { (void)sort(*count(request)); }
void begin() { serve(0); }
void end() {}

} // namespace

const library tested = {begin, serve, drop, end};
