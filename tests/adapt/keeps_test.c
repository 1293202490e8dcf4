/*
 * Memory that libraries keep of a request beyond its end: docs/libraries.md, "Libraries that keep things". Each step
 * runs in a domain that captures and drains, twice. The library has kept the objects that are still live after the end.
 */
#define _GNU_SOURCE
#include <tslab/malloc.h>
#include <tslab/stats.h>

#include <iconv.h>
#include <locale.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(x)                                                                      \
    do {                                                                              \
        if (!(x)) {                                                                   \
            fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, step, #x); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

static const char *step;

/* ---- the C library -------------------------------------------------------------------------------------------- */

static void local_time(void) {
    time_t now = 0;
    CHECK(localtime(&now) != NULL);
}
static void unknown_error(void) { CHECK(strstr(strerror(123456), "123456") != NULL); }
static void locale(void) { CHECK(setlocale(LC_ALL, "C.UTF-8") != NULL || setlocale(LC_ALL, "C") != NULL); }
static void first_output(void) {
    FILE *file = fopen("/dev/null", "w");
    CHECK(file && fprintf(file, "text") == 4 && fclose(file) == 0);
}
static void conversion(void) {
    iconv_t how = iconv_open("UTF-16LE", "UTF-8");
    char in[] = "text", out[16], *from = in, *to = out;
    size_t in_bytes = 4, out_bytes = 16;
    if (how == (iconv_t)-1) return; /* it has no such conversion */
    CHECK(iconv(how, &from, &in_bytes, &to, &out_bytes) == 0 && iconv_close(how) == 0);
}
static void user(void) { (void)getpwuid(0); }

#ifdef HAVE_LIBXML2
#include <libxml/parser.h>
#include <libxml/xmlerror.h>
#define XML_QUIET (XML_PARSE_NOERROR | XML_PARSE_NOWARNING)
static void xml_document(void) {
    xmlDocPtr document = xmlReadMemory("<a><b c='d'/></a>", 17, "x.xml", NULL, XML_QUIET);
    CHECK(document != NULL);
    xmlFreeDoc(document);
}
static void xml_error(void) { CHECK(xmlReadMemory("<a><b></a>", 10, "x.xml", NULL, XML_QUIET) == NULL); }
static void xml_error_reset(void) {
    xml_error();
    xmlResetLastError();
}
#endif

#ifdef HAVE_OPENSSL
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
static void ssl_digest(void) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned bytes;
    CHECK(EVP_Digest("abc", 3, digest, &bytes, EVP_sha256(), NULL) == 1 && bytes == 32);
}
static void ssl_error(void) { ERR_raise_data(ERR_LIB_USER, 1, "a text that OpenSSL keeps with its error"); }
static void ssl_error_thread_stop(void) {
    ssl_error();
    OPENSSL_thread_stop();
}
#endif

#ifdef HAVE_SQLITE3
#include <sqlite3.h>
static void database(void) {
    sqlite3 *db;
    CHECK(sqlite3_open(":memory:", &db) == SQLITE_OK);
    CHECK(sqlite3_exec(db, "CREATE TABLE t(a); INSERT INTO t VALUES (1)", NULL, NULL, NULL) == SQLITE_OK);
    CHECK(sqlite3_close(db) == SQLITE_OK);
}
#endif

#ifdef HAVE_JANSSON
#include <jansson.h>
static void json(void) {
    json_t *document = json_loads("{\"a\": [1, 2.5, \"text\"]}", 0, NULL);
    CHECK(document != NULL);
    json_decref(document);
}
#endif

#ifdef HAVE_ZLIB
#include <zlib.h>
static void deflated(void) {
    unsigned char out[100];
    uLongf bytes = sizeof out;
    CHECK(compress(out, &bytes, (const unsigned char *)"text text text", 14) == Z_OK);
}
#endif

#ifdef HAVE_EXPAT
#include <expat.h>
static void expat_document(void) {
    XML_Parser parser = XML_ParserCreate(NULL);
    CHECK(parser && XML_Parse(parser, "<a><b/></a>", 11, 1) == XML_STATUS_OK);
    XML_ParserFree(parser);
}
#endif

/* ---- each twice -------------------------------------------------------------------------------------------- */

typedef struct kept {
    unsigned long long objects, bytes;
} kept;

static kept after(void (*fn)(void)) {
    SlabAllocator *allocator = slab_malloc_allocator();
    EpochDomain *d = epoch_domain_create_ex(allocator, "request", EPOCH_DOMAIN_CAPTURE | EPOCH_DOMAIN_DRAIN);
    CHECK(d != NULL);
    EpochId epoch = epoch_domain_epoch(d);
    epoch_domain_enter(d);
    fn();
    epoch_domain_exit(d);
    epoch_domain_destroy(d);
    SlabEpochStats stats;
    kept k = {0, 0};
    if (epoch_state(allocator, epoch) == EPOCH_CLOSED) return k;
    CHECK(slab_stats_epoch(allocator, SLAB_ALL_CLASSES, epoch, &stats) && strcmp(stats.label, "request") == 0);
    k.objects = stats.live_objects;
    k.bytes = stats.live_bytes;
    return k;
}

enum { NEVER, AT_FIRST, EACH_TIME, WHATEVER }; /* the step of which it keeps memory */

static void try(const char *what, void (*fn)(void), int when) {
    step = what;
    kept first = after(fn), second = after(fn);
    printf("%-44s %6llu %8llu   %6llu %8llu\n", what, first.objects, first.bytes, second.objects, second.bytes);
    if (when == NEVER) CHECK(first.objects == 0 && second.objects == 0);
    if (when == AT_FIRST) CHECK(first.objects > 0 && second.objects == 0);
    if (when == EACH_TIME) CHECK(second.objects > 0);
}

int main(void) {
    if (!slab_malloc_active()) {
        fprintf(stderr, "keeps_test: libtslab-malloc is not the process's malloc\n");
        return 1;
    }
    printf("%-44s %15s   %15s\n%-44s %6s %8s   %6s %8s\n", "", "first time", "second time", "kept after a request",
           "objects", "bytes", "objects", "bytes");
    try("C library: localtime()", local_time, WHATEVER);
    try("C library: setlocale()", locale, WHATEVER);
    try("C library: strerror() of an unknown number", unknown_error, WHATEVER);
    try("C library: fopen(), fprintf(), fclose()", first_output, NEVER);
    try("C library: iconv_open() to iconv_close()", conversion, WHATEVER);
    try("C library: getpwuid()", user, WHATEVER);
#ifdef HAVE_ZLIB
    try("zlib: compress()", deflated, NEVER);
#endif
#ifdef HAVE_EXPAT
    try("expat: a document, freed", expat_document, NEVER);
#endif
#ifdef HAVE_JANSSON
    try("jansson: a document, freed", json, NEVER);
#endif
#ifdef HAVE_LIBXML2
    try("libxml2: a document, freed", xml_document, AT_FIRST);
    try("libxml2: a document with an error", xml_error, EACH_TIME);
    xmlResetLastError();
    try("libxml2: the same, and xmlResetLastError()", xml_error_reset, NEVER);
#endif
#ifdef HAVE_OPENSSL
    try("OpenSSL: a digest", ssl_digest, AT_FIRST);
    try("OpenSSL: an error", ssl_error, EACH_TIME);
    OPENSSL_thread_stop();
    try("OpenSSL: an error, and OPENSSL_thread_stop()", ssl_error_thread_stop, NEVER);
#endif
#ifdef HAVE_SQLITE3
    try("SQLite: a database, closed", database, WHATEVER);
#endif
    return 0;
}
