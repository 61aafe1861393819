/* test_serve_query_limits.c - deadlines hold whatever a query does, and the functions that make it so come
 * to what SQLite's own come to. */
#include "serving.h"

#include <dirent.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char program[] = IDEM_BIN_DIR "/idem";

#define PAIRS 6000
#define PAIRS_A_CALL 200
#define SOON_CPU_MS 4000 /* on a slow machine; SQLite's own take much longer */
#define SOON_MS 20000    /* on one that stands still at times; what takes longer hangs */
#define LOOP_CPU_MS 80   /* to take a call, try it and answer; the long ones take more */
#define WIDE_ROWS "200000"
#define ON_LOOP 100

static serving self;

/* One text for all that the functions say of one pair. */
#define COMPARED                                                                                   \
  "SELECT group_concat(r, ',') AS r FROM (SELECT (s LIKE p) || (s LIKE p ESCAPE e) || (s GLOB p)"  \
  " || instr(s, p) || '.' || instr(CAST(s AS BLOB), CAST(p AS BLOB)) || '.' || hex(replace(s, p,"  \
  " e)) || '.' || hex(trim(s, p)) || '.' || hex(ltrim(s, p)) || '.' || hex(rtrim(s, p)) AS r"      \
  " FROM pairs WHERE id >= :from AND id < :from + 200 ORDER BY id)"

#define MANY_A "printf('%.*c', 8000000, 'a')"

#define LONG_STEP "length(randomblob(8000000)) + length(randomblob(8000000))"

#define INWARD "(printf('%.*c', :n, 'a') LIKE '%' || printf('%.*c', 900, 'a') || 'b')"

#define SCRIPT "\"script\":\"s.sql\","
#define DATABASE "\"database\":\"d.db\","
#define EMPTY "\"script\":\"empty.sql\"," /* it is run within the deadline, too */
#define BOMB EMPTY "\"args\":{\"p\":\"string\"},\"deadline_ms\":1000,\"output_bytes\":8388608,"
#define LATE DATABASE "\"deadline_ms\":10,\"output_bytes\":8388608,"

static const struct row {
  const char *name, *about, *query;
} rows[] = {
    {"compared", DATABASE "\"args\":{\"from\":\"integer\"},\"deadline_ms\":60000,", COMPARED},
    {"odd", SCRIPT, "SELECT * FROM odd"},
    {"like", BOMB, "SELECT " MANY_A " LIKE '%' || :p AS r"},
    {"glob", BOMB, "SELECT " MANY_A " GLOB '*[a-b]' || :p AS r"},
    {"instr", BOMB, "SELECT instr(" MANY_A ", printf('%.*c', 2000000, 'a') || :p) AS r"},
    {"replace", BOMB,
     "SELECT length(replace(" MANY_A ", printf('%.*c', 2000000, 'a') || :p, 'x')) AS r"},
    {"trim", BOMB, "SELECT length(trim(" MANY_A ", printf('%.*c', 300000, 'b') || :p)) AS r"},
    {"patch", SCRIPT "\"args\":{\"p\":\"string\"},",
     "SELECT length(json_patch((SELECT json_group_object('k' || i, 1) FROM many),"
     " (SELECT json_group_object(:p || i, 1) FROM many))) AS r"},
    {"brief", DATABASE "\"args\":{\"p\":\"string\"},", "SELECT 'a' LIKE :p AS r"},
    {"inward", EMPTY "\"args\":{\"n\":\"integer\"},\"deadline_ms\":1000,",
     "SELECT " INWARD " + " INWARD " + " INWARD " + " INWARD " AS r"},
    {"late", LATE, "SELECT " LONG_STEP " AS r"},
    {"late_write", LATE "\"write\":true,", "INSERT INTO t SELECT " LONG_STEP},
    {"count", DATABASE, "SELECT count(*) AS n FROM t"},
    {"counts", "\"database\":\"wide.db\",\"deadline_ms\":60000,", "SELECT count(*) AS n FROM t"},
    {"counts_late", "\"database\":\"wide.db\",\"deadline_ms\":50,", "SELECT count(*) AS n FROM t"},
    {"numbered", DATABASE "\"args\":{\"n\":\"integer\"},", "SELECT :n AS r"},
    {"locked", DATABASE "\"write\":true,\"deadline_ms\":100,", "INSERT INTO t VALUES (1)"},
};

static void make_config(void) {
  char config[16384] = "{\"tools\":{";
  size_t len = strlen(config), count = sizeof rows / sizeof *rows;
  for (size_t i = 0; i < count; i++)
    len += (size_t)snprintf(config + len, sizeof config - len, "%s\"%s\":{%s\"query\":\"%s\"}",
                            i ? ",\n" : "", rows[i].name, rows[i].about, rows[i].query);
  snprintf(config + len, sizeof config - len, "}}");
  serving_make(&self, config);
}

/* ------------------------------------------------------------------------- differential */

/* Letters of both cases, everything that means something in a pattern, UTF-8 and what is none. */
static size_t put_random(char *out, unsigned *seed) {
  static const char *const pieces[] = {"a",
                                       "A",
                                       "b",
                                       "%",
                                       "_",
                                       "*",
                                       "?",
                                       "[",
                                       "]",
                                       "^",
                                       "-",
                                       "\\",
                                       "\xC3\xA4",
                                       "\xC3",
                                       "\xA4",
                                       "\xFF",
                                       "\xF0\x9F\x98\x80",
                                       "\xED\xA0\x80",
                                       "z",
                                       " "};
  size_t len = 0;
  for (int left = rand_r(seed) % 9; left > 0; left--) {
    const char *piece = pieces[(unsigned)rand_r(seed) % (sizeof pieces / sizeof *pieces)];
    while (*piece) out[len++] = *piece++;
  }
  return len;
}

static void add_pair(sqlite3_stmt *insert, unsigned *seed) {
  static const char *const escapes[] = {"\\", "%", "_", "a", "\xC3\xA4", "\xFF"};
  char text[64];
  sqlite3_bind_text(insert, 1, text, (int)put_random(text, seed), SQLITE_TRANSIENT);
  sqlite3_bind_text(insert, 2, text, (int)put_random(text, seed), SQLITE_TRANSIENT);
  sqlite3_bind_text(insert, 3, escapes[(unsigned)rand_r(seed) % 6], -1, SQLITE_STATIC);
  assert_int_equal(sqlite3_step(insert), SQLITE_DONE);
  sqlite3_reset(insert);
}

static sqlite3 *open_file(const char *name) {
  char path[512];
  sqlite3 *database;
  serving_path(&self, name, path, sizeof path);
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  return database;
}

static sqlite3 *open_database(void) { return open_file("d.db"); }

/* A page a row, so that to count them takes long, and is one step. */
static void make_wide_database(void) {
  sqlite3 *database = open_file("wide.db");
  assert_int_equal(
      sqlite3_exec(database,
                   "PRAGMA page_size = 512; PRAGMA journal_mode = off; PRAGMA synchronous "
                   "= off; CREATE TABLE t (a); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
                   "SELECT i + 1 FROM n WHERE i < " WIDE_ROWS
                   ") INSERT INTO t SELECT zeroblob(440) FROM n",
                   NULL, NULL, NULL),
      SQLITE_OK);
  sqlite3_close(database);
}

static void make_database(unsigned seed) {
  sqlite3 *database = open_database();
  sqlite3_stmt *insert;
  assert_int_equal(sqlite3_exec(database,
                                "CREATE TABLE t (a); BEGIN;"
                                "CREATE TABLE pairs (id INTEGER PRIMARY KEY, p, s, e)",
                                NULL, NULL, NULL),
                   SQLITE_OK);
  sqlite3_prepare_v2(database, "INSERT INTO pairs(p, s, e) VALUES (?, ?, ?)", -1, &insert, NULL);
  for (int i = 0; i < PAIRS; i++) add_pair(insert, &seed);
  sqlite3_finalize(insert);
  assert_int_equal(sqlite3_exec(database, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(database);
}

static int start(void **state) {
  unsigned seed = (unsigned)child_now_ms();
  (void)state;
  print_message("seed %u\n", seed);
  make_config();
  serving_file(
      &self, "s.sql",
      "CREATE TABLE many AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
      " WHERE i < 10000) SELECT i FROM n;"
      "CREATE TABLE odd AS SELECT x'61' LIKE 'a' AS a, 12 LIKE '1_' AS b, typeof(NULL LIKE"
      " 'a') AS c, typeof('a' LIKE 'a' ESCAPE NULL) AS d, instr('', '') AS e, instr(123, 2)"
      " AS f, typeof(instr(NULL, 1)) AS g, typeof(replace(5, '', 1)) AS h, replace(121, 1,"
      " 'z') AS i, typeof(replace('a', 'a', NULL)) AS j, trim('  a ') AS k, typeof(trim('a',"
      " NULL)) AS l, json_array(json_patch('{\"a\":1}', '{\"b\":2}')) AS m,"
      " typeof(json_patch(NULL, '{}')) AS n;");
  serving_file(&self, "empty.sql", "SELECT 1;");
  make_database(seed);
  make_wide_database();
  serving_start(&self);
  return 0;
}

static int end(void **state) {
  (void)state;
  serving_end(&self);
  return 0;
}

static void compare_from(sqlite3_stmt *own, int from) {
  char arguments[32];
  static char wanted[1 << 17];
  sqlite3_bind_int(own, 1, from);
  assert_int_equal(sqlite3_step(own), SQLITE_ROW);
  snprintf(wanted, sizeof wanted, "\"rows\":[{\"r\":\"%s\"}]", sqlite3_column_text(own, 0));
  sqlite3_reset(own);
  snprintf(arguments, sizeof arguments, "{\"from\":%d}", from);
  expect_in(serving_call(&self, "compared", arguments), wanted);
}

static void functions_come_to_what_sqlite_s_own_come_to(void **state) {
  sqlite3 *database = open_database();
  sqlite3_stmt *own;
  (void)state;
  assert_int_equal(sqlite3_prepare_v2(database, COMPARED, -1, &own, NULL), SQLITE_OK);
  for (int from = 1; from <= PAIRS; from += PAIRS_A_CALL) compare_from(own, from);
  sqlite3_finalize(own);
  sqlite3_close(database);
}

/* Blobs are like nothing where SQLite is built so, as Debian's is. */
static void values_that_are_no_text_are_taken_as_sqlite_takes_them(void **state) {
  const char *answer = serving_call(&self, "odd", "{}");
  (void)state;
  expect_in(answer, sqlite3_compileoption_used("LIKE_DOESNT_MATCH_BLOBS") ? "\"a\":0" : "\"a\":1");
  expect_in(answer, "\"b\":1,\"c\":\"null\",\"d\":\"null\",\"e\":1,\"f\":2,\"g\":\"null\","
                    "\"h\":\"integer\",\"i\":\"z2z\",\"j\":\"null\",\"k\":\"a\",\"l\":\"null\","
                    "\"m\":\"[{\\\"a\\\":1,\\\"b\\\":2}]\",\"n\":\"null\"");
}

/* ---------------------------------------------------------------------------- deadlines */

/* A pattern of letters that nearly fits everywhere. */
static const char *bomb(size_t len) {
  static char arguments[4096];
  int at = snprintf(arguments, sizeof arguments, "{\"p\":\"");
  memset(arguments + at, 'a', len);
  snprintf(arguments + (size_t)at + len, sizeof arguments - (size_t)at - len, "b\"}");
  return arguments;
}

static bool is_answer(const char *line, int id) {
  char wanted[64];
  int len = snprintf(wanted, sizeof wanted, "{\"jsonrpc\":\"2.0\",\"id\":%d,", id);
  return strncmp(line, wanted, (size_t)len) == 0;
}

/* The answer, and whether that to a ping right behind the call came first: the loop was free. */
static const char *call_and_ping(const char *tool, const char *arguments, bool *loop_is_free) {
  static char answer[65536];
  char message[8192];
  int call = self.next_id++, ping = self.next_id++;
  bool called = false, pinged = false;
  int len = snprintf(message, sizeof message,
                     "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{"
                     "\"name\":\"%s\",\"arguments\":%s}}\n"
                     "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n",
                     call, tool, arguments, ping);
  assert_true(len > 0 && (size_t)len < sizeof message);
  child_send(self.server.in, message);
  while (!called || !pinged) {
    const char *line = child_line(self.server.out);
    if (is_answer(line, call)) {
      snprintf(answer, sizeof answer, "%s", line);
      *loop_is_free = pinged;
      called = true;
    }
    pinged = pinged || is_answer(line, ping);
  }
  return answer;
}

/* What the loop's own thread has had of a processor. */
static uint64_t loop_cpu_ms(void) {
  char path[64];
  unsigned long user, system;
  snprintf(path, sizeof path, "/proc/%ld/task/%ld/stat", (long)self.server.pid,
           (long)self.server.pid);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  int got = fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                   &system);
  fclose(file);
  assert_int_equal(got, 2);
  return (user + system) * 1000u / (uint64_t)sysconf(_SC_CLK_TCK);
}

/* Whatever it comes to, the loop is free; and what ends at the deadline does not keep others from their answers. */
static const char *call_soon(const char *tool, const char *arguments) {
  bool loop_is_free;
  uint64_t before = child_cpu_ms(self.server.pid), of_loop = loop_cpu_ms(), began = child_now_ms();
  const char *answer = call_and_ping(tool, arguments, &loop_is_free);
  unsigned waited = (unsigned)(child_now_ms() - began);
  unsigned took = (unsigned)(child_cpu_ms(self.server.pid) - before);
  of_loop = loop_cpu_ms() - of_loop;
  print_message("%s: %u ms of a processor, %u of them on the loop, in %u ms\n", tool, took,
                (unsigned)of_loop, waited);
  assert_in_range(took, 0, SOON_CPU_MS);
  assert_in_range(of_loop, 0, LOOP_CPU_MS);
  assert_in_range(waited, 0, SOON_MS);
  if (strstr(answer, "took longer than")) assert_true(loop_is_free);
  return answer;
}

static void a_function_ends_at_the_deadline(void **state) {
  (void)state;
  expect_in(call_soon("like", bomb(900)), "the query took longer than 1000 ms (deadline_ms)");
  expect_in(call_soon("glob", bomb(900)), "the query took longer than 1000 ms (deadline_ms)");
  expect_in(call_soon("trim", bomb(1)), "the query took longer than 1000 ms (deadline_ms)");
  call_soon("instr", bomb(1));
  call_soon("replace", bomb(1));
  expect_in(call_soon("patch", bomb(1)), "the texts of json_patch are too long");
}

static void a_pattern_is_of_a_kilobyte_at_most(void **state) {
  (void)state;
  expect_in(call_soon("brief", bomb(1024)), "LIKE or GLOB pattern too complex");
}

/* A query that has been quick so often that it is tried on the loop. */
static void what_is_tried_on_the_loop_ends_there_at_once(void **state) {
  (void)state;
  for (int i = 0; i < 5; i++)
    expect_in(serving_call(&self, "inward", "{\"n\":1}"), "\"rows\":[{\"r\":0}]");
  expect_in(call_soon("inward", "{\"n\":1000000}"), "took longer than 1000 ms");
}

/* It is one step, so nobody could stop it on the way. */
static void an_answer_after_the_deadline_is_an_error(void **state) {
  (void)state;
  expect_in(serving_call(&self, "late", "{}"), "the query took longer than 10 ms (deadline_ms)");
}

/* Nor is this, but it looks whether it was interrupted. */
static void counting_a_table_is_interrupted(void **state) {
  (void)state;
  serving_call(&self, "counts", "{}"); /* what is read once is read faster */
  uint64_t before = child_cpu_ms(self.server.pid);
  expect_in(serving_call(&self, "counts", "{}"), "\"rows\":[{\"n\":" WIDE_ROWS "}]");
  uint64_t whole = child_cpu_ms(self.server.pid) - before;
  before = child_cpu_ms(self.server.pid);
  expect_in(serving_call(&self, "counts_late", "{}"), "took longer than 50 ms (deadline_ms)");
  uint64_t took = child_cpu_ms(self.server.pid) - before;
  print_message("to count takes %u ms of a processor, and was ended after %u\n", (unsigned)whole,
                (unsigned)took);
  assert_true(took < whole / 2);
}

/* How often threads other than the loop's have gone to sleep, or had to let others run before they could; *asleep: all
 * of them sleep now. */
static long look_at_threads(bool *asleep) {
  char path[64], line[128], kind;
  long sum = 0, count;
  *asleep = true;
  snprintf(path, sizeof path, "/proc/%ld/task", (long)self.server.pid);
  DIR *threads = opendir(path);
  assert_non_null(threads);
  for (const struct dirent *entry; (entry = readdir(threads));) {
    if (entry->d_name[0] == '.' || atol(entry->d_name) == (long)self.server.pid) continue;
    snprintf(path, sizeof path, "/proc/%ld/task/%.16s/status", (long)self.server.pid,
             entry->d_name);
    FILE *status = fopen(path, "r");
    while (status && fgets(line, sizeof line, status)) {
      if (sscanf(line, "State: %c", &kind) == 1 && kind != 'S') *asleep = false;
      if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1 ||
          sscanf(line, "nonvoluntary_ctxt_switches: %ld", &count) == 1)
        sum += count;
    }
    if (status) fclose(status);
  }
  closedir(threads);
  return sum;
}

/* When they all sleep: whoever works from then to the next time has paused in between. */
static long pauses_of_threads(void) {
  uint64_t until = child_now_ms() + 60000;
  bool asleep;
  long sum = look_at_threads(&asleep);
  for (; !asleep; sum = look_at_threads(&asleep)) {
    assert_true(child_now_ms() < until);
    poll(NULL, 0, 1);
  }
  return sum;
}

static long pauses_for(const char *tool, const char *arguments) {
  for (int i = 0; i < 5; i++) serving_call(&self, tool, arguments); /* it is known to be quick */
  long before = pauses_of_threads(), after = before;
  for (int i = 0; i < ON_LOOP; i++) {
    serving_call(&self, tool, arguments);
    after = pauses_of_threads();
  }
  return after - before;
}

static void a_query_that_binds_text_does_not_run_on_the_loop(void **state) {
  (void)state;
  long number = pauses_for("numbered", "{\"n\":1}"), text = pauses_for("brief", "{\"p\":\"a\"}");
  print_message("threads paused %ld times for a number, %ld times for a text\n", number, text);
  assert_true(text >= ON_LOOP - 5); /* a few may have been woken on their way to sleep */
  assert_true(number < ON_LOOP / 2);
}

static void what_is_late_is_not_written(void **state) {
  (void)state;
  expect_in(serving_call(&self, "late_write", "{}"), "took longer than 10 ms (deadline_ms)");
  expect_in(serving_call(&self, "count", "{}"), "\"rows\":[{\"n\":0}]");
}

static void a_lock_is_not_waited_for_past_the_deadline(void **state) {
  sqlite3 *database = open_database();
  (void)state;
  assert_int_equal(sqlite3_exec(database, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
  expect_in(serving_call(&self, "locked", "{}"), "the query took longer than 100 ms (deadline_ms)");
  assert_int_equal(sqlite3_exec(database, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(database);
}

/* ----------------------------------------------------------------------------- starting */

static void expect_refused(const char *script, const char *why) {
  serving refused;
  char path[512];
  serving_make(&refused, "{\"tools\":{\"t\":{\"script\":\"s.sql\",\"deadline_ms\":100,\"query\":"
                         "\"SELECT 1 AS one\"}}}");
  serving_file(&refused, "s.sql", script);
  serving_path(&refused, "idem.json", path, sizeof path);
  child checked = CHILD(program, "serve", path, "--check");
  expect_in(child_rest(checked.err), why);
  assert_int_equal(child_end(&checked), 1);
  child_remove_folder(refused.folder);
}

static void a_script_keeps_to_the_rules_as_well(void **state) {
  (void)state;
  expect_refused("PRAGMA case_sensitive_like = 1;", "not authorized");
  expect_refused("CREATE TABLE t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
                 " SELECT max(i) FROM n;",
                 "that takes longer than 100 ms (deadline_ms)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_come_to_what_sqlite_s_own_come_to),
      cmocka_unit_test(values_that_are_no_text_are_taken_as_sqlite_takes_them),
      cmocka_unit_test(a_function_ends_at_the_deadline),
      cmocka_unit_test(a_pattern_is_of_a_kilobyte_at_most),
      cmocka_unit_test(what_is_tried_on_the_loop_ends_there_at_once),
      cmocka_unit_test(an_answer_after_the_deadline_is_an_error),
      cmocka_unit_test(counting_a_table_is_interrupted),
      cmocka_unit_test(a_query_that_binds_text_does_not_run_on_the_loop),
      cmocka_unit_test(what_is_late_is_not_written),
      cmocka_unit_test(a_lock_is_not_waited_for_past_the_deadline),
      cmocka_unit_test(a_script_keeps_to_the_rules_as_well),
  };
  return cmocka_run_group_tests(tests, start, end);
}
