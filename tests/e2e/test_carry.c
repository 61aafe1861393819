/* test_carry.c - two processes and one SQLite store: what a client says to the other one reaches the one it is meant for.
 * Answers to questions and cancellations are carried; where who asked has died, the answer is refused. Called with a
 * store's URL it is such a process. */
#include "child.h"

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

static int serve(const char *store) {
  static const char *const urls[] = {"http://127.0.0.1:0/mcp"};
  idem_server *server;
  idem_server_opts opts = {.name = "carry", .version = "1", .lease_ms = 500};
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

typedef struct node {
  child server;
  char url[80], host[64];
} node;

static node start(const char *store) {
  node self;
  char line[128];
  self.server = CHILD("/proc/self/exe", store);
  child_listening(&self.server, line, sizeof line);
  assert_int_equal(sscanf(line, "http://%63[^/]", self.host), 1);
  snprintf(self.url, sizeof self.url, "tcp://%s", self.host);
  return self;
}

static int post(const node *self, const char *session, const char *body) {
  char head[512];
  int fd = child_connect(self->url);
  snprintf(head, sizeof head,
           "POST /mcp HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: "
           "application/json\r\nAccept: application/json, text/event-stream\r\n%s"
           "Content-Length: %zu\r\n\r\n",
           self->host, session, strlen(body));
  child_send(fd, head);
  child_send(fd, body);
  return fd;
}

static const char *rest(int fd) {
  const char *answer = child_rest(fd);
  close(fd);
  return answer;
}

static void expect_in(const char *text, const char *wanted) {
  if (!strstr(text, wanted)) fail_msg("no %s in: %s", wanted, text);
}

static void open_session(const node *self, char session[128]) {
  const char *answer = rest(post(
      self, "",
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
      "\"2025-06-18\",\"capabilities\":{\"roots\":{}},\"clientInfo\":{\"name\":\"t\",\"version\":"
      "\"1\"}}}"));
  const char *line = strcasestr(answer, "mcp-session-id:");
  char id[80];
  assert_non_null(line);
  assert_int_equal(sscanf(line + strlen("mcp-session-id:"), " %79[!-~]", id), 1);
  snprintf(session, 128, "Mcp-Session-Id: %s\r\n", id);
  expect_in(
      rest(post(self, session, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}")),
      " 202 ");
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

static void answer_to(char *body, size_t size, long long id) {
  snprintf(body, size, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{\"roots\":[]}}", id);
}

static void what_is_said_to_one_process_reaches_another(void **state) {
  char folder[256], store[300], session[128], body[128];
  (void)state;
  child_make_folder(folder, sizeof folder);
  snprintf(store, sizeof store, "sqlite:%s/store.db", folder);
  node one = start(store), other = start(store);
  open_session(&one, session);
  int stream = post(&one, session, CALL("ask"));
  answer_to(body, sizeof body, question(stream));
  expect_in(rest(post(&other, session, body)), " 202 ");
  expect_in(child_line_with(stream, "\"id\":7"), "answered");
  close(stream);
  stream = post(&one, session, CALL("hang"));
  child_line_with(one.server.err, "the handler runs");
  expect_in(rest(post(&other, session,
                      "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                      "\"requestId\":7}}")),
            " 202 ");
  child_line_with(one.server.err, "the handler was told");
  close(stream);
  stream = post(&one, session, CALL("ask"));
  answer_to(body, sizeof body, question(stream));
  kill(one.server.pid, SIGKILL);
  assert_int_equal(child_end(&one.server), -SIGKILL);
  close(stream);
  uint64_t until = child_now_ms() + 60000;
  while (!strstr(rest(post(&other, session, body)), " 404 ")) {
    assert_true(child_now_ms() < until);
    poll(NULL, 0, 50);
  }
  kill(other.server.pid, SIGTERM);
  assert_int_equal(child_end(&other.server), 0);
  child_remove_folder(folder);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_said_to_one_process_reaches_another)};
  if (argc > 1) return serve(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
