/*
 * The documents of json_docs: files named on the command line, and all *.json below the directories named
 * there. Names and contents lie in mappings of their own, outside the allocator under test.
 */
#ifndef WORKLOADS_JSON_CORPUS_H
#define WORKLOADS_JSON_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Document {
    const char *path;
    const char *name; /* the last part of path */
    char *text;       /* NULL: not loaded, or it cannot be read */
    size_t bytes;
    bool usable; /* readable, and JSON; set by the parsing program */
    /* Of the first, untimed pass; every later pass must agree. */
    size_t output_bytes;
    uint64_t output_hash;
    uint64_t nodes;
    uint64_t string_bytes;
} Document;

typedef struct Corpus {
    Document *documents; /* sorted by path within each argument, directories after one another */
    size_t count;
    size_t unreadable; /* documents and arguments that could not be read */
} Corpus;

/* Collects the names. A file that cannot be read is one line on stderr, and counted. */
void corpus_collect(Corpus *corpus, char *const *paths, size_t count);
/* Reads the contents. quiet: says nothing about files that cannot be read. */
void corpus_load(Corpus *corpus, bool quiet);

#endif
