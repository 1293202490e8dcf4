/* Core files: where the statistics page of the process is in one. */
#ifndef CORE_H
#define CORE_H

#include <stdbool.h>
#include <stdint.h>

/* The place of the page in the file, which is open for reading. false: it is no core file of this machine's kind
   (*is_core false), or has no page. */
bool core_find_page(int fd, uint64_t *at, bool *is_core);

#endif
