/* A module with a fault, for the test: each request to a location with `leak;` keeps a record in the pool of the cycle. */
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

static ngx_int_t handle(ngx_http_request_t *r) {
    if (!ngx_pcalloc(ngx_cycle->pool, 2000)) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    return NGX_HTTP_NO_CONTENT;
}

static char *enable(ngx_conf_t *cf, ngx_command_t *cmd, void *conf) {
    (void)cmd;
    (void)conf;
    ngx_http_core_loc_conf_t *location = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    location->handler = handle;
    return NGX_CONF_OK;
}

static ngx_command_t commands[] = {
    {ngx_string("leak"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS, enable, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL},
    ngx_null_command,
};

static ngx_http_module_t context = {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};

ngx_module_t ngx_http_leak_module = {
    NGX_MODULE_V1, &context, commands, NGX_HTTP_MODULE, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NGX_MODULE_V1_PADDING,
};
