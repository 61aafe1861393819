/* test_client_real.c - idem_connect over HTTP to real servers: idem-reference plain and behind TLS, by
 * way of proxies, and a stream of an MCP server that breaks off and is taken up again. */
#include "certificate.h"
#include "client_world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void note(world *in, const char *request) {
  assert_true(in->asked < 16);
  snprintf(in->requests[in->asked++], sizeof in->requests[0], "%s", request);
}

/* Answers every call with true. */
static void on_post(script_conn *conn, const char *request, void *user) {
  char id[32], text[128];
  note(user, request);
  member(request, "id", id, sizeof id);
  snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":true}", id);
  script_answer(conn, "200 OK", "Content-Type: application/json\r\n", text);
}

/* ------------------------------------------------------------------------------- proxies */

static void on_proxied(script_conn *conn, const char *request, void *user) {
  if (strncmp(request, "CONNECT ", 8) == 0) {
    note(user, request);
    int port = atoi(strchr(request, ':') + 1);
    script_send(conn, "HTTP/1.1 200 Connection established\r\nX-Proxy: 1\r\n\r\n");
    script_tunnel(conn, port);
    return;
  }
  on_post(conn, request, user);
}

static void a_proxy_is_asked_for_what_is_elsewhere(void **state) {
  (void)state;
  world in;
  set_up(&in, on_post);
  char proxy[64];
  script *relay = script_start(&in.loop, on_proxied, &in);
  snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", script_port(relay));
  unsetenv("no_proxy");
  connect_to(&in, "http://example.invalid/rpc", &(idem_client_opts){.proxy = proxy});
  assert_int_equal(ask(&in, "plain").status, IDEM_OK);
  assert_memory_equal(in.requests[0], "POST http://example.invalid/rpc HTTP/1.1\r\n", 42);
  close_conn(&in);
  setenv("http_proxy", proxy, 1);
  connect_to(&in, "http://example.invalid/env", NULL);
  assert_int_equal(ask(&in, "plain").status, IDEM_OK);
  assert_memory_equal(in.requests[1], "POST http://example.invalid/env HTTP/1.1\r\n", 42);
  close_conn(&in);
  in.asked = 0;
  setenv("no_proxy", "127.0.0.1", 1);
  connect_to(&in, in.url, NULL);
  assert_int_equal(ask(&in, "plain").status, IDEM_OK);
  assert_memory_equal(in.requests[0], "POST / HTTP/1.1\r\n", 17);
  unsetenv("http_proxy");
  setenv("no_proxy", "*", 1);
  script_stop(relay);
  tear_down(&in);
}

/* --------------------------------------------------------------------- the real server */

static void the_reference_server_answers(void **state) {
  (void)state;
  world in;
  char http[128], https[128];
  set_up(&in, on_post);
  child server = CHILD(REFERENCE, "--http", "127.0.0.1:0", "--https", "127.0.0.1:0", "--tls-cert",
                       cert, "--tls-key", key);
  child_listening(&server, http, sizeof http);
  child_listening(&server, https, sizeof https);
  connect_to(&in, http, NULL);
  answer got = ask(&in, "echo");
  assert_int_equal(got.status, IDEM_OK);
  assert_string_equal(got.result, "[1]");
  assert_int_equal(ask(&in, "nothing").code, -32601);
  answer many[50];
  for (int i = 0; i < 50; i++) call(&in, "echo", &many[i]);
  for (int i = 0; i < 50; i++) {
    wait_for(&in, &many[i]);
    assert_int_equal(many[i].status, IDEM_OK);
  }
  close_conn(&in);
  connect_to(&in, https, &(idem_client_opts){.ca_file = cert});
  assert_int_equal(ask(&in, "echo").status, IDEM_OK);
  close_conn(&in);
  connect_to(&in, https, NULL); /* nobody vouches for it */
  got = ask(&in, "echo");
  assert_int_equal(got.status, IDEM_E_SYS);
  close_conn(&in);
  connect_to(&in, https, &(idem_client_opts){.no_verify = true});
  assert_int_equal(ask(&in, "echo").status, IDEM_OK);
  script *relay = script_start(&in.loop, on_proxied, &in);
  close_conn(&in);
  char proxy[64];
  snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", script_port(relay));
  unsetenv("no_proxy");
  connect_to(&in, https, &(idem_client_opts){.ca_file = cert, .proxy = proxy, .token = "secret"});
  assert_int_equal(ask(&in, "echo").status, IDEM_OK); /* through a tunnel */
  assert_memory_equal(in.requests[0], "CONNECT 127.0.0.1:", 18);
  assert_null(strstr(in.requests[0], "secret"));
  setenv("no_proxy", "*", 1);
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
  assert_true(ask(&in, "echo").status != IDEM_OK);
  script_stop(relay);
  tear_down(&in);
}

static void a_client_certificate_is_shown_where_one_is_wanted(void **state) {
  (void)state;
  world in;
  char https[128];
  set_up(&in, on_post);
  child server = CHILD(REFERENCE, "--https", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key,
                       "--tls-client-ca", cert);
  child_listening(&server, https, sizeof https);
  connect_to(&in, https, &(idem_client_opts){.ca_file = cert});
  assert_true(ask(&in, "echo").status != IDEM_OK);
  close_conn(&in);
  connect_to(&in, https, &(idem_client_opts){.ca_file = cert, .cert_file = cert, .key_file = key});
  assert_int_equal(ask(&in, "echo").status, IDEM_OK);
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
  tear_down(&in);
}

/* ------------------------------------------------------------------- broken streams */

#define STEPS 12
#define CUT_AFTER 3

typedef struct relay {
  world in;
  int port, requests, steps, resumed;
  script_conn *carrying; /* the stream's, until it is cut */
} relay;

static void on_relayed(script_conn *conn, const char *request, void *user) {
  relay *self = user;
  self->requests++;
  if (*script_header(request, "Last-Event-ID")) self->resumed++;
  script_relay(conn, request, self->port);
  if (strncmp(request, "POST ", 5) != 0) return;
  self->carrying = conn;
  script_relay_no_more(conn, "notifications/progress", CUT_AFTER); /* however late it is cut */
}

/* Each step once and in order, whichever connection it came by; the stream is cut once. */
static void on_progress(idem_conn *conn, yyjson_val *params, void *user) {
  relay *self = user;
  (void)conn;
  self->steps++;
  assert_int_equal(yyjson_get_num(yyjson_obj_get(params, "progress")), self->steps);
  if (self->steps != CUT_AFTER || !self->carrying) return;
  script_close(self->carrying);
  self->carrying = NULL;
}

static void begin_session(const char *url, char session[64]) {
  static const char hello[] =
      "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
      "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}";
  char address[128], head[256];
  snprintf(address, sizeof address, "tcp%.*s", (int)(strcspn(url + 7, "/") + 3), url + 4);
  snprintf(head, sizeof head,
           "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "Accept: application/json, text/event-stream\r\nContent-Length: %zu\r\n\r\n",
           sizeof hello - 1);
  int fd = child_connect(address);
  child_send(fd, head);
  child_send(fd, hello);
  const char *line = child_line_with(fd, "Mcp-Session-Id: ");
  snprintf(session, 64, "%.*s", (int)strcspn(line, "\r"), line);
  close(fd);
}

static void a_broken_stream_of_a_session_is_resumed(void **state) {
  (void)state;
  relay self = {.steps = 0};
  world *in = &self.in;
  char url[128], session[64];
  set_up(in, on_post);
  assert_int_equal(
      idem_router_notification(in->router, "notifications/progress", on_progress, &self), IDEM_OK);
  child server = CHILD(IDEM_BIN_DIR "/progress", "http://127.0.0.1:0/mcp");
  child_listening(&server, url, sizeof url);
  self.port = atoi(strrchr(url, ':') + 1);
  begin_session(url, session);
  script *between = script_start(&in->loop, on_relayed, &self);
  snprintf(url, sizeof url, "http://127.0.0.1:%d/mcp", script_port(between));
  const char *const headers[] = {session, "MCP-Protocol-Version: 2025-11-25", NULL};
  connect_to(in, url, &(idem_client_opts){.headers = headers});
  answer got;
  call_with(in, "tools/call",
            "{\"name\":\"count_down\",\"arguments\":{\"from\":12,\"step_ms\":20},"
            "\"_meta\":{\"progressToken\":1}}",
            &got);
  wait_for(in, &got);
  assert_int_equal(got.status, IDEM_OK);
  assert_non_null(strstr(got.result, "Lift-off!"));
  assert_int_equal(self.steps, STEPS);
  assert_int_equal(self.resumed, 1);
  assert_int_equal(self.requests, 2);
  close_conn(in);
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
  script_stop(between);
  tear_down(in);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  setenv("no_proxy", "*", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_proxy_is_asked_for_what_is_elsewhere),
      cmocka_unit_test(the_reference_server_answers),
      cmocka_unit_test(a_client_certificate_is_shown_where_one_is_wanted),
      cmocka_unit_test(a_broken_stream_of_a_session_is_resumed),
  };
  return cmocka_run_group_tests(tests, certificate_set_up, certificate_tear_down);
}
