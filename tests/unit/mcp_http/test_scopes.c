/* test_scopes.c - who hears that a resource has changed: those whose token reaches it. What listening acknowledges says so, and a stream of a
 * session tells no more than its own token reaches, whatever another one has subscribed to. */
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>

#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define NARROW "Authorization: Bearer use\r\n"
#define WIDE "Authorization: Bearer rd\r\n"
#define MODERN "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n"
#define LISTEN                                                                                     \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{"                 \
  "\"notifications\":{\"resourceSubscriptions\":[\"x:open\",\"x:kept\",\"x:none\"]}," META "}}"
#define SUBSCRIBE(uri)                                                                             \
  "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"" uri    \
  "\"}}"

typedef struct world {
  mcp_web web;
  idem__grant *last; /* that was lent to a verdict */
} world;

/* Everybody is alice; the token is its scope. */
static void judge(const idem_http_caller *caller, idem__http_judgment *verdict, void *user) {
  world *w = user;
  char text[64], scope[32];
  idem__view shown = idem__http_caller_authorization(caller);
  snprintf(text, sizeof text, "%.*s", (int)shown.len, shown.at ? shown.at : "");
  *verdict = (idem__http_judgment){.status = 401};
  if (sscanf(text, "Bearer %31s", scope) != 1) return;
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__grant_unref(w->last);
  w->last = idem__grant_new(&alloc, "alice", scope, yyjson_read("{}", 2, 0), 99999999999);
  assert_non_null(w->last);
  *verdict = (idem__http_judgment){.principal = w->last->principal, .grant = w->last};
}

static void read_text(idem_request *request, const char *uri, void *user) {
  (void)uri;
  (void)user;
  idem_resource_text(request, NULL, "x", 1);
}

static void open_world(world *w) {
  w->last = NULL;
  mcp_web_open(&w->web, &(mcp_web_opts){.judge = judge, .judge_user = w});
  idem_server *server = w->web.fixture->server;
  const idem_resource open = {.uri = "x:open", .name = "open", .fn = read_text};
  const idem_resource kept = {.uri = "x:kept", .name = "kept", .scopes = "rd", .fn = read_text};
  assert_int_equal(idem_server_add_resource(server, &open, NULL, 0), IDEM_OK);
  assert_int_equal(idem_server_add_resource(server, &kept, NULL, 0), IDEM_OK);
}

static void close_world(world *w) {
  idem__grant_unref(w->last);
  mcp_web_close(&w->web);
}

static void change_all(const world *w, mcp_web_conn *conn) {
  idem_server_resource_updated(w->web.fixture->server, "x:kept");
  idem_server_resource_updated(w->web.fixture->server, "x:open");
  mcp_web_settle(conn);
}

static void listening_acknowledges_what_the_token_reaches(void **state) {
  (void)state;
  world w;
  open_world(&w);
  for (int wide = 0; wide < 2; wide++) {
    mcp_web_conn conn;
    mcp_web_connect(&w.web, &conn);
    mcp_web_send(&conn, "POST", "/mcp", wide ? WIDE MODERN : NARROW MODERN, LISTEN);
    const char *told = wide ? "\"resourceSubscriptions\":[\"x:open\",\"x:kept\",\"x:none\"]"
                            : "\"resourceSubscriptions\":[\"x:open\",\"x:none\"]";
    if (!strstr(conn.output, told)) fail_msg("no %s in:\n%s", told, conn.output);
    change_all(&w, &conn);
    assert_int_equal(mcp_web_times(&conn, "\"uri\":\"x:kept\""), wide);
    assert_int_equal(mcp_web_times(&conn, "\"uri\":\"x:open\""), 1);
    mcp_web_disconnect(&conn);
  }
  close_world(&w);
}

static void begin_session(world *w, char narrow[128], char wide[128]) {
  char session[64];
  mcp_web_hello(&w->web, WIDE, session);
  snprintf(narrow, 128, NARROW "%s", session);
  snprintf(wide, 128, WIDE "%s", session);
  mcp_web_expect(mcp_web_ask(&w->web, "POST", "/mcp", wide,
                             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"),
                 "202 Accepted");
  mcp_web_expect(mcp_web_ask(&w->web, "POST", "/mcp", narrow, SUBSCRIBE("x:kept")), " 403 ");
  mcp_web_expect(mcp_web_ask(&w->web, "POST", "/mcp", wide, SUBSCRIBE("x:kept")), "200 OK");
  mcp_web_expect(mcp_web_ask(&w->web, "POST", "/mcp", wide, SUBSCRIBE("x:open")), "200 OK");
}

static void a_stream_tells_what_its_own_token_reaches(void **state) {
  (void)state;
  world w;
  char narrow[128], wide[128];
  open_world(&w);
  begin_session(&w, narrow, wide);
  for (int i = 0; i < 2; i++) {
    mcp_web_conn conn;
    mcp_web_connect(&w.web, &conn);
    mcp_web_send(&conn, "GET", "/mcp", i ? wide : narrow, NULL);
    change_all(&w, &conn);
    assert_int_equal(mcp_web_times(&conn, "\"uri\":\"x:kept\""), i);
    assert_int_equal(mcp_web_times(&conn, "\"uri\":\"x:open\""), 1);
    mcp_web_disconnect(&conn);
  }
  close_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(listening_acknowledges_what_the_token_reaches),
      cmocka_unit_test(a_stream_tells_what_its_own_token_reaches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
