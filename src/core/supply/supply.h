/*
 * Units that have memory and are in no slab, and the record of an allocator. The door is in parts, because of its
 * length; all other headers of this folder (retain.h, runs.h) are its own.
 */
#ifndef TS_SUPPLY_SUPPLY_H
#define TS_SUPPLY_SUPPLY_H

#include "supply/account.h"   /* limits */
#include "supply/allocator.h" /* the record */
#include "supply/nodes.h"     /* by NUMA node */
#include "supply/piece.h"     /* pieces of cut units */
#include "supply/purge.h"     /* giving memory back */
#include "supply/retained.h"  /* units that are kept */
#include "supply/share.h"     /* a thread's part */
#include "supply/span.h"      /* units in a row */

#endif
