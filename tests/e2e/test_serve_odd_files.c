/* test_serve_odd_files.c - a FIFO or a device where a file should be: nobody waits for it, neither a check nor
 * a server nor the next reading of the configuration. */
#include "serving.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char program[] = IDEM_BIN_DIR "/idem";

static void put_fifo(const serving *self, const char *name) {
  char path[512];
  serving_path(self, name, path, sizeof path);
  unlink(path);
  assert_int_equal(mkfifo(path, 0600), 0);
}

static void put_database(const serving *self, const char *name) {
  char path[512];
  sqlite3 *database;
  serving_path(self, name, path, sizeof path);
  unlink(path);
  assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
  assert_int_equal(sqlite3_exec(database, "CREATE TABLE t (a)", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(database);
}

/* -------------------------------------------------------------------------- checking */

/* `odd` is a FIFO, and everything else is in order. */
static void expect_refused(const char *config, const char *odd, const char *why) {
  serving self;
  char path[512], tokens[512];
  serving_make(&self, config);
  put_fifo(&self, odd);
  serving_path(&self, "idem.json", path, sizeof path);
  serving_path(&self, "tokens", tokens, sizeof tokens);
  if (strcmp(odd, "tokens") != 0) serving_file(&self, "tokens", "a-token-of-some-length");
  for (int i = 0; i < 2; i++) {
    child checked =
        CHILD(program, "serve", path, i ? "--stdio" : "--check", "--token-file", tokens);
    expect_in(child_rest(checked.err), why);
    assert_int_not_equal(child_end(&checked), 0);
  }
  child_remove_folder(self.folder);
}

static void neither_a_check_nor_a_start_waits_for_a_fifo(void **state) {
  (void)state;
  expect_refused("{}", "idem.json", "is no regular file");
  expect_refused("{}", "tokens", "is no regular file");
  expect_refused("{\"tools\":{\"t\":{\"run\":[\"true\"],\"env\":{\"K\":{\"file\":\"odd\"}}}}}",
                 "odd", "odd: is no regular file");
  expect_refused("{\"tools\":{\"t\":{\"script\":\"odd\",\"query\":\"SELECT 1 AS a\"}}}", "odd",
                 "odd: is no regular file");
  expect_refused("{\"tools\":{\"t\":{\"database\":\"odd\",\"query\":\"SELECT 1 AS a\"}}}", "odd",
                 "unable to open database file");
  expect_refused(
      "{\"tools\":{\"t\":{\"database\":\"odd\",\"write\":true,\"query\":\"SELECT 1 AS a\"}"
      "}}",
      "odd", "unable to open database file");
  expect_refused("{\"resources\":{\"r\":{\"file\":\"odd\"}}}", "odd", "odd is no file");
}

static void a_device_is_no_file_either(void **state) {
  (void)state;
  child checked = CHILD(program, "serve", "/dev/zero", "--check");
  expect_in(child_rest(checked.err), "is no regular file");
  assert_int_equal(child_end(&checked), 1);
}

/* --------------------------------------------------------------------------- serving */

static const char config[] =
    "{\"tools\":{\"made\":{\"script\":\"s.sql\",\"query\":\"SELECT a FROM t\"},\n"
    "\"stored\":{\"database\":\"d.db\",\"query\":\"SELECT count(*) AS n FROM t\"}},\n"
    "\"resources\":{\"r\":{\"file\":\"r.txt\"},\"d\":{\"directory\":\"d\"}}}";

static void start(serving *self) {
  char path[512];
  serving_make(self, config);
  serving_file(self, "s.sql", "CREATE TABLE t (a); INSERT INTO t VALUES ('first');");
  serving_file(self, "r.txt", "text");
  serving_path(self, "d", path, sizeof path);
  assert_int_equal(mkdir(path, 0700), 0);
  put_database(self, "d.db");
  serving_start(self);
}

/* A reading that met a FIFO is over, so that the next one mends it. */
static void a_reload_waits_for_no_fifo(void **state) {
  serving self;
  (void)state;
  start(&self);
  put_fifo(&self, "s.sql");
  child_line_with(self.server.err, "s.sql: is no regular file");
  child_line_with(self.server.err, "the old configuration stays in force");
  put_fifo(&self, "idem.json");
  child_line_with(self.server.err, "cannot read");
  serving_file(&self, "s.sql.new", "CREATE TABLE t (a); INSERT INTO t VALUES ('second');");
  char from[512], to[512];
  serving_path(&self, "s.sql.new", from, sizeof from);
  serving_path(&self, "s.sql", to, sizeof to);
  assert_int_equal(rename(from, to), 0);
  serving_file(&self, "idem.json.new", config);
  serving_path(&self, "idem.json.new", from, sizeof from);
  serving_path(&self, "idem.json", to, sizeof to);
  assert_int_equal(rename(from, to), 0);
  child_line_with(self.server.err, "configuration reloaded");
  expect_in(serving_call(&self, "made", "{}"), "[{\"a\":\"second\"}]");
  serving_path(&self, "d", to, sizeof to);
  assert_int_equal(rmdir(to), 0);
  serving_end(&self);
}

/* More often than there are threads. */
static void calls_and_reads_wait_for_no_fifo(void **state) {
  serving self;
  char path[512];
  (void)state;
  start(&self);
  put_fifo(&self, "d.db");
  put_fifo(&self, "r.txt");
  put_fifo(&self, "d/odd.txt");
  for (int i = 0; i < 6; i++) {
    expect_in(serving_call(&self, "stored", "{}"), "unable to open database file");
    expect_in(serving_ask(&self, "resources/read", "{\"uri\":\"idem://r\"}"), "\"error\"");
    expect_in(serving_ask(&self, "resources/read", "{\"uri\":\"idem://d/odd.txt\"}"), "\"error\"");
  }
  put_database(&self, "d.db");
  expect_in(serving_call(&self, "stored", "{}"), "[{\"n\":0}]");
  serving_path(&self, "d/odd.txt", path, sizeof path);
  assert_int_equal(unlink(path), 0);
  serving_path(&self, "d", path, sizeof path);
  assert_int_equal(rmdir(path), 0);
  serving_end(&self);
}

/* ----------------------------------------------------------------------------- links */

static void put_link(const serving *self, const char *name, const char *target) {
  char path[512];
  serving_path(self, name, path, sizeof path);
  assert_int_equal(symlink(target, path), 0);
}

static void expect_read(serving *self, const char *path, const char *wanted) {
  char params[128];
  snprintf(params, sizeof params, "{\"uri\":\"idem://d/%s\"}", path);
  expect_in(serving_ask(self, "resources/read", params), wanted);
}

/* A link gives no other name to what is hidden or not included. */
static void a_link_serves_only_what_is_served_by_its_own_name(void **state) {
  serving self;
  char path[512];
  (void)state;
  serving_make(&self, "{\"resources\":{\"d\":{\"directory\":\"d\",\"include\":[\"*.md\"]}}}");
  serving_path(&self, "d", path, sizeof path);
  assert_int_equal(mkdir(path, 0700), 0);
  serving_path(&self, "d/.git", path, sizeof path);
  assert_int_equal(mkdir(path, 0700), 0);
  serving_file(&self, "d/.git/config.md", "the git");
  serving_file(&self, "d/.hidden.md", "the hidden");
  serving_file(&self, "d/other.txt", "the excluded");
  serving_file(&self, "d/real.md", "the real");
  put_link(&self, "d/a.md", ".hidden.md");
  put_link(&self, "d/b.md", "other.txt");
  put_link(&self, "d/c.md", ".git/config.md");
  put_link(&self, "d/public", ".git");
  put_link(&self, "d/e.md", "real.md");
  serving_start(&self);
  static const char *const refused[] = {"a.md", "b.md", "c.md", "public/config.md"};
  for (size_t i = 0; i < 4; i++) expect_read(&self, refused[i], "\"error\"");
  expect_read(&self, "real.md", "the real");
  expect_read(&self, "e.md", "the real");
  static const char *const files[] = {".git/config.md", ".git", ".hidden.md", "other.txt",
                                      "real.md",        "a.md", "b.md",       "c.md",
                                      "public",         "e.md"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char name[64];
    snprintf(name, sizeof name, "d/%s", files[i]);
    serving_path(&self, name, path, sizeof path);
    assert_int_equal(remove(path), 0);
  }
  serving_path(&self, "d", path, sizeof path);
  assert_int_equal(rmdir(path), 0);
  serving_end(&self);
}

/* ------------------------------------------------------------------------ many files */

#define MANY 50000 /* names that one file can have everywhere */
#define FOLDERS 4
#define LOOK_CPU_MS 200

/* Names of one file, which are made faster than files. */
static void make_many(const char *folder) {
  char first[512], name[544];
  assert_int_equal(mkdir(folder, 0700), 0);
  snprintf(first, sizeof first, "%s/first", folder);
  assert_int_equal(mknod(first, S_IFREG | 0600, 0), 0);
  for (int i = 0; i < MANY; i++) {
    snprintf(name, sizeof name, "%s/%d", folder, i * 7919 % MANY);
    assert_int_equal(link(first, name), 0);
  }
}

/* Of its main thread, which is the loop's. */
static long cpu_ms(pid_t pid) {
  char path[64];
  unsigned long user = 0, system = 0;
  snprintf(path, sizeof path, "/proc/%ld/task/%ld/stat", (long)pid, (long)pid);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_int_equal(
      fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system),
      2);
  fclose(file);
  return (long)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

/* None of the many is served: all of them would have to be looked at. */
static void a_folder_of_many_files_does_not_stop_the_loop(void **state) {
  static const char *const names[FOLDERS] = {"d/a", "d/b", "d/c", "d/e"};
  serving self;
  char path[512];
  (void)state;
  serving_make(&self, "{\"resources\":{\"d\":{\"directory\":\"d\",\"include\":[\"*.md\"]}}}");
  serving_path(&self, "d", path, sizeof path);
  assert_int_equal(mkdir(path, 0700), 0);
  for (size_t i = 0; i < FOLDERS; i++) {
    serving_path(&self, names[i], path, sizeof path);
    make_many(path);
  }
  serving_start(&self);
  expect_in(serving_ask(&self, "resources/list", "{}"), "\"resources\":[]");
  serving_ask(&self, "ping", "{}");
  long before = cpu_ms(self.server.pid);
  serving_file(&self, "d/new.md", "new");
  child_line_with(self.server.out, "notifications/resources/list_changed");
  long took = cpu_ms(self.server.pid) - before;
  print_message("a look took %ld ms of the loop's time\n", took);
  assert_true(took < LOOK_CPU_MS);
  serving_path(&self, "d/new.md", path, sizeof path);
  assert_int_equal(unlink(path), 0);
  for (size_t i = 0; i < FOLDERS; i++) {
    serving_path(&self, names[i], path, sizeof path);
    child_remove_folder(path);
  }
  serving_path(&self, "d", path, sizeof path);
  assert_int_equal(rmdir(path), 0);
  serving_end(&self);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(neither_a_check_nor_a_start_waits_for_a_fifo),
      cmocka_unit_test(a_device_is_no_file_either),
      cmocka_unit_test(a_reload_waits_for_no_fifo),
      cmocka_unit_test(calls_and_reads_wait_for_no_fifo),
      cmocka_unit_test(a_link_serves_only_what_is_served_by_its_own_name),
      cmocka_unit_test(a_folder_of_many_files_does_not_stop_the_loop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
