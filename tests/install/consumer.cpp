// A program of C++ that knows nothing of the source tree: domains, containers and objects of the installed header.
#include <tslab/tslab.hpp>

#include <cstdio>
#include <string>
#include <vector>

int main() {
    tslab::domain request("request");
    std::vector<int, tslab::allocator<int>> numbers(request);
    for (int i = 0; i < 1000; i++) numbers.push_back(i);
    auto *text = tslab::make<std::string>(request, "made in a domain, and long enough for memory of its own");
    tslab::handle<std::string> handle(request, text);
    bool good = numbers[999] == 999 && handle->size() > 16 && slab_owns(request.allocator(), numbers.data());
#if TSLAB_HAS_PMR
    tslab::memory_resource memory(request);
    std::pmr::string word("a word that is too long to be a short string", &memory);
    good = good && slab_owns(request.allocator(), word.data());
#endif
    if (!good) std::puts("consumer.cpp: not so");
    return good ? 0 : 1;
}
