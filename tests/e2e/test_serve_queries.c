/* test_serve_queries.c - values of every type on their way into a query and out of one; queries that are
 * cancelled, take too long or lose their database. */
#include "serving.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static serving self;

#define ENDLESS "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "

static const char config[] =
    "{\"tools\":{\n"
    " \"types\":{\"args\":{\"v?\":{}},\"script\":\"s.sql\",\"query\":"
    "\"SELECT typeof(:v) AS t, :v AS v\"},\n"
    " \"columns\":{\"script\":\"s.sql\",\"query\":\"SELECT * FROM c\"},\n"
    " \"endless\":{\"args\":{\"least\":\"integer\"},\"script\":\"s.sql\",\"query\":\"" ENDLESS
    "SELECT max(i) FROM n WHERE i > :least\",\"deadline_ms\":60000},\n"
    " \"late\":{\"script\":\"s.sql\",\"query\":\"" ENDLESS "SELECT max(i) FROM n\","
    "\"deadline_ms\":100},\n"
    " \"many\":{\"script\":\"s.sql\",\"query\":\"" ENDLESS "SELECT i FROM n\",\"max_rows\":3},\n"
    " \"fits\":{\"script\":\"s.sql\",\"query\":\"SELECT * FROM c\",\"output_schema\":{\"type\":"
    "\"object\",\"properties\":{\"row_count\":{\"const\":7}}}},\n"
    " \"stored\":{\"database\":\"d.db\",\"query\":\"SELECT a FROM t\"},\n"
    " \"store\":{\"database\":\"d.db\",\"write\":true,\"args\":{\"a\":\"string\"},"
    "\"query\":\"INSERT INTO t VALUES (:a)\"},\n"
    " \"forget\":{\"database\":\"d.db\",\"write\":true,\"args\":{\"a?\":\"string\"},"
    "\"query\":\"DELETE FROM t WHERE a LIKE :a || '%'\"},\n"
    " \"returning\":{\"database\":\"d.db\",\"write\":true,\"args\":{\"a\":\"string\"},"
    "\"query\":\"INSERT INTO t VALUES (:a) RETURNING a\"},\n"
    " \"whole\":{\"args\":{\"v?\":\"integer\"},\"script\":\"s.sql\",\"query\":"
    "\"SELECT typeof(:v) AS t, 'n' || :v AS v\"},\n"
    " \"whole_too\":{\"input\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"}}},"
    "\"script\":\"s.sql\",\"query\":\"SELECT typeof(:v) AS t, 'n' || :v AS v\"},\n"
    " \"writer\":{\"run\":[\"true\"],\"allow\":{\"write\":[\"out\"]}},\n"
    " \"beside\":{\"database\":\"out/d.db\",\"query\":\"SELECT a FROM t\"}}}";

static void make_database(const char *name) {
  char path[512];
  sqlite3 *database;
  serving_path(&self, name, path, sizeof path);
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  assert_int_equal(sqlite3_exec(database,
                                "CREATE TABLE t (a UNIQUE); INSERT INTO t VALUES ('first')", NULL,
                                NULL, NULL),
                   SQLITE_OK);
  sqlite3_close(database);
}

static void make_folder(const char *name) {
  char path[512];
  serving_path(&self, name, path, sizeof path);
  assert_int_equal(mkdir(path, 0755), 0);
}

static int start(void **state) {
  (void)state;
  serving_make(&self, config);
  serving_file(&self, "s.sql",
               "CREATE TABLE c (i, r, n, b, x, t); INSERT INTO c VALUES "
               "(9007199254740993, 2.5, NULL, x'00ff', CAST(x'41ff' AS TEXT), 'a|b' || char(10));");
  make_database("d.db");
  make_folder("out");
  make_database("out/d.db");
  serving_start(&self);
  return 0;
}

static int end(void **state) {
  (void)state;
  serving_end(&self);
  return 0;
}

static void expect_bound(const char *argument, const char *row) {
  char arguments[128], wanted[160];
  snprintf(arguments, sizeof arguments, "{%s%s}", *argument ? "\"v\":" : "", argument);
  snprintf(wanted, sizeof wanted, "\"rows\":[{%s}]", row);
  expect_in(serving_call(&self, "types", arguments), wanted);
}

static void values_are_bound_by_their_type(void **state) {
  (void)state;
  expect_bound("\"x'; --\"", "\"t\":\"text\",\"v\":\"x'; --\"");
  expect_bound("true", "\"t\":\"integer\",\"v\":1");
  expect_bound("-9223372036854775808", "\"t\":\"integer\",\"v\":-9223372036854775808");
  expect_bound("18446744073709551615", "\"t\":\"real\",\"v\":18446744073709552000.0");
  expect_bound("123456789012345678901234567890", "\"t\":\"real\",\"v\":1.2345678901234568e29");
  expect_bound("1.5", "\"t\":\"real\",\"v\":1.5");
  expect_bound("[1,{\"a\":\"b\"}]", "\"t\":\"text\",\"v\":\"[1,{\\\"a\\\":\\\"b\\\"}]\"");
  expect_bound("null", "\"t\":\"null\",\"v\":null");
  expect_bound("", "\"t\":\"null\",\"v\":null");
}

/* To a schema 1.0 is an integer, and so it is to the query of an argument that is said to be one. */
static void an_integer_is_bound_as_one_however_it_is_written(void **state) {
  (void)state;
  static const char *const tools[] = {"whole", "whole_too"};
  for (size_t i = 0; i < 2; i++) {
    expect_in(serving_call(&self, tools[i], "{\"v\":7}"), "{\"t\":\"integer\",\"v\":\"n7\"}");
    expect_in(serving_call(&self, tools[i], "{\"v\":7.0}"), "{\"t\":\"integer\",\"v\":\"n7\"}");
    expect_in(serving_call(&self, tools[i], "{\"v\":-2e3}"),
              "{\"t\":\"integer\",\"v\":\"n-2000\"}");
    expect_in(serving_call(&self, tools[i], "{\"v\":1e300}"), "{\"t\":\"real\",");
  }
  expect_bound("7.0", "\"t\":\"real\",\"v\":7.0");
}

/* What is no text is base64; a cell never breaks its line. */
static void columns_of_every_type_come_back(void **state) {
  (void)state;
  const char *answer = serving_call(&self, "columns", "{}");
  expect_in(answer, "{\"i\":9007199254740993,\"r\":2.5,\"n\":null,\"b\":\"AP8=\",\"x\":\"Qf8=\","
                    "\"t\":\"a|b\\n\"}");
  expect_in(answer, "9007199254740993 | 2.5 | null | AP8= | Qf8= | a|b\\\\n\\n\"");
}

static void limits_of_rows_and_time_are_told(void **state) {
  (void)state;
  expect_in(serving_call(&self, "many", "{}"), "There are more rows: cut after 3 (max_rows");
  expect_in(serving_call(&self, "late", "{}"), "the query took longer than 100 ms (deadline_ms)");
  expect_in(serving_call(&self, "fits", "{}"), "JSON that its output_schema does not allow");
}

/* More than there are threads: one that went on would leave none for the next. */
static void a_cancelled_query_gives_its_thread_back(void **state) {
  char message[160];
  int ids[8];
  (void)state;
  for (int i = 0; i < 8; i++) ids[i] = serving_send_call(&self, "endless", "{\"least\":1}");
  for (int i = 0; i < 8; i++) {
    snprintf(message, sizeof message,
             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
             "\"params\":{\"requestId\":%d}}\n",
             ids[i]);
    child_send(self.server.in, message);
  }
  expect_in(serving_call(&self, "columns", "{}"), "\"row_count\":1");
  expect_in(serving_call(&self, "late", "{}"), "took longer than 100 ms");
}

static void what_is_stored_is_read_and_a_refusal_told(void **state) {
  (void)state;
  expect_in(serving_call(&self, "store", "{\"a\":\"second\"}"), "\"row_count\":0");
  expect_in(serving_call(&self, "stored", "{}"), "[{\"a\":\"first\"},{\"a\":\"second\"}]");
  const char *answer = serving_call(&self, "store", "{\"a\":\"first\"}");
  expect_in(answer, "\"isError\":true");
  expect_in(answer, "the query failed: UNIQUE constraint failed: t.a");
}

/* A number, also where nothing changed after something did. */
static void what_changes_rows_says_how_many(void **state) {
  (void)state;
  const char *answer = serving_call(&self, "store", "{\"a\":\"x1\"}");
  expect_in(answer, "\"text\":\"1 row changed\\n\"");
  expect_in(answer, "\"rows\":[],\"row_count\":0,\"truncated\":false,\"rows_changed\":1}");
  answer = serving_call(&self, "returning", "{\"a\":\"x2\"}");
  expect_in(answer, "\"text\":\"a\\nx2\\n\"");
  expect_in(answer, "\"row_count\":1,\"truncated\":false,\"rows_changed\":1}");
  answer = serving_call(&self, "forget", "{\"a\":\"x\"}");
  expect_in(answer, "\"text\":\"2 rows changed\\n\"");
  expect_in(answer, "\"rows_changed\":2}");
  expect_in(serving_call(&self, "forget", "{\"a\":\"x\"}"), "\"text\":\"0 rows changed\\n\"");
  assert_null(strstr(serving_call(&self, "stored", "{}"), "rows_changed"));
}

/* A program that may write the folder of a database turns it into one that is mapped, and cuts that
 * short under the server's feet. */
static void a_database_that_a_program_may_write_is_not_mapped(void **state) {
  (void)state;
  char path[512];
  sqlite3 *database;
  expect_in(serving_call(&self, "beside", "{}"), "[{\"a\":\"first\"}]");
  serving_path(&self, "out/d.db", path, sizeof path);
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  assert_int_equal(sqlite3_exec(database, "PRAGMA journal_mode=wal; INSERT INTO t VALUES ('more')",
                                NULL, NULL, NULL),
                   SQLITE_OK);
  expect_in(serving_call(&self, "beside", "{}"), "\"isError\":true");
  serving_path(&self, "out/d.db-shm", path, sizeof path);
  assert_int_equal(truncate(path, 0), 0);
  expect_in(serving_call(&self, "beside", "{}"), "\"isError\":true");
  expect_in(serving_call(&self, "stored", "{}"), "first");
  assert_int_equal(truncate(path, 32768), 0); /* it is mapped here, too */
  sqlite3_close(database);
}

/* Not every one that cannot be opened is one in WAL mode. */
static void what_is_in_the_place_of_a_database_is_told(void **state) {
  char path[512];
  (void)state;
  serving_path(&self, "out/d.db", path, sizeof path);
  assert_int_equal(unlink(path), 0);
  expect_in(serving_call(&self, "beside", "{}"), "has no database: it is not there");
  assert_int_equal(symlink("../d.db", path), 0);
  expect_in(serving_call(&self, "beside", "{}"), "has no database: a link is in its place");
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkfifo(path, 0600), 0);
  expect_in(serving_call(&self, "beside", "{}"), "has no database: it is no regular file");
  assert_int_equal(unlink(path), 0);
  make_database("out/d.db");
  sqlite3 *database;
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  assert_int_equal(sqlite3_exec(database, "PRAGMA journal_mode=wal", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(database);
  expect_in(serving_call(&self, "beside", "{}"),
            "writer may write its folder, and one in WAL mode");
}

/* The last: it removes what the others use. */
static void a_database_that_is_gone_is_told_and_a_new_one_used(void **state) {
  char path[512];
  (void)state;
  serving_path(&self, "d.db", path, sizeof path);
  assert_int_equal(unlink(path), 0);
  const char *answer = serving_call(&self, "stored", "{}");
  expect_in(answer, "\"isError\":true");
  expect_in(answer, "unable to open database file");
  assert_int_equal(access(path, F_OK), -1); /* nobody has made an empty one */
  child_line_with(self.server.err, "ERROR a tool call failed id=");
  make_database("d.db");
  expect_in(serving_call(&self, "stored", "{}"), "[{\"a\":\"first\"}]");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_bound_by_their_type),
      cmocka_unit_test(an_integer_is_bound_as_one_however_it_is_written),
      cmocka_unit_test(what_changes_rows_says_how_many),
      cmocka_unit_test(columns_of_every_type_come_back),
      cmocka_unit_test(limits_of_rows_and_time_are_told),
      cmocka_unit_test(a_cancelled_query_gives_its_thread_back),
      cmocka_unit_test(what_is_stored_is_read_and_a_refusal_told),
      cmocka_unit_test(a_database_that_a_program_may_write_is_not_mapped),
      cmocka_unit_test(what_is_in_the_place_of_a_database_is_told),
      cmocka_unit_test(a_database_that_is_gone_is_told_and_a_new_one_used),
  };
  return cmocka_run_group_tests(tests, start, end);
}
