/* An expat parser in a domain. It has no pointer of its own for its memory: the domain is entered for as long as the
   parser is used. */
#include <tslab/adapt.h>

#include <expat.h>
#include <stdio.h>

static void on_start(void *data, const XML_Char *name, const XML_Char **attributes) {
    (void)name, (void)attributes;
    ++*(int *)data;
}

int main(void) {
    static const char text[] = "<list><item n='1'/><item n='2'/><item n='3'>three</item></list>";
    static const XML_Memory_Handling_Suite memory = SLAB_ADAPT_EXPAT;
    int elements = 0;
    EpochDomain *request = epoch_domain_create_ex(NULL, "request", 0);

    epoch_domain_enter(request);
    XML_Parser parser = XML_ParserCreate_MM(NULL, &memory, NULL);
    XML_SetUserData(parser, &elements);
    XML_SetElementHandler(parser, on_start, NULL);
    enum XML_Status status = XML_Parse(parser, text, sizeof text - 1, 1);
    epoch_domain_exit(request);

    printf("expat: %d elements, %zu KiB in the domain\n", elements, epoch_domain_held(request) / 1024);
    bool inside = slab_owns(epoch_domain_allocator(request), parser);
    epoch_domain_destroy(request); /* the parser with it */
    return inside && status == XML_STATUS_OK && elements == 4 ? 0 : 1;
}
