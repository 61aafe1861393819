/* test_serve_content.c - queries, files and prompts of `idem serve`, asked kindly and otherwise. */
#include "serving.h"

#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char config[] =
    "{\"tools\":{\n"
    " \"find\":{\"args\":{\"name\":\"string\",\"least?\":\"integer\"},\"database\":\"data.db\",\n"
    "  \"query\":\"SELECT name, count FROM things WHERE name = :name AND count >= "
    "coalesce(:least, 0)\"},\n"
    " \"all\":{\"database\":\"data.db\",\"max_rows\":2,\"query\":\"SELECT * FROM things\"},\n"
    " \"endless\":{\"database\":\"data.db\",\"deadline_ms\":100,\"query\":\"WITH RECURSIVE n(i) AS "
    "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) AS top FROM n\"},\n"
    " \"count\":{\"args\":{\"n\":\"integer\"},\"database\":\"data.db\",\"query\":\"WITH "
    "RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :n) "
    "SELECT max(i) AS top, (SELECT count(*) FROM things) AS things FROM n\"},\n"
    " \"strict\":{\"database\":\"data.db\",\"query\":\"SELECT 1 AS x\","
    "\"output_schema\":{\"type\":\"object\",\"properties\":{\"row_count\":{\"const\":2}}}},\n"
    " \"add\":{\"args\":{\"name\":\"string\"},\"database\":\"data.db\",\"write\":true,\n"
    "  \"query\":\"INSERT INTO things VALUES (:name, 1)\"}\n"
    "},\"resources\":{\n"
    " \"docs\":{\"directory\":\"docs\",\"include\":[\"*.md\",\"*.bin\"]},\n"
    " \"picked\":{\"directory\":\"picked\",\"complete\":{\"run\":[\"printf\","
    "\"x.bin\\\\nxy.md\\\\nz\\\\n\"]}},\n"
    " \"one\":{\"file\":\"one.json\",\"max_bytes\":20}\n"
    "},\"prompts\":{\"ask\":{\"arguments\":{\"what\":\"w\",\"how?\":\"h\"},"
    "\"text\":\"Ask {what} {how}!\"},\n"
    " \"speak\":{\"arguments\":{\"language\":{\"enum\":[\"German\",\"greek\",\"Thai\"]},"
    "\"word\":{\"description\":\"w\",\"complete\":{\"run\":[\"printf\",\"%s-%s\\\\n\","
    "\"{value}\",\"{language}\",\"{value}\",\"2\"]}},"
    "\"plain?\":{\"complete\":{\"run\":[\"printf\",\"apple\\\\navocado\\\\nbean\\\\ncut\"]}},"
    "\"slow?\":{\"complete\":{\"run\":[\"sleep\",\"600\"],\"deadline_ms\":100}},"
    "\"flood?\":{\"complete\":{\"run\":[\"yes\",\"y\"]}},"
    "\"bad?\":{\"complete\":{\"run\":[\"sh\",\"-c\",\"echo x; exit 1\"]}}},"
    "\"text\":\"{language} {word}\"}}}";

static void change_database(const serving *self, const char *name, const char *statements) {
  char path[512];
  sqlite3 *database;
  serving_path(self, name, path, sizeof path);
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  sqlite3_busy_timeout(database, 10000);
  assert_int_equal(sqlite3_exec(database, statements, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(database);
}

static void make_database(const serving *self) {
  change_database(self, "data.db",
                  "CREATE TABLE things (name TEXT, count INTEGER);"
                  "INSERT INTO things VALUES ('nut', 3), ('bolt', 5), (x'00ff', 1)");
}

static void make_files(const serving *self) {
  char path[512];
  serving_path(self, "picked", path, sizeof path);
  assert_int_equal(mkdir(path, 0755), 0);
  serving_path(self, "docs", path, sizeof path);
  assert_int_equal(mkdir(path, 0755), 0);
  serving_file(self, "docs/a b.md", "# Hello");
  serving_file(self, "docs/.hidden.md", "hidden");
  serving_file(self, "docs/other.txt", "not included");
  serving_file(self, "secret.md", "outside");
  serving_file(self, "docs/x.bin", "\xff\xfe");
  serving_file(self, "one.json", "{}");
  serving_path(self, "docs/link.md", path, sizeof path);
  assert_int_equal(symlink("../secret.md", path), 0);
}

static int start(void **state) {
  static serving self;
  serving_make(&self, config);
  make_database(&self);
  make_files(&self);
  serving_start(&self);
  *state = &self;
  return 0;
}

static int end(void **state) {
  static const char *const files[] = {"docs/a b.md",    "docs/.hidden.md", "docs/link.md",
                                      "docs/other.txt", "docs/x.bin",      "docs",
                                      "picked"};
  char path[512];
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    serving_path(*state, files[i], path, sizeof path);
    assert_int_equal(remove(path), 0);
  }
  serving_end(*state);
  return 0;
}

static void rows_are_structured_and_a_table(void **state) {
  const char *answer = serving_call(*state, "find", "{\"name\":\"nut\"}");
  expect_in(answer, "\"structuredContent\":{\"rows\":[{\"name\":\"nut\",\"count\":3}],"
                    "\"row_count\":1,\"truncated\":false}");
  expect_in(answer, "name | count\\nnut | 3\\n");
  expect_in(serving_call(*state, "find", "{\"name\":\"nut\",\"least\":4}"), "\"rows\":[]");
}

static void a_value_is_never_a_part_of_the_query(void **state) {
  expect_in(serving_call(*state, "find", "{\"name\":\"x' OR '1'='1\"}"), "\"rows\":[]");
  expect_in(serving_call(*state, "find", "{\"name\":\"nut'; DROP TABLE things; --\"}"),
            "\"rows\":[]");
  expect_in(serving_call(*state, "find", "{\"name\":\"bolt\"}"), "\"count\":5");
}

static void rows_and_time_have_limits(void **state) {
  const char *answer = serving_call(*state, "all", "{}");
  expect_in(answer, "\"row_count\":2,\"truncated\":true");
  expect_in(answer, "There are more rows");
  answer = serving_call(*state, "endless", "{}");
  expect_in(answer, "\"isError\":true");
  expect_in(answer, "took longer than 100 ms");
}

static void rows_that_break_the_schema_are_told(void **state) {
  const char *answer = serving_call(*state, "strict", "{}");
  expect_in(answer, "\"isError\":true");
  expect_in(answer, "JSON that its output_schema does not allow: output.row_count");
}

static void what_may_write_writes(void **state) {
  expect_not_in(serving_call(*state, "add", "{\"name\":\"screw\"}"), "isError");
  expect_in(serving_call(*state, "find", "{\"name\":\"screw\"}"), "\"count\":1");
}

static void a_quick_query_may_become_a_slow_one(void **state) {
  for (int i = 0; i < 3; i++) expect_in(serving_call(*state, "count", "{\"n\":3}"), "\"top\":3");
  expect_in(serving_call(*state, "count", "{\"n\":300000}"), "\"top\":300000");
  expect_in(serving_call(*state, "count", "{\"n\":3}"), "\"top\":3");
}

/* Sessions are kept and locks are held for a moment; neither may show. */
static void what_others_change_is_seen_at_once(void **state) {
  char from[512], to[512];
  for (int i = 0; i < 3; i++)
    expect_in(serving_call(*state, "find", "{\"name\":\"bolt\"}"), "\"count\":5");
  change_database(*state, "data.db", "UPDATE things SET count = 6 WHERE name = 'bolt'");
  expect_in(serving_call(*state, "find", "{\"name\":\"bolt\"}"), "\"count\":6");
  change_database(*state, "new.db",
                  "CREATE TABLE things (name TEXT, count INTEGER);"
                  "INSERT INTO things VALUES ('bolt', 8)");
  serving_path(*state, "new.db", from, sizeof from);
  serving_path(*state, "data.db", to, sizeof to);
  assert_int_equal(rename(from, to), 0);
  poll(NULL, 0, 2); /* the longest that a lock is held */
  expect_in(serving_call(*state, "find", "{\"name\":\"bolt\"}"), "\"count\":8");
  change_database(*state, "data.db", "PRAGMA journal_mode = WAL");
  change_database(*state, "data.db", "UPDATE things SET count = 9 WHERE name = 'bolt'");
  expect_in(serving_call(*state, "find", "{\"name\":\"bolt\"}"), "\"count\":9");
}

static void files_of_a_folder_are_listed_and_read(void **state) {
  const char *list = serving_ask(*state, "resources/list", "{}");
  expect_in(list, "idem://docs/a%20b.md");
  expect_in(list, "\"uri\":\"idem://one\"");
  expect_not_in(list, "hidden");
  expect_not_in(list, "other.txt");
  expect_not_in(list, "link.md");
  const char *answer = serving_ask(*state, "resources/read", "{\"uri\":\"idem://docs/a%20b.md\"}");
  expect_in(answer, "\"mimeType\":\"text/markdown\"");
  expect_in(answer, "\"text\":\"# Hello\"");
  expect_in(serving_ask(*state, "resources/read", "{\"uri\":\"idem://docs/x.bin\"}"),
            "\"blob\":\"//4=\"");
  expect_in(serving_ask(*state, "resources/templates/list", "{}"), "idem://docs/{+path}");
}

/* MUST resources.paths 2026-07-28 */
static void nothing_outside_a_folder_is_read(void **state) {
  static const char *const outside[] = {
      "../secret.md",       "%2e%2e/secret.md",    "..%2fsecret.md",
      "%2E%2E%2Fsecret.md", "x/../../secret.md",   "link.md",
      "/etc/passwd",        "%2fetc%2fpasswd",     ".hidden.md",
      "%2ehidden.md",       "other.txt",           "a%20b.md%00.md",
      "..%5csecret.md",     "%252e%252e/secret.md"};
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
    char params[128];
    snprintf(params, sizeof params, "{\"uri\":\"idem://docs/%s\"}", outside[i]);
    const char *answer = serving_ask(*state, "resources/read", params);
    expect_in(answer, "\"error\"");
    expect_not_in(answer, "\"text\"");
  }
}

static void a_file_beyond_its_limit_is_told(void **state) {
  expect_in(serving_ask(*state, "resources/read", "{\"uri\":\"idem://one\"}"), "\"text\":\"{}\"");
  serving_file(*state, "one.json", "{\"this\": \"has grown past its limit\"}");
  expect_in(serving_ask(*state, "resources/read", "{\"uri\":\"idem://one\"}"), "max_bytes");
}

static void prompts_are_filled_in(void **state) {
  expect_in(
      serving_ask(*state, "prompts/get", "{\"name\":\"ask\",\"arguments\":{\"what\":\"{how}\"}}"),
      "\"text\":\"Ask {how} !\"");
}

static const char *complete(void *state, const char *argument, const char *value) {
  char params[512];
  snprintf(params, sizeof params,
           "{\"ref\":{\"type\":\"ref/prompt\",\"name\":\"speak\"},\"argument\":{\"name\":\"%s\","
           "\"value\":\"%s\"},\"context\":{\"arguments\":{\"language\":\"Thai\"}}}",
           argument, value);
  return serving_ask(state, "completion/complete", params);
}

static void arguments_are_completed_from_their_enum(void **state) {
  expect_in(complete(*state, "language", "g"), "\"values\":[\"German\",\"greek\"],\"total\":2");
  expect_in(complete(*state, "language", "x"), "\"values\":[]");
  expect_in(complete(*state, "nothing", ""), "\"values\":[]");
  expect_in(
      serving_ask(*state, "prompts/get",
                  "{\"name\":\"speak\",\"arguments\":{\"language\":\"Elvish\",\"word\":\"a\"}}"),
      "\"Invalid params: arguments.language: expected one of \\\"German\\\", \\\"greek\\\", "
      "\\\"Thai\\\", received \\\"Elvish\\\"\",\"data\":{\"param\":\"arguments.language\","
      "\"expected\":\"one of the accepted values\",\"received\":\"Elvish\","
      "\"accepted\":[\"German\",\"greek\",\"Thai\"]}");
  expect_in(serving_ask(
                *state, "prompts/get",
                "{\"name\":\"speak\",\"arguments\":{\"language\":\"Thai\",\"word\":\"a\\u0000\"}}"),
            "\"Invalid params: arguments.word: expected string without NUL, received string\"");
}

static void arguments_are_completed_by_a_program(void **state) {
  expect_in(complete(*state, "word", "su; rm"), "\"values\":[\"su; rm-Thai\",\"su; rm-2\"]");
  expect_in(complete(*state, "plain", "a"), "\"values\":[\"apple\",\"avocado\"],\"total\":2");
  expect_in(complete(*state, "plain", "c"), "\"values\":[]"); /* a line that has no end was cut */
}

static void a_program_that_cannot_help_completes_nothing(void **state) {
  expect_in(complete(*state, "slow", "a"), "\"values\":[],\"total\":0");
  expect_in(complete(*state, "bad", ""), "\"values\":[]");
  expect_in(complete(*state, "word", "-x"), "\"values\":[]"); /* could be an option */
  const char *answer = complete(*state, "flood", "y");
  expect_in(answer, "\"y\",\"y\"");
  expect_in(answer, "\"hasMore\":true");
}

static void paths_are_completed_from_the_files(void **state) {
  expect_in(serving_ask(*state, "completion/complete",
                        "{\"ref\":{\"type\":\"ref/resource\",\"uri\":\"idem://docs/{+path}\"},"
                        "\"argument\":{\"name\":\"path\",\"value\":\"\"}}"),
            "\"values\":[\"a b.md\",\"x.bin\"],\"total\":2");
}

static void paths_are_completed_by_a_program_that_knows_them(void **state) {
  static const char *const uris[] = {"idem://picked/{+path}", "idem://picked/{path}"};
  char params[256];
  for (int i = 0; i < 2; i++) {
    snprintf(params, sizeof params,
             "{\"ref\":{\"type\":\"ref/resource\",\"uri\":\"%s\"},"
             "\"argument\":{\"name\":\"path\",\"value\":\"x\"}}",
             uris[i]);
    const char *answer = serving_ask(*state, "completion/complete", params);
    expect_in(answer, i ? "error" : "\"values\":[\"x.bin\",\"xy.md\"],\"total\":2");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_structured_and_a_table),
      cmocka_unit_test(a_value_is_never_a_part_of_the_query),
      cmocka_unit_test(rows_and_time_have_limits),
      cmocka_unit_test(rows_that_break_the_schema_are_told),
      cmocka_unit_test(what_may_write_writes),
      cmocka_unit_test(a_quick_query_may_become_a_slow_one),
      cmocka_unit_test(what_others_change_is_seen_at_once),
      cmocka_unit_test(files_of_a_folder_are_listed_and_read),
      cmocka_unit_test(nothing_outside_a_folder_is_read),
      cmocka_unit_test(a_file_beyond_its_limit_is_told),
      cmocka_unit_test(prompts_are_filled_in),
      cmocka_unit_test(arguments_are_completed_from_their_enum),
      cmocka_unit_test(arguments_are_completed_by_a_program),
      cmocka_unit_test(a_program_that_cannot_help_completes_nothing),
      cmocka_unit_test(paths_are_completed_from_the_files),
      cmocka_unit_test(paths_are_completed_by_a_program_that_knows_them),
  };
  return cmocka_run_group_tests(tests, start, end);
}
