/*
 * How much memory comes back when most objects are gone: objects of three size classes are allocated in turn, all but
 * one in twenty (at random) are freed, the program does nothing for ten seconds, then asks the allocator to give memory
 * back.
 *
 *   together      all in one epoch: the allocator cannot know which objects will stay
 *   by_lifetime   those that stay are in an epoch of their own (only where there are epochs)
 *
 * returned_pct is the share of the objects' resident memory that is no longer so; 95 is the share of dead objects.
 */
#include "bench_clock.h"
#include "suite.h"

#include <stdio.h>
#include <time.h>

enum { SURVIVOR = 20 };

static const uint16_t sizes[] = {64, 256, 768};
enum { SIZE_COUNT = sizeof sizes / sizeof sizes[0], SIZE_SUM = 64 + 256 + 768 };

static struct { uint64_t idle_s, payload_mib; } options;

static suite_csv *csv;

typedef struct state {
    const char *placement;
    peer_ref peer;
    uint64_t live_objects, payload_bytes;
    size_t start_bytes, full_bytes;
} state;

static double mib(uint64_t bytes) { return (double)bytes / 1048576; }

static void emit(state *s, const char *moment, uint64_t second) {
    size_t now_bytes = suite_resident_bytes();
    suite_counters c = suite_count(s->peer);
    if (s->full_bytes == 0) s->full_bytes = now_bytes;
    if (now_bytes > s->full_bytes) s->full_bytes = now_bytes;
    double grown = (double)s->full_bytes - (double)s->start_bytes;
    double returned = grown > 0 ? 100 * ((double)s->full_bytes - (double)now_bytes) / grown : 0;
    suite_csv_line(csv, "%s,%s,%s,%llu,%llu,%.3f,%.3f,%.2f,%s,%s", SUITE_ALLOCATOR, s->placement, moment,
                   (unsigned long long)second, (unsigned long long)s->live_objects, mib(s->payload_bytes),
                   mib(now_bytes), returned, suite_count_field(c.known, c.committed_bytes).text,
                   suite.identity.version);
    printf("%-10s %-12s %-11s %7llu %12llu %12.2f %13.2f %11.2f\n", SUITE_ALLOCATOR, s->placement, moment,
           (unsigned long long)second, (unsigned long long)s->live_objects, mib(s->payload_bytes), mib(now_bytes),
           returned);
}

static void release(state *s, peer_ref epoch, void *object, size_t i) {
    size_t size = sizes[i % SIZE_COUNT];
    if (!suite_verify(object, size, (uint32_t)i)) suite_fail("object %p of %zu bytes was overwritten", object, size);
    if (!peer_free(epoch, object)) suite_fail("the free of the live object %p was refused", object);
    s->live_objects--;
    s->payload_bytes -= size;
}

static void run(const void *arg) {
    bool by_lifetime = *(const bool *)arg;
    size_t count = (size_t)(options.payload_mib << 20) / SIZE_SUM * SIZE_COUNT;
    void **objects = bench_map(count * sizeof *objects);
    bool *stays = bench_map(count * sizeof *stays);
    bench_rng rng = {suite.seed};
    state s = {.placement = by_lifetime ? "by_lifetime" : "together"};
    for (size_t i = 0; i < count; i++) stays[i] = bench_rng_below(&rng, SURVIVOR) == 0;
    s.peer = peer_open();
    peer_ref long_lived = suite_epoch_open(s.peer, "stays", false);
    peer_ref short_lived = by_lifetime ? suite_epoch_open(s.peer, "goes", false) : long_lived;
    s.start_bytes = suite_resident_bytes();
    for (size_t i = 0; i < count; i++) {
        size_t size = sizes[i % SIZE_COUNT];
        objects[i] = suite_alloc(stays[i] ? long_lived : short_lived, size);
        suite_fill(objects[i], size, (uint32_t)i);
        s.live_objects++;
        s.payload_bytes += size;
    }
    emit(&s, "full", 0);
    for (size_t i = 0; i < count; i++)
        if (!stays[i]) release(&s, short_lived, objects[i], i);
    if (by_lifetime && !suite_epoch_close(short_lived)) suite_fail("epoch_close refused an open epoch");
    emit(&s, "freed", 0);
    for (uint64_t second = 1; second <= options.idle_s; second++) {
        struct timespec left = {.tv_sec = 1};
        while (nanosleep(&left, &left) != 0) continue;
        emit(&s, "idle", second);
    }
    suite_trim(s.peer);
    emit(&s, "asked", options.idle_s);
    for (size_t i = 0; i < count; i++)
        if (stays[i]) release(&s, long_lived, objects[i], i);
    if (!suite_epoch_close(long_lived)) suite_fail("epoch_close refused an open epoch");
    emit(&s, "empty", options.idle_s);
    suite_trim(s.peer);
    emit(&s, "empty_asked", options.idle_s);
    peer_close(s.peer);
}

static const suite_option option_table[] = {
    {.name = "--idle",
     .value = "SECONDS",
     .help = "how long to do nothing (default 10; --quick: 2)",
     .number = &options.idle_s,
     .low = 1,
     .high = 3600},
    {.name = "--payload",
     .value = "MIB",
     .help = "payload of all objects (default 192)",
     .number = &options.payload_mib,
     .low = 1,
     .high = 16384},
};

static const suite_program self = {
    .name = "fragmentation_over_time",
    .summary =
        "Objects of three size classes, all but one in twenty freed, ten idle seconds: how much memory came back.",
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
};

int main(int argc, char **argv) {
    suite_begin(&self, argc, argv);
    if (options.idle_s == 0) options.idle_s = suite_amount(10, 2, 0);
    if (options.payload_mib == 0) options.payload_mib = suite_amount(192, 192, 4);
    csv = suite_csv_open(suite.csv, "allocator,placement,moment,second,live_objects,payload_mib,rss_mib,returned_pct,"
                                    "committed_bytes,version");
    printf("%-10s %-12s %-11s %7s %12s %12s %13s %11s\n", "allocator", "placement", "moment", "second", "live objects",
           "payload MiB", "resident MiB", "returned %");
    for (int by_lifetime = 0; by_lifetime <= PEER_HAS_DOMAINS; by_lifetime++) {
        bool separate = by_lifetime;
        suite_progress(true, "%s, %llu s of idling", separate ? "by lifetime" : "all together",
                       (unsigned long long)options.idle_s);
        suite_run(run, &separate);
    }
    suite_csv_commit();
    return 0;
}
