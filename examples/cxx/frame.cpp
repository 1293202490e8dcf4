// An arena for frames: one domain, emptied after each. All of its memory stays warm for the next frame.
#include <tslab/tslab.hpp>

#include <cstdio>
#include <vector>

struct particle {
    float x, y, z;
};

int main() {
    tslab::domain frame("frame");
    std::size_t drawn = 0;
    for (int number = 0; number < 100; number++) {
        {
            std::vector<particle, tslab::allocator<particle>> visible(frame);
            for (int i = 0; i < 1000; i++) visible.push_back({float(i), float(number), 0});
            drawn += visible.size();
        } // containers end before the frame does
        frame.reset();
    }
    std::printf("%zu particles\n", drawn);
    return drawn == 100000 ? 0 : 1;
}
