// Every standard container over tslab::allocator, and over tslab::memory_resource where there is std::pmr: in scopes,
// in domains that churn, in epochs that are closed; alignments, sizes 0 and huge, equality, exceptions out of elements.
#include "check.hpp"

#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <scoped_allocator>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

template <class T> using A = tslab::allocator<T>;
using text = std::basic_string<char, std::char_traits<char>, A<char>>;

static_assert(!std::is_default_constructible_v<A<int>>);
static_assert(std::is_nothrow_copy_constructible_v<A<int>> && std::is_convertible_v<A<int>, A<double>>);
static_assert(!std::allocator_traits<A<int>>::is_always_equal::value);

// ---- each container, by every way to give it an allocator -------------------------------------------------- of(): an
// allocator of that type.

template <template <class> class Alloc, class Of> static void fill_and_check(Of of) {
    const int count = 500;
    auto name = [](int i) { return "a name that is no short string: " + std::to_string(i); };
    using string = std::basic_string<char, std::char_traits<char>, Alloc<char>>;
    auto text_of = [&](int i) { return string(name(i).c_str(), of.template get<char>()); };

    std::vector<int, Alloc<int>> v(of.template get<int>());
    for (int i = 0; i < count; i++) v.push_back(i);
    v.insert(v.begin() + 10, 5000, -1);
    v.erase(v.begin() + 10, v.begin() + 5010);
    v.shrink_to_fit();
    CHECK(std::accumulate(v.begin(), v.end(), 0) == count * (count - 1) / 2);
    std::vector<int, Alloc<int>> copy(v, of.template get<int>()), moved(std::move(copy));
    CHECK(moved == v);
    copy = moved;
    moved = std::move(copy);
    CHECK(moved == v && moved.get_allocator() == v.get_allocator());

    std::vector<bool, Alloc<bool>> bits(of.template get<bool>());
    for (int i = 0; i < count; i++) bits.push_back(i % 3 == 0);
    CHECK(bits[333] && !bits[334]);

    std::deque<string, Alloc<string>> d(of.template get<string>());
    for (int i = 0; i < count; i++) i % 2 ? d.push_back(text_of(i)) : d.push_front(text_of(i));
    while (d.size() > 10) d.pop_front();
    CHECK(d.back() == text_of(count - 1));

    std::list<string, Alloc<string>> l(of.template get<string>());
    for (int i = 0; i < count; i++) l.push_back(text_of(i));
    l.reverse();
    l.sort();
    l.remove_if([](const string &s) { return s.back() != '7'; });
    std::list<string, Alloc<string>> other(of.template get<string>());
    other.splice(other.end(), l, l.begin(), std::next(l.begin(), 5));
    CHECK(other.size() == 5 && l.size() == count / 10 - 5);
    std::forward_list<int, Alloc<int>> f(v.begin(), v.end(), of.template get<int>());
    f.remove_if([](int i) { return i != 3; });
    CHECK(std::distance(f.begin(), f.end()) == 1);

    using pair = std::pair<const int, string>;
    std::map<int, string, std::less<int>, Alloc<pair>> m(of.template get<pair>());
    std::unordered_map<int, string, std::hash<int>, std::equal_to<int>, Alloc<pair>> u(of.template get<pair>());
    std::multimap<int, string, std::less<int>, Alloc<pair>> mm(of.template get<pair>());
    for (int i = 0; i < count; i++) {
        m.emplace(i, text_of(i));
        u.emplace(i, text_of(i));
        mm.emplace(i % 10, text_of(i));
    }
    for (int i = 0; i < count; i += 2) CHECK(m.erase(i) == 1 && u.erase(i) == 1);
    CHECK(m.size() == count / 2 && u.size() == count / 2 && mm.count(3) == count / 10);
    CHECK(m.at(77) == text_of(77) && u.at(77) == text_of(77));
    auto node = m.extract(77);
    node.key() = 76;
    m.insert(std::move(node));
    CHECK(m.count(77) == 0 && m.at(76) == text_of(77));
    m.swap(m);
    u.rehash(10000);

    std::set<string, std::less<string>, Alloc<string>> s(of.template get<string>());
    std::unordered_multiset<int, std::hash<int>, std::equal_to<int>, Alloc<int>> ms(of.template get<int>());
    for (int i = 0; i < count; i++) {
        s.insert(text_of(i % 100));
        ms.insert(i % 100);
    }
    CHECK(s.size() == 100 && ms.size() == count);

    auto shared = std::allocate_shared<string>(of.template get<string>(), text_of(1));
    std::weak_ptr<string> weak = shared;
    CHECK(*weak.lock() == text_of(1));
    shared.reset();
    CHECK(weak.expired());
}

struct from_domain {
    tslab::domain &d;
    tslab::reuse how;
    template <class T> A<T> get() { return A<T>(d, how); }
};

struct alignas(64) wide {
    char bytes[64];
};
struct alignas(8192) page {
    char bytes[8192];
};

static bool is_aligned(const void *p, std::size_t to) { return reinterpret_cast<std::uintptr_t>(p) % to == 0; }

static void test_allocator() {
    for (unsigned flags :
         {EPOCH_SCOPE, EPOCH_CHURN, EPOCH_SCOPE | EPOCH_DOMAIN_DRAIN, EPOCH_CHURN | EPOCH_DOMAIN_SHARED}) {
        for (auto how : {tslab::reuse::by_kind, tslab::reuse::always, tslab::reuse::never}) {
            tslab::domain d("containers", flags);
            fill_and_check<A>(from_domain{d, how});
            bool frees = how == tslab::reuse::always ||
                         (how == tslab::reuse::by_kind && (flags != EPOCH_SCOPE || TSLAB_HAS_ASAN));
            CHECK((live(d) == 0) == frees);
        }
    }

    tslab::domain d("one"), e("another");
    A<int> a(d), again(d), b(e);
    A<double> other(a);
    CHECK(a == again && !(a != again) && a != b && a == other && other != b);
    CHECK(A<int>(d.allocator(), d.epoch()) == a);
    std::vector<wide, A<wide>> w(3, wide(), A<wide>(d));
    std::vector<page, A<page>> p(2, page(), A<page>(d));
    CHECK(is_aligned(w.data(), 64) && is_aligned(p.data(), 8192));
    CHECK_THROWS(std::bad_array_new_length, (void)a.allocate(SIZE_MAX / 2));
    CHECK_THROWS(std::bad_alloc, (void)A<char>(d).allocate(SIZE_MAX / 2));
    int *nothing = a.allocate(0);
    CHECK(nothing && nothing != a.allocate(0));
    a.deallocate(nothing, 0);

    // A container stays in its domain.
    std::vector<text, A<text>> from(A<text>{d}), to(A<text>{e});
    from.emplace_back("moved to another domain, so it has to be copied, letter by letter", A<char>(d));
    to = std::move(from);
    CHECK(to.get_allocator() == A<text>(e) && slab_owns(e.allocator(), to.data()));
    std::vector<text, A<text>> copied(to);
    CHECK(copied.get_allocator() == A<text>(e) && copied == to);

    CHECK(epoch_domain_force_close(e.get()));
    CHECK_THROWS(std::bad_alloc, to.reserve(1000));
}

// A large block of a scope goes back when it is given back; a small one stays, and so does all of reuse::never.
static void test_scope_blocks() {
    tslab::domain d("scope");
    A<char> by_kind(d), always(d, tslab::reuse::always), never(d, tslab::reuse::never);
    char *large = by_kind.allocate(1 << 20), *small = by_kind.allocate(64);
    CHECK(live(d) == 2);
    by_kind.deallocate(large, 1 << 20);
    CHECK(live(d) == 1);
    by_kind.deallocate(small, 64);
    CHECK(live(d) == (TSLAB_HAS_ASAN ? 0 : 1));
    d.reset();
    always.deallocate(always.allocate(64), 64);
    CHECK(live(d) == 0);
    never.deallocate(never.allocate(1 << 20), 1 << 20);
    CHECK(live(d) == 1);
}

struct sometimes {
    static inline int left = 0;
    text name;
    explicit sometimes(tslab::domain &d) : name("a name that is long enough to need memory of its own", A<char>(d)) {
        if (left-- == 0) throw std::runtime_error("no more of them");
    }
};

static void test_exceptions() {
    tslab::domain d("exceptions", EPOCH_CHURN);
    for (int i = 0; i < 40; i++) {
        sometimes::left = i;
        std::list<sometimes, A<sometimes>> l(A<sometimes>{d});
        CHECK_THROWS(std::runtime_error, for (;;) l.emplace_back(d));
        CHECK(l.size() == static_cast<std::size_t>(i));
    }
    CHECK(live(d) == 0);
    CHECK(epoch_domain_set_limit(d.get(), 200000));
    std::vector<int, A<int>> v(A<int>{d});
    CHECK_THROWS(std::bad_alloc, for (;;) v.push_back(1));
    CHECK(v.size() >= 4096 && v.front() == 1 && v.back() == 1);
}

// An object of the domain that has containers of the same domain: its destructor runs while the memory is there.
struct session {
    std::map<int, text, std::less<int>, A<std::pair<const int, text>>> names;
    explicit session(tslab::domain &d) : names(A<std::pair<const int, text>>(d)) {
        for (int i = 0; i < 100; i++) names.emplace(i, text("a name of a session that lives in a domain", A<char>(d)));
    }
};

static void test_ends() {
    for (unsigned flags : {EPOCH_SCOPE, EPOCH_CHURN}) {
        tslab::domain d("session", flags);
        session *s = tslab::make<session>(d, d);
        CHECK(s->names.size() == 100);
        std::thread([moved = std::move(d)] {}).join(); // ends there
    }
    // A closed epoch drains by the frees of containers.
    SlabAllocator *allocator = slab_allocator_create();
    EpochId epoch = epoch_open(allocator, "drains", EPOCH_SCOPE);
    {
        std::vector<int, A<int>> v(100, 7, A<int>(allocator, epoch));
        CHECK(epoch_close(allocator, epoch) && epoch_state(allocator, epoch) == EPOCH_CLOSING && v[99] == 7);
    }
    CHECK(epoch_state(allocator, epoch) == EPOCH_CLOSED && misuses(allocator) == 0);
    slab_allocator_free(allocator);
}

#if TSLAB_HAS_PMR
template <class T> using P = std::pmr::polymorphic_allocator<T>;

struct from_resource {
    std::pmr::memory_resource *memory;
    template <class T> P<T> get() { return P<T>(memory); }
};

static void test_resource() {
    for (unsigned flags : {EPOCH_SCOPE, EPOCH_CHURN}) {
        for (auto how : {tslab::reuse::by_kind, tslab::reuse::always, tslab::reuse::never}) {
            tslab::domain d("pmr", flags);
            tslab::memory_resource memory(d, how);
            fill_and_check<P>(from_resource{&memory});
            std::pmr::monotonic_buffer_resource above(&memory); // as the resource of others
            std::pmr::unsynchronized_pool_resource pools(&memory);
            fill_and_check<P>(from_resource{&above});
            fill_and_check<P>(from_resource{&pools});
        }
    }
    tslab::domain d("pmr"), e("other");
    tslab::memory_resource memory(d), again(d), other(e), of_epoch(d.allocator(), d.epoch());
    const tslab::memory_resource copy(memory);
    std::pmr::memory_resource *base = &memory;
    CHECK(memory.is_equal(memory) && *base == *base && memory != other && memory != *std::pmr::new_delete_resource());
    CHECK(memory == again && memory == of_epoch && memory == copy);
    for (std::size_t alignment = 1; alignment <= 65536; alignment *= 2) {
        for (std::size_t bytes : {0u, 1u, 100u, 5000u, 100000u}) {
            void *p = memory.allocate(bytes, alignment);
            CHECK(p && is_aligned(p, alignment) && slab_owns(d.allocator(), p));
            memory.deallocate(p, bytes, alignment);
        }
    }
    volatile std::size_t huge = SIZE_MAX; // hidden from the compiler, which warns of it
    CHECK_THROWS(std::bad_alloc, (void)memory.allocate(huge));
    CHECK_THROWS(std::bad_alloc, (void)memory.allocate(huge - 100, 64));
    CHECK_THROWS(std::bad_alloc, (void)memory.allocate(std::size_t(1) << 62));
    volatile std::size_t no_alignment = 48;
    CHECK_THROWS(std::bad_alloc, (void)memory.allocate(1, no_alignment));

    // The resource names the epoch: the object of the domain may move, also to another thread.
    std::pmr::vector<std::pmr::string> words(&memory);
    tslab::domain moved(std::move(d));
    std::thread([&] {
        for (int i = 0; i < 100; i++) words.emplace_back("a word that is too long for a short string");
    }).join();
    CHECK(words.size() == 100 && words[99].get_allocator().resource() == &memory);
    words = std::pmr::vector<std::pmr::string>(&memory);
    CHECK(epoch_domain_force_close(moved.get()));
    CHECK_THROWS(std::bad_alloc, words.emplace_back("a word that is too long for a short string"));
}

// A type that takes an allocator behind its arguments, and one that takes it before them: containers hand theirs down.
struct customer {
    using allocator_type = P<char>;
    explicit customer(const allocator_type &a) : name(a), orders(a) {}
    customer(const char *named, const allocator_type &a) : name(named, a), orders(a) { add(3); }
    customer(const customer &other, const allocator_type &a) : name(other.name, a), orders(other.orders, a) {}
    customer(customer &&other, const allocator_type &a)
        : name(std::move(other.name), a), orders(std::move(other.orders), a) {}
    customer(customer &&) = default;
    customer &operator=(customer &&) = default;
    void add(int count) {
        for (int i = 0; i < count; i++) orders.emplace_back("an order that is no short string");
    }
    bool is_in(std::pmr::memory_resource *memory) const {
        for (const std::pmr::string &order : orders)
            if (order.get_allocator().resource() != memory) return false;
        return name.get_allocator().resource() == memory && orders.get_allocator().resource() == memory &&
               orders.size() >= 3;
    }
    std::pmr::string name;
    std::pmr::vector<std::pmr::string> orders;
};
struct tagged {
    using allocator_type = P<char>;
    tagged(std::allocator_arg_t, const allocator_type &a) : who("a customer who is tagged, in some words", a) {}
    customer who;
};

static void test_allocator_aware() {
    SlabAllocator *allocator = slab_allocator_create();
    {
        tslab::domain d(allocator, "aware"), e(allocator, "other");
        tslab::memory_resource memory(d), other(e);
        std::pmr::set_default_resource(std::pmr::null_memory_resource()); // nothing may come from elsewhere
        std::pmr::vector<customer> list(&memory);
        for (int i = 0; i < 100; i++)
            list.emplace_back("a customer with a name that is no short string"); // grows: moves them
        std::pmr::map<int, customer> by_number(&memory);
        by_number.try_emplace(1, "the first customer, by a number");
        by_number[2].add(3);
        std::pmr::list<std::pair<customer, tagged>> pairs(&memory);
        pairs.emplace_back(std::piecewise_construct, std::tuple<>(), std::tuple<>());
        pairs.front().first.add(3);
        for (const customer &one : list) CHECK(one.is_in(&memory) && slab_owns(allocator, one.name.data()));
        CHECK(by_number.at(1).is_in(&memory) && by_number.at(2).is_in(&memory));
        CHECK(pairs.front().first.is_in(&memory) && pairs.front().second.who.is_in(&memory));
        // Into another domain they are copied, also by a move; within one the memory changes hands.
        std::pmr::vector<customer> there(std::move(list), &other);
        CHECK(there.size() == 100 && there[99].is_in(&other));
        const std::pmr::string *before = there[99].orders.data();
        std::pmr::vector<customer> here(std::move(there), &other);
        CHECK(here[99].orders.data() == before);
        std::pmr::set_default_resource(nullptr);
        // Nested containers with the allocator as a part of the type.
        using string = text;
        using nested = std::vector<string, std::scoped_allocator_adaptor<A<string>>>;
        std::vector<nested, std::scoped_allocator_adaptor<A<nested>>> rows{A<nested>(d)};
        rows.emplace_back().emplace_back("a cell that is no short string, really");
        CHECK(rows[0].get_allocator() == A<string>(d) && rows[0][0].get_allocator() == A<char>(d));
        CHECK(live(d) > (TSLAB_HAS_ASAN ? 20 : 300) && live(e) > 300); // under ASan the moved-from object is freed
    }
    CHECK(misuses(allocator) == 0);
    slab_allocator_free(allocator);
}
#endif

int main() {
    test_allocator();
    test_scope_blocks();
    test_exceptions();
    test_ends();
#if TSLAB_HAS_PMR
    test_resource();
    test_allocator_aware();
    std::puts("standard containers over tslab::allocator and tslab::memory_resource");
#else
    std::puts("standard containers over tslab::allocator (this standard library has no std::pmr)");
#endif
}
