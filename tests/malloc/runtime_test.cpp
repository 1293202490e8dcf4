// Objects that the runtimes of C and C++ allocate for themselves inside of a domain that captures outlive the domain;
// those that they hand to their callers are the domain's. With any C++ library. Each part is a process of its own: a
// runtime makes some objects once, at their first use.
#include <tslab/malloc.h>
#include <tslab/stats.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <system_error>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            std::fprintf(stderr, "%s:%d: not so (errno %d): %s\n", __FILE__, __LINE__, errno, #x); \
            std::_Exit(1);                                                                         \
        }                                                                                          \
    } while (0)

namespace {

class captured {
  public:
    captured() : domain_(epoch_domain_create_ex(slab_malloc_allocator(), "captured", EPOCH_DOMAIN_CAPTURE)) {
        CHECK(domain_ != nullptr && epoch_domain_enter(domain_));
    }
    ~captured() {
        CHECK(epoch_domain_exit(domain_));
        epoch_domain_destroy(domain_);
        overwrite();
    }
    captured(const captured &) = delete;
    captured &operator=(const captured &) = delete;
    std::uint64_t live() const {
        SlabEpochStats stats;
        CHECK(slab_stats_epoch(slab_malloc_allocator(), SLAB_ALL_CLASSES, epoch_domain_epoch(domain_), &stats));
        return stats.live_objects;
    }

  private:
    // Other objects take the domain's memory.
    static void overwrite() {
        for (std::size_t bytes = 16; bytes < 70000; bytes *= 2) {
            for (int i = 0; i < 64; i++) {
                void *p = std::malloc(bytes);
                CHECK(p != nullptr);
                std::memset(p, 0x5a, bytes);
            }
        }
    }
    EpochDomain *domain_;
};

// ---- exceptions ----

template <class Throw> void leaves_domain(Throw thrower, const char *said) {
    std::exception_ptr kept;
    {
        captured in;
        try {
            thrower();
        } catch (...) {
            kept = std::current_exception();
        }
        CHECK(kept != nullptr);
    }
    try {
        std::rethrow_exception(kept);
    } catch (const std::exception &e) {
        if (!std::strstr(e.what(), said)) std::fprintf(stderr, "%.60s instead of %s\n", e.what(), said);
        CHECK(std::strstr(e.what(), said) != nullptr);
    }
    bool caught = false;
    try {
        captured in;
        thrower();
    } catch (const std::exception &e) {
        caught = true;
        if (!std::strstr(e.what(), said)) std::fprintf(stderr, "%.60s instead of %s\n", e.what(), said);
        CHECK(std::strstr(e.what(), said) != nullptr);
    }
    CHECK(caught);
}

void exceptions() {
    std::string text = "bad input, and more than a string has room for in itself";
    leaves_domain([] { throw std::runtime_error("bad input, and more than a string has room for"); },
                  "bad input, and more");
    leaves_domain([&] { throw std::logic_error(text); }, "than a string has room");
    leaves_domain([&] { throw std::system_error(ENOENT, std::generic_category(), text); }, "bad input, and more");
    leaves_domain([] { throw std::bad_alloc(); }, "alloc");
    leaves_domain([] { (void)std::string("x").at(7); }, "");
    captured in;
    std::string own = text; // a string is the domain's
    CHECK(in.live() > 0);
}

// ---- the ends of threads and of the process ----

int ended;
struct counted {
    int value = 7;
    ~counted() {
        CHECK(value == 7);
        ended++;
    }
};

counted &of_thread(int n) {
    thread_local counted a, b, c;
    return n == 0 ? a : n == 1 ? b : c;
}

void *uses_thread_locals(void *) {
    {
        captured in;
        for (int i = 0; i < 3; i++) CHECK(of_thread(i).value == 7);
    }
    return nullptr;
}

void thread_locals() {
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, uses_thread_locals, nullptr) == 0 && pthread_join(thread, nullptr) == 0);
    CHECK(ended == 3);
}

pthread_key_t keys[100];
void *uses_keys(void *) {
    {
        captured in;
        for (auto &key : keys) CHECK(pthread_setspecific(key, &key) == 0);
    }
    for (auto &key : keys) CHECK(pthread_getspecific(key) == &key);
    return nullptr;
}

void specifics() {
    pthread_t thread;
    for (auto &key : keys) CHECK(pthread_key_create(&key, nullptr) == 0);
    CHECK(pthread_create(&thread, nullptr, uses_keys, nullptr) == 0 && pthread_join(thread, nullptr) == 0);
}

enum { EXITS = 200 };
int exits;
extern "C" void at_exit() {
    if (++exits == EXITS) std::fputs("all\n", stderr);
}

void exit_handlers() {
    captured in;
    for (int i = 0; i < EXITS; i++) CHECK(std::atexit(at_exit) == 0);
}

int forks;
extern "C" void at_fork() { forks++; }
void fork_handlers() {
    {
        captured in;
        for (int i = 0; i < 100; i++) CHECK(pthread_atfork(at_fork, nullptr, nullptr) == 0);
    }
    pid_t child = fork();
    if (child == 0) _exit(forks == 100 ? 0 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// ---- stdio ----

void buffers() {
    FILE *file = std::tmpfile();
    CHECK(file != nullptr);
    {
        captured in;
        CHECK(std::printf("%s\n", "printed inside") > 0); // stdout is a file
        CHECK(std::fputs("inside ", file) >= 0);
        CHECK(in.live() == 0);
    }
    CHECK(std::fputs("and outside", file) >= 0 && std::fflush(file) == 0);
    char text[64] = "";
    std::rewind(file);
    CHECK(std::fgets(text, sizeof text, file) && std::strcmp(text, "inside and outside") == 0);
    CHECK(std::fclose(file) == 0);
}

int called;
void count_event(std::ios_base::event, std::ios_base &, int) { called++; }

// Streams of the process: their buffers, words and callbacks.
void streams() {
    [[maybe_unused]] static const int index = std::ios_base::xalloc() + 30;
    std::ofstream outside;
    std::uint64_t of_domain;
    {
        captured in;
        CHECK(std::ios_base::sync_with_stdio(false) || true);
#ifndef RUNTIME_TEST_STATIC // the archive has no operator of its own by which libstdc++ asks for words
        std::cout.iword(index) = 7;
#endif
        std::cout.register_callback(count_event, 0);
        outside.open("/dev/null");
        CHECK(outside << "inside");
        of_domain = in.live();
    }
    CHECK(std::cout << "printed outside" << std::endl);
#ifndef RUNTIME_TEST_STATIC
    CHECK(std::cout.iword(index) == 7 && std::cout.iword(index + 1) == 0);
#endif
    std::ios other(nullptr);
    other.copyfmt(std::cout);
    CHECK(called > 0 && outside << "outside" && outside.flush());
    if (of_domain != 0) std::fprintf(stderr, "%u objects are the domain's\n", static_cast<unsigned>(of_domain));
    CHECK(of_domain == 0);
}

// ---- the domain's memory ----

void handed_out() {
    FILE *file = std::tmpfile();
    CHECK(file && std::fputs("a line\n", file) >= 0);
    std::rewind(file);
    captured in;
    std::uint64_t before = in.live();
    char *line = nullptr;
    std::size_t room = 0;
    CHECK(getline(&line, &room, file) == 7 && in.live() == before + 1);
    CHECK(strdup(line) != nullptr && in.live() == before + 2);
    CHECK(strndup(line, 3) != nullptr && in.live() == before + 3);
    auto *text = new std::string(100, 'x');
    CHECK(text->size() == 100 && in.live() == before + 5);
    CHECK(slab_owns(slab_malloc_allocator(), line));
}

const struct {
    const char *name;
    void (*run)();
} parts[] = {{"exceptions", exceptions},
             {"thread_locals", thread_locals},
             {"specifics", specifics},
             {"exit_handlers", exit_handlers},
             {"fork_handlers", fork_handlers},
             {"buffers", buffers},
             {"streams", streams},
             {"handed_out", handed_out}};

} // namespace

int main(int argc, char **argv) {
    if (argc > 1) {
        for (const auto &part : parts)
            if (std::strcmp(part.name, argv[1]) == 0) part.run();
        SlabGlobalStats stats;
        CHECK(slab_stats_global(slab_malloc_allocator(), &stats) && stats.rejected_frees_total == 0);
        return 0;
    }
    for (const auto &part : parts) {
        int pipes[2];
        CHECK(pipe(pipes) == 0);
        pid_t child = fork();
        if (child == 0) {
            char name[32];
            std::snprintf(name, sizeof name, "%s", part.name);
            char *const arguments[] = {argv[0], name, nullptr};
            (void)dup2(pipes[1], STDERR_FILENO);
            if (std::freopen("/dev/null", "w", stdout)) execv("/proc/self/exe", arguments);
            _exit(3);
        }
        (void)close(pipes[1]);
        char said[1000] = "";
        std::size_t used = 0;
        for (ssize_t n; used < sizeof said - 1 && (n = read(pipes[0], said + used, sizeof said - 1 - used)) > 0;)
            used += static_cast<std::size_t>(n);
        (void)close(pipes[0]);
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        bool exits_all = part.run != exit_handlers || std::strcmp(said, "all\n") == 0;
        if (status != 0 || !exits_all) {
            std::fprintf(stderr, "runtime_test: %s: status %#x: %s\n", part.name, static_cast<unsigned>(status), said);
            return 1;
        }
    }
    return 0;
}
