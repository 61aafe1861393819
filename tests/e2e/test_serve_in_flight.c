/* test_serve_in_flight.c - the bounds on calls under way that flags of `idem serve` set: of all, of one client, of
 * one session, over HTTP and over sockets. */
#include "serving.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BOUND 2
#define REFUSED "too-many-in-flight"
#define META                                                                                       \
  ",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                        \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}"

static const char program[] = IDEM_BIN_DIR "/idem";
static const char config[] =
    "{\"concurrency\":16,\"tools\":{\"wait\":{\"run\":[\"sleep\",\"1000\"]},"
    "\"echo\":{\"run\":[\"echo\",\"heard\"]}}}";

typedef struct bounded {
  serving files;
  child server;
  char url[128];
  int asking[BOUND + 1];
} bounded;

static void start(bounded *self, const char *transport, const char *flag) {
  char path[512], tokens[512];
  serving_make(&self->files, config);
  serving_file(&self->files, "tokens", "token-of-one\ntoken-of-two\n");
  serving_path(&self->files, "idem.json", path, sizeof path);
  serving_path(&self->files, "tokens", tokens, sizeof tokens);
  self->server = CHILD(program, "serve", path, transport, "0", "--token-file", tokens, flag, "2");
  child_listening(&self->server, self->url, sizeof self->url);
}

static void end(bounded *self) {
  for (size_t i = 0; i <= BOUND; i++) close(self->asking[i]);
  kill(self->server.pid, SIGTERM);
  assert_int_equal(child_end(&self->server), 0);
  child_remove_folder(self->files.folder);
}

/* -------------------------------------------------------------------------- asking */

static int connect_web(const bounded *self) {
  char tcp[128];
  const char *rest = strstr(self->url, "://");
  snprintf(tcp, sizeof tcp, "tcp%.*s", (int)(strcspn(rest + 3, "/") + 3), rest);
  return child_connect(tcp);
}

static int post(const bounded *self, const char *token, const char *headers, const char *body) {
  char text[2048];
  int fd = connect_web(self);
  snprintf(text, sizeof text,
           "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Accept: application/json, text/event-stream\r\nAuthorization: Bearer token-of-%s\r\n"
           "%sContent-Length: %zu\r\n\r\n%s",
           token, headers, strlen(body), body);
  child_send(fd, text);
  return fd;
}

static int call_web(const bounded *self, const char *token, const char *session, const char *tool) {
  char headers[512], body[512];
  if (*session)
    snprintf(headers, sizeof headers, "MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: %s\r\n",
             session);
  else
    snprintf(headers, sizeof headers,
             "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\n",
             tool);
  static int id;
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
           "\"arguments\":{}%s}}",
           ++id, tool, *session ? "" : META);
  return post(self, token, headers, body);
}

/* Until the end of the answer's body is surely there. */
static const char *read_until(int fd, const char *wanted, const char *other) {
  static char text[16384];
  size_t len = 0;
  for (text[0] = 0; !strstr(text, wanted) && !strstr(text, other);) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (poll(&ready, 1, 60000) != 1) fail_msg("no %s in time, but %s", wanted, text);
    ssize_t got = read(fd, text + len, sizeof text - 1 - len);
    if (got <= 0) fail_msg("the end came before %s: %s", wanted, text);
    len += (size_t)got;
    text[len] = 0;
  }
  return text;
}

static void expect_heard(const bounded *self, const char *token, const char *session,
                         bool accepted) {
  int fd = call_web(self, token, session, "echo");
  expect_in(read_until(fd, "heard\\n", "error"), accepted ? "heard\\n" : REFUSED);
  close(fd);
}

/* Of one call more than the bound one is refused, and nothing is said of the others. */
static void expect_one_refused(const bounded *self) {
  struct pollfd ready[BOUND + 1];
  for (size_t i = 0; i <= BOUND; i++)
    ready[i] = (struct pollfd){.fd = self->asking[i], .events = POLLIN};
  if (poll(ready, BOUND + 1, 60000) < 1) fail_msg("none of %d calls is refused", BOUND + 1);
  size_t answered = 0;
  for (size_t i = 0; i <= BOUND; i++) {
    if (!ready[i].revents) continue;
    expect_in(read_until(self->asking[i], REFUSED, "result"), REFUSED);
    answered++;
  }
  assert_int_equal(answered, 1);
}

static void open_session(const bounded *self, char *session, size_t size) {
  int fd = post(self, "one", "",
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
                "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
                "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}");
  const char *answer = read_until(fd, "serverInfo", "error");
  const char *at = strcasestr(answer, "mcp-session-id: ");
  assert_non_null(at);
  snprintf(session, size, "%.*s", (int)strcspn(at + 16, "\r"), at + 16);
  close(fd);
}

/* ------------------------------------------------------------------------- promises */

static void all_together_have_a_bound(void **state) {
  bounded self;
  (void)state;
  start(&self, "--http", "--max-in-flight");
  for (size_t i = 0; i <= BOUND; i++)
    self.asking[i] = call_web(&self, i % 2 ? "one" : "two", "", "wait");
  expect_one_refused(&self);
  expect_heard(&self, "one", "", false);
  expect_heard(&self, "two", "", false);
  end(&self);
}

static void a_client_has_a_bound(void **state) {
  bounded self;
  (void)state;
  start(&self, "--http", "--client-in-flight");
  for (size_t i = 0; i <= BOUND; i++) self.asking[i] = call_web(&self, "one", "", "wait");
  expect_one_refused(&self);
  expect_heard(&self, "one", "", false);
  expect_heard(&self, "two", "", true);
  end(&self);
}

static void a_session_has_a_bound(void **state) {
  bounded self;
  char first[128], second[128];
  (void)state;
  start(&self, "--http", "--session-in-flight");
  open_session(&self, first, sizeof first);
  open_session(&self, second, sizeof second);
  for (size_t i = 0; i <= BOUND; i++) self.asking[i] = call_web(&self, "one", first, "wait");
  expect_one_refused(&self);
  expect_heard(&self, "one", first, false);
  expect_heard(&self, "one", second, true);
  end(&self);
}

/* Whatever connections it has. */
static void a_client_of_a_socket_has_a_bound(void **state) {
  static const char call[] =
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"wait\","
      "\"arguments\":{}" META "}}\n";
  bounded self;
  (void)state;
  start(&self, "--tcp", "--client-in-flight");
  for (size_t i = 0; i <= BOUND; i++) {
    self.asking[i] = child_connect(self.url);
    child_send(self.asking[i], call);
  }
  expect_one_refused(&self);
  end(&self);
}

static void the_bound_of_all_holds_over_sockets(void **state) {
  static const char call[] =
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"wait\","
      "\"arguments\":{}" META "}}\n";
  bounded self;
  (void)state;
  start(&self, "--tcp", "--max-in-flight");
  for (size_t i = 0; i <= BOUND; i++) {
    self.asking[i] = child_connect(self.url);
    child_send(self.asking[i], call);
  }
  expect_one_refused(&self);
  end(&self);
}

static void a_bound_of_nothing_is_refused(void **state) {
  static const char *const flags[] = {"--max-in-flight", "--client-in-flight",
                                      "--session-in-flight"};
  static const char *const values[] = {"0", "-1", "many", "9999999"};
  (void)state;
  for (size_t i = 0; i < 3; i++)
    for (size_t j = 0; j < 4; j++) {
      child server = CHILD(program, "serve", flags[i], values[j]);
      expect_in(child_rest(server.err), "this flag wants N");
      assert_int_equal(child_end(&server), 2);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_together_have_a_bound),
      cmocka_unit_test(a_client_has_a_bound),
      cmocka_unit_test(a_session_has_a_bound),
      cmocka_unit_test(a_client_of_a_socket_has_a_bound),
      cmocka_unit_test(the_bound_of_all_holds_over_sockets),
      cmocka_unit_test(a_bound_of_nothing_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
