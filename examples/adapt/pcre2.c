/* PCRE2 in a domain: pattern, match data and what matching needs, ended in one step. */
#include <tslab/adapt.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>

int main(void) {
    static const char text[] = "GET /index.html HTTP/1.1";
    EpochDomain *request = epoch_domain_create_ex(NULL, "request", 0);
    pcre2_general_context *memory =
        pcre2_general_context_create(slab_adapt_pcre2_malloc, slab_adapt_pcre2_free, request);
    pcre2_compile_context *compiling = pcre2_compile_context_create(memory);
    int error;
    PCRE2_SIZE where;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR) "^(\\w+) (\\S+) HTTP/([\\d.]+)$", PCRE2_ZERO_TERMINATED, 0, &error,
                                     &where, compiling);
    if (!code) return 1;
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(code, memory);
    int groups = pcre2_match(code, (PCRE2_SPTR)text, sizeof text - 1, 0, 0, match, NULL);
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(match);
    if (groups != 4) return 1;
    printf("PCRE2: path \"%.*s\"\n", (int)(at[5] - at[4]), text + at[4]);

    SlabAllocator *allocator = epoch_domain_allocator(request);
    bool inside = slab_owns(allocator, code) && slab_owns(allocator, match) && slab_owns(allocator, memory);
    epoch_domain_destroy(request);
    return inside ? 0 : 1;
}
