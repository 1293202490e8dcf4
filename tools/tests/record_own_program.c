/* A program that brings its own malloc: no library can stand before it. */
#include <stddef.h>
#include <stdlib.h>

static _Alignas(16) char all[1 << 20];
static size_t used;

void *malloc(size_t size) {
    size_t at = used;
    used += (size + 15) & ~(size_t)15;
    return used <= sizeof all ? all + at : NULL;
}

void *calloc(size_t n, size_t size) { return malloc(n * size); }
void *realloc(void *p, size_t size) { return (void)p, malloc(size); }
void free(void *p) { (void)p; }

int main(void) {
    void *volatile p = malloc(4242);
    return p == NULL;
}
