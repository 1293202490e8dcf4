/*
 * What the tests of the server talk to. Obeys lines and answers each with one:
 *     start ADDRESS|-   slab_http_start: "ok PORT", or the name of the error ("-": NULL)
 *     stop              slab_http_stop: "true" or "false"
 *     fill N            N labelled epochs with three objects each: "ok"
 *     port              slab_http_port
 *     fork              a child that lives for ten seconds and holds nothing: its process id
 */
#include <tslab/http.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static SlabAllocator *allocator;

static const char *name_of(int error) {
    return error == EALREADY ? "EALREADY" : error == EINVAL ? "EINVAL" : error == EADDRINUSE ? "EADDRINUSE" : strerror(error);
}

static void start(const char *address) {
    if (slab_http_start(allocator, strcmp(address, "-") == 0 ? NULL : address))
        printf("ok %d\n", slab_http_port());
    else
        puts(name_of(errno));
}

static void fill(unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        char label[32];
        snprintf(label, sizeof label, "phase \"%u\" <b>", i % 12);
        EpochId epoch = epoch_open(allocator, label, i % 2 ? EPOCH_SCOPE : EPOCH_CHURN);
        for (unsigned k = 0; k < 3; k++)
            if (!slab_malloc_epoch(allocator, 64 + 100 * k, epoch)) exit(1);
        if (i % 4 == 3) (void)epoch_close(allocator, epoch);
    }
    puts("ok");
}

static void wake(int number) { (void)number; }

int main(void) {
    char line[1024];
    allocator = slab_allocator_default();
    if (!allocator) return 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "start ", 6) == 0) {
            start(line + 6);
        } else if (strcmp(line, "stop") == 0) {
            puts(slab_http_stop() ? "true" : "false");
        } else if (strncmp(line, "fill ", 5) == 0) {
            fill((unsigned)atoi(line + 5));
        } else if (strcmp(line, "port") == 0) {
            printf("%d\n", slab_http_port());
        } else if (strcmp(line, "fork") == 0) {
            pid_t child = fork();
            if (child == 0) {
                signal(SIGTERM, wake);
                sleep(10);
                exit(0);
            }
            printf("%ld\n", (long)child);
        } else {
            puts("?");
        }
        fflush(stdout);
    }
    return 0;
}
