/* A batch job: extract, transform, load. Each batch has the memory of the one before, and a leak cannot outlive its batch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tslab/stats.h>
#include <tslab/tslab.h>

enum { BATCHES = 50, LINES = 2000, CITIES = 4 };
static const char *const city_names[CITIES] = {"Aachen", "Bonn", "Celle", "Dresden"};
static long totals[CITIES]; /* what is loaded: it outlives all batches */

typedef struct Record {
    const char *city;
    long amount;
    struct Record *next;
} Record;

/* One line of the source, as text. */
static char *extract(int batch, int line) {
    return slab_alloc_printf("%d;%s;%d", batch * LINES + line, city_names[line % CITIES], line % 10);
}

static Record *transform(const char *line, Record *next) {
    Record *record = slab_alloc(sizeof *record);
    const char *city = strchr(line, ';'), *amount = city ? strchr(city + 1, ';') : NULL;
    if (!record || !amount) return NULL;
    record->city = slab_alloc_strndup(city + 1, (size_t)(amount - city - 1));
    record->amount = strtol(amount + 1, NULL, 10);
    record->next = next;
    return record->city ? record : NULL;
}

static void load(const Record *record) {
    for (; record; record = record->next)
        for (int i = 0; i < CITIES; i++)
            if (strcmp(record->city, city_names[i]) == 0) totals[i] += record->amount;
}

/* Nothing is freed one by one. */
static bool run_batch(int batch) {
    Record *records = NULL;
    for (int line = 0; line < LINES; line++) {
        const char *text = extract(batch, line);
        Record *record = text ? transform(text, records) : NULL;
        if (!record) return false;
        records = record;
    }
    load(records);
    return true;
}

int main(void) {
    SlabAllocator *allocator = slab_allocator_create();
    EpochDomain *domain = allocator ? epoch_domain_create_ex(allocator, "batch", 0) : NULL;
    if (!domain || !epoch_domain_enter(domain)) return 1;
    SlabGlobalStats first, now;
    for (int batch = 0; batch < BATCHES; batch++) {
        if (!run_batch(batch)) return 1;
        if (!slab_stats_global(allocator, batch == 0 ? &first : &now)) return 1;
        epoch_domain_reset(domain, SIZE_MAX); /* the next batch has this one's memory */
    }
    printf("%d batches in the memory of one: %llu bytes\n", BATCHES, (unsigned long long)now.committed_bytes);
    if (now.committed_bytes != first.committed_bytes) return 1;
    for (int i = 0; i < CITIES; i++) printf("%s %ld\n", city_names[i], totals[i]);
    epoch_domain_exit(domain);
    epoch_domain_destroy(domain);
    slab_allocator_free(allocator);
    return totals[0] + totals[1] + totals[2] + totals[3] != (long)BATCHES * LINES / 10 * 45;
}
