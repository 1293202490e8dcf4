/* An expat parser in a domain. It has no pointer of its own for its memory: the domain is entered for as long as the
   parser is used. */
#include <tslab/adapt.h>

#include <expat.h>
#include <stdio.h>

static void on_start(void *data, const XML_Char *name, const XML_Char **attributes) {
    (void)name, (void)attributes;
    ++*(int *)data;
}

static const char text[] = "<list><item n='1'/><item n='2'/><item n='3'>three</item></list>";

/* The number of elements; -1: an error, or the parser is not in the domain. */
static int parse(const XML_Memory_Handling_Suite *memory) {
    int elements = 0;
    EpochDomain *request = epoch_domain_create_ex(NULL, "request", 0);

    epoch_domain_enter(request);
    XML_Parser parser = XML_ParserCreate_MM(NULL, memory, NULL);
    XML_SetUserData(parser, &elements);
    XML_SetElementHandler(parser, on_start, NULL);
    enum XML_Status status = XML_Parse(parser, text, sizeof text - 1, 1);
    epoch_domain_exit(request);

    bool inside = slab_owns(epoch_domain_allocator(request), parser);
    epoch_domain_destroy(request); /* the parser with it */
    return inside && status == XML_STATUS_OK ? elements : -1;
}

int main(void) {
    static const XML_Memory_Handling_Suite frees = SLAB_ADAPT_EXPAT;
    static const XML_Memory_Handling_Suite keeps =
        SLAB_ADAPT_EXPAT_KEEP; /* leaves all frees to the end of the domain */
    int elements = parse(&frees), again = parse(&keeps);
    printf("expat: %d elements, and %d\n", elements, again);
    return elements == 4 && again == 4 ? 0 : 1;
}
