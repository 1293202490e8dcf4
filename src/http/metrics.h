/* The metrics that the program adds to /metrics (slab_http_metric_add). */
#ifndef TSLAB_HTTP_METRICS_H
#define TSLAB_HTTP_METRICS_H

#include <stdbool.h>
#include <stddef.h>

/* All of them as Prometheus text or as OpenMetrics without its last line, like snprintf. 0: there are none. Waits for
   an add or a remove that is under way. */
size_t http_metrics_render(bool openmetrics, char *buffer, size_t capacity);

/* In a child of fork, before anything else of this file: the child has the added metrics, too. */
void http_metrics_in_child(void);

#endif
