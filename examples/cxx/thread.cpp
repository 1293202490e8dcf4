// A domain that one thread makes, another uses, and a third ends.
#include <tslab/tslab.hpp>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

struct job {
    std::string name;
    std::vector<int, tslab::allocator<int>> numbers;
    job(tslab::domain &d, const char *text) : name(text), numbers(d) {}
};

int main() {
    tslab::domain work("work");
    job *made = tslab::make<job>(work, work, "made in the first thread, with memory of its own");
    made->numbers.assign(1000, 1);
    work.hand_over(); // who enters it next owns it

    std::size_t sum = 0;
    std::thread([&] {
        tslab::scope inside(work);
        made->numbers.push_back(static_cast<int>(made->name.size()));
        for (int n : made->numbers) sum += static_cast<std::size_t>(n);
    }).join();

    // To end in another thread it needs nothing: ~job runs there, then all of its memory goes.
    std::thread([moved = std::move(work)] {}).join();
    std::printf("%zu\n", sum);
    return sum == 1000 + 48 ? 0 : 1;
}
