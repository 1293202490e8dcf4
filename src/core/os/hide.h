/* `hide` of the native table (os.h): makes pages inaccessible within their mapping, on Linux 6.13 and later (guard
   pages). */
#ifndef TS_OS_HIDE_H
#define TS_OS_HIDE_H

#include "base/attr.h"

bool ts_hide_pages(void *at, size_t bytes, bool on);

#endif
