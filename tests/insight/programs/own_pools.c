/* A program with pools of its own: the allocator sees the pools' chunks only, and these die with the job. */
#include "common.h"

typedef struct Chunk {
    struct Chunk *next;
    size_t used;
    char data[4000];
} Chunk;

typedef struct Pool {
    Chunk *first;
} Pool;

FUNCTION static void *pool_get(Pool *pool, size_t bytes) {
    bytes = (bytes + 15) / 16 * 16;
    if (!pool->first || pool->first->used + bytes > sizeof pool->first->data) {
        Chunk *chunk = get(sizeof *chunk);
        chunk->next = pool->first;
        chunk->used = 0;
        pool->first = chunk;
    }
    void *result = pool->first->data + pool->first->used;
    pool->first->used += bytes;
    return result;
}

FUNCTION static void pool_end(Pool *pool) {
    while (pool->first) {
        Chunk *next = pool->first->next;
        free(pool->first);
        pool->first = next;
    }
}

FUNCTION static unsigned run_job(void) {
    Pool pool = {NULL};
    unsigned sum = 0;
    for (unsigned i = 0; i < 800; i++) {
        unsigned char *p = pool_get(&pool, 20 + random_below(100));
        *p = (unsigned char)i;
        sum += *p;
    }
    pool_end(&pool);
    return sum;
}

int main(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 1000; i++) {
        sum += run_job();
    }
    printf("%u\n", sum);
    return 0;
}
