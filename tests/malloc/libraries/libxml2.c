/* A document is parsed, searched and written again. */
#include "captured.h"

#include <libxml/parser.h>
#include <libxml/tree.h>
#include <libxml/xpath.h>
#include <stdio.h>
#include <string.h>

static xmlDocPtr parse(unsigned request) {
    char text[8000];
    int used = snprintf(text, sizeof text, "<order id='%u'>", request);
    for (unsigned i = 0; i < 60; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "<line n='%u'><price>%u</price> of &lt;it&gt;</line>",
                         i, request % 7 + i);
    used += snprintf(text + used, sizeof text - (size_t)used, "</order>");
    xmlDocPtr doc = xmlReadMemory(text, used, "order.xml", NULL, 0);
    CHECK(doc != NULL);
    return doc;
}

static xmlXPathObjectPtr search(xmlXPathContextPtr context) {
    xmlXPathObjectPtr found = xmlXPathEvalExpression((const xmlChar *)"//line[@n mod 2 = 1]/price", context);
    CHECK(found && found->nodesetval->nodeNr == 30);
    return found;
}

static xmlChar *print(xmlDocPtr doc) {
    xmlChar *text = NULL;
    int bytes = 0;
    xmlDocDumpMemory(doc, &text, &bytes);
    CHECK(text && bytes > 2000 && strstr((const char *)text, "of &lt;it&gt;"));
    return text;
}

static void serve(unsigned request) {
    xmlDocPtr doc = parse(request);
    xmlXPathContextPtr context = xmlXPathNewContext(doc);
    xmlXPathFreeObject(search(context));
    xmlXPathFreeContext(context);
    xmlFree(print(doc));
    xmlFreeDoc(doc);
}

static void drop(unsigned request) {
    xmlDocPtr doc = parse(request);
    (void)search(xmlXPathNewContext(doc));
    (void)print(doc);
}

static void begin(void) {
    xmlInitParser();
    serve(0); /* tables that are made at first use */
}

const library tested = {begin, serve, drop, xmlCleanupParser};
