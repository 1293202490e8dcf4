#include "slab/lent.h"

_Atomic uint32_t ts_spills;
_Atomic uint64_t ts_spilled_units[TS_SPILLED_WORDS];
