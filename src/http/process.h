/* What the page shows of the process itself. */
#ifndef TSLAB_HTTP_PROCESS_H
#define TSLAB_HTTP_PROCESS_H

#include <tslab/stats.h>

/* JSON, like snprintf: id, program, seconds since its start, memory limits. */
size_t http_process_render(char *buffer, size_t capacity);
/* JSON, like snprintf: the functions of the frames of the largest sampled stacks, by address. */
size_t http_functions_render(SlabAllocator *allocator, char *buffer, size_t capacity);

#endif
