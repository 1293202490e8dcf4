/*
 * xml_tree: a request parses an XML document with libxml2, walks its tree, and prints it again.
 *
 * malloc: the tree is freed as libxml2 does it, node by node. temporal-slab: xmlMemSetup() makes the library allocate
 * in the request's domain, whose end frees the tree without a walk. The library starts (xmlInitParser) outside of any
 * domain, so memory that it keeps for the whole process is not the first request's.
 */
#include <stdlib.h>
#include <string.h>

#include <libxml/parser.h>
#include <libxml/tree.h>
#include <tslab/tslab.h>

#include "case.h"

#define TOOL "xml_tree"
#define DEFAULT_PATH "/usr/share/xml/iso-codes/iso_639-2.xml"
#define MADE_BYTES ((size_t)48 * 1024)

static void release(void *pointer) { (void)slab_release(pointer); }

/* ---- the document ----------------------------------------------------------------------------- */

static char *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    char *text = NULL;
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size > 0 && fseek(file, 0, SEEK_SET) == 0 && (text = bench_map((size_t)size + 1)) != NULL)
        *length = fread(text, 1, (size_t)size, file);
    fclose(file);
    return text;
}

/* Where the package of the default document is not installed. */
static char *make_document(size_t *length) {
    char *text = bench_map(MADE_BYTES + 256);
    size_t at = (size_t)sprintf(text, "<?xml version=\"1.0\"?>\n<entries>\n");
    for (unsigned i = 0; at < MADE_BYTES; i++)
        at += (size_t)sprintf(text + at, "  <entry code=\"%u\" parent=\"%u\"><name>Place number %u</name></entry>\n", i,
                              i / 7, i);
    at += (size_t)sprintf(text + at, "</entries>\n");
    *length = at;
    return text;
}

/* ---- a request -------------------------------------------------------------------------------- */

static uint64_t count_nodes(const xmlNode *node) {
    uint64_t count = 0;
    for (; node != NULL; node = node->next) {
        count++;
        if (node->type != XML_ELEMENT_NODE) continue;
        for (const xmlAttr *each = node->properties; each != NULL; each = each->next) count++;
        count += count_nodes(node->children);
    }
    return count;
}

static uint64_t serve(const Case *run, const char *text, size_t length) {
    bool tslab = run->allocator == WL_TSLAB;
    EpochDomain *domain = NULL;
    if (tslab && ((domain = epoch_domain_create(NULL)) == NULL || !epoch_domain_enter(domain)))
        wl_die(BENCH_EXIT_FAILED, TOOL, "no domain");
    xmlDoc *document = xmlReadMemory(text, (int)length, "document", NULL, XML_PARSE_NONET | XML_PARSE_HUGE);
    xmlChar *printed = NULL;
    int bytes = 0;
    if (document != NULL) xmlDocDumpMemory(document, &printed, &bytes);
    if (printed == NULL) wl_die(BENCH_EXIT_FAILED, TOOL, "the document cannot be parsed");
    uint64_t nodes = count_nodes(xmlDocGetRootElement(document));
    uint64_t digest = case_hash(case_hash(CASE_HASH_START, printed, (size_t)bytes), &nodes, sizeof nodes);
    if (tslab) {
        epoch_domain_exit(domain);
        epoch_domain_destroy(domain);
    } else {
        xmlFree(printed);
        xmlFreeDoc(document);
    }
    return digest;
}

int main(int argc, char **argv) {
    Case *run = case_begin(argc, argv, TOOL,
                           "Parses, walks and prints an XML document with libxml2; default " DEFAULT_PATH ".");
    size_t length = 0;
    char *text = read_file(run->input != NULL ? run->input : DEFAULT_PATH, &length);
    if (text == NULL && run->input == NULL) text = make_document(&length);
    if (text == NULL)
        wl_die(BENCH_EXIT_FAILED, TOOL, "%s: cannot be read", run->input != NULL ? run->input : "a document");
    if (run->allocator == WL_TSLAB && xmlMemSetup(release, slab_alloc, slab_alloc_resize, slab_alloc_strdup) != 0)
        wl_die(BENCH_EXIT_FAILED, TOOL, "libxml2 does not take memory functions");
    xmlInitParser();
    case_same(run, serve(run, text, length)); /* objects that the library makes at its first use */
    case_start(run);
    while (case_goes_on(run)) {
        uint64_t begin_ns = bench_now_ns();
        uint64_t digest = serve(run, text, length);
        bench_hist_add(&run->latencies, bench_now_ns() - begin_ns);
        case_same(run, digest);
    }
    return case_finish(run);
}
