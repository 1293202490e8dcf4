// Standard containers of one request: their memory goes in one step when the request ends.
#include <tslab/tslab.hpp>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#if TSLAB_HAS_PMR
static std::size_t handle_request(int number) {
    tslab::domain request("request");
    tslab::memory_resource memory(request);
    std::pmr::vector<std::pmr::string> lines(&memory);
    std::pmr::map<std::pmr::string, int> lengths(&memory);

    for (int i = 0; i < 100; i++) lines.emplace_back("a line of request number " + std::to_string(number + i));
    for (const std::pmr::string &line : lines) lengths[line] = static_cast<int>(line.size());
    return lengths.size();
} // the containers first, as they were made last; then the domain
#else
static std::size_t handle_request(int) { return 100; } // a standard library without std::pmr
#endif

int main() {
    for (int i = 0; i < 10; i++)
        if (handle_request(i) != 100) return 1;
    std::puts("10 requests");
}
