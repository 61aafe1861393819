/* test_memory.c - idem-memory keeps what it is told, finds it, and takes nothing for SQL. */
#include "mcp_client.h"

#include <unistd.h>

#define MEMORY IDEM_BIN_DIR "/idem-memory"
#define LATE_MS 10000 /* where a machine stands still now and then */

typedef struct place {
  char folder[128];
  char path[160];
} place;

static place new_place(void) {
  place made;
  child_make_folder(made.folder, sizeof made.folder);
  snprintf(made.path, sizeof made.path, "%s/memory.db", made.folder);
  return made;
}

static mcp_client open_memory(const place *where, const char *date) {
  return mcp_start((const char *const[]){MEMORY, where->path, NULL}, date, "{}");
}

static void end(mcp_client *client) { assert_int_equal(child_end(&client->server), 0); }

static void what_was_remembered_survives_a_restart(void **state) {
  (void)state;
  place where = new_place();
  mcp_client client = open_memory(&where, "2025-11-25");
  mcp_expect(mcp_call(&client, "remember", "{\"text\":\"The cat is called Mia.\"}"), "memory://1");
  mcp_expect(mcp_call(&client, "remember", "{\"text\":\"Rent is due on the third.\"}"),
             "memory://2");
  end(&client);
  client = open_memory(&where, "2026-07-28");
  const char *answer = mcp_call(&client, "recall", "{\"query\":\"cats?\"}");
  mcp_expect(answer, "\"text\":\"The cat is called Mia.\"");
  assert_null(strstr(answer, "Rent"));
  mcp_expect(mcp_call(&client, "forget", "{\"id\":1}"), "Forgotten.");
  mcp_expect(mcp_call(&client, "forget", "{\"id\":1}"), "\"isError\":true");
  mcp_expect(mcp_call(&client, "recall", "{\"query\":\"cat\"}"), "\"memories\":[]");
  end(&client);
  client = open_memory(&where, "2025-11-25");
  mcp_expect(mcp_call(&client, "remember", "{\"text\":\"x\"}"), "memory://3"); /* ids stay unique */
  end(&client);
  child_remove_folder(where.folder);
}

/* To look up all that begins with a letter took SQLite's index seconds. */
static void a_short_word_is_a_whole_word(void **state) {
  (void)state;
  place where = new_place();
  mcp_client client = open_memory(&where, "2025-11-25");
  mcp_call(&client, "remember", "{\"text\":\"Apples are on the list.\"}");
  mcp_call(&client, "remember", "{\"text\":\"Vitamin a is not.\"}");
  const char *answer = mcp_call(&client, "recall", "{\"query\":\"a\"}");
  mcp_expect(answer, "Vitamin");
  assert_null(strstr(answer, "Apples"));
  mcp_expect(mcp_call(&client, "recall", "{\"query\":\"appl\"}"), "Apples");
  mcp_expect(mcp_call(&client, "recall", "{\"query\":\"vit\"}"), "Vitamin");
  end(&client);
  child_remove_folder(where.folder);
}

/* A file that someone made endless under it: what is looked for is never found and never not found. */
static void what_takes_the_store_long_ends_with_an_error(void **state) {
  (void)state;
  place where = new_place();
  mcp_client client = open_memory(&where, "2025-11-25");
  mcp_call(&client, "remember", "{\"text\":\"Apples are on the list.\"}");
  static const char endless[] =
      "DROP TABLE memory; CREATE VIEW memory AS WITH RECURSIVE n(i) AS (SELECT 1 "
      "UNION ALL SELECT i + 1 FROM n) SELECT -i AS id, 'x' AS text, 'y' AS created FROM n";
  child changed = CHILD("/usr/bin/env", "sqlite3", where.path, endless);
  assert_int_equal(child_end(&changed), 0);
  uint64_t began = child_now_ms();
  mcp_expect(mcp_call(&client, "recall", "{\"query\":\"apples\"}"), "That takes too long");
  uint64_t took = child_now_ms() - began;
  print_message("it ended after %u ms\n", (unsigned)took);
  assert_true(took >= 2000 && took < 2000 + LATE_MS);
  mcp_expect(mcp_ask(&client, "ping", ""), "\"result\"");
  end(&client);
  child_remove_folder(where.folder);
}

static void two_assistants_share_one_file(void **state) {
  (void)state;
  place where = new_place();
  mcp_client one = open_memory(&where, "2025-11-25"), two = open_memory(&where, "2026-07-28");
  for (int i = 0; i < 20; i++) {
    mcp_send(&one, "tools/call", "\"name\":\"remember\",\"arguments\":{\"text\":\"from one\"}");
    mcp_expect(mcp_call(&two, "remember", "{\"text\":\"from two\"}"), "memory://");
    child_line_with(one.out, "Remembered as memory://");
  }
  mcp_expect(mcp_call(&two, "recall", "{\"query\":\"one\",\"limit\":1}"), "\"from one\"");
  mcp_expect(mcp_call(&one, "list", "{\"limit\":1}"), "\"id\":40,");
  end(&one);
  end(&two);
  child_remove_folder(where.folder);
}

static void memories_are_resources(void **state) {
  (void)state;
  place where = new_place();
  mcp_client client = open_memory(&where, "2025-11-25");
  mcp_send(&client, "tools/call",
           "\"name\":\"remember\",\"arguments\":{\"text\":\"Line one.\\nLine two.\"}");
  child_line_with(client.out, "notifications/resources/list_changed");
  mcp_expect(mcp_ask(&client, "resources/list", ""), "\"uri\":\"memory://1\"");
  mcp_expect(mcp_ask(&client, "resources/templates/list", ""), "memory://{id}");
  mcp_expect(mcp_ask(&client, "resources/read", "\"uri\":\"memory://1\""),
             "\"text\":\"Line one.\\nLine two.\"");
  const char *const missing[] = {"memory://2", "memory://01", "memory://1x", "memory://-1",
                                 "memory://9223372036854775808"};
  for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
    char members[80];
    snprintf(members, sizeof members, "\"uri\":\"%s\"", missing[i]);
    mcp_expect(mcp_ask(&client, "resources/read", members), "\"code\":-32002");
  }
  mcp_call(&client, "forget", "{\"id\":1}");
  mcp_expect(mcp_ask(&client, "resources/list", ""), "\"resources\":[]");
  end(&client);
  child_remove_folder(where.folder);
}

static void only_the_latest_are_listed_and_all_can_be_read(void **state) {
  (void)state;
  place where = new_place();
  mcp_client client = open_memory(&where, "2026-07-28");
  for (int i = 0; i < 60; i++) mcp_call(&client, "remember", "{\"text\":\"again\"}");
  for (int round = 0; round < 2; round++) {
    const char *list = mcp_ask(&client, "resources/list", "");
    mcp_expect(list, "\"memory://60\"");
    mcp_expect(list, "\"memory://11\"");
    assert_null(strstr(list, "\"memory://10\""));
    mcp_expect(mcp_ask(&client, "resources/read", "\"uri\":\"memory://1\""), "\"again\"");
    end(&client);
    client = open_memory(&where, "2026-07-28");
  }
  const char *page = mcp_call(&client, "list", "{\"limit\":2,\"before\":3}");
  mcp_expect(page, "\"id\":2,");
  mcp_expect(page, "\"id\":1,");
  assert_null(strstr(page, "\"id\":3,"));
  end(&client);
  child_remove_folder(where.folder);
}

static void the_prompt_brings_what_is_remembered(void **state) {
  (void)state;
  place where = new_place();
  mcp_client client = open_memory(&where, "2025-11-25");
  mcp_call(&client, "remember", "{\"text\":\"Mia is afraid of thunder.\"}");
  mcp_expect(
      mcp_ask(&client, "prompts/get", "\"name\":\"about\",\"arguments\":{\"topic\":\"Mia\"}"),
      "- Mia is afraid of thunder.");
  mcp_expect(mcp_ask(&client, "prompts/get", "\"name\":\"about\",\"arguments\":{\"topic\":\"?\"}"),
             "You have no memory of it.");
  end(&client);
  child_remove_folder(where.folder);
}

/* ------------------------------------------------------------------------- hostile */

static void values_are_never_sql(void **state) {
  (void)state;
  place where = new_place();
  mcp_client client = open_memory(&where, "2025-11-25");
  const char text[] = "'); DROP TABLE memory; -- \\\" OR 1=1";
  char arguments[256];
  snprintf(arguments, sizeof arguments, "{\"text\":\"%s\"}", text);
  mcp_expect(mcp_call(&client, "remember", arguments), "memory://1");
  snprintf(arguments, sizeof arguments, "{\"query\":\"%s\"}", text);
  mcp_expect(mcp_call(&client, "recall", arguments), "DROP TABLE memory");
  mcp_expect(mcp_call(&client, "list", "{}"), "\"id\":1,");
  mcp_expect(mcp_call(&client, "forget", "{\"id\":\"1 OR 1=1\"}"), "\"isError\":true");
  mcp_expect(mcp_call(&client, "list", "{}"), "\"id\":1,");
  end(&client);
  child_remove_folder(where.folder);
}

static void a_search_is_never_a_query_language(void **state) {
  (void)state;
  place where = new_place();
  mcp_client client = open_memory(&where, "2025-11-25");
  mcp_call(&client, "remember", "{\"text\":\"alpha beta\"}");
  const char *const found[] = {"alpha AND", "NOT alpha",        "\\\"alpha",
                               "alpha*)(",  "text:alpha",       "NEAR(alpha gamma)",
                               "^alpha",    "alpha\\u0000beta", "{alpha} - beta"};
  for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
    char arguments[128];
    snprintf(arguments, sizeof arguments, "{\"query\":\"%s\"}", found[i]);
    mcp_expect(mcp_call(&client, "recall", arguments), "\"text\":\"alpha beta\"");
  }
  mcp_expect(mcp_call(&client, "recall", "{\"query\":\"\\\"*:^(){}-+\\u0000\"}"), "no word");
  mcp_expect(mcp_call(&client, "recall", "{\"query\":\"\xe2\x80\x94\"}"), "\"memories\":[]");
  end(&client);
  child_remove_folder(where.folder);
}

/* The arguments {"NAME":"aaa..."} with `count` letters; to be freed. */
static char *long_argument(const char *name, size_t count) {
  size_t room = count + 64;
  char *text = malloc(room);
  assert_non_null(text);
  size_t at = (size_t)snprintf(text, room, "{\"%s\":\"", name);
  memset(text + at, 'a', count);
  memcpy(text + at + count, "\"}", 3);
  return text;
}

static void what_is_too_much_is_refused_and_the_server_goes_on(void **state) {
  (void)state;
  place where = new_place();
  mcp_client client = open_memory(&where, "2026-07-28");
  char *megabyte = long_argument("text", (size_t)1 << 20);
  char *largest = long_argument("text", 65536);
  char *query = long_argument("query", 1001);
  mcp_expect(mcp_call(&client, "remember", megabyte), "\"isError\":true");
  mcp_expect(mcp_call(&client, "remember", "{\"text\":\"a\\u0000b\"}"), "U+0000");
  mcp_expect(mcp_call(&client, "remember", "{\"text\":\"\"}"), "\"isError\":true");
  mcp_expect(mcp_call(&client, "recall", query), "\"isError\":true");
  mcp_expect(mcp_call(&client, "list", "{\"limit\":51}"), "\"isError\":true");
  mcp_expect(mcp_call(&client, "list", "{}"), "\"memories\":[]");
  mcp_expect(mcp_call(&client, "remember", largest), "memory://1");
  end(&client);
  free(megabyte);
  free(largest);
  free(query);
  child_remove_folder(where.folder);
}

static void a_file_that_is_no_database_is_named(void **state) {
  (void)state;
  place where = new_place();
  FILE *file = fopen(where.path, "w");
  assert_non_null(file);
  for (int i = 0; i < 100; i++) fputs("this is not a database\n", file);
  fclose(file);
  child server = CHILD(MEMORY, where.path);
  mcp_expect(child_line(server.err), where.path);
  assert_int_equal(child_end(&server), 1);
  child_remove_folder(where.folder);
}

/* ------------------------------------------------------------------------- options */

static void without_a_name_the_file_is_where_data_belongs(void **state) {
  (void)state;
  place where = new_place();
  char path[256];
  assert_int_equal(setenv("XDG_DATA_HOME", where.folder, 1), 0);
  mcp_client client = mcp_start((const char *const[]){MEMORY, NULL}, "2025-11-25", "{}");
  mcp_expect(mcp_call(&client, "remember", "{\"text\":\"here\"}"), "memory://1");
  end(&client);
  snprintf(path, sizeof path, "%s/idem/memory.db", where.folder);
  assert_int_equal(access(path, R_OK | W_OK), 0);
  child help = CHILD(MEMORY, "--help");
  const char *text = child_rest(help.out);
  mcp_expect(text, "\"mcpServers\"");
  mcp_expect(text, path);
  assert_int_equal(child_end(&help), 0);
  assert_int_equal(unlink(path), 0);
  snprintf(path, sizeof path, "%s/idem", where.folder);
  assert_int_equal(rmdir(path), 0);
  child_remove_folder(where.folder);
}

static void an_unknown_option_is_refused(void **state) {
  (void)state;
  child server = CHILD(MEMORY, "--frobnicate");
  mcp_expect(child_line(server.err), "--frobnicate");
  assert_int_equal(child_end(&server), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_remembered_survives_a_restart),
      cmocka_unit_test(a_short_word_is_a_whole_word),
      cmocka_unit_test(what_takes_the_store_long_ends_with_an_error),
      cmocka_unit_test(two_assistants_share_one_file),
      cmocka_unit_test(memories_are_resources),
      cmocka_unit_test(only_the_latest_are_listed_and_all_can_be_read),
      cmocka_unit_test(the_prompt_brings_what_is_remembered),
      cmocka_unit_test(values_are_never_sql),
      cmocka_unit_test(a_search_is_never_a_query_language),
      cmocka_unit_test(what_is_too_much_is_refused_and_the_server_goes_on),
      cmocka_unit_test(a_file_that_is_no_database_is_named),
      cmocka_unit_test(without_a_name_the_file_is_where_data_belongs),
      cmocka_unit_test(an_unknown_option_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
