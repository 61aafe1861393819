/* test_client_wire.c - idem_connect to ws://, wss:// and tls://: the reference server, and servers
 * that do not keep to the rules. on_ready runs once, and every call ends once. */
#include "certificate.h"
#include "http/http.h"
#include "script.h"

#include "support/unit.h"

#include <arpa/inet.h>
#include <idem/uv.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

typedef struct world {
  uv_loop_t loop;
  uv_timer_t ticker; /* a turn of the loop never blocks for long */
  idem_conn *conn;
  idem_status ready;
  int readies, opened, closed;
  int answers, failures;
  idem_status last;
  size_t result_len;
  script *server;
  script_conn *far;  /* its end of the last WebSocket */
  const char *habit; /* how the server answers the handshake */
  uint64_t frame_ms; /* of the policy; 0: its own */
  char request[2048];
} world;

static char strange_cert[96], strange_key[96];

/* ------------------------------------------------------------------------- the world */

static void on_tick(uv_timer_t *timer) { (void)timer; }

static void set_up(world *in) {
  *in = (world){0};
  assert_int_equal(uv_loop_init(&in->loop), 0);
  uv_timer_init(&in->loop, &in->ticker);
  uv_timer_start(&in->ticker, on_tick, 20, 20);
}

static void tear_down(world *in) {
  uv_close((uv_handle_t *)&in->ticker, NULL);
  if (in->server) script_stop(in->server);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  assert_int_equal(in->opened, in->closed);
  assert_int_equal(uv_loop_close(&in->loop), 0);
}

static void on_open(idem_conn *conn, void *user) {
  (void)conn;
  ((world *)user)->opened++;
}
static void on_close(idem_conn *conn, void *user) {
  (void)conn;
  ((world *)user)->closed++;
}
static void on_ready(idem_conn *conn, idem_status status, void *user) {
  world *in = user;
  in->readies++;
  in->ready = status;
  in->conn = conn;
  assert_true((conn != NULL) == (status == IDEM_OK));
}

static idem_status connect_to(world *in, const char *url, const idem_client_opts *client) {
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.answer_junk = false;
  if (in->frame_ms) policy.limits.frame_ms = in->frame_ms;
  idem_connect_opts opts = {
      .policy = &policy, .client = client, .on_open = on_open, .on_close = on_close, .user = in};
  in->readies = 0;
  assert_int_equal(idem_connect(&in->loop, url, &opts, on_ready, in), IDEM_OK);
  assert_int_equal(in->readies, 0);
  while (!in->readies) uv_run(&in->loop, UV_RUN_ONCE);
  return in->ready;
}

static void close_conn(world *in) {
  int before = in->closed;
  idem_conn_close(in->conn);
  while (in->closed == before) uv_run(&in->loop, UV_RUN_ONCE);
}

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  world *in = user;
  (void)conn;
  in->answers++;
  in->failures += response->status != IDEM_OK;
  in->last = response->status;
  in->result_len = yyjson_get_len(yyjson_arr_get_first(response->result));
}

static void call(world *in, const char *method, const char *params) {
  assert_int_equal(
      idem_call_json(in->conn, method, params, strlen(params), NULL, on_response, in, NULL),
      IDEM_OK);
}

static void wait_for(world *in, int answers) {
  while (in->answers < answers) uv_run(&in->loop, UV_RUN_ONCE);
  assert_int_equal(in->answers, answers);
}

/* ------------------------------------------------------------------ the real server */

static int make_certificates(void **state) {
  certificate_set_up(state);
  snprintf(strange_cert, sizeof strange_cert, "%s/strange.pem", folder);
  snprintf(strange_key, sizeof strange_key, "%s/strange_key.pem", folder);
  child_make_certificate(strange_cert, strange_key, "x", "DNS:elsewhere.example");
  return 0;
}

static void talk(world *in, const char *url, const idem_client_opts *client) {
  static char large[1 << 20];
  memset(large, 'x', sizeof large);
  large[0] = '[';
  large[1] = '"';
  memcpy(large + sizeof large - 3, "\"]", 3);
  in->answers = in->failures = 0;
  if (connect_to(in, url, client) != IDEM_OK) fail_msg("%s: %d", url, in->ready);
  call(in, "echo", "[1]");
  wait_for(in, 1);
  for (int i = 0; i < 50; i++) call(in, "echo", "[2]");
  wait_for(in, 51);
  for (int i = 0; i < 3; i++) call(in, "echo", large);
  wait_for(in, 54);
  assert_int_equal(in->result_len, sizeof large - 5);
  assert_int_equal(in->failures, 0);
  call(in, "nothing", "[]");
  wait_for(in, 55);
  assert_int_equal(in->last, IDEM_E_REMOTE);
  close_conn(in);
}

static void the_reference_server_talks_over_each_of_them(void **state) {
  (void)state;
  world in;
  char urls[4][128];
  set_up(&in);
  child server =
      CHILD(REFERENCE, "--ws", "127.0.0.1:0", "--wss", "127.0.0.1:0", "--tls", "127.0.0.1:0",
            "--http", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key);
  for (int i = 0; i < 4; i++) child_listening(&server, urls[i], sizeof urls[i]);
  assert_memory_equal(urls[2], "tls://127.0.0.1:", 16);
  idem_client_opts trust = {.ca_file = cert};
  talk(&in, urls[0], NULL);
  talk(&in, urls[1], &trust);
  talk(&in, urls[2], &trust);
  memcpy(urls[3], "  ws", 4); /* HTTP listeners take WebSockets, too */
  talk(&in, urls[3] + 2, NULL);
  connect_to(&in, urls[1], &trust);
  in.answers = 0;
  call(&in, "sleep", "[60000]");
  call(&in, "echo", "[1]");
  kill(server.pid, SIGKILL);
  assert_int_equal(child_end(&server), -SIGKILL);
  wait_for(&in, 2);
  assert_int_equal(in.closed, in.opened);
  tear_down(&in);
}

static void a_server_must_prove_who_it_is(void **state) {
  (void)state;
  world in;
  char tls[128], wss[128];
  set_up(&in);
  child server = CHILD(REFERENCE, "--tls", "127.0.0.1:0", "--wss", "127.0.0.1:0", "--tls-cert",
                       strange_cert, "--tls-key", strange_key);
  child_listening(&server, tls, sizeof tls);
  child_listening(&server, wss, sizeof wss);
  assert_int_equal(connect_to(&in, tls, NULL), IDEM_E_SYS); /* nobody vouches for it */
  assert_int_equal(connect_to(&in, tls, &(idem_client_opts){.ca_file = cert}), IDEM_E_SYS);
  idem_client_opts trust = {.ca_file = strange_cert};
  assert_int_equal(connect_to(&in, tls, &trust), IDEM_E_SYS); /* another name */
  assert_int_equal(connect_to(&in, wss, &trust), IDEM_E_SYS);
  assert_int_equal(connect_to(&in, wss, &(idem_client_opts){.no_verify = true}), IDEM_OK);
  close_conn(&in);
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
  server = CHILD(REFERENCE, "--tls", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key,
                 "--tls-client-ca", strange_cert);
  child_listening(&server, tls, sizeof tls);
  talk(&in, tls,
       &(idem_client_opts){.ca_file = cert, .cert_file = strange_cert, .key_file = strange_key});
  idem_client_opts missing = {.ca_file = "/nonexistent.pem"};
  assert_int_equal(
      idem_connect(&in.loop, tls, &(idem_connect_opts){.client = &missing}, on_ready, &in),
      IDEM_E_SYS);
  kill(server.pid, SIGTERM);
  assert_int_equal(child_end(&server), 0);
  tear_down(&in);
}

/* --------------------------------------------------------------- servers with habits */

static void shake_hands(script_conn *conn, const char *request, const char *more) {
  char accept[IDEM__WEBSOCKET_ACCEPT], answer[512];
  const char *key_value = script_header(request, "Sec-WebSocket-Key");
  idem__websocket_accept((idem__view){key_value, strlen(key_value)}, accept);
  snprintf(answer, sizeof answer,
           "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: keep-alive, "
           "Upgrade\r\nSec-WebSocket-Accept: %.*s\r\n%s\r\n",
           (int)sizeof accept, accept, more);
  script_send(conn, answer);
}

static void on_request(script_conn *conn, const char *request, void *user) {
  world *in = user;
  const char *habit = in->habit;
  snprintf(in->request, sizeof in->request, "%s", request);
  if (strcmp(habit, "401") == 0) {
    script_answer(conn, "401 Unauthorized", "", "no");
  } else if (strcmp(habit, "200") == 0) {
    script_answer(conn, "200 OK", "", "hello");
  } else if (strcmp(habit, "digest") == 0) {
    script_send(conn, "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                      "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n");
  } else if (strcmp(habit, "bare") == 0) {
    script_send(conn, "HTTP/1.1 101 X\r\n\r\n");
  } else if (strcmp(habit, "extension") == 0) {
    shake_hands(conn, request, "Sec-WebSocket-Extensions: permessage-deflate\r\n");
  } else if (strcmp(habit, "junk") == 0) {
    script_send(conn, "220 mail.example ESMTP\r\n\r\n");
  } else if (strcmp(habit, "large") == 0) {
    script_send(conn, "HTTP/1.1 101 X\r\n");
    for (int i = 0; i < 1000; i++) script_send(conn, "X-Padding: 01234567890123456789\r\n");
  } else if (strcmp(habit, "close") == 0) {
    script_close(conn);
  } else if (strcmp(habit, "goodbye") == 0) {
    shake_hands(conn, request, "");
    script_send_bytes(conn, "\x88\x02\x03\xe8", 4);
  } else if (strcmp(habit, "open") == 0) {
    shake_hands(conn, request, "");
    in->far = conn;
  } /* "silent" */
}

/* A listener that accepts nobody: once its queue is full, whoever knocks hears nothing. */
static void a_connection_that_is_not_answered_is_given_up(void **state) {
  (void)state;
  enum { KNOCKS = 8 };
  world in;
  char url[64];
  int knocks[KNOCKS], listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof address;
  assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(listen(listener, 0), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
  for (int i = 0; i < KNOCKS; i++) {
    knocks[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)connect(knocks[i], (struct sockaddr *)&address, len);
  }
  set_up(&in);
  snprintf(url, sizeof url, "tcp://127.0.0.1:%d", ntohs(address.sin_port));
  assert_int_equal(connect_to(&in, url, &(idem_client_opts){.connect_ms = 50}), IDEM_E_TIMEOUT);
  tear_down(&in);
  for (int i = 0; i < KNOCKS; i++) close(knocks[i]);
  close(listener);
}

static void only_a_proven_handshake_is_believed(void **state) {
  (void)state;
  world in;
  char url[64];
  set_up(&in);
  in.server = script_start(&in.loop, on_request, &in);
  snprintf(url, sizeof url, "ws://127.0.0.1:%d?q=1", script_port(in.server));
  static const char *const habits[] = {"401",       "200",  "digest", "bare",
                                       "extension", "junk", "large",  "close"};
  for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
    in.habit = habits[i];
    idem_status status = connect_to(&in, url, &(idem_client_opts){.token = "secret"});
    idem_status wanted = strcmp(habits[i], "close") == 0 ? IDEM_E_CLOSED : IDEM_E_PROTO;
    if (status != wanted) fail_msg("%s: %d", habits[i], status);
  }
  assert_memory_equal(in.request, "GET /?q=1 HTTP/1.1\r\n", 20);
  assert_string_equal(script_header(in.request, "Authorization"), "Bearer secret");
  in.habit = "silent";
  assert_int_equal(connect_to(&in, url, &(idem_client_opts){.connect_ms = 50}), IDEM_E_TIMEOUT);
  static const char *const header[] = {"Sec-WebSocket-Key: mine", NULL};
  idem_client_opts bad = {.headers = header};
  assert_int_equal(idem_connect(&in.loop, url, &(idem_connect_opts){.client = &bad}, on_ready, &in),
                   IDEM_E_INVAL);
  assert_int_equal(in.opened, 0);
  tear_down(&in);
}

static void a_server_that_breaks_the_rules_loses_its_conn(void **state) {
  (void)state;
  world in;
  char url[64];
  set_up(&in);
  in.server = script_start(&in.loop, on_request, &in);
  snprintf(url, sizeof url, "ws://127.0.0.1:%d/x", script_port(in.server));
  static const struct {
    const char *bytes;
    size_t len;
  } frames[] = {{"\x82\x02{}", 4},                 /* binary */
                {"\x81\x82\x00\x00\x00\x00{}", 8}, /* masked */
                {"\x88\x02\x03\xe8", 4},           /* goodbye */
                {"\xf1\x02{}", 4},                 /* reserved bits */
                {"\x81\x02\xff\xfe", 4}};          /* not UTF-8 */
  in.habit = "open";
  for (int i = 0; i < 5; i++) {
    in.answers = 0;
    assert_int_equal(connect_to(&in, url, NULL), IDEM_OK);
    call(&in, "echo", "[1]");
    script_send_bytes(in.far, frames[i].bytes, frames[i].len);
    wait_for(&in, 1);
    assert_int_equal(in.last, IDEM_E_CLOSED);
    while (in.closed < i + 1) uv_run(&in.loop, UV_RUN_ONCE);
  }
  in.habit = "goodbye"; /* in the same breath as the handshake */
  idem_status status = connect_to(&in, url, NULL);
  if (status == IDEM_OK) {
    while (in.closed < 6) uv_run(&in.loop, UV_RUN_ONCE);
  } else {
    assert_int_equal(status, IDEM_E_CLOSED);
  }
  in.habit = "open";
  in.answers = 0;
  assert_int_equal(connect_to(&in, url, NULL), IDEM_OK);
  call(&in, "echo", "[1]");
  static const char answer[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[]}";
  script_send_bytes(in.far, "\x01\x03{\"j\x89\x00\x80\x21", 9); /* in two frames, a ping between */
  script_send(in.far, answer + 3);
  wait_for(&in, 1);
  assert_int_equal(in.last, IDEM_OK);
  call(&in, "echo", "[1]");
  script_stop(in.server);
  in.server = NULL;
  wait_for(&in, 2);
  assert_int_equal(in.last, IDEM_E_CLOSED);
  tear_down(&in);
}

/* Frames that keep coming do not stretch it: the message has its time. */
static void a_message_of_the_server_that_does_not_end_ends_the_conn(void **state) {
  (void)state;
  world in;
  char url[64];
  set_up(&in);
  in.server = script_start(&in.loop, on_request, &in);
  in.habit = "open";
  in.frame_ms = 100;
  snprintf(url, sizeof url, "ws://127.0.0.1:%d/x", script_port(in.server));
  assert_int_equal(connect_to(&in, url, NULL), IDEM_OK);
  call(&in, "echo", "[1]");
  script_send_bytes(in.far, "\x01\x01{", 3);
  uint64_t next = child_now_ms() + 10, end = child_now_ms() + 60000;
  while (!in.answers && child_now_ms() < end) {
    uv_run(&in.loop, UV_RUN_ONCE);
    if (in.answers || child_now_ms() < next) continue;
    script_send_bytes(in.far, "\x00\x01 ", 3);
    next = child_now_ms() + 10;
  }
  assert_int_equal(in.answers, 1);
  assert_int_equal(in.last, IDEM_E_CLOSED);
  tear_down(&in);
}

/* Whoever connects is in the queue of one that accepts nobody; the kernel takes little for it. */
static int listen_only(char *url, size_t size) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM, 0), small = 4096;
  assert_true(fd >= 0);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(listen(fd, 1), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
  snprintf(url, size, "tcp://127.0.0.1:%d", ntohs(at.sin_port));
  return fd;
}

static void a_closed_client_does_not_wait_for_a_server_that_reads_nothing(void **state) {
  (void)state;
  enum { BYTES = 9000000 };
  world in;
  char url[64], *params = malloc(BYTES);
  assert_non_null(params);
  memset(params, 'x', BYTES);
  params[0] = '[';
  params[1] = params[BYTES - 2] = '"';
  params[BYTES - 1] = ']';
  set_up(&in);
  int fd = listen_only(url, sizeof url);
  assert_int_equal(connect_to(&in, url, NULL), IDEM_OK);
  assert_int_equal(idem_notify_json(in.conn, "hello", params, BYTES), IDEM_OK);
  uint64_t began_ms = uv_now(&in.loop);
  idem_conn_close(in.conn);
  while (!in.closed && uv_now(&in.loop) - began_ms < 60000) uv_run(&in.loop, UV_RUN_ONCE);
  close(fd);
  assert_int_equal(in.closed, 1);
  assert_in_range(uv_now(&in.loop) - began_ms, 4000, 60000); /* it had its chance */
  tear_down(&in);
  free(params);
}

static void what_is_no_url_is_refused(void **state) {
  (void)state;
  world in;
  set_up(&in);
  static const char *const urls[] = {"ws://",         "ws:///path",  "ws://a:b@c/",
                                     "wss://a b/",    "ws://a/\r\n", "ws://a/#x",
                                     "ws://a:99999/", "tls://a",     "ws://[::1"};
  for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
    if (idem_connect(&in.loop, urls[i], &(idem_connect_opts){0}, on_ready, &in) != IDEM_E_INVAL)
      fail_msg("%s", urls[i]);
  }
  assert_int_equal(connect_to(&in, "ws://127.0.0.1:1/", NULL), IDEM_E_SYS);
  assert_int_equal(connect_to(&in, "tls://127.0.0.1:1", NULL), IDEM_E_SYS);
  tear_down(&in);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_reference_server_talks_over_each_of_them),
      cmocka_unit_test(a_server_must_prove_who_it_is),
      cmocka_unit_test(a_connection_that_is_not_answered_is_given_up),
      cmocka_unit_test(only_a_proven_handshake_is_believed),
      cmocka_unit_test(a_server_that_breaks_the_rules_loses_its_conn),
      cmocka_unit_test(a_message_of_the_server_that_does_not_end_ends_the_conn),
      cmocka_unit_test(a_closed_client_does_not_wait_for_a_server_that_reads_nothing),
      cmocka_unit_test(what_is_no_url_is_refused),
  };
  return cmocka_run_group_tests(tests, make_certificates, certificate_tear_down);
}
