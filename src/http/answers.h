/* What is answered to a request. On the server's thread. */
#ifndef TS_HTTP_ANSWERS_H
#define TS_HTTP_ANSWERS_H

#include <tslab/stats.h>

#include <microhttpd.h>

/* Whose statistics; NULL: of all allocators of the process. While the server does not run. */
void http_answers_show(SlabAllocator *allocator);
enum MHD_Result http_answer(struct MHD_Connection *connection, const char *path, const char *method);
/* A status with a text of its own. */
enum MHD_Result http_say(struct MHD_Connection *connection, unsigned status, const char *text);

#endif
