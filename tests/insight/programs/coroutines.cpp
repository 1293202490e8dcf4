// Coroutines: sessions take turns, so their frames and strings interleave; a shift runs all of its sessions to their
// ends.
#include <coroutine>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

namespace {

struct Session {
    struct promise_type {
        Session get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
};

unsigned long total;

Session serve_client(unsigned number) {
    std::vector<std::string> lines;
    for (unsigned i = 0; i < 10; i++) {
        lines.push_back(std::string(30 + number % 50, 'x'));
        co_await std::suspend_always{};
    }
    for (const std::string &line : lines) {
        total += line.size();
    }
}

__attribute__((noinline)) void run_shift() {
    std::vector<Session> sessions;
    for (unsigned i = 0; i < 30; i++) {
        sessions.push_back(serve_client(i));
    }
    for (bool any = true; any;) {
        any = false;
        for (Session &session : sessions) {
            if (!session.handle.done()) {
                session.handle.resume();
                any = true;
            }
        }
    }
    for (Session &session : sessions) {
        session.handle.destroy();
    }
}

} // namespace

int main() {
    for (int i = 0; i < 300; i++) {
        run_shift();
    }
    std::printf("%lu\n", total);
}
