/* An attempt that may fail: a mark, and back to it. */
#include <stdio.h>
#include <string.h>

#include <tslab/tslab.h>

static const char *parse_as_number(const char *text) {
    return strspn(text, "0123456789") == strlen(text) ? slab_alloc_printf("number %s", text) : NULL;
}

static const char *parse_as_word(const char *text) { return slab_alloc_printf("word %s", text); }

static const char *parse(EpochDomain *domain, const char *text) {
    SlabMark mark;
    if (!epoch_domain_mark(domain, &mark)) return NULL;
    const char *found = parse_as_number(text);
    if (found) return found;
    epoch_domain_rewind(domain, mark); /* what the attempt allocated is dead, its place is used again */
    return parse_as_word(text);
}

int main(void) {
    EpochDomain *domain = epoch_domain_create(NULL);
    if (!domain || !epoch_domain_enter(domain)) return 1;
    const char *first = parse(domain, "17"), *second = parse(domain, "seventeen");
    int failed = !first || !second || strcmp(first, "number 17") != 0 || strcmp(second, "word seventeen") != 0;
    printf("%s, %s\n", first, second);
    epoch_domain_exit(domain);
    epoch_domain_destroy(domain);
    return failed;
}
