// The header without exceptions and without RTTI: an object that cannot be made is empty, and containers work as ever.
#include "check.hpp"

#include <map>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

static_assert(TSLAB_HAS_EXCEPTIONS == 0, "this is a test of -fno-exceptions");

struct noted {
    int *ends;
    ~noted() { ++*ends; }
};

static void test_failures_are_answers() {
    tslab::domain wrong("wrong", 1u << 20);
    CHECK(!wrong && errno == EINVAL && wrong.get() == nullptr);
    CHECK(wrong.allocate(10) == nullptr && errno == EINVAL);
    CHECK(tslab::make<int>(wrong, 1) == nullptr);
    tslab::scope not_inside(wrong);
    CHECK(!not_inside && epoch_domain_current() == nullptr);
    tslab::domain no_child = wrong.child();
    CHECK(!no_child && wrong.end());

    int ends = 0;
    {
        tslab::domain d("plain");
        CHECK(d && tslab::make<noted>(d, &ends) && ends == 0);
        noted *n = tslab::make<noted>(d, &ends);
        CHECK(tslab::destroy(d, n) && ends == 1);
        CHECK(epoch_domain_force_close(d.get()));
        CHECK(tslab::make<noted>(d, &ends) == nullptr && errno == ESTALE && ends == 1);
        tslab::scope closed(d);
        CHECK(!closed);
    }
    CHECK(ends == 2);
}

// How a child of fork ends in which a container gets no memory, and its message.
template <class F> static std::string last_words(F f, int *signal) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], 2);
        f();
        std::_Exit(0);
    }
    close(ends[1]);
    std::string said;
    char some[256];
    for (ssize_t n; (n = read(ends[0], some, sizeof some)) > 0;) said.append(some, static_cast<std::size_t>(n));
    close(ends[0]);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    *signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return said;
}

static void test_containers() {
    tslab::domain d("plain", EPOCH_CHURN);
    int signal = 0;
    std::string said;
    {
        std::vector<int, tslab::allocator<int>> v(d);
        for (int i = 0; i < 1000; i++) v.push_back(i);
        CHECK(v[999] == 999);
        said = last_words([&] { v.reserve(v.max_size()); }, &signal);
        CHECK(signal == SIGABRT && said == "tslab: an allocation of a container failed\n");
    }
#if TSLAB_HAS_PMR
    {
        tslab::memory_resource memory(d), same(d);
        std::pmr::map<int, std::pmr::string> m(&memory);
        for (int i = 0; i < 100; i++) m.emplace(i, "a text that is too long for a short string");
        CHECK(m.size() == 100 && memory == memory);
        // Without RTTI the type of the other resource is unknown.
        CHECK(memory != same);
        said = last_words([&] { (void)memory.allocate(std::size_t(1) << 62); }, &signal);
        CHECK(signal == SIGABRT && said == "tslab: an allocation of a container failed\n");
    }
#endif
    CHECK(live(d) == 0);
}

int main() {
    test_failures_are_answers();
    test_containers();
    std::puts("tslab.hpp without exceptions and RTTI");
}
