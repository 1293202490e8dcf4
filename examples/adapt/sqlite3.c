/* SQLite outside of domains: its page cache belongs to the connection, whichever request fills it. */
#include <sqlite3.h>
#include <tslab/adapt.h>
#include <tslab/stats.h>

#include <stdio.h>

int main(void) {
    if (slab_adapt_sqlite3(SLAB_ADAPT_OUTSIDE) != SQLITE_OK) return 1; /* before the first connection */
    sqlite3 *database;
    if (sqlite3_open(":memory:", &database) != SQLITE_OK) return 1;

    EpochDomain *request = epoch_domain_create_ex(NULL, "request", 0);
    epoch_domain_enter(request);
    static const char script[] = "CREATE TABLE t(n INTEGER, word TEXT);"
                                 "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5000)"
                                 "INSERT INTO t SELECT n, 'word ' || n FROM c;";
    if (sqlite3_exec(database, script, NULL, NULL, NULL) != SQLITE_OK) return 1;
    epoch_domain_exit(request);
    epoch_domain_destroy(request);

    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(database, "SELECT count(*) FROM t", -1, &statement, NULL) != SQLITE_OK) return 1;
    int rows = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int(statement, 0) : -1;
    SlabEpochStats stats;
    EpochId epoch = slab_adapt_epoch(&slab_adapt_home_sqlite3);
    if (!slab_stats_epoch(slab_allocator_default(), SLAB_ALL_CLASSES, epoch, &stats)) return 1;
    printf("SQLite: %d rows, %llu bytes by its own count, %llu by the epoch \"%s\"\n", rows,
           (unsigned long long)sqlite3_memory_used(), (unsigned long long)stats.live_bytes, stats.label);
    bool close = stats.live_bytes >= (uint64_t)sqlite3_memory_used() && strcmp(stats.label, "sqlite3") == 0;
    if (sqlite3_finalize(statement) != SQLITE_OK || sqlite3_close(database) != SQLITE_OK) return 1;
    return close && rows == 5000 && sqlite3_shutdown() == SQLITE_OK ? 0 : 1;
}
