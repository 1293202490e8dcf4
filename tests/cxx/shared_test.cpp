// Objects that one shared object makes and another destroys. Both are built with hidden visibility, so each has its own
// copy of every template's function.
#include "shared_objects.hpp"

#include "check.hpp"

#include <cstring>

int main() {
    int ended = 0;
    tslab::domain d("shared");
    CHECK(end_in_library() != &tslab::detail::end_object<counted>);

    counted *theirs = made_in_library(d, &ended), *ours = tslab::make<counted>(d, &ended);
    CHECK(tslab::destroy(d, theirs) && ended == 1);
    CHECK(destroyed_in_library(d, ours) && ended == 2);
    CHECK(live(d) == 0);

    // Once only, and nothing that make() has not made, with room behind it or without.
    CHECK(!tslab::destroy(d, theirs) && ended == 2);
    for (std::size_t bytes : {sizeof(counted), sizeof(counted) + 64}) {
        void *memory = d.allocate(bytes);
        std::memset(memory, 0, bytes);
        auto *other = ::new (memory) counted(&ended);
        errno = 0;
        CHECK(!tslab::destroy(d, other) && errno == ENOENT && ended == 2);
        CHECK(slab_free(d.allocator(), memory));
    }
    CHECK(misuses(d.allocator()) == 0);

#if TSLAB_HAS_PMR
    CHECK(is_equal_in_library(d, tslab::memory_resource(d)) &&
          !is_equal_in_library(d, *std::pmr::get_default_resource()));
#endif

    // An object that neither destroys ends with the domain.
    CHECK(made_in_library(d, &ended) != nullptr && tslab::make<counted>(d, &ended) != nullptr);
    d = tslab::domain();
    CHECK(ended == 4);
    return 0;
}
