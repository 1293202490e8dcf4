/*
 * phases: a program whose work changes, over any malloc: small objects, large ones, small ones again, a thread that
 * stops, and nights with little to do between two days. Prints its resident memory and its page faults four times a
 * second, as CSV.
 *
 *     phases [--smoke]      --smoke: a hundredth of the time and of the memory
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 1 << 20, SAMPLES_PER_SECOND = 4, NIGHT_OBJECTS = 20 };

static void *slot[SLOTS];
static size_t slot_bytes[SLOTS];
static uint64_t state = 88172645463325252u;
static double began_s, scale = 1, sampled_s;

static double now_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 16;
}

static double resident_mib(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2) exit(1);
    (void)fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

/* last: also soon after the sample before, so that each phase has one. */
static void sample(const char *phase, bool last) {
    struct rusage usage;
    double now = now_s();
    if (!last && now - sampled_s < scale / SAMPLES_PER_SECOND) return;
    sampled_s = now;
    (void)getrusage(RUSAGE_SELF, &usage);
    (void)printf("%s,%.6f,%.2f,%ld\n", phase, (now - began_s) / scale, resident_mib(), usage.ru_minflt);
    (void)fflush(stdout);
}

static void put(size_t at, size_t bytes) {
    free(slot[at]);
    slot[at] = malloc(bytes);
    if (!slot[at]) exit(1);
    memset(slot[at], 1, bytes);
    slot_bytes[at] = bytes;
}

static size_t between(size_t least, size_t most) { return least + next_random() % (most - least + 1); }

/* Slots are filled up to so many bytes in all, then replaced at random; all are freed when the time is over. */
static void work(const char *phase, double seconds, size_t mib, size_t least, size_t most) {
    size_t limit = (size_t)((double)(mib << 20) * scale), used = 0, bytes = 0;
    double until = now_s() + seconds * scale;
    do {
        for (unsigned i = 0; i < 200; i++) {
            if (bytes < limit && used < SLOTS) {
                put(used, between(least, most));
                bytes += slot_bytes[used++];
            } else if (used > 0) {
                put(next_random() % used, between(least, most));
            }
        }
        sample(phase, false);
    } while (now_s() < until);
    sample(phase, true);
    while (used > 0) {
        free(slot[--used]);
        slot[used] = NULL;
    }
}

static void night(const char *phase, double seconds) {
    double until = now_s() + seconds * scale;
    struct timespec little = {0, (long)(50e6 * scale)};
    do {
        for (unsigned i = 0; i < NIGHT_OBJECTS; i++) put(i, between(16, 512));
        for (unsigned i = 0; i < NIGHT_OBJECTS; i++) {
            free(slot[i]);
            slot[i] = NULL;
        }
        sample(phase, false);
        (void)nanosleep(&little, NULL);
    } while (now_s() < until);
    sample(phase, true);
}

static void *stops(void *phase) {
    work(phase, 3, 128, 16, 512);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    char other[] = "thread";
    if (argc > 1 && strcmp(argv[1], "--smoke") == 0) scale = 0.01;
    began_s = now_s();
    (void)puts("phase,second,rss_mib,faults");
    work("small", 4, 128, 16, 512);
    work("large", 4, 128, 65536, 1 << 20);
    work("small again", 4, 128, 16, 512);
    if (pthread_create(&thread, NULL, stops, other) != 0) return 1;
    (void)pthread_join(thread, NULL);
    night("night", 15);
    work("day", 4, 128, 16, 4096);
    night("night again", 15);
    return ferror(stdout) ? 1 : 0;
}
