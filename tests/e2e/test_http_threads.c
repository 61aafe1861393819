/* test_http_threads.c - several loops on one port in one process, asked by several clients, watched
 * and stopped while they ask. Run under the thread sanitizer, too. */
#include "support/unit.h"

#include <idem/uv.h>

#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#define CLIENTS 4
#define REQUESTS 50

static const char ask[] =
    "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Content-Length: 53\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}";
static const char look[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

typedef struct world {
  uv_loop_t loop;
  uv_async_t done;
  idem_listener *listener;
  int port;
  atomic_int answered, finished;
  bool stopped;
} world;

static void echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}

static int connect_to(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

/* Sends one request and reads until its answer has come. */
static bool exchange(int fd, const char *text, const char *wanted) {
  char answer[16384];
  size_t len = 0;
  if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0) return false;
  while (len < sizeof answer - 1) {
    ssize_t n = recv(fd, answer + len, sizeof answer - 1 - len, 0);
    if (n <= 0) return false;
    len += (size_t)n;
    answer[len] = 0;
    if (strstr(answer, wanted)) return true;
  }
  return false;
}

static void client(void *user) {
  world *in = user;
  for (int i = 0; i < REQUESTS; i++) {
    int fd = connect_to(in->port);
    if (fd < 0) break;
    for (int k = 0; k < 2; k++)
      if (exchange(fd, ask, "\"result\":[1]}")) atomic_fetch_add(&in->answered, 1);
    if (i % 10 == 0) exchange(fd, look, "idem_connections");
    close(fd);
  }
  atomic_fetch_add(&in->finished, 1);
  uv_async_send(&in->done);
}

static void on_stopped(void *user) {
  world *in = user;
  in->stopped = true;
  uv_close((uv_handle_t *)&in->done, NULL);
}

static void on_done(uv_async_t *async) {
  world *in = async->data;
  if (atomic_load(&in->finished) < CLIENTS || !in->listener) return;
  idem_listener_stop(in->listener, on_stopped, in);
  in->listener = NULL;
}

static void several_loops_answer_and_stop(void **state) {
  (void)state;
  world in = {.answered = 0};
  idem_router *router;
  idem_http_opts http = {.workers = 3, .rate_count = 1000000, .rate_seconds = 1};
  assert_int_equal(uv_loop_init(&in.loop), 0);
  assert_int_equal(uv_async_init(&in.loop, &in.done, on_done), 0);
  in.done.data = &in;
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_router_method(router, "echo", echo, NULL), IDEM_OK);
  idem_serve_opts opts = {.router = router, .http = &http};
  assert_int_equal(idem_serve(&in.loop, "http://127.0.0.1:0", &opts, &in.listener), IDEM_OK);
  assert_int_equal(sscanf(idem_listener_url(in.listener), "http://127.0.0.1:%d/", &in.port), 1);
  uv_thread_t threads[CLIENTS];
  for (int i = 0; i < CLIENTS; i++) assert_int_equal(uv_thread_create(&threads[i], client, &in), 0);
  uv_run(&in.loop, UV_RUN_DEFAULT);
  for (int i = 0; i < CLIENTS; i++) uv_thread_join(&threads[i]);
  assert_true(in.stopped);
  assert_int_equal(atomic_load(&in.answered), 2 * CLIENTS * REQUESTS);
  assert_int_equal(uv_loop_close(&in.loop), 0);
  idem_router_free(router);
}

/* ------------------------------------------------- 2024-11-05's transport */

/* X-User names who asks; nobody without. */
static int who(const idem_http_caller *caller, char *principal, size_t size, void *user) {
  size_t len;
  const char *name = idem_http_caller_header(caller, "x-user", &len);
  (void)user;
  if (!name || strcmp(idem_http_caller_address(caller), "127.0.0.1") != 0) return 401;
  snprintf(principal, size, "%.*s", (int)len, name);
  return 0;
}

static void tell_who(idem_request *request, yyjson_val *arguments, void *user) {
  const char *name = idem_principal(request);
  (void)arguments, (void)user;
  idem_tool_text(request, name, strlen(name));
}

/* Reads the stream until it says something; false: it ended first. */
static bool read_until(int fd, char *text, size_t room, const char *wanted) {
  size_t len = strlen(text);
  while (!strstr(text, wanted)) {
    ssize_t n = len < room - 1 ? recv(fd, text + len, room - 1 - len, 0) : 0;
    if (n <= 0) return false;
    len += (size_t)n;
    text[len] = 0;
  }
  return true;
}

/* On a connection of its own, so that it may land on any loop. */
static bool post_as(const world *in, const char *name, const char *target, const char *body,
                    const char *wanted) {
  char text[1024];
  int fd = connect_to(in->port);
  snprintf(text, sizeof text,
           "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
           "X-User: %s\r\nContent-Length: %zu\r\n\r\n%s",
           target, name, strlen(body), body);
  bool good = fd >= 0 && exchange(fd, text, wanted);
  if (fd >= 0) close(fd);
  return good;
}

#define CALL_WHO                                                                                   \
  "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":\"who\"}}"

static void converse(const world *in, int stream, int *answered) {
  static char text[1 << 16];
  char target[128], body[160], wanted[32];
  const char *at;
  if (!read_until(stream, text, sizeof text, "sessionId=") ||
      !read_until(stream, text, sizeof text, "\n\n"))
    return;
  at = strstr(text, "/post?");
  if (!at) return;
  snprintf(target, sizeof target, "%.*s", (int)strcspn(at, "\r\n"), at);
  if (!post_as(in, "eve", target, "{}", " 404 ")) return;
  if (!post_as(in, "ann", target,
               "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
               "\"protocolVersion\":\"2024-11-05\",\"capabilities\":{},\"clientInfo\":{\"name\":"
               "\"t\",\"version\":\"1\"}}}",
               " 202 "))
    return;
  if (!read_until(stream, text, sizeof text, "\"id\":0,")) return;
  for (int i = 1; i <= REQUESTS; i++) {
    snprintf(body, sizeof body, CALL_WHO, i);
    snprintf(wanted, sizeof wanted, "\"id\":%d,\"result\"", i);
    if (!post_as(in, "ann", target, body, " 202 ")) return;
    if (!read_until(stream, text, sizeof text, wanted)) return;
    *answered += strstr(text, "\"text\":\"ann\"") != NULL;
  }
}

static void stream_client(void *user) {
  world *in = user;
  int answered = 0, stream = connect_to(in->port);
  static const char get[] =
      "GET /events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
      "X-User: ann\r\n\r\n";
  if (stream >= 0 && send(stream, get, sizeof get - 1, MSG_NOSIGNAL) > 0)
    converse(in, stream, &answered);
  atomic_fetch_add(&in->answered, answered);
  atomic_store(&in->finished, CLIENTS);
  uv_async_send(&in->done); /* the server stops while the stream is open, and ends it */
  char rest[256];
  while (stream >= 0 && recv(stream, rest, sizeof rest, 0) > 0) continue;
  if (stream >= 0) close(stream);
}

static void posts_on_any_loop_are_answered_on_the_stream(void **state) {
  (void)state;
  world in = {.answered = 0};
  idem_server *server;
  idem_server_opts about = {.name = "t", .version = "1"};
  idem_http_opts http = {.workers = 3, .principal = who};
  http.sse_path = "/events";
  http.message_path = "/post";
  idem_server_os(&about);
  assert_int_equal(idem_server_new(&about, &server), IDEM_OK);
  const idem_tool tool = {.name = "who", .fn = tell_who};
  assert_int_equal(idem_server_add_tool(server, &tool, NULL, 0), IDEM_OK);
  assert_int_equal(uv_loop_init(&in.loop), 0);
  assert_int_equal(uv_async_init(&in.loop, &in.done, on_done), 0);
  in.done.data = &in;
  idem_serve_opts opts = {.server = server, .http = &http};
  assert_int_equal(idem_serve(&in.loop, "http://127.0.0.1:0/mcp", &opts, &in.listener), IDEM_OK);
  assert_int_equal(sscanf(idem_listener_url(in.listener), "http://127.0.0.1:%d/", &in.port), 1);
  uv_thread_t thread;
  assert_int_equal(uv_thread_create(&thread, stream_client, &in), 0);
  uv_run(&in.loop, UV_RUN_DEFAULT);
  uv_thread_join(&thread);
  assert_true(in.stopped);
  assert_int_equal(atomic_load(&in.answered), REQUESTS);
  assert_int_equal(uv_loop_close(&in.loop), 0);
  idem_server_free(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(several_loops_answer_and_stop),
      cmocka_unit_test(posts_on_any_loop_are_answered_on_the_stream),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
