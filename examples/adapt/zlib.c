/* zlib in a domain: a buffer compressed and expanded again. Windows and tables go with the domain, without
   deflateEnd(). */
#include <tslab/adapt.h>

#include <stdio.h>
#include <zlib.h>

int main(void) {
    static unsigned char text[100000], packed[100000], again[100000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (unsigned char)("temporal"[i % 8] + i / 1000 % 3);

    EpochDomain *request = epoch_domain_create_ex(NULL, "request", 0);
    z_stream out = {.next_in = text, .avail_in = sizeof text, .next_out = packed, .avail_out = sizeof packed};
    slab_adapt_zlib(&out, request);
    if (deflateInit(&out, 6) != Z_OK || deflate(&out, Z_FINISH) != Z_STREAM_END) return 1;
    z_stream in = {.next_in = packed, .avail_in = (uInt)out.total_out, .next_out = again, .avail_out = sizeof again};
    slab_adapt_zlib(&in, request);
    in.zfree = slab_adapt_keep; /* leaves the frees to the end of the domain */
    if (inflateInit(&in) != Z_OK || inflate(&in, Z_FINISH) != Z_STREAM_END) return 1;
    if (memcmp(text, again, sizeof text) != 0) return 1;

    printf("zlib: %zu bytes to %lu and back, with %zu KiB in the domain\n", sizeof text, out.total_out,
           epoch_domain_held(request) / 1024);
    bool inside =
        slab_owns(epoch_domain_allocator(request), out.state) && slab_owns(epoch_domain_allocator(request), in.state);
    epoch_domain_destroy(request);
    return inside ? 0 : 1;
}
