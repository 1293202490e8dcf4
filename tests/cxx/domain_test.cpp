// Domains as objects: ends, moves, children, scopes, threads; objects with destructors; handles.
#include "check.hpp"

#include <atomic>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

static_assert(!std::is_copy_constructible_v<tslab::domain> && !std::is_copy_assignable_v<tslab::domain>);
static_assert(std::is_nothrow_move_constructible_v<tslab::domain> && std::is_nothrow_move_assignable_v<tslab::domain>);
static_assert(!std::is_copy_constructible_v<tslab::scope> && !std::is_move_constructible_v<tslab::scope>);
static_assert(std::is_trivially_copyable_v<tslab::handle<int>>);

static std::vector<int> ended; // the numbers of those whose destructors have run

struct noted {
    int number;
    explicit noted(int n) : number(n) {}
    ~noted() { ended.push_back(number); }
};

static bool exists(EpochDomain *d) { return epoch_domain_epoch(d) != EPOCH_NONE; }

static std::string label_of(const tslab::domain &d) {
    SlabEpochStats stats;
    CHECK(slab_stats_epoch(d.allocator(), SLAB_ALL_CLASSES, d.epoch(), &stats));
    return stats.label;
}

static void test_makes_and_ends() {
    EpochDomain *raw;
    {
        tslab::domain plain, labelled("request"), by_null(nullptr), churn(nullptr, EPOCH_CHURN);
        tslab::domain with_flags("with flags", EPOCH_SCOPE);
        static_assert(!std::is_convertible_v<const char *, tslab::domain> &&
                          !std::is_convertible_v<std::nullptr_t, tslab::domain> &&
                          !std::is_convertible_v<SlabAllocator *, tslab::domain>,
                      "no text and no pointer becomes a domain by itself");
        CHECK(plain && labelled && by_null && churn && with_flags);
        CHECK(plain.allocator() == slab_allocator_default());
        CHECK(label_of(labelled) == "request" && label_of(with_flags) == "with flags" && label_of(plain).empty());
        CHECK(plain.epoch() == epoch_domain_epoch(plain.get()));
        raw = labelled.get();
        CHECK(exists(raw));
    }
    CHECK(!exists(raw));
    CHECK_ERROR(EINVAL, tslab::domain("no such flag", 1u << 20));
    CHECK_ERROR(ENOTSUP, tslab::domain("no malloc library", EPOCH_DOMAIN_CAPTURE));

    SlabAllocator *own = slab_allocator_create();
    CHECK(own);
    tslab::domain d(own, "own"), of_default(static_cast<SlabAllocator *>(nullptr));
    CHECK(d.allocator() == own && of_default.allocator() == slab_allocator_default());
    CHECK(d.allocate(10) != nullptr && d.allocate(10, 4096) != nullptr && live(d) == 2);
    CHECK(d.allocate(10, 24) == nullptr && errno == EINVAL);
    CHECK(d.allocate(SIZE_MAX) == nullptr && errno == ENOMEM);
    slab_allocator_free(own); // the domain with it
    CHECK(!d && d.end());
    CHECK_ERROR(EINVAL, tslab::domain(own, "of an allocator that has ended"));
}

static void test_moves() {
    tslab::domain a("a"), b("b");
    EpochDomain *of_a = a.get(), *of_b = b.get();
    tslab::domain c(std::move(a));
    CHECK(!a && a.get() == nullptr && c.get() == of_a);
    c = std::move(b);
    CHECK(!exists(of_a) && c.get() == of_b && !b);
    tslab::domain &same = c;
    c = std::move(same);
    CHECK(c.get() == of_b && c);
    tslab::domain d;
    EpochDomain *of_d = d.get();
    d.swap(c);
    CHECK(c.get() == of_d && d.get() == of_b);
    // Out of one object into the C interface, and back.
    EpochDomain *released = d.release();
    CHECK(!d && exists(released));
    tslab::domain again = tslab::domain::adopt(released);
    CHECK(again.get() == of_b && again.end() && !exists(of_b) && again.end());
    std::vector<tslab::domain> many;
    for (int i = 0; i < 100; i++) many.emplace_back("many", EPOCH_CHURN);
    many.erase(many.begin(), many.begin() + 50);
    for (const auto &d2 : many) CHECK(d2);
}

static void test_children() {
    std::uint64_t before = misuses(slab_allocator_default());
    tslab::domain child(nullptr); // declared first: it goes last, when its parent is over
    {
        tslab::domain parent("parent");
        child = parent.child("child");
        CHECK(epoch_domain_parent(child.get()) == parent.get() && label_of(child) == "child");
        tslab::domain grandchild = child.child();
        CHECK(tslab::make<noted>(grandchild, 1) && tslab::make<noted>(parent, 3) && tslab::make<noted>(child, 2));
        ended.clear();
        (void)grandchild.release();
    }
    CHECK((ended == std::vector<int>{1, 2, 3}));
    CHECK(!child);
    child.end();
    CHECK(misuses(slab_allocator_default()) == before);

    tslab::domain closed("closed");
    CHECK(epoch_domain_force_close(closed.get()));
    CHECK_ERROR(ESTALE, (void)closed.child());
    CHECK_ERROR(ESTALE, tslab::scope inside(closed));
}

static void test_scopes() {
    tslab::domain outer("outer"), inner("inner");
    CHECK(epoch_domain_current() == nullptr);
    {
        tslab::scope in(outer);
        void *p = slab_alloc(10);
        CHECK(slab_owns(outer.allocator(), p) && live(outer) == 1);
        {
            auto in_too = inner.enter();
            CHECK(epoch_domain_current() == inner.get() && in_too);
            tslab::domain moved(std::move(inner)); // the scope is the domain's, not the object's
            CHECK(slab_alloc(10) != nullptr && live(moved) == 1);
            inner = std::move(moved);
        }
        CHECK(epoch_domain_current() == outer.get());
    }
    CHECK(epoch_domain_current() == nullptr);
    try {
        tslab::scope in(outer);
        throw 1;
    } catch (int) {
    }
    CHECK(epoch_domain_current() == nullptr);
    { // a domain that ends inside of its scope is left
        tslab::scope in(outer);
        CHECK(outer.end() && epoch_domain_current() == nullptr);
    }
    CHECK_ERROR(EINVAL, tslab::scope in(outer));
}

struct throws {
    std::string text = "a text that needs memory of its own, as it is long";
    throws(tslab::domain &d, bool really) {
        CHECK(tslab::make<noted>(d, 7));
        if (really) throw 42;
    }
};
struct pair_of {
    int a, b;
};
struct alignas(256) wide {
    char byte = 1;
    ~wide() { byte = 0; }
};

static void test_objects() {
    ended.clear();
    {
        tslab::domain d("objects");
        noted *first = tslab::make<noted>(d, 1);
        const noted *second = tslab::make<const noted>(d, 2);
        noted *third = tslab::make<noted>(d, 3);
        CHECK(first->number == 1 && second->number == 2 && third->number == 3);
        CHECK(tslab::destroy(d, second) && (ended == std::vector<int>{2}));
        CHECK(!tslab::destroy(d, second) && errno == ENOENT);
        CHECK(tslab::destroy(d, static_cast<noted *>(nullptr)));
        pair_of *pair = tslab::make<pair_of>(d, 4, 5);
        CHECK(pair->a == 4 && pair->b == 5 && *tslab::make<int>(d) == 0);
        CHECK(tslab::destroy(d, pair) && !tslab::destroy(d, pair));
        for (int i = 0; i < 20; i++) CHECK(reinterpret_cast<std::uintptr_t>(tslab::make<wide>(d)) % 256 == 0);
        ended.clear();
    }
    CHECK((ended == std::vector<int>{3, 1}));

    tslab::domain d("throws");
    ended.clear();
    CHECK_THROWS(int, (void)tslab::make<throws>(d, d, true));
    CHECK(live(d) == 1); // memory of the constructor itself
    throws *kept = tslab::make<throws>(d, d, false);
    CHECK(kept->text.size() > 16 && ended.empty());
    d.reset();
    CHECK(live(d) == 0 && (ended == std::vector<int>{7, 7}));
    CHECK(tslab::make<noted>(d, 8));
    CHECK(d.end() && ended.size() == 3);
    CHECK_THROWS(std::system_error, (void)tslab::make<noted>(d, 9));
    CHECK(ended.size() == 3);

    // No memory: neither for the object nor for the record of its destructor.
    SlabAllocator *small = slab_allocator_create();
    CHECK(slab_set_budget(small, 64 * 1024));
    {
        tslab::domain full(small);
        struct big {
            char bytes[40000];
        };
        CHECK(tslab::make<big>(full));
        CHECK_THROWS(std::bad_alloc, (void)tslab::make<big>(full));
    }
    slab_allocator_free(small);
}

static void test_handles() {
    using tslab::handle;
    SlabAllocator *allocator = slab_allocator_default();
    handle<int> none, null(nullptr);
    CHECK(!none && none.get() == nullptr && none == null && none.id() == SLAB_HANDLE_NONE);
    int local = 0;
    CHECK(!handle<int>(allocator, &local) && !handle<int>(allocator, static_cast<int *>(nullptr)));
    handle<int> h;
    {
        tslab::domain d("handles", EPOCH_CHURN);
        int *p = tslab::make<int>(d, 5);
        h = {d, p};
        CHECK(h && h.get() == p && *h == 5 && h.allocator() == allocator);
        handle<int> copy = h;
        CHECK(copy == h && !(copy != h) && !(copy < h) && handle<int>(allocator, h.id()) == h);
        CHECK(h.free() && !h && !copy && !h.free() && live(d) == 0);
        int *next = tslab::make<int>(d, 6); // most likely at the same place
        CHECK(!h && h != handle<int>(d, next));
        h = handle<int>(d, next);
        handle<const std::string> text(d, tslab::make<const std::string>(d, "text"));
        CHECK(text->size() == 4 && tslab::destroy(d, text.get()) && !text);
        std::unordered_set<handle<int>> set{h, copy, h};
        CHECK(set.size() == 2 && set.count(h) == 1);
    }
    CHECK(!h && h.get() == nullptr);
    h.reset();
    CHECK(h == none);
}

// A domain is made here and ends there: with objects, entered or not, after its thread has ended, in a closure.
static void test_threads() {
    std::uint64_t before = misuses(slab_allocator_default());
    ended.clear();
    {
        tslab::domain d("moves");
        CHECK(tslab::make<noted>(d, 1));
        std::thread([moved = std::move(d)] { CHECK(moved); }).join();
        CHECK((ended == std::vector<int>{1}));
    }
    tslab::domain from_thread(nullptr);
    EpochDomain *first = from_thread.get();
    std::thread([&] {
        tslab::domain made("of a thread that ends");
        tslab::scope in(made);
        CHECK(slab_alloc(100) && tslab::make<noted>(made, 2));
        from_thread = std::move(made);
    }).join();
    CHECK(!exists(first) && from_thread && live(from_thread) == 2);
    CHECK_ERROR(EPERM, tslab::scope in(from_thread)); // another thread's
    CHECK(from_thread.allocate(10) != nullptr);       // which matters to scopes and cleanups alone
    CHECK_ERROR(EPERM, (void)tslab::make<noted>(from_thread, 3));
    CHECK(ended.back() == 3 && live(from_thread) == 3); // and the built object is gone
    CHECK(from_thread.end() && ended.back() == 2);

    tslab::domain used("handed over");
    used.hand_over();
    std::thread([&] {
        tslab::scope in(used);
        CHECK(slab_alloc(100) && tslab::make<noted>(used, 4));
    }).join();
    used.end();
    CHECK(ended.back() == 4);
    {
        tslab::domain d("entered");
        tslab::scope in(d);
        CHECK_ERROR(EPERM, d.hand_over());
    }

    // Another thread is inside: the end says no, and the owner goes on.
    tslab::domain busy("busy");
    tslab::scope *in = new tslab::scope(busy);
    std::thread([&] { CHECK(!busy.end() && errno == EBUSY && busy); }).join();
    delete in;
    CHECK(busy.end());

    // Not a shared one: a thread inside gets nothing more.
    tslab::domain shared("shared", EPOCH_DOMAIN_SHARED);
    std::atomic<int> step{0};
    std::thread other([&] {
        tslab::scope inside(shared);
        CHECK(slab_alloc(10));
        step = 1;
        while (step != 2) std::this_thread::yield();
        CHECK(slab_alloc(10) == nullptr && errno == ESTALE);
    });
    while (step != 1) std::this_thread::yield();
    CHECK(tslab::make<noted>(shared, 5) && shared.child());
    CHECK(shared.end() && ended.back() == 5);
    step = 2;
    other.join();
    CHECK(misuses(slab_allocator_default()) == before);
}

// Ends from a cleanup of its own, and by a destructor that may not.
static void test_ends_in_cleanup() {
    static tslab::domain *ending;
    tslab::domain d("ends itself");
    ending = &d;
    CHECK(epoch_domain_on_destroy(
        d.get(), [](void *) { CHECK(!ending->end() && errno == EPERM); }, nullptr));
    CHECK(d.end());

    static std::string said;
    slab_set_message_sink([](const char *line, size_t bytes, void *) { said.assign(line, bytes); }, nullptr);
    {
        tslab::domain kept("kept");
        EpochDomain *raw = kept.get();
        tslab::scope in(kept);
        std::thread([moved = std::move(kept)] { CHECK(moved); }).join();
        CHECK(exists(raw) &&
              said == "tslab: a tslab::domain goes, and what it owns stays: another thread is inside of it\n");
        CHECK(epoch_domain_end(raw));
    }
    slab_set_message_sink(nullptr, nullptr);
}

// An exception that leaves a cleanup is the program's; the domain can still be ended, from where it is caught or later.
static void test_cleanup_throws() {
    static unsigned lines, cleaned;
    lines = cleaned = 0;
    slab_set_message_sink(
        [](const char *line, size_t, void *) { lines += std::strstr(line, "did not return") != nullptr; }, nullptr);
    for (int ends_in_handler = 0; ends_in_handler < 2; ends_in_handler++) {
        EpochDomain *left = epoch_domain_create(slab_allocator_default());
        CHECK(epoch_domain_on_destroy(
            left, [](void *) { cleaned++; }, nullptr));
        CHECK(epoch_domain_on_destroy(
            left, [](void *) { throw 42; }, nullptr));
        try {
            epoch_domain_destroy(left);
            CHECK(false);
        } catch (int n) {
            CHECK(n == 42 && exists(left));
            if (ends_in_handler) epoch_domain_destroy(left);
        }
        tslab::domain other("other");
        CHECK(other.end());
        if (!ends_in_handler) CHECK(epoch_domain_end(left));
        CHECK(!exists(left));
    }
    CHECK(cleaned == 2);
    CHECK(lines == 0 || lines == 2); // TSLAB_ON_MISUSE says
    slab_set_message_sink(nullptr, nullptr);
}

int main() {
    test_makes_and_ends();
    test_moves();
    test_children();
    test_scopes();
    test_objects();
    test_handles();
    test_threads();
    test_ends_in_cleanup();
    test_cleanup_throws();
    std::puts("domains, scopes, objects, handles and threads of tslab.hpp");
}
