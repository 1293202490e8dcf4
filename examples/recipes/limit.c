/* A limit for a domain, and messages in the program's own log. */
#include <errno.h>
#include <stdio.h>

#include <tslab/tslab.h>

static void log_line(const char *line, size_t bytes, void *argument) {
    (void)argument;
    printf("my log: %.*s", (int)bytes, line);
}

int main(void) {
    slab_set_message_sink(log_line, NULL);
    EpochDomain *domain = epoch_domain_create_ex(NULL, "upload", 0);
    if (!domain || !epoch_domain_set_limit(domain, (size_t)1 << 20) || !epoch_domain_enter(domain)) return 1;
    int count = 0;
    while (slab_alloc(10000)) count++;
    int refused = errno == ENOMEM;
    printf("%d objects of 10,000 bytes fit in 1 MiB; %zu bytes are held\n", count, epoch_domain_held(domain));
    epoch_domain_exit(domain);
    epoch_domain_destroy(domain);
    slab_set_message_sink(NULL, NULL);
    return refused && count > 50 ? 0 : 1;
}
