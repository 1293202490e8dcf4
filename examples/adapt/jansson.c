/* jansson in a domain: the caller opts in, as jansson keeps nothing of a document for itself. */
#include <tslab/adapt.h>

#include <jansson.h>
#include <stdio.h>

int main(void) {
    slab_adapt_jansson(SLAB_ADAPT_IN_DOMAINS);
    EpochDomain *request = epoch_domain_create_ex(NULL, "request", 0);

    epoch_domain_enter(request);
    json_t *document = json_loads("{\"name\": \"temporal\", \"list\": [1, 2, 3]}", 0, NULL);
    if (!document || json_array_size(json_object_get(document, "list")) != 3) return 1;
    char *text = json_dumps(document, JSON_COMPACT);
    epoch_domain_exit(request);

    printf("jansson: %s\n", text);
    bool inside =
        slab_owns(epoch_domain_allocator(request), text) && slab_owns(epoch_domain_allocator(request), document);
    epoch_domain_destroy(request); /* without json_decref() */

    json_t *kept = json_string("outside of any domain"); /* in the epoch "jansson", until it is freed */
    json_decref(kept);
    return inside ? 0 : 1;
}
