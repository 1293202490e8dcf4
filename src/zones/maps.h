/* How many more mappings the process can have (Linux: vm.max_map_count). */
#ifndef TS_ZONES_MAPS_H
#define TS_ZONES_MAPS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether there is room for so many, and a sixteenth of the limit is left. true where the system does not say. */
bool ts_maps_have_room(size_t more);

#endif
