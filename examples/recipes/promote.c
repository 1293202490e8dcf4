/* One object of a request survives: it moves to the cache. */
#include <stdio.h>
#include <string.h>

#include <tslab/tslab.h>

int main(void) {
    EpochDomain *cache = epoch_domain_create_ex(NULL, "cache", EPOCH_CHURN);
    EpochDomain *request = epoch_domain_create_ex(NULL, "request", 0);
    if (!cache || !request || !epoch_domain_enter(request)) return 1;
    char *made = slab_alloc_printf("<p>%s</p>", "a page that took long to make");
    char *kept = made ? slab_promote(cache, made) : NULL; /* its new address; the old one is stale */
    epoch_domain_exit(request);
    epoch_domain_destroy(request);
    if (!kept || strcmp(kept, "<p>a page that took long to make</p>") != 0) return 1;
    puts(kept);
    epoch_domain_destroy(cache);
    return 0;
}
