/* test_runtime_faults.c - the runtime without memory, or without descriptors. Each allocation of a
 * conversation fails in turn, once and for good: the client hears an answer or the end, the server
 * can be stopped, nothing leaks. */
#include "child.h"
#include "support/fault_alloc.h"
#include "support/unit.h"

#include <idem/uv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#define WAIT_MS 60000
#define BODY "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[1]}"
#define ECHOED "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1]}"

typedef struct talk {
  const char *name;
  const char *url;
  const char *say;
  size_t len;
  const char *hear; /* when all memory is there */
  bool ends;        /* the client says no more, and waits for the server to do so */
} talk;

typedef struct world {
  const talk *about;
  uv_loop_t loop;
  idem_router *router;
  idem_listener *listener;
  uv_stream_t *stream;
  union {
    uv_tcp_t tcp;
    uv_pipe_t pipe;
  } client;
  uv_timer_t watch;
  uv_connect_t connecting;
  uv_write_t writing;
  uv_shutdown_t ending;
  char heard[8192];
  size_t heard_len;
} world;

static void echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}

/* ------------------------------------------------------------------- client */

static void stop(world *in) {
  uv_close((uv_handle_t *)in->stream, NULL);
  uv_close((uv_handle_t *)&in->watch, NULL);
  idem_listener_stop(in->listener, NULL, NULL);
}

static void on_watch(uv_timer_t *timer) {
  const world *in = timer->data;
  fail_msg("%s: neither an answer nor the end; heard: %s", in->about->name, in->heard);
}

static void on_alloc(uv_handle_t *handle, size_t wanted, uv_buf_t *buffer) {
  world *in = handle->data;
  (void)wanted;
  *buffer =
      uv_buf_init(in->heard + in->heard_len, (unsigned)(sizeof in->heard - 1 - in->heard_len));
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buffer) {
  world *in = stream->data;
  (void)buffer;
  if (len < 0)
    stop(in);
  else
    in->heard_len += (size_t)len;
}

static void on_written(uv_write_t *writing, int status) {
  (void)writing;
  (void)status; /* a server without memory may have closed already: reading tells */
}

static void on_ended(uv_shutdown_t *ending, int status) {
  (void)ending;
  (void)status;
}

static void on_connected(uv_connect_t *connecting, int status) {
  world *in = connecting->data;
  if (status != 0) {
    stop(in);
    return;
  }
  uv_buf_t text = uv_buf_init((char *)(uintptr_t)in->about->say, (unsigned)in->about->len);
  uv_read_start(in->stream, on_alloc, on_read);
  uv_write(&in->writing, in->stream, &text, 1, on_written);
  if (in->about->ends) uv_shutdown(&in->ending, in->stream, on_ended);
}

static void connect_client(world *in) {
  const char *url = idem_listener_url(in->listener);
  in->connecting.data = in;
  if (strncmp(url, "unix:", 5) == 0) {
    uv_pipe_init(&in->loop, &in->client.pipe, 0);
    uv_pipe_connect(&in->connecting, &in->client.pipe, url + 5, on_connected);
    in->stream = (uv_stream_t *)&in->client.pipe;
  } else {
    struct sockaddr_in address;
    int port = (int)strtol(strrchr(url, ':') + 1, NULL, 10);
    uv_ip4_addr("127.0.0.1", port, &address);
    uv_tcp_init(&in->loop, &in->client.tcp);
    uv_tcp_connect(&in->connecting, &in->client.tcp, (const struct sockaddr *)&address,
                   on_connected);
    in->stream = (uv_stream_t *)&in->client.tcp;
  }
  in->stream->data = in;
  uv_timer_init(&in->loop, &in->watch);
  in->watch.data = in;
  uv_timer_start(&in->watch, on_watch, WAIT_MS, 0);
}

/* ----------------------------------------------------------------- scenario */

static void converse(fault_alloc *fault, void *user) {
  world *in = calloc(1, sizeof *in);
  assert_non_null(in);
  in->about = user;
  assert_int_equal(uv_loop_init(&in->loop), 0);
  assert_int_equal(idem_router_new(NULL, &in->router), IDEM_OK);
  assert_int_equal(idem_router_method(in->router, "echo", echo, NULL), IDEM_OK);
  idem_serve_opts opts = {.router = in->router, .alloc = &fault->alloc, .grace_ms = 20};
  idem_status status = idem_serve(&in->loop, in->about->url, &opts, &in->listener);
  if (status == IDEM_OK)
    connect_client(in);
  else
    assert_true(fault->failures > 0);
  assert_int_equal(uv_run(&in->loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&in->loop), 0);
  if (fault->failures == 0 && !strstr(in->heard, in->about->hear))
    fail_msg("%s: heard %s", in->about->name, in->heard);
  idem_router_free(in->router);
  free(in);
}

static void sweep(const talk *about) {
  union { /* the scenario only reads it */
    const talk *in;
    void *out;
  } user = {about};
  size_t once = fault_alloc_sweep(converse, user.out, 500);
  size_t for_good = fault_alloc_sweep_ever_after(converse, user.out, 500);
  print_message("  %s: %zu and %zu failures survived\n", about->name, once, for_good);
  assert_true(once > 3 && for_good > 3);
}

/* ----------------------------------------------------------------- promises */

#define TALK(name, url, say, hear, ends)                                                           \
  sweep(&(talk){name, url, "" say, sizeof(say) - 1, hear, ends})
#define HEAD "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
#define LAST "Connection: close\r\n"
#define SIZE "Content-Length: 53\r\n\r\n"

static void a_post_without_memory_gets_an_answer_or_the_end(void **state) {
  (void)state;
  TALK("two POSTs", "http://127.0.0.1:0/", HEAD SIZE BODY HEAD LAST SIZE BODY, ECHOED, false);
  TALK("chunks", "http://127.0.0.1:0/",
       HEAD LAST "Transfer-Encoding: chunked\r\n\r\n35\r\n" BODY "\r\n0\r\n\r\n", ECHOED, false);
  TALK("a refusal", "http://127.0.0.1:0/", "GET / HTTP/1.1\r\nHost: evil.example\r\n" LAST "\r\n",
       "403", false);
  TALK("metrics", "admin://127.0.0.1:0",
       "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "idem_connections",
       false);
}

/* A message, then a close frame; the masks are zero. */
static void a_websocket_without_memory_gets_an_answer_or_the_end(void **state) {
  (void)state;
  TALK("a WebSocket", "ws://127.0.0.1:0/",
       "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
       "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
       "\x81\xb5\0\0\0\0" BODY "\x88\x82\0\0\0\0\x03\xe8",
       ECHOED, false);
}

static void a_line_without_memory_gets_an_answer_or_the_end(void **state) {
  (void)state;
  char folder[] = "/tmp/idem-faults-XXXXXX", url[80];
  assert_non_null(mkdtemp(folder));
  snprintf(url, sizeof url, "unix:%s/socket", folder);
  TALK("a line over TCP", "tcp://127.0.0.1:0", BODY "\n", ECHOED "\n", true);
  TALK("a line over a Unix socket", url, BODY "\n", ECHOED "\n", true);
  TALK("a frame over TCP", "tcp+lsp://127.0.0.1:0", "Content-Length: 53\r\n\r\n" BODY, ECHOED,
       true);
  rmdir(folder);
}

/* Connections beyond the limit wait in the kernel; each one that ends makes room for another. */
static void serve_in_turn(const char *flag, const char *say, const char *hear) {
  enum { CLIENTS = 40 };
  char url[128], target[128];
  int clients[CLIENTS];
  child server =
      CHILD("/bin/sh", "-c", "ulimit -n 24; exec \"$0\" \"$1\" 127.0.0.1:0", REFERENCE, flag);
  child_listening(&server, url, sizeof url);
  const char *rest = strstr(url, "://");
  snprintf(target, sizeof target, "tcp%.*s", (int)(strcspn(rest + 3, "/") + 3), rest);
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = child_connect(target);
    child_send(clients[i], say);
  }
  child_line_with(server.err, "cannot accept for now");
  for (int i = 0; i < CLIENTS; i++) {
    child_line_with(clients[i], hear);
    close(clients[i]);
  }
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
}

static void a_server_out_of_descriptors_serves_those_who_wait(void **state) {
  (void)state;
  serve_in_turn("--tcp", BODY "\n", ECHOED);
  serve_in_turn("--http", HEAD SIZE BODY, "200 OK");
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_post_without_memory_gets_an_answer_or_the_end),
      cmocka_unit_test(a_websocket_without_memory_gets_an_answer_or_the_end),
      cmocka_unit_test(a_line_without_memory_gets_an_answer_or_the_end),
      cmocka_unit_test(a_server_out_of_descriptors_serves_those_who_wait),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
