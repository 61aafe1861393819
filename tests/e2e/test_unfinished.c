/* test_unfinished.c - halves of lines, frames and bodies are bounded together, whichever way they come: who has been at
 * it for longest gives way, and whoever just sends is served. */
#include "support/unit.h"
#include "uv/runtime.h"

#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A half takes 128 KiB: two have room, and a third has not. */
enum { HALF = 100000, BOUND = 300000, PEERS = 5, KEPT = 2, LOG_MAX = 1 << 16 };

#define REFUSED                                                                                    \
  "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"Invalid Request\","   \
  "\"data\":{\"reason\":\"unavailable\"}}}"

typedef struct peer {
  int fd;
  char said[4096];
  size_t len;
  bool ended;
} peer;

typedef struct world {
  uv_loop_t loop;
  idem_router *router;
  idem_metrics *metrics;
  idem_log *log;
  idem_listener *listeners[2];
  size_t listener_count;
  idem_conn *last; /* who came last */
  char folder[64];
  char lines[LOG_MAX];
  size_t lines_len;
  peer peers[PEERS];
} world;

/* -------------------------------------------------------------------------- both sides */

static void on_open(idem_conn *conn, void *user) { ((world *)user)->last = conn; }

static void note_line(void *ctx, const char *line, size_t len) {
  world *in = ctx;
  if (len >= LOG_MAX - in->lines_len) return;
  memcpy(in->lines + in->lines_len, line, len);
  in->lines_len += len;
}

static void tell_length(idem_request *request, yyjson_val *params, void *user) {
  char text[32];
  (void)user;
  int len = snprintf(text, sizeof text, "%zu", yyjson_get_len(yyjson_arr_get_first(params)));
  idem_reply_json(request, text, (size_t)len);
}

static void set_up(world *in) {
  *in = (world){0};
  assert_int_equal(uv_loop_init(&in->loop), 0);
  assert_int_equal(idem_metrics_new(NULL, &in->metrics), IDEM_OK);
  assert_int_equal(
      idem_log_new(&(idem_log_opts){.level = IDEM_LOG_INFO, .write = note_line, .write_ctx = in},
                   &in->log),
      IDEM_OK);
  assert_int_equal(idem_router_new(NULL, &in->router), IDEM_OK);
  assert_int_equal(idem_router_method(in->router, "length", tell_length, NULL), IDEM_OK);
  child_make_folder(in->folder, sizeof in->folder);
  for (size_t i = 0; i < PEERS; i++) in->peers[i].fd = -1;
}

static const char *serve(world *in, const char *scheme) {
  static const idem_http_opts bounded = {.unfinished_bytes = BOUND};
  idem_serve_opts opts = {.router = in->router,
                          .metrics = in->metrics,
                          .log = in->log,
                          .http = &bounded,
                          .on_open = on_open,
                          .user = in};
  char url[128];
  bool local = strncmp(scheme, "unix", 4) == 0;
  snprintf(url, sizeof url, "%s%s%s", scheme, local ? in->folder : "127.0.0.1:0",
           local ? "/socket" : "");
  idem_listener **to = &in->listeners[in->listener_count++];
  assert_int_equal(idem_serve(&in->loop, url, &opts, to), IDEM_OK);
  return idem_listener_url(*to);
}

static void tear_down(world *in) {
  for (size_t i = 0; i < in->listener_count; i++) idem_listener_stop(in->listeners[i], NULL, NULL);
  for (size_t i = 0; i < PEERS; i++)
    if (in->peers[i].fd >= 0) close(in->peers[i].fd);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&in->loop), 0);
  idem_router_free(in->router);
  idem_metrics_free(in->metrics);
  idem_log_free(in->log);
  child_remove_folder(in->folder);
}

/* What "scheme+lsp:" listens on is connected to as the scheme. */
static void open_peer(peer *self, const char *url) {
  char address[128];
  const char *lsp = strstr(url, "+lsp"), *http = strncmp(url, "http", 4) == 0 ? url + 4 : NULL;
  if (lsp)
    snprintf(address, sizeof address, "%.*s%s", (int)(lsp - url), url, lsp + 4);
  else
    snprintf(address, sizeof address, "%s%.*s", http ? "tcp" : "",
             http ? (int)strcspn(http + 3, "/") + 3 : 127, http ? http : url);
  self->fd = child_connect(address);
  assert_int_equal(fcntl(self->fd, F_SETFL, O_NONBLOCK), 0);
}

static void listen_to(peer *self) {
  ssize_t len;
  while (!self->ended && self->len < sizeof self->said - 1) {
    len = read(self->fd, self->said + self->len, sizeof self->said - 1 - self->len);
    if (len < 0 && errno == EAGAIN) return;
    self->ended = len <= 0;
    if (len > 0) self->len += (size_t)len;
  }
}

static void say(world *in, const peer *self, const char *text, size_t len) {
  while (len > 0) {
    ssize_t sent = write(self->fd, text, len);
    if (sent < 0) assert_int_equal(errno, EAGAIN);
    if (sent > 0) text += sent, len -= (size_t)sent;
    uv_run(&in->loop, UV_RUN_NOWAIT);
  }
}

static void say_text(world *in, const peer *self, const char *text) {
  say(in, self, text, strlen(text));
}

static void await_words(world *in, peer *self, const char *words) {
  while (!strstr(self->said, words)) {
    uv_run(&in->loop, UV_RUN_NOWAIT);
    listen_to(self);
    if (self->ended && !strstr(self->said, words))
      fail_msg("not said: %s; but: %s", words, self->said);
  }
}

static void await_end(world *in, peer *self) {
  while (!self->ended) {
    uv_run(&in->loop, UV_RUN_NOWAIT);
    listen_to(self);
  }
}

static size_t held(world *in) { return idem__runtime_find(&in->loop)->unfinished.bytes; }

static void expect_count(const world *in, size_t count) {
  char wanted[64], *text;
  size_t len;
  snprintf(wanted, sizeof wanted, "\nidem_unfinished_refused_total %zu\n", count);
  assert_int_equal(idem_metrics_render((idem_metrics *const[]){in->metrics}, 1, &text, &len),
                   IDEM_OK);
  if (!strstr(text, wanted)) fail_msg("not counted: %s", wanted);
  idem_metrics_text_free(in->metrics, text);
}

/* ------------------------------------------------------------------------------ halves */

#define START "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"length\",\"params\":[\""
#define END "\"]}"

static void say_filler(world *in, const peer *self, size_t len) {
  char *filler = malloc(len);
  assert_non_null(filler);
  memset(filler, 'x', len);
  say(in, self, filler, len);
  free(filler);
}

/* Half of a message of 2 * HALF, until the server has all of it. */
static void say_half(world *in, const peer *self, bool framed) {
  char head[64];
  snprintf(head, sizeof head, "Content-Length: %zu\r\n\r\n",
           sizeof START - 1 + 2 * (size_t)HALF + sizeof END - 1);
  in->last = NULL;
  if (framed) say_text(in, self, head);
  say_text(in, self, START);
  say_filler(in, self, HALF);
  while (!in->last || idem__conn_unfinished(in->last) < HALF) uv_run(&in->loop, UV_RUN_NOWAIT);
}

static void say_rest(world *in, const peer *self, bool framed) {
  say_filler(in, self, HALF);
  say_text(in, self, framed ? END : END "\n");
}

static void check_stream(const char *scheme, bool framed) {
  world in;
  set_up(&in);
  const char *url = serve(&in, scheme);
  for (size_t i = 0; i < PEERS; i++) {
    open_peer(&in.peers[i], url);
    say_half(&in, &in.peers[i], framed);
    assert_true(held(&in) <= BOUND);
  }
  for (size_t i = 0; i < PEERS - KEPT; i++) {
    await_words(&in, &in.peers[i], REFUSED);
    await_end(&in, &in.peers[i]);
  }
  expect_count(&in, PEERS - KEPT);
  assert_non_null(strstr(in.lines, "WARN  too much is unfinished; closing who began first peer="));
  assert_non_null(strstr(in.lines, "detail=unavailable, 100"));
  /* The rest takes 128 KiB more: who began before it gives way, too, and it is served. */
  say_rest(&in, &in.peers[PEERS - 1], framed);
  await_words(&in, &in.peers[PEERS - 1], "\"result\":200000}");
  expect_count(&in, PEERS - 1);
  tear_down(&in);
}

static void who_sent_half_a_line_first_gives_way(void **state) {
  (void)state;
  check_stream("tcp://", false);
  check_stream("unix:", false);
}

static void who_sent_half_a_frame_first_gives_way(void **state) {
  (void)state;
  check_stream("tcp+lsp://", true);
  check_stream("unix+lsp:", true);
}

/* A loop has one sum for all who listen there. */
static void bodies_and_lines_share_the_bound(void **state) {
  (void)state;
  world in;
  set_up(&in);
  const char *web = serve(&in, "http://"), *stream = serve(&in, "tcp://");
  for (size_t i = 0; i < PEERS; i++) {
    bool body = i < 2;
    open_peer(&in.peers[i], body ? web : stream);
    if (!body) {
      say_half(&in, &in.peers[i], false);
      continue;
    }
    size_t before = held(&in);
    say_text(&in, &in.peers[i],
             "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             "Content-Length: 200000\r\n\r\n");
    say_filler(&in, &in.peers[i], HALF);
    while (held(&in) < before + HALF) uv_run(&in.loop, UV_RUN_NOWAIT);
  }
  await_words(&in, &in.peers[0], "HTTP/1.1 503 ");
  await_words(&in, &in.peers[1], "HTTP/1.1 503 ");
  await_words(&in, &in.peers[2], REFUSED);
  expect_count(&in, 3);
  assert_non_null(strstr(in.lines, "503 too much is unfinished"));
  tear_down(&in);
}

/* What is only kept for the next large message is given back, and nobody is refused for it. */
static void who_has_nothing_unfinished_is_not_refused(void **state) {
  (void)state;
  world in;
  set_up(&in);
  const char *url = serve(&in, "tcp://");
  for (size_t i = 0; i < PEERS; i++) {
    open_peer(&in.peers[i], url);
    say_half(&in, &in.peers[i], false);
    say_rest(&in, &in.peers[i], false);
    await_words(&in, &in.peers[i], "\"result\":200000}");
    assert_true(held(&in) <= BOUND);
  }
  for (size_t i = 0; i < PEERS; i++) {
    in.peers[i].len = 0, memset(in.peers[i].said, 0, sizeof in.peers[i].said);
    say_text(&in, &in.peers[i], START "four" END "\n");
    await_words(&in, &in.peers[i], "\"result\":4}");
  }
  expect_count(&in, 0);
  tear_down(&in);
}

static void who_leaves_makes_room(void **state) {
  (void)state;
  world in;
  set_up(&in);
  const char *url = serve(&in, "tcp://");
  for (size_t i = 0; i < PEERS; i++) {
    open_peer(&in.peers[i], url);
    say_half(&in, &in.peers[i], false);
    close(in.peers[i].fd);
    in.peers[i].fd = -1;
    while (held(&in)) uv_run(&in.loop, UV_RUN_NOWAIT);
  }
  expect_count(&in, 0);
  tear_down(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_sent_half_a_line_first_gives_way),
      cmocka_unit_test(who_sent_half_a_frame_first_gives_way),
      cmocka_unit_test(bodies_and_lines_share_the_bound),
      cmocka_unit_test(who_has_nothing_unfinished_is_not_refused),
      cmocka_unit_test(who_leaves_makes_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
