/* A pipeline of batches in three stages: each stage reads the objects of the one before, all die at the batch's end. */
#include "common.h"

enum { RECORDS = 400 };

FUNCTION static void read_records(void **records) {
    for (unsigned i = 0; i < RECORDS; i++) {
        records[i] = get(60 + random_below(60));
    }
}

FUNCTION static void transform(void **records, void **results) {
    for (unsigned i = 0; i < RECORDS; i++) {
        results[i] = get(100);
        memcpy(results[i], records[i], 60);
    }
}

FUNCTION static unsigned write_results(void **results) {
    char *text = get(16 * RECORDS);
    unsigned sum = 0;
    for (unsigned i = 0; i < RECORDS; i++) {
        sum += *(unsigned char *)results[i];
    }
    free(text);
    return sum;
}

FUNCTION static unsigned process_batch(void) {
    void *records[RECORDS], *results[RECORDS];
    read_records(records);
    transform(records, results);
    unsigned sum = write_results(results);
    for (unsigned i = 0; i < RECORDS; i++) {
        free(results[i]);
        free(records[i]);
    }
    return sum;
}

int main(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 200; i++) {
        sum += process_batch();
    }
    printf("%u\n", sum);
    return 0;
}
