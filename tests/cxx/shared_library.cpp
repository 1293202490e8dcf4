#include "shared_objects.hpp"

counted *made_in_library(tslab::domain &d, int *ended) { return tslab::make<counted>(d, ended); }
bool destroyed_in_library(tslab::domain &d, counted *object) { return tslab::destroy(d, object); }
#if TSLAB_HAS_PMR
bool is_equal_in_library(tslab::domain &d, const std::pmr::memory_resource &other) {
    return tslab::memory_resource(d).is_equal(other);
}
#endif
void (*end_in_library())(void *) { return &tslab::detail::end_object<counted>; }
