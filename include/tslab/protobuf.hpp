/*
 * Arenas of protobuf (C++, 3.4 and later) whose blocks lie in a domain. Header only; needs protobuf's own headers.
 *
 *     tslab::domain request("request");
 *     auto *arena = tslab::make<tslab::protobuf_arena>(request, request);        // ends with the domain
 *     auto *message = google::protobuf::Arena::CreateMessage<Message>(arena->get());
 *
 * An arena may also be an object of a block, in which it ends before the domain does, as a container would.
 *
 * Its blocks are the domain's, from any thread, entered or not: statistics, limit and batch free include them. Its end
 * runs the destructors that protobuf has noted, so memory that a message holds elsewhere (the text of a long string)
 * goes too.
 *
 * protobuf gives its functions no pointer of their own, so each arena has one of 256 functions. The arenas beyond 256
 * at once take their blocks from operator new: in_domain() is false then.
 *
 * No memory, or the domain's limit is met: std::bad_alloc out of the call that needed a block, as with any arena.
 */
#ifndef TSLAB_PROTOBUF_HPP
#define TSLAB_PROTOBUF_HPP

#include <tslab/tslab.hpp>

#include <google/protobuf/arena.h>

#include <array>
#include <atomic>
#include <utility>

namespace tslab {

namespace detail {

inline constexpr std::size_t arena_places = 256;

/* Where the blocks of each place's arena come from. nullptr: the place is free. */
inline std::atomic<const source *> arena_sources[arena_places];

/* relaxed: a thread that uses the arena has synchronised with its constructor, which claimed the place. */
template <std::size_t Place> void *take_block(std::size_t bytes) {
    return arena_sources[Place].load(std::memory_order_relaxed)->take_or_fail(bytes, source::natural);
}
inline void give_block(void *block, std::size_t) { (void)slab_release(block); }

using block_taker = void *(*)(std::size_t);
template <std::size_t... Place>
constexpr std::array<block_taker, sizeof...(Place)> block_takers(std::index_sequence<Place...>) {
    return {{&take_block<Place>...}};
}
inline constexpr auto arena_takers = block_takers(std::make_index_sequence<arena_places>());

/* A place of its own, for as long as it lives. */
class arena_place {
  public:
    explicit arena_place(const source &from) noexcept : from_(from) {
        static std::atomic<std::size_t> next{0};
        std::size_t first = next.fetch_add(1, std::memory_order_relaxed);
        for (std::size_t i = 0; i < arena_places; i++) {
            const source *free = nullptr;
            place_ = (first + i) % arena_places;
            if (arena_sources[place_].compare_exchange_strong(free, &from_, std::memory_order_relaxed)) return;
        }
        place_ = arena_places;
    }
    arena_place(const arena_place &) = delete;
    arena_place &operator=(const arena_place &) = delete;
    ~arena_place() {
        if (is_claimed()) arena_sources[place_].store(nullptr, std::memory_order_relaxed);
    }
    bool is_claimed() const noexcept { return place_ < arena_places; }
    google::protobuf::ArenaOptions in(google::protobuf::ArenaOptions options) const noexcept {
        if (!is_claimed()) return options;
        options.block_alloc = arena_takers[place_];
        options.block_dealloc = &give_block;
        return options;
    }

  private:
    source from_;
    std::size_t place_;
};

} // namespace detail

/* Neither copied nor moved: messages know the address of their arena. */
class protobuf_arena {
  public:
    /* options: all but block_alloc and block_dealloc. Throws std::bad_alloc. */
    explicit protobuf_arena(domain &d, const google::protobuf::ArenaOptions &options = {})
        : place_({d.allocator(), d.epoch(), 0}), arena_(place_.in(options)) {}

    [[nodiscard]] google::protobuf::Arena *get() noexcept { return &arena_; }
    google::protobuf::Arena *operator->() noexcept { return &arena_; }
    google::protobuf::Arena &operator*() noexcept { return arena_; }
    [[nodiscard]] bool in_domain() const noexcept { return place_.is_claimed(); }

  private:
    detail::arena_place place_; /* before the arena, which gives its blocks back at its end */
    google::protobuf::Arena arena_;
};

} // namespace tslab

#endif
