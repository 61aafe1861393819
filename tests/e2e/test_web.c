/* test_web.c - HTTP from inside a process: readers of event streams that go, and several listeners of
 * one server on one loop. */
#include "child.h"

#include "support/unit.h"

#include <idem/uv.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

typedef struct world {
  uv_loop_t loop;
  uv_timer_t ticker; /* a turn of the loop never blocks for long */
  idem_router *router;
  idem_listener *listeners[2];
  size_t stopped;
  idem_request *kept;
  int cancelled;
  uint64_t end_ms;
} world;

static void on_tick(uv_timer_t *timer) { (void)timer; }

static void set_up(world *in) {
  *in = (world){.end_ms = child_now_ms() + 60000};
  assert_int_equal(uv_loop_init(&in->loop), 0);
  uv_timer_init(&in->loop, &in->ticker);
  uv_timer_start(&in->ticker, on_tick, 10, 10);
}

static void turn(world *in, const char *what) {
  if (child_now_ms() > in->end_ms) fail_msg("not in time: %s", what);
  uv_run(&in->loop, UV_RUN_ONCE);
}

static void on_stopped(void *user) {
  world *in = user;
  in->stopped++;
}

static void tear_down(world *in) {
  size_t count = in->listeners[1] ? 2 : 1;
  for (size_t i = 0; i < count; i++) idem_listener_stop(in->listeners[i], on_stopped, in);
  while (in->stopped < count) turn(in, "stopping");
  uv_close((uv_handle_t *)&in->ticker, NULL);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&in->loop), 0);
}

static int connect_to(const idem_listener *listener) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  int port, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(sscanf(idem_listener_url(listener), "http://127.0.0.1:%d/", &port), 1);
  address.sin_port = htons((uint16_t)port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
  return fd;
}

/* Runs the loop until the peer has said it; what it said so far. */
static const char *hear(world *in, int fd, char text[8192], const char *wanted) {
  size_t len = strlen(text);
  while (!strstr(text, wanted)) {
    turn(in, wanted);
    ssize_t n = recv(fd, text + len, 8191 - len, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) fail_msg("the end before %s: %s", wanted, text);
    if (n > 0) text[len += (size_t)n] = 0;
  }
  return text;
}

/* ------------------------------------------------------------ readers that go */

static void on_cancel(idem_request *request, idem_cancel_reason reason, void *user) {
  world *in = user;
  (void)reason;
  in->cancelled++;
  idem_request_drop(request);
}

static void tell_and_keep(idem_request *request, yyjson_val *params, void *user) {
  world *in = user;
  (void)params;
  assert_int_equal(idem_notify_json(idem_request_conn(request), "note", NULL, 0), IDEM_OK);
  in->kept = request;
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, in);
}

/* A client that has read the beginning of its stream, to the last byte. */
static int read_stream(world *in, char text[8192]) {
  static const char ask[] =
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Accept: application/json, text/event-stream\r\nContent-Length: 40\r\n\r\n"
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tell\"}";
  set_up(in);
  assert_int_equal(idem_router_new(NULL, &in->router), IDEM_OK);
  assert_int_equal(idem_router_method(in->router, "tell", tell_and_keep, in), IDEM_OK);
  idem_serve_opts opts = {.router = in->router};
  assert_int_equal(idem_serve(&in->loop, "http://127.0.0.1:0", &opts, in->listeners), IDEM_OK);
  int fd = connect_to(in->listeners[0]);
  assert_int_equal(write(fd, ask, sizeof ask - 1), sizeof ask - 1);
  *text = 0;
  hear(in, fd, text, "\"note\"}\n\n\r\n");
  return fd;
}

/* Comments come every 15 s, and no reset without one; it is not waited for. */
static void a_reader_that_has_closed_is_noticed_at_once(void **state) {
  (void)state;
  world in;
  char text[8192];
  int fd = read_stream(&in, text);
  close(fd);
  while (!in.cancelled) turn(&in, "cancelling");
  tear_down(&in);
  idem_router_free(in.router);
}

static void a_reader_that_only_ended_its_input_gets_its_answer(void **state) {
  (void)state;
  world in;
  char text[8192];
  int fd = read_stream(&in, text);
  *text = 0;
  assert_int_equal(shutdown(fd, SHUT_WR), 0);
  hear(&in, fd, text, "3\r\n:\n\n\r\n");
  for (int i = 0; i < 5; i++) turn(&in, "staying");
  assert_int_equal(in.cancelled, 0);
  idem_reply_json(in.kept, "true", 4);
  hear(&in, fd, text, "\"id\":1,\"result\":true}\n\n\r\n0\r\n\r\n");
  close(fd);
  tear_down(&in);
  idem_router_free(in.router);
}

static void keep(idem_request *request, yyjson_val *params, void *user) {
  world *in = user;
  (void)params;
  in->kept = request;
  idem_request_keep(request);
  idem_request_on_cancel(request, on_cancel, in);
}

/* Nothing is sent to them until there is an answer; the kernel tells the one from the other. */
static void of_two_that_ended_their_input_the_one_that_is_gone_is_found_out(void **state) {
  (void)state;
  static const char ask[] =
      "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"keep\"}";
  world in;
  char text[8192] = "";
  idem_http_opts http = {.stream_ms = 1000};
  set_up(&in);
  assert_int_equal(idem_router_new(NULL, &in.router), IDEM_OK);
  assert_int_equal(idem_router_method(in.router, "keep", keep, &in), IDEM_OK);
  idem_serve_opts opts = {.router = in.router, .http = &http};
  assert_int_equal(idem_serve(&in.loop, "http://127.0.0.1:0", &opts, in.listeners), IDEM_OK);
  int gone = connect_to(in.listeners[0]), there = connect_to(in.listeners[0]);
  assert_int_equal(write(gone, ask, sizeof ask - 1), sizeof ask - 1);
  while (!in.kept) turn(&in, "asking");
  in.kept = NULL;
  int linger_s = 1; /* what its kernel remembers a closed socket for; a minute unless told */
  setsockopt(gone, IPPROTO_TCP, TCP_LINGER2, &linger_s, sizeof linger_s);
  close(gone);
  assert_int_equal(write(there, ask, sizeof ask - 1), sizeof ask - 1);
  assert_int_equal(shutdown(there, SHUT_WR), 0);
  while (!in.kept || !in.cancelled) turn(&in, "cancelling");
  assert_int_equal(in.cancelled, 1);
  idem_reply_json(in.kept, "true", 4);
  hear(&in, there, text, "\"id\":1,\"result\":true}");
  close(there);
  tear_down(&in);
  idem_router_free(in.router);
}

/* ----------------------------------------------------------- several listeners */

static void say_on(int fd, const char *method, const char *session, const char *body) {
  char text[1024];
  int len =
      snprintf(text, sizeof text,
               "%s /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               "Accept: application/json, text/event-stream\r\nContent-Length: %zu\r\n%s\r\n%s",
               method, strlen(body), session, body);
  assert_int_equal(write(fd, text, (size_t)len), len);
}

/* A new session by way of a listener, and its stream of notifications there. */
static int open_session(world *in, const idem_listener *listener, char session[64]) {
  char text[8192] = "";
  int fd = connect_to(listener);
  say_on(fd, "POST", "",
         "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
         "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\","
         "\"version\":\"1\"}}}");
  const char *at = strstr(hear(in, fd, text, "\"result\""), "Mcp-Session-Id: ");
  assert_non_null(at);
  snprintf(session, 64, "%.*s\r\n", (int)strcspn(at, "\r"), at);
  say_on(fd, "POST", session, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
  hear(in, fd, text, " 202 ");
  say_on(fd, "GET", session, "");
  hear(in, fd, text, "text/event-stream");
  return fd;
}

static void do_nothing(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_tool_text(request, "", 0);
}

static idem_server *serve_twice(world *in) {
  idem_server *server;
  idem_server_opts about = {.name = "t", .version = "1"};
  idem_server_os(&about);
  assert_int_equal(idem_server_new(&about, &server), IDEM_OK);
  idem_serve_opts opts = {.server = server};
  for (int i = 0; i < 2; i++)
    assert_int_equal(idem_serve(&in->loop, "http://127.0.0.1:0/mcp", &opts, &in->listeners[i]),
                     IDEM_OK);
  return server;
}

static void every_listener_of_a_server_tells_what_changed(void **state) {
  (void)state;
  world in;
  char sessions[2][64], text[2][8192] = {"", ""};
  int fds[2];
  set_up(&in);
  idem_server *server = serve_twice(&in);
  for (int i = 0; i < 2; i++) fds[i] = open_session(&in, in.listeners[i], sessions[i]);
  const idem_tool one = {.name = "one", .fn = do_nothing}, two = {.name = "two", .fn = do_nothing};
  assert_int_equal(idem_server_add_tool(server, &one, NULL, 0), IDEM_OK);
  for (int i = 0; i < 2; i++) hear(&in, fds[i], text[i], "notifications/tools/list_changed");
  close(fds[1]);
  idem_listener_stop(in.listeners[1], on_stopped, &in); /* the other one goes on telling */
  while (!in.stopped) turn(&in, "stopping one");
  in.listeners[1] = NULL;
  in.stopped = 0;
  *text[0] = 0;
  assert_int_equal(idem_server_add_tool(server, &two, NULL, 0), IDEM_OK);
  hear(&in, fds[0], text[0], "notifications/tools/list_changed");
  close(fds[0]);
  tear_down(&in);
  idem_server_free(server);
}

static void a_session_is_the_same_by_way_of_every_listener(void **state) {
  (void)state;
  world in;
  char session[64], text[8192] = "";
  set_up(&in);
  idem_server *server = serve_twice(&in);
  int stream = open_session(&in, in.listeners[0], session);
  int fd = connect_to(in.listeners[1]);
  say_on(fd, "POST", session, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
  hear(&in, fd, text, "\"id\":1,\"result\"");
  say_on(fd, "GET", "", "");
  hear(&in, fd, text, " 400 ");
  const char *const metrics = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  assert_int_equal(write(fd, metrics, strlen(metrics)), strlen(metrics));
  hear(&in, fd, text, "\nidem_sessions 1\n");
  close(fd);
  close(stream);
  tear_down(&in);
  idem_server_free(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_reader_that_has_closed_is_noticed_at_once),
      cmocka_unit_test(a_reader_that_only_ended_its_input_gets_its_answer),
      cmocka_unit_test(of_two_that_ended_their_input_the_one_that_is_gone_is_found_out),
      cmocka_unit_test(every_listener_of_a_server_tells_what_changed),
      cmocka_unit_test(a_session_is_the_same_by_way_of_every_listener),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
