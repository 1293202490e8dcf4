/* See json_corpus.h. */
#include "json_corpus.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

#define TOOL "json_docs"
#define DEPTH_MAX 64 /* directories in directories */

static void complain(Corpus *corpus, const char *path, int error, bool quiet) {
    corpus->unreadable++;
    if (!quiet) fprintf(stderr, TOOL ": %s: %s\n", path, strerror(error));
}

static _Noreturn void out_of_memory(void) { wl_die(BENCH_EXIT_FAILED, TOOL, "no memory for the documents"); }

/* Names are kept for the life of the process. */
static char *keep_text(const char *text) {
    static char *room;
    static size_t left;
    size_t bytes = strlen(text) + 1;
    if (bytes > left) {
        left = bytes > 65536 ? bytes : 65536;
        room = bench_map(left);
    }
    char *kept = memcpy(room, text, bytes);
    room += bytes;
    left -= bytes;
    return kept;
}

static void add_document(Corpus *corpus, const char *path) {
    static size_t capacity;
    if (corpus->count == capacity) {
        size_t wider = capacity == 0 ? 256 : 2 * capacity;
        Document *documents = bench_map(wider * sizeof *documents);
        if (capacity != 0) memcpy(documents, corpus->documents, capacity * sizeof *documents);
        bench_unmap(corpus->documents, capacity * sizeof *documents);
        corpus->documents = documents;
        capacity = wider;
    }
    Document *document = &corpus->documents[corpus->count++];
    *document = (Document){.path = keep_text(path)};
    const char *slash = strrchr(document->path, '/');
    document->name = slash != NULL ? slash + 1 : document->path;
}

static bool ends_in_json(const char *name) {
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".json") == 0;
}

static void collect_directory(Corpus *corpus, const char *directory, int depth);

/* An entry of a directory: links to files are followed, links to directories are not. */
static void collect_entry(Corpus *corpus, const char *path, const char *name, int depth) {
    struct stat info;
    if (lstat(path, &info) != 0) {
        complain(corpus, path, errno, false);
        return;
    }
    if (S_ISDIR(info.st_mode)) {
        if (depth < DEPTH_MAX)
            collect_directory(corpus, path, depth + 1);
        else
            complain(corpus, path, ELOOP, false);
        return;
    }
    if (!ends_in_json(name)) return;
    if (S_ISLNK(info.st_mode) && stat(path, &info) != 0)
        complain(corpus, path, errno, false);
    else if (S_ISREG(info.st_mode))
        add_document(corpus, path);
}

static void collect_directory(Corpus *corpus, const char *directory, int depth) {
    struct dirent **entries;
    int count = scandir(directory, &entries, NULL, alphasort);
    if (count < 0) {
        complain(corpus, directory, errno, false);
        return;
    }
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            char *path;
            if (asprintf(&path, "%s/%s", directory, name) < 0) out_of_memory();
            collect_entry(corpus, path, name, depth);
            free(path);
        }
        free(entries[i]);
    }
    free(entries);
}

void corpus_collect(Corpus *corpus, char *const *paths, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct stat info;
        if (stat(paths[i], &info) != 0)
            complain(corpus, paths[i], errno, false);
        else if (S_ISDIR(info.st_mode))
            collect_directory(corpus, paths[i], 0);
        else
            add_document(corpus, paths[i]);
    }
}

/* The whole file into a mapping; an error number, or 0. Pipes and devices are read to their end too. */
static int read_whole(Document *document) {
    int fd = open(document->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    struct stat info;
    int error = fstat(fd, &info) == 0 ? 0 : errno;
    size_t capacity = error == 0 && info.st_size > 0 ? (size_t)info.st_size + 1 : 65536;
    size_t length = 0;
    char *text = error == 0 ? bench_map(capacity) : NULL;
    while (error == 0) {
        if (length == capacity) {
            char *wider = bench_map(2 * capacity);
            memcpy(wider, text, length);
            bench_unmap(text, capacity);
            text = wider;
            capacity *= 2;
        }
        ssize_t got = read(fd, text + length, capacity - length);
        if (got == 0) break;
        if (got > 0)
            length += (size_t)got;
        else if (errno != EINTR)
            error = errno;
    }
    close(fd);
    if (error != 0) {
        bench_unmap(text, capacity);
        return error;
    }
    document->text = text;
    document->bytes = length;
    return 0;
}

void corpus_load(Corpus *corpus, bool quiet) {
    for (size_t i = 0; i < corpus->count; i++) {
        int error = read_whole(&corpus->documents[i]);
        if (error != 0) complain(corpus, corpus->documents[i].path, error, quiet);
    }
}
