#include "slab/lent.h"

_Atomic uint32_t ts_spills;
_Atomic(const ts_loan *) ts_loans;
_Atomic uint64_t ts_spilled_units[TS_SPILLED_WORDS];
