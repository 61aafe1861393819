/* test_client_flood.c - servers that send more than anybody can read: whoever has a deadline keeps it, since one
 * turn of the loop reads its share and no more. The server is written by hand between the turns, so that
 * everything it can send waits in the sockets before the client reads any of it. */
#include "support/unit.h"
#include <idem/fetch.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#define STREAMS 32
#define STREAM_BYTES 600000u
#define PERIOD 251u             /* of the bytes of a body */
#define SHARE ((size_t)1 << 20) /* of one turn, generously */

typedef struct stream {
  struct world *in;
  int fd; /* the server's end */
  size_t sent, got;
  bool ended;
  idem_fetch *fetch;
} stream;

typedef struct world {
  uv_loop_t loop;
  int listener;
  char url[64];
  stream streams[STREAMS];
  int accepted, ended;
  size_t this_turn, most; /* bytes that came in one turn of the loop */
} world;

/* ------------------------------------------------------------------ the client */

static bool on_head(const idem_fetch_answer *answer, void *user) {
  (void)user;
  return answer->http_status == 200;
}

static bool on_data(const char *data, size_t len, void *user) {
  stream *self = user;
  for (size_t i = 0; i < len; i++)
    if ((uint8_t)data[i] != (self->got + i) % PERIOD) fail_msg("not the byte that was sent");
  self->got += len;
  self->in->this_turn += len;
  return true;
}

static void on_end(const idem_fetch_answer *answer, void *user) {
  stream *self = user;
  assert_int_equal(answer->status, IDEM_OK);
  self->ended = true;
  self->fetch = NULL;
  self->in->ended++;
}

/* ------------------------------------------------------------------ the server */

static void listen_somewhere(world *in) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof at;
  in->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(in->listener, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(in->listener, STREAMS), 0);
  assert_int_equal(getsockname(in->listener, (struct sockaddr *)&at, &len), 0);
  snprintf(in->url, sizeof in->url, "http://127.0.0.1:%d/", ntohs(at.sin_port));
}

static void set_up(world *in) {
  *in = (world){0};
  assert_int_equal(uv_loop_init(&in->loop), 0);
  listen_somewhere(in);
}

static void tear_down(world *in) {
  for (int i = 0; i < in->accepted; i++) close(in->streams[i].fd);
  close(in->listener);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&in->loop), 0);
}

static void start(stream *self) {
  idem_fetch_opts opts = {
      .url = self->in->url, .on_head = on_head, .on_data = on_data, .proxy = ""};
  assert_int_equal(idem_fetch_start(&self->in->loop, &opts, on_end, self, &self->fetch), IDEM_OK);
}

static void turn(world *in) {
  in->this_turn = 0;
  uv_run(&in->loop, UV_RUN_NOWAIT);
  if (in->this_turn > in->most) in->most = in->this_turn;
}

/* Which connection is whose shows by its order, so they are made one after the other. */
static void connect_next(world *in, int size) {
  char request[2048];
  stream *self = &in->streams[in->accepted];
  self->in = in;
  start(self);
  while ((self->fd = accept4(in->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0) turn(in);
  in->accepted++;
  setsockopt(self->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  while (recv(self->fd, request, sizeof request, 0) <= 0) turn(in); /* it comes in one piece */
}

static void send_head(const stream *self) {
  char head[64];
  int len =
      snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %u\r\n\r\n", STREAM_BYTES);
  assert_int_equal(send(self->fd, head, (size_t)len, MSG_NOSIGNAL), len);
}

/* As much as the kernel takes. */
static void flood(stream *self) {
  static char pattern[PERIOD * 512];
  bool filled = pattern[1] != 0;
  for (size_t i = 0; !filled && i < sizeof pattern; i++) pattern[i] = (char)(i % PERIOD);
  while (self->sent < STREAM_BYTES) {
    size_t from = self->sent % PERIOD, len = sizeof pattern - from;
    if (len > STREAM_BYTES - self->sent) len = STREAM_BYTES - self->sent;
    ssize_t sent = send(self->fd, pattern + from, len, MSG_NOSIGNAL);
    if (sent <= 0) return;
    self->sent += (size_t)sent;
  }
}

static void flood_all(world *in) {
  for (int i = 0; i < in->accepted; i++) flood(&in->streams[i]);
}

static void connect_all(world *in) {
  for (int i = 0; i < STREAMS; i++) connect_next(in, 1 << 20);
  for (int i = 0; i < STREAMS; i++) send_head(&in->streams[i]);
  flood_all(in);
}

/* ------------------------------------------------------------------ promises */

static void one_turn_of_the_loop_reads_its_share_of_a_flood(void **state) {
  (void)state;
  static world in;
  set_up(&in);
  connect_all(&in);
  while (in.ended < STREAMS) {
    turn(&in);
    flood_all(&in);
  }
  for (int i = 0; i < STREAMS; i++) assert_int_equal(in.streams[i].got, STREAM_BYTES);
  if (in.most > SHARE) fail_msg("%zu bytes in one turn of the loop", in.most);
  tear_down(&in);
}

/* Nobody is left out for long: when the first has all of its body, the others have had their part. */
static void those_that_flood_take_turns(void **state) {
  (void)state;
  static world in;
  set_up(&in);
  connect_all(&in);
  while (in.ended == 0) {
    turn(&in);
    flood_all(&in);
  }
  for (int i = 0; i < STREAMS; i++) assert_true(in.streams[i].got > STREAM_BYTES / 8);
  for (int i = 0; i < STREAMS; i++) idem_fetch_cancel(in.streams[i].fetch);
  tear_down(&in);
}

static void one_that_is_held_gets_nothing_until_it_is_let_go(void **state) {
  (void)state;
  static world in;
  set_up(&in);
  connect_all(&in);
  while (in.streams[3].got == 0) turn(&in);
  idem_fetch_hold(in.streams[3].fetch, true);
  size_t before = in.streams[3].got;
  while (in.ended < STREAMS - 1) {
    turn(&in);
    flood_all(&in);
  }
  assert_int_equal(in.streams[3].got, before);
  idem_fetch_hold(in.streams[3].fetch, false);
  while (in.ended < STREAMS) {
    turn(&in);
    flood_all(&in);
  }
  assert_int_equal(in.streams[3].got, STREAM_BYTES);
  tear_down(&in);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_turn_of_the_loop_reads_its_share_of_a_flood),
      cmocka_unit_test(those_that_flood_take_turns),
      cmocka_unit_test(one_that_is_held_gets_nothing_until_it_is_let_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
