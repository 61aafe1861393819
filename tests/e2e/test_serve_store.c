/* test_serve_store.c - `idem serve --store sqlite:...`: a session outlives the process that opened it, is shared by
 * processes that name the same file, and no program of a tool reads that file. */
#include "node.h"
#include "serving.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char idem[] = IDEM_BIN_DIR "/idem";
static const char config[] =
    "{\"tools\":{\"show\":{\"args\":{\"file\":\"string\"},\"run\":[\"cat\",\"--\",\"{file}\"]}}}";

static node start(const serving *files, const char *store) {
  char path[300];
  serving_path(files, "idem.json", path, sizeof path);
  return node_serve(path, store, NULL);
}

static void open_session(const node *self, char session[80]) {
  node_open_session(self, "2025-06-18", "{}", session);
}

static void expect_served(const node *self, const char *session) {
  const char *answer =
      node_post(self, session, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}");
  expect_in(answer, " 200 ");
  expect_in(answer, "\"id\":7,\"result\":{\"tools\":[{\"name\":\"show\"");
}

static void store_url(const serving *files, char *url, size_t size) {
  char path[300];
  serving_path(files, "store.db", path, sizeof path);
  snprintf(url, size, "sqlite:%s", path);
}

static void a_session_outlives_its_process(void **state) {
  serving files;
  char store[320], session[80];
  (void)state;
  serving_make(&files, config);
  store_url(&files, store, sizeof store);
  node first = start(&files, store);
  open_session(&first, session);
  expect_served(&first, session);
  node_stop(&first, SIGKILL);
  node second = start(&files, store);
  expect_served(&second, session);
  node_stop(&second, SIGTERM);
  node third = start(&files, store);
  expect_served(&third, session);
  node_stop(&third, SIGTERM);
  child_remove_folder(files.folder);
}

static void processes_that_name_one_file_share_its_sessions(void **state) {
  serving files;
  char store[320], session[80];
  (void)state;
  serving_make(&files, config);
  store_url(&files, store, sizeof store);
  node one = start(&files, store), other = start(&files, store);
  open_session(&one, session);
  expect_served(&other, session);
  expect_in(
      node_post(&other, "0123456789abcdef", "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}"),
      " 404 ");
  node_stop(&one, SIGTERM);
  expect_served(&other, session);
  node_stop(&other, SIGTERM);
  child_remove_folder(files.folder);
}

static void the_start_names_the_store(void **state) {
  serving files;
  char path[300], store[320];
  (void)state;
  serving_make(&files, config);
  serving_path(&files, "idem.json", path, sizeof path);
  store_url(&files, store, sizeof store);
  const char *const urls[] = {store, "memory:"};
  for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
    child server = CHILD(idem, "serve", path, "--http", "127.0.0.1:0", "--store", urls[i]);
    expect_in(child_line_with(server.err, "the store is open"), urls[i]);
    child_line_with(server.err, "listening");
    kill(server.pid, SIGTERM);
    assert_int_equal(child_end(&server), 0);
  }
  child_remove_folder(files.folder);
}

static void no_program_reads_the_store(void **state) {
  serving files;
  char store[320], session[80];
  struct stat found;
  (void)state;
  serving_make(&files, config);
  serving_file(&files, "plain.txt", "readable");
  store_url(&files, store, sizeof store);
  node self = start(&files, store);
  open_session(&self, session);
  assert_int_equal(stat(store + strlen("sqlite:"), &found), 0);
  assert_int_equal(found.st_mode & 0777, 0600);
  static const char call[] =
      "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":"
      "\"show\",\"arguments\":{\"file\":\"%s\"}}}";
  char body[256];
  snprintf(body, sizeof body, call, "plain.txt");
  expect_in(node_post(&self, session, body), "readable");
  static const char *const hidden[] = {"store.db", "store.db-wal", "store.db-shm"};
  for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
    snprintf(body, sizeof body, call, hidden[i]);
    expect_in(node_post(&self, session, body), "Permission denied");
  }
  node_stop(&self, SIGTERM);
  child_remove_folder(files.folder);
}

/* Not by another way either: the store's folder may be a link beside it. */
static void no_program_reads_a_store_behind_a_link(void **state) {
  serving files;
  char folder[300], link[300], store[340], session[80], body[256];
  (void)state;
  serving_make(&files, config);
  serving_path(&files, "real", folder, sizeof folder);
  serving_path(&files, "link", link, sizeof link);
  assert_int_equal(mkdir(folder, 0700), 0);
  assert_int_equal(symlink("real", link), 0);
  snprintf(store, sizeof store, "sqlite:%s/store.db", link);
  for (int turn = 0; turn < 2; turn++) { /* a new file, one that is there */
    node self = start(&files, store);
    open_session(&self, session);
    static const char *const names[] = {"real/store.db", "real/store.db-wal", "link/store.db",
                                        "link/store.db-shm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
      snprintf(body, sizeof body,
               "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":"
               "\"show\",\"arguments\":{\"file\":\"%s\"}}}",
               names[i]);
      expect_in(node_post(&self, session, body), "Permission denied");
    }
    node_stop(&self, SIGTERM);
  }
  child_remove_folder(files.folder);
}

static void expect_refused(const char *store, const char *reason, int status) {
  serving files;
  char path[300];
  serving_make(&files, config);
  serving_path(&files, "idem.json", path, sizeof path);
  child server = CHILD(idem, "serve", path, "--http", "127.0.0.1:0", "--store", store);
  expect_in(child_rest(server.err), reason);
  assert_int_equal(child_end(&server), status);
  child_remove_folder(files.folder);
}

static void a_store_that_cannot_be_is_refused_with_the_reason(void **state) {
  (void)state;
  expect_refused("sqlite:/nowhere/at/all.db", "No such file", 1);
  expect_refused("sqlite:/tmp/idem.db?sync=perhaps", "sqlite:/path?sync=full", 1);
  expect_refused("mysql://localhost",
                 "this flag wants memory:, sqlite:/PATH/FILE, redis://HOST:6379", 2);
}

/* ------------------------------------------------------------------- no room left */

static node start_with_small_files(const serving *files, const char *store) {
  char path[300];
  serving_path(files, "idem.json", path, sizeof path);
  return node_of(CHILD("/bin/sh", "-c", "ulimit -f 600; exec \"$@\"", "sh", idem, "serve", path,
                       "--http", "127.0.0.1:0", "--store", store));
}

/* As on a full disk: whoever needs the store is told, and the others are served. */
static void a_store_that_may_not_grow_refuses_and_the_server_lives(void **state) {
  static char hello[32768];
  serving files;
  char store[320];
  bool refused = false;
  (void)state;
  serving_make(&files, config);
  store_url(&files, store, sizeof store);
  node self = start_with_small_files(&files, store);
  snprintf(
      hello, sizeof hello,
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
      "\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"%020000d\",\"version\":\"1\"}}"
      "}",
      1);
  for (int i = 0; i < 200 && !refused; i++)
    refused = strstr(node_post(&self, NULL, hello), " 503 ");
  assert_true(refused);
  expect_in(node_post(&self, NULL, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}"),
            "not-initialized");
  node_stop(&self, SIGTERM);
  child_remove_folder(files.folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_session_outlives_its_process),
      cmocka_unit_test(processes_that_name_one_file_share_its_sessions),
      cmocka_unit_test(the_start_names_the_store),
      cmocka_unit_test(no_program_reads_the_store),
      cmocka_unit_test(no_program_reads_a_store_behind_a_link),
      cmocka_unit_test(a_store_that_cannot_be_is_refused_with_the_reason),
      cmocka_unit_test(a_store_that_may_not_grow_refuses_and_the_server_lives),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
