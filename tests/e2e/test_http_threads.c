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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(several_loops_answer_and_stop)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
