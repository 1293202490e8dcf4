/* apr_psprintf and apr_pvsprintf. A short text is made on the stack and copied. A longer one grows in the pool, where
   the last object of a scope grows in place. */
#include "pool.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

typedef struct printing {
    apr_vformatter_buff_t at; /* the first member: apr_vformatter hands it on */
    apr_pool_t *pool;
    char *text; /* in the pool; NULL: in `small` */
    size_t bytes;
    char small[512];
} printing;

/* One byte of each text is for the end. */
static int grow(apr_vformatter_buff_t *at) {
    printing *p = (printing *)(void *)((char *)at - offsetof(printing, at));
    size_t used = (size_t)(at->curpos - (p->text ? p->text : p->small));
    char *text;
    if (!p->text) {
        text = ta_alloc_alone(p->pool, 2 * sizeof p->small);
        if (text) memcpy(text, p->small, used);
    } else {
        text = slab_realloc(ta_allocator, p->text, 2 * p->bytes);
        if (!text) (void)ta_no_memory(p->pool);
    }
    if (!text) return -1;
    p->bytes = p->text ? 2 * p->bytes : 2 * sizeof p->small;
    p->text = text;
    at->curpos = text + used;
    at->endpos = text + p->bytes - 1;
    return 0;
}

APR_DECLARE(char *) apr_pvsprintf(apr_pool_t *pool, const char *format, va_list arguments) {
    printing p;
    p.pool = pool;
    p.text = NULL;
    p.bytes = sizeof p.small;
    p.at.curpos = p.small;
    p.at.endpos = p.small + sizeof p.small - 1;
    if (apr_vformatter(grow, &p.at, format, arguments) == -1) return NULL;
    *p.at.curpos = '\0';
    size_t bytes = (size_t)(p.at.curpos - (p.text ? p.text : p.small)) + 1;
    char *text = p.text ? slab_realloc(ta_allocator, p.text, bytes) : apr_palloc(pool, bytes);
    if (p.text) return text ? text : p.text;
    return text ? memcpy(text, p.small, bytes) : NULL;
}

APR_DECLARE_NONSTD(char *) apr_psprintf(apr_pool_t *pool, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = apr_pvsprintf(pool, format, arguments);
    va_end(arguments);
    return text;
}
