/* test_serve_full.c - a store that has no room left, since its disk is full or its Redis has no memory: the log and a metric say so, what is there is
 * served, what needs room is refused with the reason, and it goes on when there is room again. Who starts then is told why it cannot. */
#include "node.h"
#include "serving.h"
#include "support/redis_server.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define FULL "the store is full"
#define ROOM "the store has room again"
#define LIST "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}"

static const char config[] = "{\"tools\":{\"say\":{\"run\":[\"echo\",\"hello\"]}}}";

/* No file of that process may grow: as a disk without room, or a quota. The signal that goes with it is ignored from its start on. */
static void limit_files(pid_t pid, bool full) {
  struct rlimit limit;
  assert_int_equal(prlimit(pid, RLIMIT_FSIZE, NULL, &limit), 0);
  limit.rlim_cur = full ? 0 : limit.rlim_max;
  assert_int_equal(prlimit(pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

static const char *call(const node *self) {
  return node_rest(node_send(
      self, "POST /mcp",
      "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: say\r\n",
      "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"say\","
      "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
      "\"io.modelcontextprotocol/clientCapabilities\":{},\"idem/key\":\"k\"}}}"));
}

static void expect_metric(const node *self, const char *line) {
  expect_in(node_rest(node_send(self, "GET /metrics", "", "")), line);
}

static void expect_full(const node *self, const char *session) {
  child_line_with(self->server.err, FULL);
  expect_metric(self, "\nidem_store_full 1\n");
  expect_metric(self, "\nidem_store_unavailable 0\n"); /* it answers */
  expect_in(node_post(self, session, LIST), " 200 ");
  const char *refused = call(self);
  expect_in(refused, " 503 ");
  expect_in(refused, "\"id\":7,\"error\"");
  expect_in(refused, "\"reason\":\"unavailable\"");
}

static void expect_room(const node *self) {
  child_line_with(self->server.err, ROOM);
  expect_metric(self, "\nidem_store_full 0\n");
  expect_in(call(self), "hello");
}

static void a_full_disk_is_told_and_outlived(void **state) {
  serving files;
  char path[300], store[320], session[80];
  (void)state;
  serving_make(&files, config);
  serving_path(&files, "idem.json", path, sizeof path);
  snprintf(store, sizeof store, "sqlite:%s/store.db", files.folder);
  node one = node_serve(path, store, "--lease-ms", "1000", NULL);
  node_open_session(&one, "2025-11-25", "{}", session);
  limit_files(one.server.pid, true);
  expect_full(&one, session);
  limit_files(one.server.pid, false);
  expect_room(&one);
  node_stop(&one, SIGTERM);
  child_remove_folder(files.folder);
}

/* With a file that is there, and with none. */
static void who_starts_on_a_full_disk_is_told_so(void **state) {
  serving files;
  char path[300], store[320];
  static const char program[] = IDEM_BIN_DIR "/idem";
  (void)state;
  serving_make(&files, config);
  serving_path(&files, "idem.json", path, sizeof path);
  snprintf(store, sizeof store, "sqlite:%s/store.db", files.folder);
  for (int there = 0; there < 2; there++) {
    node before = there ? node_serve(path, store, NULL) : (node){.host = ""};
    if (there) node_stop(&before, SIGTERM);
    limit_files(getpid(), true);
    child second = CHILD(program, "serve", path, "--http", "127.0.0.1:0", "--store", store);
    limit_files(getpid(), false);
    expect_in(child_line_with(second.err, "the store cannot be used"), "its disk is full");
    assert_int_equal(child_end(&second), 1);
  }
  child_remove_folder(files.folder);
}

static void a_redis_without_memory_is_told_and_outlived(void **state) {
  serving files;
  redis_server redis;
  char path[300], store[160], session[80];
  (void)state;
  serving_make(&files, config);
  serving_path(&files, "idem.json", path, sizeof path);
  assert_true(redis_server_start(&redis, (const char *const[]){NULL}));
  snprintf(store, sizeof store, "redis+unix:%s", redis.socket);
  node one = node_serve(path, store, "--lease-ms", "1000", NULL);
  node_open_session(&one, "2025-11-25", "{}", session);
  assert_string_equal(redis_server_ask(&redis, "CONFIG SET maxmemory 1"), "+OK");
  expect_full(&one, session);
  assert_string_equal(redis_server_ask(&redis, "CONFIG SET maxmemory 0"), "+OK");
  expect_room(&one);
  node_stop(&one, SIGTERM);
  redis_server_stop(&redis);
  child_remove_folder(files.folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_full_disk_is_told_and_outlived),
      cmocka_unit_test(who_starts_on_a_full_disk_is_told_so),
      cmocka_unit_test(a_redis_without_memory_is_told_and_outlived),
  };
  signal(SIGXFSZ, SIG_IGN);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
