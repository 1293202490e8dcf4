// A request of strings and maps in C++: its time by each source of memory. std::pmr containers over one resource after
// the other, then the same containers by the type of their allocator.
//
//     cxx_bench [--rounds N] [--requests N] [--smoke] [NAME...]      microseconds a request: least and median
//     cxx_bench --requests 1000 --rounds 1 tslab                     one alone, for callgrind
//
// The rounds go through all of them in turn, so that a machine which is busy is so for each.
#include <tslab/tslab.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory_resource>
#include <string>
#include <unordered_map>
#include <vector>

// ---- the request ------------------------------------------------------------------------------------------------

// Headers of a request, as text and by name; a session by number; an answer that grows. get(): an allocator.
template <template <class> class A, class Source> static std::size_t request(const Source &source, unsigned seed) {
    using string = std::basic_string<char, std::char_traits<char>, A<char>>;
    using field = std::pair<const string, string>;
    using entry = std::pair<const int, string>;
    std::vector<string, A<string>> lines(source.template get<string>());
    std::unordered_map<string, string, std::hash<std::string_view>, std::equal_to<std::string_view>, A<field>> fields(
        source.template get<field>());
    std::map<int, string, std::less<int>, A<entry>> session(source.template get<entry>());
    string answer(source.template get<char>());
    char text[64];
    for (unsigned i = 0; i < 40; i++) {
        int n = std::snprintf(text, sizeof text, "x-header-number-%u: %u", i, seed + i);
        lines.push_back(string(text, static_cast<std::size_t>(n), source.template get<char>()));
    }
    for (const string &line : lines) {
        std::size_t colon = line.find(':');
        fields.emplace(string(line, 0, colon, source.template get<char>()),
                       string(line, colon + 2, string::npos, source.template get<char>()));
    }
    for (int i = 0; i < 40; i++)
        session.emplace(static_cast<int>((seed + static_cast<unsigned>(i) * 7919u) % 1000u),
                        string("a value of a session that is kept by number", source.template get<char>()));
    for (int i = 0; i < 10; i++) session.erase(session.begin());
    for (const auto &[name, value] : fields) {
        answer += name;
        answer += '=';
        answer += value;
        answer += '\n';
    }
    return answer.size() + session.size();
}

template <class T> using polymorphic = std::pmr::polymorphic_allocator<T>;
struct of_resource {
    std::pmr::memory_resource *memory;
    template <class T> polymorphic<T> get() const { return polymorphic<T>(memory); }
};
struct of_domain {
    tslab::domain &domain;
    template <class T> tslab::allocator<T> get() const { return tslab::allocator<T>(domain); }
};
struct of_std {
    template <class T> std::allocator<T> get() const { return std::allocator<T>(); }
};

// ---- sources ------------------------------------------------------------------------------------------------------

// slab_alloc() itself, in the domain that the thread is inside of; frees nothing. The best that a resource can reach.
struct slab_alloc_resource final : std::pmr::memory_resource {
    void *do_allocate(std::size_t bytes, std::size_t) override {
        void *p = slab_alloc(bytes);
        if (!p) throw std::bad_alloc();
        return p;
    }
    void do_deallocate(void *, std::size_t, std::size_t) override {}
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }
};
// The first version that one would write.
struct obvious_resource final : std::pmr::memory_resource {
    SlabAllocator *allocator;
    EpochId epoch;
    explicit obvious_resource(const tslab::domain &d) : allocator(d.allocator()), epoch(d.epoch()) {}
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        void *p = slab_aligned_epoch(allocator, alignment, bytes, epoch);
        if (!p) throw std::bad_alloc();
        return p;
    }
    void do_deallocate(void *p, std::size_t, std::size_t) override { slab_free(allocator, p); }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }
};

static std::size_t with_new_delete(unsigned seed) {
    return request<polymorphic>(of_resource{std::pmr::new_delete_resource()}, seed);
}
static std::size_t with_monotonic(unsigned seed) {
    std::pmr::monotonic_buffer_resource memory;
    return request<polymorphic>(of_resource{&memory}, seed);
}
static std::size_t with_pool(unsigned seed) {
    static std::pmr::unsynchronized_pool_resource memory;
    return request<polymorphic>(of_resource{&memory}, seed);
}
static std::size_t with_pool_each(unsigned seed) {
    std::pmr::unsynchronized_pool_resource memory;
    return request<polymorphic>(of_resource{&memory}, seed);
}
static std::size_t with_tslab(unsigned seed) {
    tslab::domain d;
    tslab::memory_resource memory(d);
    return request<polymorphic>(of_resource{&memory}, seed);
}
static std::size_t with_frees(unsigned seed) {
    tslab::domain d;
    tslab::memory_resource memory(d, tslab::reuse::always);
    return request<polymorphic>(of_resource{&memory}, seed);
}
static std::size_t with_churn(unsigned seed) {
    static tslab::domain d("churn", EPOCH_CHURN);
    tslab::memory_resource memory(d);
    return request<polymorphic>(of_resource{&memory}, seed);
}
static std::size_t with_slab_alloc(unsigned seed) {
    tslab::domain d;
    tslab::scope in(d);
    slab_alloc_resource memory;
    return request<polymorphic>(of_resource{&memory}, seed);
}
static std::size_t with_obvious(unsigned seed) {
    tslab::domain d;
    obvious_resource memory(d);
    return request<polymorphic>(of_resource{&memory}, seed);
}
static std::size_t with_std(unsigned seed) { return request<std::allocator>(of_std{}, seed); }
static std::size_t with_allocator(unsigned seed) {
    tslab::domain d;
    return request<tslab::allocator>(of_domain{d}, seed);
}

struct row {
    const char *name, *what;
    std::size_t (*fn)(unsigned seed);
    std::vector<double> us;
};
static row rows[] = {
    {"new_delete", "pmr, new_delete_resource", with_new_delete, {}},
    {"monotonic", "pmr, monotonic_buffer_resource a request", with_monotonic, {}},
    {"pool", "pmr, one unsynchronized_pool_resource", with_pool, {}},
    {"pool_each", "pmr, unsynchronized_pool_resource a request", with_pool_each, {}},
    {"tslab", "pmr, tslab::memory_resource, a domain a request", with_tslab, {}},
    {"tslab_frees", "the same with reuse::always", with_frees, {}},
    {"tslab_churn", "pmr, one domain with EPOCH_CHURN", with_churn, {}},
    {"slab_alloc", "pmr, slab_alloc() and no free, a domain a request", with_slab_alloc, {}},
    {"obvious", "pmr, slab_aligned_epoch() and slab_free()", with_obvious, {}},
    {"std", "std::allocator", with_std, {}},
    {"tslab_alloc", "tslab::allocator, a domain a request", with_allocator, {}},
};

static double us_of(const row &r, unsigned requests, std::size_t expected) {
    auto start = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < requests; i++) {
        if (r.fn(1000) == expected) continue;
        std::fprintf(stderr, "cxx_bench: %s: another answer\n", r.name);
        std::exit(1);
    }
    std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    return took.count() / requests;
}

int main(int argc, char **argv) {
    unsigned rounds = 15, requests = 2000;
    std::vector<row *> chosen;
    for (int i = 1; i < argc; i++) {
        row *named =
            std::find_if(std::begin(rows), std::end(rows), [&](const row &r) { return !std::strcmp(r.name, argv[i]); });
        if (!std::strcmp(argv[i], "--smoke"))
            rounds = 2, requests = 20;
        else if (i + 1 < argc && !std::strcmp(argv[i], "--rounds"))
            rounds = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
        else if (i + 1 < argc && !std::strcmp(argv[i], "--requests"))
            requests = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
        else if (named != std::end(rows))
            chosen.push_back(named);
        else
            return std::fprintf(stderr, "cxx_bench: what is '%s'?\n", argv[i]), 2;
    }
    if (rounds == 0 || requests == 0) return 2;
    if (chosen.empty())
        for (row &r : rows) chosen.push_back(&r);

    const std::size_t expected = with_std(1000);
    for (unsigned i = 0; i < rounds; i++)
        for (row *r : chosen) r->us.push_back(us_of(*r, requests, expected));
    std::printf("%-14s %8s %8s   us a request, of %u rounds of %u\n", "", "least", "median", rounds, requests);
    for (row *r : chosen) {
        std::sort(r->us.begin(), r->us.end());
        std::printf("%-14s %8.2f %8.2f   %s\n", r->name, r->us.front(), r->us[r->us.size() / 2], r->what);
    }
}
