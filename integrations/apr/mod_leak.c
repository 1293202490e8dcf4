/* A module with a fault, for the test: each request to /leak keeps a record in the pool of the process. */
#include <apr_pools.h>
#include <apr_strings.h>
#include <httpd.h>
#include <http_config.h>
#include <http_protocol.h>
#include <string.h>

static int handle(request_rec *request) {
    if (strcmp(request->uri, "/leak") != 0) return DECLINED;
    char *record = apr_pcalloc(request->server->process->pool, 2000);
    record[0] = 1;
    ap_rputs("kept\n", request);
    return OK;
}

static void hooks(apr_pool_t *pool) {
    (void)pool;
    ap_hook_handler(handle, NULL, NULL, APR_HOOK_MIDDLE);
}

module AP_MODULE_DECLARE_DATA leak_module = {STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, hooks, 0};
