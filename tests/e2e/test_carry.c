/* test_carry.c - two processes and one SQLite store: what a client says to the other one reaches the one it is meant for.
 * Answers to questions and cancellations are carried; where who asked has died, the answer is refused. Called with a
 * store's URL and a lease it is such a process. */
#include "node.h"

#include <idem/mcp.h>
#include <idem/uv.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------- the server */

static void ask(idem_request *request, yyjson_val *arguments, void *user) {
  yyjson_val *answer = idem_answer_to(request, "r");
  (void)arguments, (void)user;
  if (answer)
    idem_tool_text(request, "answered", 8);
  else
    idem_needs_input(request, &(idem_ask){.key = "r", .kind = IDEM_ASK_ROOTS}, 1, NULL, 0);
}

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason, (void)user;
  fprintf(stderr, "the handler was told\n");
  idem_request_drop(request);
}

static void hang(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  fprintf(stderr, "the handler runs\n");
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, NULL);
}

static int serve(const char *store, const char *lease_ms) {
  static const char *const urls[] = {"http://127.0.0.1:0/mcp"};
  idem_server *server;
  idem_server_opts opts = {
      .name = "carry", .version = "1", .lease_ms = strtoull(lease_ms, NULL, 10)};
  idem_server_os(&opts);
  if (idem_server_new(&opts, &server) != IDEM_OK) return 1;
  const idem_tool tools[] = {{.name = "ask", .fn = ask}, {.name = "hang", .fn = hang}};
  for (size_t i = 0; i < 2; i++)
    if (idem_server_add_tool(server, &tools[i], NULL, 0) != IDEM_OK) return 1;
  int code = idem_run(urls, 1, &(idem_serve_opts){.server = server, .store = store});
  idem_server_free(server);
  return code;
}

/* ------------------------------------------------------------------------- nodes */

typedef struct world {
  char folder[256], session[80];
  node one, other;
} world;

/* The session is of `one`. */
static void start(world *in, const char *lease_ms) {
  char store[300];
  child_make_folder(in->folder, sizeof in->folder);
  snprintf(store, sizeof store, "sqlite:%s/store.db", in->folder);
  in->one = node_of(CHILD("/proc/self/exe", store, lease_ms));
  in->other = node_of(CHILD("/proc/self/exe", store, lease_ms));
  node_open_session(&in->one, "2025-06-18", "{\"roots\":{}}", in->session);
}

static void end(world *in) {
  node_stop(&in->other, SIGTERM);
  child_remove_folder(in->folder);
}

static int post(const node *self, const char *session, const char *body) {
  char headers[128];
  snprintf(headers, sizeof headers, "Mcp-Session-Id: %s\r\n", session);
  return node_send(self, "POST /mcp", headers, body);
}

static void expect_in(const char *text, const char *wanted) {
  if (!strstr(text, wanted)) fail_msg("no %s in: %s", wanted, text);
}

/* The id of the question that came on this stream. */
static long long question(int fd) {
  const char *line = child_line_with(fd, "roots/list");
  const char *id = strstr(line, "\"id\":");
  assert_non_null(id);
  return strtoll(id + 5, NULL, 10);
}

#define CALL(tool)                                                                                 \
  "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{\"name\":\"" tool "\"}}"

/* Longer than a name in a store may be. */
static char *answer_to(long long id) {
  static char body[100000];
  int len =
      snprintf(body, sizeof body,
               "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{\"roots\":[{\"uri\":\"file:///", id);
  memset(body + len, 'r', sizeof body - 20 - (size_t)len);
  snprintf(body + sizeof body - 20, 20, "\"}]}}");
  return body;
}

/* Neither is taken for dead that merely had to wait for a processor. */
static void what_is_said_to_one_process_reaches_another(void **state) {
  world in;
  (void)state;
  start(&in, "600000");
  int stream = post(&in.one, in.session, CALL("ask"));
  const char *body = answer_to(question(stream));
  expect_in(node_rest(post(&in.other, in.session, body)), " 202 ");
  expect_in(child_line_with(stream, "\"id\":7"), "answered");
  close(stream);
  stream = post(&in.one, in.session, CALL("hang"));
  child_line_with(in.one.server.err, "the handler runs");
  expect_in(
      node_rest(post(&in.other, in.session,
                     "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                     "\"requestId\":7}}")),
      " 202 ");
  child_line_with(in.one.server.err, "the handler was told");
  close(stream);
  node_stop(&in.one, SIGTERM);
  end(&in);
}

static void an_answer_to_who_has_died_is_refused(void **state) {
  world in;
  (void)state;
  start(&in, "500");
  int stream = post(&in.one, in.session, CALL("ask"));
  const char *body = answer_to(question(stream));
  node_stop(&in.one, SIGKILL);
  close(stream);
  uint64_t until = child_now_ms() + 60000;
  while (!strstr(node_rest(post(&in.other, in.session, body)), " 409 ")) {
    assert_true(child_now_ms() < until);
    poll(NULL, 0, 50);
  }
  /* The session lives. */
  expect_in(
      node_rest(post(&in.other, in.session, "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}")),
      "\"id\":8,\"result\"");
  end(&in);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_said_to_one_process_reaches_another),
                                     cmocka_unit_test(an_answer_to_who_has_died_is_refused)};
  if (argc > 2) return serve(argv[1], argv[2]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
