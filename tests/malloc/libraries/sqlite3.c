/* Queries of a database that was opened before: it keeps pages, schema and look-aside memory of its own. */
#include "captured.h"

#include <sqlite3.h>
#include <string.h>

static sqlite3 *db;

static void run(const char *sql) { CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK); }

static void begin(void) {
    CHECK(sqlite3_open(":memory:", &db) == SQLITE_OK);
    run("create table line(id integer primary key, request integer, name text, price real)");
    run("create index by_name on line(name)");
}

static void serve(unsigned request) {
    sqlite3_stmt *insert, *sum;
    run("begin");
    CHECK(sqlite3_prepare_v2(db, "insert into line(request, name, price) values(?, ?, ?)", -1, &insert, NULL) ==
          SQLITE_OK);
    for (int i = 0; i < 40; i++) {
        char name[300];
        memset(name, 'a' + i % 26, sizeof name);
        sqlite3_bind_int(insert, 1, (int)request);
        sqlite3_bind_text(insert, 2, name, i * 7, SQLITE_TRANSIENT);
        sqlite3_bind_double(insert, 3, i);
        CHECK(sqlite3_step(insert) == SQLITE_DONE && sqlite3_reset(insert) == SQLITE_OK);
    }
    CHECK(sqlite3_finalize(insert) == SQLITE_OK);
    run("commit");
    CHECK(sqlite3_prepare_v2(
              db, "select count(*), sum(price), group_concat(name) from line where request = ? group by request", -1,
              &sum, NULL) == SQLITE_OK);
    sqlite3_bind_int(sum, 1, (int)request);
    CHECK(sqlite3_step(sum) == SQLITE_ROW && sqlite3_column_int(sum, 0) == 40 && sqlite3_column_int(sum, 1) == 780);
    CHECK(sqlite3_column_bytes(sum, 2) > 5000);
    CHECK(sqlite3_finalize(sum) == SQLITE_OK);
    run("delete from line");
}

static void end(void) {
    CHECK(sqlite3_close(db) == SQLITE_OK);
    CHECK(sqlite3_shutdown() == SQLITE_OK);
}

const library tested = {begin, serve, NULL, end};
