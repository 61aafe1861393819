/* test_call_target.c - whom a word of the command line means. */
#include "support/unit.h"

#include "call/cache.h"
#include "call/target.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void put_file(const char *name, const char *content) {
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  fputs(content, file);
  fclose(file);
}

static bool find(call_target *self, const char *word, const char *config) {
  call_options options = {.target = word, .config = config};
  return target_find(self, &options);
}

static void a_url_is_a_url(void **state) {
  (void)state;
  static const char *const urls[] = {"http://h/mcp", "https://h", "ws://h", "wss://h",
                                     "tcp://h:1",    "tls://h:1", "unix:/x"};
  for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
    call_target found;
    assert_true(find(&found, urls[i], NULL));
    assert_string_equal(found.url, urls[i]);
    target_free(&found);
  }
  static const char *const none[] = {"htpp://h", "exec:sh", "file:///x",
                                     "stdio:", "localhost:80/x"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    call_target found;
    assert_false(find(&found, none[i], NULL));
    target_free(&found);
  }
}

static void an_idem_json_is_served_by_this_program(void **state) {
  call_target found;
  (void)state;
  put_file("idem.json", "{\"tools\":{}}");
  assert_true(find(&found, "idem.json", NULL));
  assert_string_equal(found.argv[1], "serve");
  assert_string_equal(found.argv[2], "--stdio");
  assert_string_equal(found.argv[4], "idem.json");
  target_free(&found);
  assert_false(find(&found, "nosuch.json", NULL));
  target_free(&found);
}

static void a_name_is_looked_up_where_assistants_keep_it(void **state) {
  call_target found;
  (void)state;
  mkdir(".config", 0700);
  mkdir(".config/Claude", 0700);
  mkdir(".cursor", 0700);
  mkdir("project", 0700);
  mkdir("project/.vscode", 0700);
  put_file(
      ".config/Claude/claude_desktop_config.json",
      "{\"mcpServers\":{\"notes\":{\"command\":\"node\",\"args\":[\"s.js\",\"${TEST_HOME}/x\"],"
      "\"env\":{\"KEY\":\"${env:TEST_HOME}\"}}}}");
  put_file(".cursor/mcp.json", "{\"mcpServers\":{\"web\":{\"url\":\"https://h/mcp\",\"headers\":{"
                               "\"X-Key\":\"${NOPE:-none}\"}}}} // comments are fine");
  put_file("project/.vscode/mcp.json",
           "{\"servers\":{\"old\":{\"type\":\"sse\",\"url\":\"http://h/sse\"},},}");
  setenv("TEST_HOME", "/there", 1);
  assert_int_equal(chdir("project"), 0);
  assert_true(find(&found, "notes", NULL));
  assert_string_equal(found.argv[0], "node");
  assert_string_equal(found.argv[2], "/there/x");
  bool set = false;
  for (size_t i = 0; found.environment[i]; i++)
    set = set || strcmp(found.environment[i], "KEY=/there") == 0;
  assert_true(set);
  target_free(&found);
  assert_true(find(&found, "web", NULL));
  assert_string_equal(found.url, "https://h/mcp");
  assert_string_equal(found.headers[0], "X-Key: none");
  target_free(&found);
  assert_true(find(&found, "old", NULL));
  assert_true(found.event_stream);
  target_free(&found);
  assert_false(find(&found, "nots", NULL));
  target_free(&found);
  assert_int_equal(chdir(".."), 0);
}

static void every_known_shape_of_a_server_is_read(void **state) {
  static const struct {
    const char *file, *first, *url;
  } rows[] = {
      {"{\"mcpServers\":{\"s\":{\"command\":\"a\"}}}", "a", NULL},
      {"{\"context_servers\":{\"s\":{\"command\":{\"path\":\"a\",\"args\":[\"b\"]}}}}", "a", NULL},
      {"{\"mcp\":{\"s\":{\"type\":\"local\",\"command\":[\"a\",\"b\"]}}}", "a", NULL},
      {"{\"mcp\":{\"servers\":{\"s\":{\"url\":\"http://h\"}}}}", NULL, "http://h"},
      {"{\"mcpServers\":{\"s\":{\"httpUrl\":\"http://h\"}}}", NULL, "http://h"},
      {"{\"mcpServers\":{\"s\":{\"serverUrl\":\"http://h\"}}}", NULL, "http://h"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    call_target found;
    put_file("servers.json", rows[i].file);
    assert_true(find(&found, "s", "servers.json"));
    if (rows[i].first) assert_string_equal(found.argv[0], rows[i].first);
    if (rows[i].url) assert_string_equal(found.url, rows[i].url);
    target_free(&found);
  }
  static const char *const wrong[] = {"{\"mcpServers\":{\"s\":{}}}",
                                      "{}",
                                      "[",
                                      "{\"mcpServers\":{}}",
                                      "{\"mcpServers\":{\"s\":{\"command\":1}}}",
                                      "{\"mcpServers\":{\"s\":{\"command\":\"a\",\"args\":[1]}}}"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    call_target found;
    put_file("servers.json", wrong[i]);
    assert_false(find(&found, "s", "servers.json"));
    target_free(&found);
  }
}

static void a_variable_without_a_value_is_a_fault_that_names_it(void **state) {
  config_memory memory = {.last = NULL};
  char why[300] = "";
  (void)state;
  setenv("SET", "x", 1);
  assert_string_equal(target_expand(&memory, "a${SET}b${SET:-y}", why, sizeof why), "axbx");
  assert_string_equal(target_expand(&memory, "${UNSET:-a b}", why, sizeof why), "a b");
  assert_string_equal(target_expand(&memory, "$SET ${", why, sizeof why), "$SET ${");
  assert_null(target_expand(&memory, "${UNSET}", why, sizeof why));
  assert_true(strstr(why, "UNSET") != NULL);
  assert_null(target_expand(&memory, "${input:key}", why, sizeof why));
  assert_true(strstr(why, "${env:NAME}") != NULL);
  memory_free(&memory);
}

static void what_a_server_said_is_kept_for_the_user_alone(void **state) {
  call_target one, other;
  call_cache kept;
  struct stat about;
  (void)state;
  setenv("XDG_CACHE_HOME", folder, 1);
  assert_true(find(&one, "http://h/one", NULL) && find(&other, "http://h/other", NULL));
  yyjson_doc *tools = yyjson_read("[{\"name\":\"t\"}]", 14, 0);
  assert_false(cache_load(&kept, &one));
  cache_free(&kept);
  cache_store(&one, cache_now_ms(), "{\"revision\":\"2026-07-28\"}", 25,
              yyjson_doc_get_root(tools));
  assert_true(cache_load(&kept, &one));
  assert_string_equal(cache_revision(&kept), "2026-07-28");
  assert_int_equal(yyjson_arr_size(cache_tools(&kept)), 1);
  cache_free(&kept);
  assert_false(cache_load(&kept, &other));
  cache_free(&kept);
  assert_int_equal(stat("idem/call", &about), 0);
  assert_int_equal(about.st_mode & 0777, 0700);
  cache_forget(&one);
  assert_false(cache_load(&kept, &one));
  cache_free(&kept);
  yyjson_doc_free(tools);
  target_free(&one);
  target_free(&other);
}

static int make_home(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/idem-call-XXXXXX");
  unsetenv("XDG_CONFIG_HOME");
  return !mkdtemp(folder) || setenv("HOME", folder, 1) != 0 || chdir(folder) != 0;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *at) {
  (void)about, (void)kind, (void)at;
  return remove(path);
}

static int remove_home(void **state) {
  (void)state;
  return chdir("/") != 0 || nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_url_is_a_url),
      cmocka_unit_test(an_idem_json_is_served_by_this_program),
      cmocka_unit_test(a_name_is_looked_up_where_assistants_keep_it),
      cmocka_unit_test(every_known_shape_of_a_server_is_read),
      cmocka_unit_test(a_variable_without_a_value_is_a_fault_that_names_it),
      cmocka_unit_test(what_a_server_said_is_kept_for_the_user_alone),
  };
  return cmocka_run_group_tests(tests, make_home, remove_home);
}
