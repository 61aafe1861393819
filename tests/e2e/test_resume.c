/* test_resume.c - two processes and one store, a SQLite file or a Redis: the stream of a POST that is taken up again at the other process
 * comes to an end, whatever becomes of the one that answers, and so do
 * waiting for a task and a call that was given up. Called with a store's URL and a lease it is such a process. */
#include "node.h"
#include "support/redis_server.h"

#include <idem/mcp.h>
#include <idem/uv.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------- the server */

static idem_request *hanging;

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason, (void)user;
  hanging = NULL;
  fprintf(stderr, "the handler was told\n");
  idem_request_drop(request);
}

/* Says a word, by which its client can come back, and waits for `finish`. */
static void hang(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_progress(request, 1, 2, "hangs");
  fprintf(stderr, "the handler runs\n");
  hanging = request;
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, NULL);
}

static void finish(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  if (hanging) idem_tool_text(hanging, "finished", 8);
  hanging = NULL;
  idem_tool_text(request, "done", 4);
}

static int serve(const char *store, const char *lease_ms) {
  static const char *const urls[] = {"http://127.0.0.1:0/mcp"};
  idem_server *server;
  idem_server_opts opts = {
      .name = "resume", .version = "1", .lease_ms = strtoull(lease_ms, NULL, 10)};
  idem_server_os(&opts);
  if (idem_server_new(&opts, &server) != IDEM_OK) return 1;
  const idem_tool tools[] = {{.name = "hang", .fn = hang, .task = IDEM_TASK_OPTIONAL},
                             {.name = "finish", .fn = finish}};
  for (size_t i = 0; i < 2; i++)
    if (idem_server_add_tool(server, &tools[i], NULL, 0) != IDEM_OK) return 1;
  int code = idem_run(urls, 1, &(idem_serve_opts){.server = server, .store = store});
  idem_server_free(server);
  return code;
}

/* --------------------------------------------------------------------- the world */

/* Where a process dies, the other finds out soon; where none does, none is taken for dead that merely had
 * to wait for a processor. */
#define SOON_DEAD "500"
#define ALIVE "600000"

typedef struct world {
  const char *lease_ms;
  char folder[256], store[320], session[80];
  redis_server redis; /* where there is one */
  bool has_redis;
  node one, other;
} world;

static node start(const world *in) {
  return node_of(CHILD("/proc/self/exe", in->store, in->lease_ms));
}

static world *make_world(bool on_redis, const char *revision, const char *lease_ms) {
  static world self;
  self.lease_ms = lease_ms;
  child_make_folder(self.folder, sizeof self.folder);
  self.has_redis = on_redis;
  if (on_redis) assert_true(redis_server_start(&self.redis, NULL));
  if (on_redis)
    snprintf(self.store, sizeof self.store, "redis+unix:%s", self.redis.socket);
  else
    snprintf(self.store, sizeof self.store, "sqlite:%s/store.db", self.folder);
  self.one = start(&self);
  self.other = start(&self);
  node_open_session(&self.one, revision, "{}", self.session);
  return &self;
}

static void end_world(world *in) {
  node_stop(&in->other, SIGTERM);
  if (in->has_redis) redis_server_stop(&in->redis);
  child_remove_folder(in->folder);
}

static void expect_in(const char *text, const char *wanted) {
  if (!strstr(text, wanted)) fail_msg("no %s in: %s", wanted, text);
}

#define CALL(id, tool)                                                                             \
  "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool      \
  "\",\"_meta\":{\"progressToken\":1}}}"

/* Calls at `one` and loses the connection, with the event after which it may come back. */
static void call_and_lose(const world *in, const char *body, char last[64]) {
  char headers[128];
  snprintf(headers, sizeof headers, "Mcp-Session-Id: %s\r\n", in->session);
  int fd = node_send(&in->one, "POST /mcp", headers, body);
  for (const char *line = ""; !strstr(line, "notifications/progress");) {
    line = child_line(fd);
    (void)sscanf(line, "id: %63[0-9a-f-]", last);
  }
  close(fd);
}

static const char *rest_of(int stream) {
  const char *rest = child_rest(stream);
  close(stream);
  return rest;
}

/* ------------------------------------------------------------------------- promises */

/* Who takes it up while the other lives, and who comes when it is known to be dead. */
static void who_takes_up_a_stream_hears_that_its_process_died(bool on_redis) {
  world *in = make_world(on_redis, "2025-06-18", SOON_DEAD);
  char first[64], second[64], third[64];
  call_and_lose(in, CALL("7", "hang"), first);
  call_and_lose(in, CALL("\"seven \\\"\"", "hang"), second);
  call_and_lose(in, CALL("-12345678901234567890", "hang"), third);
  int stream = node_listen(&in->other, in->session, first);
  node_stop(&in->one, SIGKILL);
  const char *rest = rest_of(stream);
  expect_in(rest, "\"id\":7,\"error\":{\"code\":-32603");
  expect_in(rest, "process-ended");
  expect_in(rest_of(node_listen(&in->other, in->session, second)),
            "\"id\":\"seven \\\"\",\"error\":{\"code\":-32603");
  expect_in(rest_of(node_listen(&in->other, in->session, third)),
            "\"id\":-12345678901234567890,\"error\"");
  /* All who come hear the same, also of another process. */
  node fresh = start(in);
  expect_in(rest_of(node_listen(&fresh, in->session, first)), "\"id\":7,\"error\"");
  node_stop(&fresh, SIGTERM);
  end_world(in);
}

static void who_takes_up_a_stream_hears_that_its_process_died_by_sqlite(void **state) {
  (void)state;
  who_takes_up_a_stream_hears_that_its_process_died(false);
}

static void who_takes_up_a_stream_hears_that_its_process_died_by_redis(void **state) {
  (void)state;
  who_takes_up_a_stream_hears_that_its_process_died(true);
}

/* A batch is answered by an array; only 2025-03-26 has them. */
static void a_batch_whose_process_died_is_answered_by_an_array(void **state) {
  (void)state;
  world *in = make_world(false, "2025-03-26", SOON_DEAD);
  char last[64];
  call_and_lose(in, "[" CALL("7", "hang") ",{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}]",
                last);
  int stream = node_listen(&in->other, in->session, last);
  node_stop(&in->one, SIGKILL);
  const char *rest = rest_of(stream);
  expect_in(rest, "data: [{\"jsonrpc\":\"2.0\",\"id\":");
  expect_in(rest, "\"id\":7,\"error\"");
  expect_in(rest, "\"id\":8,\"error\"");
  end_world(in);
}

static void call(const node *self, const world *in, const char *body, const char *answer) {
  expect_in(node_post(self, in->session, body), answer);
}

/* The answer comes when it is there, to where the stream was taken up. */
static void an_answer_reaches_who_took_the_stream_up_elsewhere(bool on_redis) {
  world *in = make_world(on_redis, "2025-11-25", ALIVE);
  char last[64];
  call_and_lose(in, CALL("7", "hang"), last);
  int stream = node_listen(&in->other, in->session, last);
  uint64_t begun = child_now_ms();
  call(&in->one, in, CALL("8", "finish"), "done");
  expect_in(rest_of(stream), "finished");
  assert_true(child_now_ms() < begun + 10000); /* and not when it is looked at for another reason */
  /* What was cancelled has no answer: its stream ends. */
  call_and_lose(in, CALL("9", "hang"), last);
  stream = node_listen(&in->other, in->session, last);
  call(&in->other, in,
       "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":9}}",
       " 202 ");
  const char *rest = rest_of(stream);
  if (strstr(rest, "\"id\":9")) fail_msg("an answer to what was cancelled: %s", rest);
  node_stop(&in->one, SIGTERM);
  end_world(in);
}

static void an_answer_reaches_who_took_the_stream_up_elsewhere_by_sqlite(void **state) {
  (void)state;
  an_answer_reaches_who_took_the_stream_up_elsewhere(false);
}

static void an_answer_reaches_who_took_the_stream_up_elsewhere_by_redis(void **state) {
  (void)state;
  an_answer_reaches_who_took_the_stream_up_elsewhere(true);
}

/* Who waits at the other for a task hears that its process died. */
static void who_waits_for_a_task_hears_that_its_process_died(bool on_redis) {
  world *in = make_world(on_redis, "2025-11-25", SOON_DEAD);
  char headers[128], body[256], task[64];
  const char *begun = node_post(
      &in->one, in->session,
      "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"hang\","
      "\"task\":{}}}");
  const char *id = strstr(begun, "\"taskId\":\"");
  assert_non_null(id);
  assert_int_equal(sscanf(id, "\"taskId\":\"%63[0-9a-f-]", task), 1);
  snprintf(headers, sizeof headers, "Mcp-Session-Id: %s\r\n", in->session);
  snprintf(
      body, sizeof body,
      "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tasks/result\",\"params\":{\"taskId\":\"%s\"}}",
      task);
  int waiting = node_send(&in->other, "POST /mcp", headers, body);
  node_stop(&in->one, SIGKILL);
  const char *rest = rest_of(waiting);
  expect_in(rest, "\"id\":8,\"error\"");
  expect_in(rest, "process-ended");
  end_world(in);
}

static void who_waits_for_a_task_hears_that_its_process_died_by_sqlite(void **state) {
  (void)state;
  who_waits_for_a_task_hears_that_its_process_died(false);
}

static void who_waits_for_a_task_hears_that_its_process_died_by_redis(void **state) {
  (void)state;
  who_waits_for_a_task_hears_that_its_process_died(true);
}

#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"t\",\"version\":\"1\"},"                     \
  "\"io.modelcontextprotocol/clientCapabilities\":{},\"idem/key\":\"k\"}"

/* A call with a key goes on without its connection, unless its client says that it gave it up, at whichever process. */
static void a_call_that_is_given_up_by_its_key_ends_elsewhere(bool on_redis) {
  world *in = make_world(on_redis, "2025-11-25", ALIVE);
  int lost = node_send(&in->one, "POST /mcp",
                       "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n"
                       "Mcp-Name: hang\r\n",
                       "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{"
                       "\"name\":\"hang\"," META "}}");
  child_line_with(in->one.server.err, "the handler runs");
  close(lost);
  expect_in(node_rest(node_send(&in->other, "POST /mcp",
                                "MCP-Protocol-Version: 2026-07-28\r\n"
                                "Mcp-Method: notifications/idem/cancelled\r\n",
                                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/idem/cancelled\","
                                "\"params\":{\"name\":\"hang\"," META "}}")),
            " 202 ");
  child_line_with(in->one.server.err, "the handler was told");
  node_stop(&in->one, SIGTERM);
  end_world(in);
}

static void a_call_that_is_given_up_by_its_key_ends_elsewhere_by_sqlite(void **state) {
  (void)state;
  a_call_that_is_given_up_by_its_key_ends_elsewhere(false);
}

static void a_call_that_is_given_up_by_its_key_ends_elsewhere_by_redis(void **state) {
  (void)state;
  a_call_that_is_given_up_by_its_key_ends_elsewhere(true);
}

/* A stream that never was, or of which nobody knows any more what was asked: no stream is opened. */
static void a_stream_that_nobody_knows_is_refused(void **state) {
  (void)state;
  world *in = make_world(false, "2025-11-25", ALIVE);
  static const char *const unknown[] = {"77-1", "1000000000077-1"};
  for (size_t i = 0; i < 2; i++) {
    char headers[256];
    snprintf(headers, sizeof headers, "Mcp-Session-Id: %s\r\nLast-Event-ID: %s\r\n", in->session,
             unknown[i]);
    expect_in(node_rest(node_send(&in->other, "GET /mcp", headers, "")), " 400 ");
  }
  node_stop(&in->one, SIGTERM);
  end_world(in);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_takes_up_a_stream_hears_that_its_process_died_by_sqlite),
      cmocka_unit_test(who_takes_up_a_stream_hears_that_its_process_died_by_redis),
      cmocka_unit_test(a_batch_whose_process_died_is_answered_by_an_array),
      cmocka_unit_test(an_answer_reaches_who_took_the_stream_up_elsewhere_by_sqlite),
      cmocka_unit_test(an_answer_reaches_who_took_the_stream_up_elsewhere_by_redis),
      cmocka_unit_test(who_waits_for_a_task_hears_that_its_process_died_by_sqlite),
      cmocka_unit_test(who_waits_for_a_task_hears_that_its_process_died_by_redis),
      cmocka_unit_test(a_call_that_is_given_up_by_its_key_ends_elsewhere_by_sqlite),
      cmocka_unit_test(a_call_that_is_given_up_by_its_key_ends_elsewhere_by_redis),
      cmocka_unit_test(a_stream_that_nobody_knows_is_refused),
  };
  if (argc > 2) return serve(argv[1], argv[2]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
