// Boost.Container and Boost.JSON in a domain: containers by tslab::allocator, documents by a resource of Boost's kind.
// Exit code 77: Boost, or its JSON (1.75), is not installed.
#include <tslab/tslab.hpp>

#include <cstdio>

#if TSLAB_HAS_PMR && __has_include(<boost/json/src.hpp>)
#include <boost/container/flat_map.hpp>
#include <boost/container/stable_vector.hpp>
#include <boost/container/string.hpp>
#include <boost/json/src.hpp> // instead of linking libboost_json

class boost_resource final : public boost::container::pmr::memory_resource {
  public:
    explicit boost_resource(tslab::domain &d) : memory_(d) {}

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override { return memory_.allocate(bytes, alignment); }
    void do_deallocate(void *p, std::size_t bytes, std::size_t alignment) override {
        memory_.deallocate(p, bytes, alignment);
    }
    bool do_is_equal(const boost::container::pmr::memory_resource &other) const noexcept override {
        return this == &other;
    }

    tslab::memory_resource memory_;
};

// The domain ends all at once: Boost need not walk a document to give it back.
namespace boost::json {
template <> struct is_deallocate_trivial<boost_resource> : std::true_type {};
} // namespace boost::json

static std::size_t answer(const char *request) {
    tslab::domain domain("request");
    boost_resource memory(domain);
    boost::json::value document = boost::json::parse(request, &memory);

    using string = boost::container::basic_string<char, std::char_traits<char>, tslab::allocator<char>>;
    using pair = std::pair<string, std::int64_t>;
    boost::container::flat_map<string, std::int64_t, std::less<string>, tslab::allocator<pair>> totals{
        tslab::allocator<pair>(domain)};
    boost::container::stable_vector<string, tslab::allocator<string>> names{tslab::allocator<string>(domain)};
    for (const boost::json::value &line : document.at("lines").as_array()) {
        names.emplace_back(line.at("name").as_string().c_str(), tslab::allocator<char>(domain));
        totals[names.back()] += line.at("count").as_int64();
    }
    bool inside =
        document.at("lines").at(0).storage().get() == &memory && slab_owns(domain.allocator(), &*totals.begin());
    return inside ? names.size() * 100 + static_cast<std::size_t>(totals.begin()->second) : 0;
}

int main() {
    const char *request = R"({"lines": [{"name": "a name that is no short string", "count": 1},
                                        {"name": "b, another long name here", "count": 7},
                                        {"name": "a name that is no short string", "count": 2}]})";
    std::printf("%zu\n", answer(request));
    return answer(request) == 303 ? 0 : 1;
}
#else
int main() {
    std::puts("left out: no Boost.JSON");
    return 77;
}
#endif
