/*
 * temporal-slab for C++17 and later: lifetimes as objects, and memory for standard containers. Header only, over the C
 * interface.
 *
 *     tslab::domain request("request");                     // a lifetime: ends with this object, wherever that is
 *     tslab::memory_resource memory(request);               // std::pmr
 *     std::pmr::vector<std::pmr::string> words(&memory);
 *     tslab::allocator<int> ints(request);                  // without a virtual call
 *     auto *session = tslab::make<Session>(request, 42);    // ~Session runs when the domain ends
 *     tslab::handle<Session> h(request, session);           // knows for ever whether the session is still there
 *
 * Errors are exceptions: std::bad_alloc where there is no memory, and for a container also where its domain is closed
 * or has ended; std::system_error with the errno of the C call elsewhere. Without exceptions (-fno-exceptions) an
 * object that cannot be made is empty and tests as false, make() returns nullptr, and an allocation that fails says so
 * and aborts, as there is no other way to tell a container.
 *
 * All parts of a program are compiled with exceptions, or none.
 *
 * Threads: as tslab.h says of the C functions. docs/cxx.md has recipes, costs and the rules of lifetimes.
 */
#ifndef TSLAB_TSLAB_HPP
#define TSLAB_TSLAB_HPP

#if !(__cplusplus >= 201703L || (defined(_MSVC_LANG) && _MSVC_LANG >= 201703L))
#error "tslab/tslab.hpp needs C++17: compile with -std=c++17 or later"
#else

#include <tslab/tslab.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>

/* tslab::memory_resource is there where the standard library has std::pmr: libstdc++ 9, libc++ 16 and newer. */
#if __has_include(<memory_resource>)
#include <memory_resource>
#if defined(__cpp_lib_memory_resource) || defined(_LIBCPP_VERSION)
#define TSLAB_HAS_PMR 1
#endif
#endif
#ifndef TSLAB_HAS_PMR
#define TSLAB_HAS_PMR 0
#endif

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define TSLAB_HAS_EXCEPTIONS 1
#else
#define TSLAB_HAS_EXCEPTIONS 0
#endif

/* Under AddressSanitizer every block is freed that a container gives back: so the tool sees every later use. */
#if defined(__SANITIZE_ADDRESS__)
#define TSLAB_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TSLAB_HAS_ASAN 1
#endif
#endif
#ifndef TSLAB_HAS_ASAN
#define TSLAB_HAS_ASAN 0
#endif

namespace tslab {

/* The treatment, by a memory resource or an allocator, of a block that a container gives back before the domain
   ends. */
enum class reuse : unsigned char {
    by_kind, /* always in domains with EPOCH_CHURN or EPOCH_DOMAIN_DRAIN; in other scopes, blocks that are large */
    always,  /* it is freed: in a scope its memory is used again when all of its slab is free, 16 KiB */
    never,   /* it stays until the domain ends */
};

/* From this many bytes on, a block of a scope is worth a free: it is a quarter of its slab, or more. */
inline constexpr std::size_t large_block_bytes = 4096;

namespace detail {

/* Of a call that has set errno. Memory: an allocation, whose failure is bad_alloc for any reason. */
[[noreturn]] inline void fail(const char *call, bool memory) {
    int error = errno;
#if TSLAB_HAS_EXCEPTIONS
    if (memory || error == ENOMEM) throw std::bad_alloc();
    throw std::system_error(error, std::generic_category(), call);
#else
    (void)error;
    (void)memory;
    slab_message(call);
    std::abort();
#endif
}

/* As fail, where an empty object is an answer. */
inline void fail_or_empty(const char *call) {
#if TSLAB_HAS_EXCEPTIONS
    fail(call, false);
#else
    (void)call;
#endif
}

/* Where blocks come from, and the fate of those that come back. */
struct source {
    SlabAllocator *allocator;
    EpochId epoch;
    std::size_t free_from; /* bytes: smaller blocks stay until the epoch ends */

    static constexpr std::size_t natural = 16; /* alignment of every object */

    void *take(std::size_t bytes, std::size_t alignment) const noexcept {
        if (alignment <= natural) return slab_malloc_epoch(allocator, bytes, epoch);
        return slab_aligned_epoch(allocator, alignment, bytes, epoch);
    }
    void *take_or_fail(std::size_t bytes, std::size_t alignment) const {
        void *p = take(bytes, alignment);
        if (p == nullptr) fail("tslab: an allocation of a container failed", true);
        return p;
    }
    void give(void *p, std::size_t bytes) const noexcept {
        if (bytes >= free_from) (void)slab_free(allocator, p);
    }
    bool same(const source &other) const noexcept { return allocator == other.allocator && epoch == other.epoch; }
};

/* The free_from of a domain that keeps blocks, or not. */
constexpr std::size_t free_from(reuse how, bool keeps_blocks) noexcept {
    if (how == reuse::never) return std::numeric_limits<std::size_t>::max();
    return how == reuse::by_kind && keeps_blocks && TSLAB_HAS_ASAN == 0 ? large_block_bytes : 0;
}

/* No larger than an object can be, or the subtraction of two pointers into it is none of a ptrdiff_t. */
inline constexpr std::size_t most_bytes = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());

template <class T> void end_object(void *object) noexcept { static_cast<T *>(object)->~T(); }

/* Each shared object may have an end_object<T> of its own. So an object of make() has behind it which one ends it. */
using ender = void (*)(void *);
template <class T>
inline constexpr std::size_t ender_at = (sizeof(T) + sizeof(ender) - 1) / sizeof(ender) * sizeof(ender);
template <class T>
inline constexpr std::size_t made_bytes = std::is_trivially_destructible_v<T> ? sizeof(T) : ender_at<T> + sizeof(ender);

/* Takes the cleanup of make() back. false with errno. */
template <class T> bool forget_end(EpochDomain *domain, SlabAllocator *allocator, T *object) noexcept {
    if (epoch_domain_off_destroy(domain, &end_object<T>, object)) return true;
    if (errno != ENOENT || slab_usable_size(allocator, object) < made_bytes<T>) return false;
    ender other;
    std::memcpy(&other, reinterpret_cast<const char *>(object) + ender_at<T>, sizeof other);
    return epoch_domain_off_destroy(domain, other, object);
}

} // namespace detail

class scope;

/*
 * A domain, owned: it ends with this object, from whichever thread. Move only. Objects made with make() get their
 * destructors then, newest first, and all memory of the domain goes back in one step.
 *
 * A parent that ends takes its children with it; the `domain` object of a child then ends nothing.
 */
class domain {
  public:
    /* In the default allocator. flags: EPOCH_SCOPE (default) or EPOCH_CHURN, EPOCH_DOMAIN_SHARED, EPOCH_DOMAIN_DRAIN,
       EPOCH_DOMAIN_CAPTURE. Throws std::bad_alloc; std::system_error: EINVAL, or ENOTSUP (a capture without
       libtslab-malloc). */
    domain() : domain(nullptr) {}
    explicit domain(const char *label, unsigned flags = 0)
        : domain(static_cast<SlabAllocator *>(nullptr), label, flags) {}
    explicit domain(std::nullptr_t, unsigned flags = 0)
        : domain(static_cast<SlabAllocator *>(nullptr), nullptr, flags) {}
    /* In the given one; nullptr: the default. */
    explicit domain(SlabAllocator *allocator, const char *label = nullptr, unsigned flags = 0)
        : domain(label != nullptr || flags != 0 ? epoch_domain_create_ex(allocator, label, flags)
                                                : epoch_domain_create(allocator),
                 flags) {
        if (domain_ == nullptr) detail::fail_or_empty("tslab::domain");
    }
    /* Takes over a domain of the C interface. flags: those that it was made with. */
    static domain adopt(EpochDomain *made, unsigned flags = EPOCH_CHURN) noexcept { return domain(made, flags); }

    domain(domain &&other) noexcept
        : domain_(std::exchange(other.domain_, nullptr)), allocator_(std::exchange(other.allocator_, nullptr)),
          epoch_(std::exchange(other.epoch_, EPOCH_NONE)), flags_(other.flags_) {}
    domain &operator=(domain &&other) noexcept {
        if (this != &other) {
            domain before(std::move(*this));
            domain_ = std::exchange(other.domain_, nullptr);
            allocator_ = std::exchange(other.allocator_, nullptr);
            epoch_ = std::exchange(other.epoch_, EPOCH_NONE);
            flags_ = other.flags_;
        }
        return *this;
    }
    domain(const domain &) = delete;
    domain &operator=(const domain &) = delete;
    ~domain() {
        if (!end()) slab_message("tslab: a tslab::domain goes, and what it owns stays: another thread is inside of it");
    }

    /* A domain that ends with this one at the latest. Of one thread, or both shared. Throws as the constructor, and
       std::system_error: EPERM another thread's domain, ESTALE this one is closed. */
    domain child(const char *label = nullptr, unsigned flags = 0) {
        domain made(epoch_domain_create_child(domain_, label, flags), flags | (flags_ & EPOCH_DOMAIN_SHARED));
        if (made.domain_ == nullptr) detail::fail_or_empty("tslab::domain::child");
        return made;
    }

    /* Ends it now: destructors and cleanups newest first, then all memory at once. false, and it goes on: another
       thread is inside of it (EBUSY), or one of its own cleanups calls (EPERM). A shared one ends also while others are
       inside; they then get nothing more from it. */
    bool end() noexcept {
        if (domain_ == nullptr) return true;
        /* Over with its parent or its allocator: nothing is left to do, and that is no misuse. */
        if (epoch_domain_epoch(domain_) != EPOCH_NONE && !epoch_domain_end(domain_) && !end_though_others_are_inside())
            return false;
        forget();
        return true;
    }
    /* Empties it: as end(), but it can be used on. At most keep_bytes stay retained. Throws std::system_error. */
    void reset(std::size_t keep_bytes = std::numeric_limits<std::size_t>::max()) {
        if (!epoch_domain_reset(domain_, keep_bytes)) detail::fail("tslab::domain::reset", false);
    }
    /* Gives it up, so that the next thread that enters it owns it; this one must have left it. Only that a domain is
       used elsewhere needs this, not that it ends there. Throws std::system_error: EPERM. */
    void hand_over() {
        if (!epoch_domain_hand_over(domain_)) detail::fail("tslab::domain::hand_over", false);
    }
    /* Enters it, until the scope ends: slab_alloc() and its family then allocate here. */
    [[nodiscard]] scope enter();

    /* An object of the domain, from any thread. nullptr with errno: ENOMEM, ESTALE it is closed, EINVAL an alignment
       that is no power of two. */
    [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment = detail::source::natural) const noexcept {
        return detail::source{allocator_, epoch_, 0}.take(bytes, alignment);
    }

    EpochDomain *get() const noexcept { return domain_; }
    SlabAllocator *allocator() const noexcept { return allocator_; }
    EpochId epoch() const noexcept { return epoch_; }
    /* Whether it has a domain that has not ended: by itself, with its parent or its allocator. */
    explicit operator bool() const noexcept { return domain_ != nullptr && epoch_domain_epoch(domain_) != EPOCH_NONE; }
    /* The domain of the C interface, which the caller ends. */
    [[nodiscard]] EpochDomain *release() noexcept {
        EpochDomain *released = domain_;
        forget();
        return released;
    }
    void swap(domain &other) noexcept { std::swap(*this, other); }

  private:
    friend class memory_resource;
    template <class T> friend class allocator;

    domain(EpochDomain *made, unsigned flags) noexcept
        : domain_(made), allocator_(made != nullptr ? epoch_domain_allocator(made) : nullptr),
          epoch_(made != nullptr ? epoch_domain_epoch(made) : EPOCH_NONE), flags_(flags) {}

    /* Whether small blocks may stay until its end. In one that churns their places are used again; one that drains has
       to see each block come back. */
    bool keeps_blocks() const noexcept {
        bool churns =
            (flags_ & EPOCH_CHURN) != 0 || (flags_ & (EPOCH_DOMAIN_CAPTURE | EPOCH_SCOPE)) == EPOCH_DOMAIN_CAPTURE;
        return !churns && (flags_ & EPOCH_DOMAIN_DRAIN) == 0;
    }
    detail::source source(reuse how) const noexcept {
        return {allocator_, epoch_, detail::free_from(how, keeps_blocks())};
    }

    /* Of a shared domain: for them it is closed then. */
    bool end_though_others_are_inside() noexcept {
        if (errno != EBUSY || (flags_ & EPOCH_DOMAIN_SHARED) == 0) return false;
        epoch_domain_destroy(domain_);
        return epoch_domain_epoch(domain_) == EPOCH_NONE;
    }
    void forget() noexcept {
        domain_ = nullptr;
        allocator_ = nullptr;
        epoch_ = EPOCH_NONE;
    }

    EpochDomain *domain_;
    SlabAllocator *allocator_;
    EpochId epoch_;
    unsigned flags_;
};

/*
 * Inside of a domain, from here to the end of the block. Scopes of a thread end last in, first out, as blocks do.
 * Throws std::system_error: EPERM another thread's domain, ESTALE it is closed, EINVAL it has ended; std::bad_alloc.
 */
class [[nodiscard]] scope {
  public:
    explicit scope(domain &d) : scope(d.get()) {}
    explicit scope(EpochDomain *d) : domain_(epoch_domain_enter(d) ? d : nullptr) {
        if (domain_ == nullptr) detail::fail_or_empty("tslab::scope");
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
    ~scope() {
        /* One that has ended meanwhile was left then. */
        if (domain_ != nullptr && epoch_domain_current() == domain_) (void)epoch_domain_exit(domain_);
    }
    explicit operator bool() const noexcept { return domain_ != nullptr; }

  private:
    EpochDomain *domain_;
};

inline scope domain::enter() { return scope(*this); }

#if TSLAB_HAS_PMR
/*
 * Memory of a domain or an epoch for std::pmr. Any thread may use it, entered or not. A value: it names the epoch, so
 * it stays good when the `domain` object moves. It must outlive its containers, and they must be gone before the domain
 * ends, or be made in it with make(). Blocks of a domain that has ended are stale; giving one back is misuse, as with
 * slab_free().
 *
 * Two resources are equal if they are of the same allocator and epoch (without RTTI: if they are one object).
 */
class memory_resource final : public std::pmr::memory_resource {
  public:
    explicit memory_resource(domain &d, reuse how = reuse::by_kind) noexcept : source_(d.source(how)) {}
    /* An epoch may be closed instead of destroyed, and drains then: so blocks are freed unless `how` says never. */
    memory_resource(SlabAllocator *allocator, EpochId epoch, reuse how = reuse::always) noexcept
        : source_{allocator, epoch, detail::free_from(how, false)} {}
    memory_resource(const memory_resource &) noexcept = default;
    memory_resource &operator=(const memory_resource &) = delete;

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        return source_.take_or_fail(bytes, alignment);
    }
    void do_deallocate(void *p, std::size_t bytes, std::size_t) override { source_.give(p, bytes); }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#if defined(__cpp_rtti) || defined(__GXX_RTTI)
        const auto *same = dynamic_cast<const memory_resource *>(&other);
        return same != nullptr && source_.same(same->source_);
#else
        return this == &other;
#endif
    }

    detail::source source_;
};
#endif

/*
 * An allocator, for containers by its type: no virtual call. Stateful; there is no default one. A container stays in
 * its domain: assignment and swap do not change it, and a copy is made in the domain of its source. Containers that are
 * swapped must be of one domain.
 */
template <class T> class allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;
    using is_always_equal = std::false_type;

    allocator(domain &d, reuse how = reuse::by_kind) noexcept : source_(d.source(how)) {}
    allocator(SlabAllocator *a, EpochId epoch, reuse how = reuse::always) noexcept
        : source_{a, epoch, detail::free_from(how, false)} {}
    allocator(const allocator &) noexcept = default;
    allocator &operator=(const allocator &) noexcept = default;
    template <class U> allocator(const allocator<U> &other) noexcept : source_(other.source_) {}

    [[nodiscard]] T *allocate(std::size_t n) {
        if (n > detail::most_bytes / sizeof(T)) overflow();
        return static_cast<T *>(source_.take_or_fail(n * sizeof(T), alignof(T)));
    }
    void deallocate(T *p, std::size_t n) noexcept { source_.give(p, n * sizeof(T)); }

    template <class U> bool operator==(const allocator<U> &other) const noexcept { return source_.same(other.source_); }
    template <class U> bool operator!=(const allocator<U> &other) const noexcept { return !(*this == other); }

  private:
    template <class U> friend class allocator;
    [[noreturn]] static void overflow() {
#if TSLAB_HAS_EXCEPTIONS
        throw std::bad_array_new_length();
#else
        errno = ENOMEM;
        detail::fail("tslab: an allocation of a container failed", true);
#endif
    }

    detail::source source_;
};

/*
 * An object of the domain. Its destructor runs when the domain ends or is reset, newest first, unless it is trivial; or
 * in destroy(). A constructor that throws leaves nothing behind. Only by the domain's thread, unless it is shared or
 * the destructor is trivial. Throws the constructor's exceptions, std::bad_alloc, and std::system_error: EPERM. Cost:
 * an allocation; with a destructor also 40 bytes and some 300 instructions, its call included.
 */
template <class T, class... Args> [[nodiscard]] T *make(domain &d, Args &&...args) {
    static_assert(std::is_object_v<T> && !std::is_array_v<T>, "tslab::make makes one object; containers make many");
    struct guard { /* frees the memory unless all is well */
        SlabAllocator *allocator;
        void *memory;
        bool is_built;
        ~guard() {
            if (memory == nullptr) return;
            if constexpr (!std::is_trivially_destructible_v<T>) {
                if (is_built) static_cast<T *>(memory)->~T();
            }
            (void)slab_free(allocator, memory);
        }
    } held{d.allocator(), d.allocate(detail::made_bytes<T>, alignof(T)), false};
    if (held.memory == nullptr) {
        detail::fail_or_empty("tslab::make");
        return nullptr;
    }
    T *made;
    if constexpr (std::is_constructible_v<T, Args...>)
        made = ::new (held.memory) T(std::forward<Args>(args)...);
    else
        made = ::new (held.memory) T{std::forward<Args>(args)...};
    held.is_built = true;
    if constexpr (!std::is_trivially_destructible_v<T>) {
        const detail::ender end = &detail::end_object<std::remove_cv_t<T>>;
        std::memcpy(static_cast<char *>(held.memory) + detail::ender_at<T>, &end, sizeof end);
        if (!epoch_domain_on_destroy(d.get(), end, held.memory)) {
            detail::fail_or_empty("tslab::make");
            return nullptr;
        }
    }
    held.memory = nullptr;
    return made;
}

/* Ends an object that make() made in the domain, also in another shared object of the program, before the domain does:
   destructor, then memory. nullptr: nothing. false with errno: ENOENT it is none of them, or its destructor has run;
   EPERM another thread's domain; EINVAL no live object. Nothing happens then. */
template <class T> bool destroy(domain &d, T *object) noexcept {
    if (object == nullptr) return true;
    using plain = std::remove_cv_t<T>;
    plain *memory = const_cast<plain *>(object);
    if constexpr (!std::is_trivially_destructible_v<T>) {
        if (!detail::forget_end(d.get(), d.allocator(), memory)) return false;
        object->~T();
    }
    return slab_free(d.allocator(), memory);
}

/*
 * Names one object for ever. get() is the object while it lives, nullptr from the instant at which it is freed or its
 * domain ends: also when its place is another object's. A value: copy, store and compare it; any thread may ask. T is
 * the object's own type, not a base class that lies elsewhere in it.
 */
template <class T> class handle {
  public:
    using element_type = T;

    constexpr handle() noexcept = default;
    constexpr handle(std::nullptr_t) noexcept {}
    /* Of a live object of that allocator; of anything else it is empty. */
    handle(SlabAllocator *allocator, T *object) noexcept
        : allocator_(allocator), id_(object != nullptr ? slab_handle_of(allocator, object) : SLAB_HANDLE_NONE) {}
    handle(const domain &d, T *object) noexcept : handle(d.allocator(), object) {}
    /* One of the C interface. */
    constexpr handle(SlabAllocator *allocator, SlabHandle id) noexcept : allocator_(allocator), id_(id) {}

    [[nodiscard]] T *get() const noexcept {
        return id_ != SLAB_HANDLE_NONE ? static_cast<T *>(slab_handle_get(allocator_, id_)) : nullptr;
    }
    /* Only where get() is known not to be nullptr. */
    T &operator*() const noexcept { return *get(); }
    T *operator->() const noexcept { return get(); }
    explicit operator bool() const noexcept { return get() != nullptr; }
    constexpr SlabHandle id() const noexcept { return id_; }
    constexpr SlabAllocator *allocator() const noexcept { return allocator_; }
    /* Frees the object, checked as free_obj(). Objects with a destructor end by destroy(), which runs it. */
    bool free() const noexcept {
        static_assert(std::is_trivially_destructible_v<T>,
                      "tslab::destroy(domain, handle.get()) runs the destructor, too");
        return id_ != SLAB_HANDLE_NONE && free_obj(allocator_, id_);
    }
    void reset() noexcept { *this = handle(); }

    /* Handles are unique in the process. */
    friend constexpr bool operator==(const handle &a, const handle &b) noexcept { return a.id_ == b.id_; }
    friend constexpr bool operator!=(const handle &a, const handle &b) noexcept { return a.id_ != b.id_; }
    friend constexpr bool operator<(const handle &a, const handle &b) noexcept { return a.id_ < b.id_; }

  private:
    SlabAllocator *allocator_ = nullptr;
    SlabHandle id_ = SLAB_HANDLE_NONE;
};

} // namespace tslab

template <class T> struct std::hash<tslab::handle<T>> {
    std::size_t operator()(const tslab::handle<T> &h) const noexcept { return std::hash<SlabHandle>()(h.id()); }
};

#endif /* C++17 */

#endif
