// For the benchmarks of C++: ways of one piece of work by turns, and a row of a table for each: median, least and most.
#ifndef INTEGRATIONS_SPREAD_HPP
#define INTEGRATIONS_SPREAD_HPP

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <time.h>
#include <vector>

struct way {
    std::string name;
    std::function<void()> once;
    std::vector<double> us = {};
};

// Of the process: other programs count little.
inline double processor_us() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// The first round warms up and counts for nothing.
inline void measure(std::vector<way> ways, int rounds, int times) {
    for (int round = 0; round <= rounds; round++) {
        for (way &w : ways) {
            double start = processor_us();
            for (int i = 0; i < times; i++) w.once();
            if (round > 0) w.us.push_back((processor_us() - start) / times);
        }
    }
    for (way &w : ways) {
        std::sort(w.us.begin(), w.us.end());
        std::printf("| %s | %.0f (%.0f to %.0f) |\n", w.name.c_str(), w.us[w.us.size() / 2], w.us.front(), w.us.back());
    }
}

#endif
