/* libxml2, twice: as a rule its memory is outside of domains. Who opts in drops a tree with its request, and gives back
   what libxml2 keeps: its last error. */
#include <tslab/adapt.h>

#include <libxml/parser.h>
#include <libxml/xmlerror.h>
#include <stdio.h>

static const char text[] = "<list><item n='1'/><item n='2'>two</item></list>";

static xmlDocPtr parse(const char *what, int bytes) {
    return xmlReadMemory(what, bytes, "text.xml", NULL, XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
}

int main(void) {
    if (slab_adapt_libxml2(SLAB_ADAPT_OUTSIDE) != 0) return 1;
    xmlInitParser();
    EpochDomain *request = epoch_domain_create_ex(NULL, "request", 0);
    epoch_domain_enter(request);
    xmlDocPtr kept = parse(text, sizeof text - 1); /* in the epoch "libxml2" */
    epoch_domain_exit(request);
    epoch_domain_destroy(request);
    if (!kept || xmlChildElementCount(xmlDocGetRootElement(kept)) != 2) return 1;
    xmlFreeDoc(kept);

    slab_adapt_set(&slab_adapt_home_libxml2, SLAB_ADAPT_IN_DOMAINS);
    request = epoch_domain_create_ex(NULL, "request", 0);
    epoch_domain_enter(request);
    xmlDocPtr dropped = parse(text, sizeof text - 1);
    bool inside = dropped && slab_owns(epoch_domain_allocator(request), dropped);
    if (parse("<list><item></list>", 19) != NULL) return 1; /* an error: libxml2 keeps it, for this thread */
    printf("libxml2: kept %s", xmlGetLastError()->message);
    xmlResetLastError();
    epoch_domain_exit(request);
    epoch_domain_destroy(request); /* without xmlFreeDoc() */

    slab_adapt_set(&slab_adapt_home_libxml2, SLAB_ADAPT_OUTSIDE);
    xmlCleanupParser();
    return inside ? 0 : 1;
}
