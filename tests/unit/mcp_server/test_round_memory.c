/* test_round_memory.c - what a client has answered waits for its other answers as memory of its own: past
 * its share an answer is refused, the handler is told so, and what has ended makes room. */
#include "mcp_server/server.h"
#include "rpc/rpc.h"
#include "support/mcp_peer.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define HELLO                                                                                      \
  "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"       \
  "\"2025-06-18\",\"capabilities\":{\"elicitation\":{}},"                                          \
  "\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}\n"

enum { CALLS = 8, SHARE = 300000, LARGE = 100000 };

static const char *said(idem_request *request, const char *key) {
  static const char *const names[] = {"none", "given", "refused", "failed"};
  return names[idem_answer_of(request, key, NULL)];
}

/* Asks twice at once, and says what came of either. */
static void ask_both(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  static const idem_ask asks[] = {{.key = "a", .kind = IDEM_ASK_FORM, .message = "A?"},
                                  {.key = "b", .kind = IDEM_ASK_FORM, .message = "B?"}};
  char text[64];
  if (!idem_answer_to(request, "b")) {
    idem_needs_input(request, asks, 2, NULL, 0);
    return;
  }
  int len = snprintf(text, sizeof text, "%s and %s", said(request, "a"), said(request, "b"));
  idem_tool_text(request, text, (size_t)len);
}

static const char *send_line(mcp_peer *peer, const char *line) {
  assert_int_equal(idem_conn_feed(peer->conn, line, strlen(line)), IDEM_OK);
  return mcp_peer_more(peer);
}

static idem_server *open_peer(mcp_peer *peer) {
  static const unsigned char address[IDEM__CLIENT_BYTES] = {10, 0, 0, 1};
  idem_server *server = mcp_test_server(NULL);
  idem_tool tool = {.name = "t", .fn = ask_both};
  assert_int_equal(idem_server_add_tool(server, &tool, NULL, 0), IDEM_OK);
  idem__router_limit_work_bytes(server->router, SHARE);
  mcp_peer_open(peer, server, "2026-07-28");
  idem__conn_set_client(peer->conn, address);
  assert_non_null(strstr(send_line(peer, HELLO), "\"2025-06-18\""));
  send_line(peer, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
  return server;
}

/* Returns the id of the first question; the second has the one after it. */
static unsigned call(mcp_peer *peer, unsigned id) {
  char line[128];
  snprintf(line, sizeof line,
           "{\"jsonrpc\":\"2.0\",\"id\":\"c%u\",\"method\":\"tools/call\",\"params\":{\"name\":"
           "\"t\"}}\n",
           id);
  const char *questions = send_line(peer, line);
  const char *at = strstr(questions, "\"id\":");
  assert_non_null(strstr(questions, "\"A?\""));
  assert_non_null(at);
  return (unsigned)strtoul(at + 5, NULL, 10);
}

static const char *answer(mcp_peer *peer, unsigned question, size_t bytes) {
  char *line = malloc(bytes + 256);
  assert_non_null(line);
  int head = snprintf(line, 256,
                      "{\"jsonrpc\":\"2.0\",\"id\":%u,\"result\":{\"action\":\"accept\","
                      "\"content\":{\"x\":\"",
                      question);
  memset(line + head, 'x', bytes);
  strcpy(line + head + bytes, "\"}}}\n");
  const char *more = send_line(peer, line);
  free(line);
  return more;
}

static void answers_that_wait_for_others_take_a_clients_share(void **state) {
  (void)state;
  mcp_peer peer;
  idem_server *server = open_peer(&peer);
  unsigned questions[CALLS];
  size_t given = 0, failed = 0, full = 0;
  for (unsigned i = 0; i < CALLS; i++) questions[i] = call(&peer, i);
  for (unsigned i = 0; i < CALLS; i++) assert_string_equal(answer(&peer, questions[i], LARGE), "");
  for (unsigned i = CALLS; i-- > 0;) {
    const char *end = answer(&peer, questions[i] + 1, 1);
    given += strstr(end, "given and given") != NULL;
    failed += strstr(end, "failed and given") != NULL;
    full += strstr(end, "too-many-in-flight") != NULL;
  }
  assert_in_range(given, 1, SHARE / LARGE);
  assert_in_range(failed, CALLS - SHARE / LARGE, CALLS - 1);
  assert_int_equal(given + failed + full, CALLS);
  assert_int_equal(idem__router_work(server->router), 0);
  mcp_peer_close_with(&peer, server);
}

static void a_lone_call_may_be_answered_at_length(void **state) {
  (void)state;
  mcp_peer peer;
  idem_server *server = open_peer(&peer);
  for (unsigned i = 0; i < 3; i++) { /* what it took is given back each time */
    unsigned question = call(&peer, i);
    assert_string_equal(answer(&peer, question, 2 * (size_t)SHARE), "");
    assert_non_null(strstr(answer(&peer, question + 1, 1), "given and given"));
  }
  mcp_peer_close_with(&peer, server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_that_wait_for_others_take_a_clients_share),
      cmocka_unit_test(a_lone_call_may_be_answered_at_length),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
