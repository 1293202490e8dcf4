/* OpenSSL outside of domains, in an epoch of its own: what it holds is counted there, whichever request needed it. */
#include <tslab/adapt.h>
#include <tslab/stats.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>

static uint64_t held(void) {
    SlabEpochStats stats;
    EpochId epoch = slab_adapt_epoch(&slab_adapt_home_openssl);
    return slab_stats_epoch(slab_allocator_default(), SLAB_ALL_CLASSES, epoch, &stats) ? stats.live_objects : 0;
}

int main(void) {
    if (slab_adapt_openssl(SLAB_ADAPT_OUTSIDE) != 1) return 1; /* before OpenSSL allocates anything */
    uint64_t after[3];
    for (int i = 0; i < 3; i++) {
        EpochDomain *request = epoch_domain_create_ex(NULL, "request", 0);
        epoch_domain_enter(request);
        unsigned char digest[EVP_MAX_MD_SIZE];
        unsigned bytes = 0;
        EVP_MD_CTX *hash = EVP_MD_CTX_new();
        bool done = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) && EVP_DigestUpdate(hash, "abc", 3) &&
                    EVP_DigestFinal_ex(hash, digest, &bytes);
        EVP_MD_CTX_free(hash);
        epoch_domain_exit(request);
        epoch_domain_destroy(request);
        if (!done || bytes != 32 || digest[0] != 0xba || digest[31] != 0xad) return 1;
        after[i] = held();
    }
    printf("openssl: holds %llu objects after the first digest, %llu after the third\n", (unsigned long long)after[0],
           (unsigned long long)after[2]);
    return after[0] > 0 && after[1] == after[2] ? 0 : 1;
}
