/* What is no memory and belongs to a lifetime: a cleanup closes it. */
#include <stdio.h>

#include <tslab/tslab.h>

static int closed;

static void close_file(void *file) {
    fclose(file);
    closed++;
}

/* The file is closed when the domain ends, on every path. */
static FILE *open_in(EpochDomain *domain) {
    FILE *file = tmpfile();
    if (file && !epoch_domain_on_destroy(domain, close_file, file)) {
        fclose(file);
        return NULL;
    }
    return file;
}

int main(void) {
    EpochDomain *request = epoch_domain_create(NULL);
    FILE *file = open_in(request), *other = open_in(request);
    if (!file || !other) return 1;
    fputs("some text", file);
    if (!epoch_domain_off_destroy(request, close_file, other)) return 1; /* this one is closed by hand */
    fclose(other);
    epoch_domain_destroy(request);
    return closed == 1 ? 0 : 1;
}
