/* test_judging.c - heads whose judge says later who asks: the body waits unread, the answer is the same at any
 * split, and who waits goes with its connection, its time, or the server. */
#include "support/fault_alloc.h"
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define PING                                                                                       \
  "{\"jsonrpc\":\"2.0\",\"id\":41,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"      \
  "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"

typedef struct world {
  mcp_web web;
  mcp_web_conn conn;
  idem_http_wait *waits[4];
  unsigned count, gone, refused;
  bool lies; /* waits, and then answers on the spot */
} world;

static void on_gone(void *user) { ((world *)user)->gone++; }

static int judge(const idem_http_caller *caller, char *principal, size_t size, void *user) {
  world *w = user;
  idem_http_wait *wait = idem_http_caller_wait(caller, on_gone, w);
  assert_null(wait ? idem_http_caller_wait(caller, on_gone, w) : NULL); /* one for each */
  if (!wait) w->refused++;
  if (!wait) return 503;
  w->waits[w->count++] = wait;
  snprintf(principal, size, "hasty");
  return w->lies ? 0 : IDEM_HTTP_LATER;
}

static void open_world(world *w, idem_http_opts http) {
  *w = (world){.count = 0};
  http.principal = judge;
  http.principal_user = w;
  mcp_web_open(&w->web, &(mcp_web_opts){.http = &http});
  mcp_web_connect(&w->web, &w->conn);
}

static void close_world(world *w) {
  mcp_web_disconnect(&w->conn);
  mcp_web_close(&w->web);
}

static void resume(world *w, unsigned which, int status, const char *principal) {
  idem_http_resume(w->waits[which], status, principal);
  mcp_web_settle(&w->conn);
}

static void who_asks_may_be_said_later(void **state) {
  (void)state;
  world w;
  open_world(&w, (idem_http_opts){0});
  mcp_web_send(&w.conn, "POST", "/mcp", "", PING);
  assert_int_equal(w.conn.len, 0);
  resume(&w, 0, 0, "alice");
  assert_non_null(strstr(w.conn.output, "200 OK"));
  assert_non_null(strstr(w.conn.output, "\"id\":41,\"result\""));
  /* The connection goes on, and the next is judged anew. */
  mcp_web_send(&w.conn, "POST", "/mcp", "", PING);
  assert_int_equal(w.count, 2);
  resume(&w, 1, 401, NULL);
  assert_non_null(strstr(w.conn.output, "401 Unauthorized"));
  assert_int_equal(w.gone, 0);
  close_world(&w);
}

static void requests_behind_it_wait_their_turn(void **state) {
  (void)state;
  world w;
  open_world(&w, (idem_http_opts){0});
  mcp_web_send(&w.conn, "POST", "/mcp", "", PING);
  mcp_web_send(&w.conn, "GET", "/mcp", "", NULL);
  assert_int_equal(w.count, 1);
  resume(&w, 0, 0, NULL);
  assert_int_equal(w.count, 2);
  assert_non_null(strstr(w.conn.output, "200 OK"));
  resume(&w, 1, 403, NULL);
  assert_non_null(strstr(w.conn.output, "403 Forbidden"));
  close_world(&w);
}

static void the_answer_is_the_same_at_any_split(void **state) {
  (void)state;
  static const char head[] = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
                             "Content-Type: application/json\r\nExpect: 100-continue\r\n"
                             "Content-Length: %zu\r\n\r\n%s";
  char text[1024];
  size_t len = (size_t)snprintf(text, sizeof text, head, strlen(PING), PING);
  for (size_t split = 1; split < len; split++) {
    world w;
    open_world(&w, (idem_http_opts){0});
    assert_int_equal(idem__http_conn_feed(w.conn.conn, text, split, 1000), IDEM_OK);
    mcp_web_settle(&w.conn);
    bool early = w.count > 0 && split % 2; /* the judge is faster than the rest */
    if (early) resume(&w, 0, 0, "alice");
    assert_int_equal(idem__http_conn_feed(w.conn.conn, text + split, len - split, 1000), IDEM_OK);
    mcp_web_settle(&w.conn);
    assert_int_equal(w.count, 1);
    if (!early) {
      assert_int_equal(w.conn.len, 0); /* its body was not invited */
      resume(&w, 0, 0, "alice");
    }
    assert_non_null(strstr(w.conn.output, "100 Continue"));
    assert_non_null(strstr(w.conn.output, "\"id\":41,\"result\""));
    close_world(&w);
  }
}

/* The rest of a request comes after it was said who asks and before the driver's next call: it is not served before its head is judged. */
static void what_comes_with_the_verdict_waits_for_it(void **state) {
  (void)state;
  static const char head[] = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
                             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s";
  char text[1024];
  size_t len = (size_t)snprintf(text, sizeof text, head, strlen(PING), PING);
  size_t head_len = len - strlen(PING);
  for (size_t i = 0; i < 4; i++) {
    world w;
    bool good = i % 2;
    size_t first = i < 2 ? head_len : head_len + 7;
    open_world(&w, (idem_http_opts){0});
    assert_int_equal(idem__http_conn_feed(w.conn.conn, text, first, 1000), IDEM_OK);
    idem_http_resume(w.waits[0], good ? 0 : 401, good ? "alice" : NULL);
    assert_int_equal(idem__http_conn_feed(w.conn.conn, text + first, len - first, 1000), IDEM_OK);
    mcp_web_settle(&w.conn);
    assert_non_null(strstr(w.conn.output, good ? "\"id\":41,\"result\"" : "401 Unauthorized"));
    assert_true(good || !strstr(w.conn.output, "result"));
    close_world(&w);
  }
}

static void an_abort_after_the_verdict_is_answered(void **state) {
  (void)state;
  world w;
  open_world(&w, (idem_http_opts){0});
  mcp_web_send(&w.conn, "POST", "/mcp", "", PING);
  idem_http_resume(w.waits[0], 0, "alice");
  idem__http_conn_abort(w.conn.conn, 1000);
  mcp_web_settle(&w.conn);
  assert_non_null(strstr(w.conn.output, "503 Service Unavailable"));
  close_world(&w);
}

static void who_has_gone_is_not_waited_for(void **state) {
  (void)state;
  world w;
  open_world(&w, (idem_http_opts){0});
  mcp_web_send(&w.conn, "POST", "/mcp", "", PING);
  mcp_web_disconnect(&w.conn);
  assert_int_equal(w.gone, 1);
  idem_http_resume(w.waits[0], 0, "alice"); /* a quiet end */
  mcp_web_connect(&w.web, &w.conn);
  close_world(&w);
}

static void end_of_input_is_no_end_of_waiting(void **state) {
  (void)state;
  world w;
  open_world(&w, (idem_http_opts){0});
  mcp_web_send(&w.conn, "GET", "/mcp", "", NULL);
  assert_int_equal(idem__http_conn_feed_eof(w.conn.conn, 1000), IDEM_OK);
  mcp_web_settle(&w.conn);
  assert_int_equal(w.gone, 0);
  resume(&w, 0, 0, "alice");
  assert_non_null(strstr(w.conn.output, "400 Bad Request")); /* it named no session */
  close_world(&w);
}

static void a_judge_has_its_time(void **state) {
  (void)state;
  world w;
  open_world(&w, (idem_http_opts){.waiting_ms = 700});
  mcp_web_send(&w.conn, "POST", "/mcp", "", PING);
  w.web.now_ms += 699;
  mcp_web_settle(&w.conn);
  assert_int_equal(w.conn.len, 0);
  w.web.now_ms += 1;
  mcp_web_settle(&w.conn);
  assert_non_null(strstr(w.conn.output, "503 Service Unavailable"));
  assert_int_equal(w.gone, 1);
  idem_http_resume(w.waits[0], 0, "alice");
  close_world(&w);
}

static void no_more_heads_wait_than_may(void **state) {
  (void)state;
  world w;
  mcp_web_conn second;
  open_world(&w, (idem_http_opts){.max_waiting = 1});
  mcp_web_send(&w.conn, "POST", "/mcp", "", PING);
  mcp_web_connect(&w.web, &second);
  mcp_web_send(&second, "POST", "/mcp", "", PING);
  assert_int_equal(w.refused, 1);
  assert_non_null(strstr(second.output, "503 Service Unavailable"));
  mcp_web_disconnect(&second);
  resume(&w, 0, 0, "alice");
  assert_non_null(strstr(w.conn.output, "200 OK"));
  close_world(&w);
}

static void a_server_that_stops_waits_for_the_judge_or_refuses(void **state) {
  (void)state;
  for (int now = 0; now < 2; now++) {
    world w;
    open_world(&w, (idem_http_opts){0});
    mcp_web_send(&w.conn, "POST", "/mcp", "", PING);
    if (now)
      idem__http_conn_abort(w.conn.conn, 1000);
    else
      idem__http_conn_close(w.conn.conn, 1000);
    mcp_web_settle(&w.conn);
    assert_int_equal(w.gone, now);
    resume(&w, 0, 0, "alice");
    assert_non_null(strstr(w.conn.output, now ? "503 Service Unavailable" : "200 OK"));
    assert_true(idem__http_conn_closing(w.conn.conn));
    close_world(&w);
  }
}

static void one_that_answers_on_the_spot_need_not_wait(void **state) {
  (void)state;
  world w;
  open_world(&w, (idem_http_opts){0});
  w.lies = true;
  mcp_web_send(&w.conn, "POST", "/mcp", "", PING);
  assert_int_equal(w.gone, 1);
  assert_non_null(strstr(w.conn.output, "200 OK"));
  idem_http_resume(w.waits[0], 401, NULL);
  close_world(&w);
}

/* ----------------------------------------------------------------- no memory */

static void serve(idem_http_exchange *exchange, const idem_http_request *request, void *user) {
  (void)request, (void)user;
  idem__http_respond(exchange, &(idem__http_answer){.status = 200, .body = "x", .len = 1});
}

static void judge_once(fault_alloc *fault, void *user) {
  static const char text[] = "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n";
  static const idem_http_route route = {.path = "/x", .methods = IDEM_HTTP_GET, .serve = serve};
  world w = {.count = 0};
  idem_http_opts http = {.principal = judge, .principal_user = &w};
  idem__http_server_opts opts = {.http = &http};
  idem_http_server *server;
  idem_http_conn *conn;
  (void)user;
  opts.loopback = true;
  opts.alloc = &fault->alloc;
  if (idem__http_server_new(&opts, &server) != IDEM_OK) return;
  if (idem__http_server_add(server, &route, &(idem__http_binding){0}) == IDEM_OK &&
      idem__http_conn_new(&(idem__http_conn_opts){.server = server}, &conn) == IDEM_OK) {
    idem__http_conn_feed(conn, text, sizeof text - 1, 1000);
    if (w.count) idem_http_resume(w.waits[0], 0, "alice");
    idem__http_conn_expire(conn, 1000);
    idem__http_conn_free(conn);
  }
  idem__http_server_free(server);
}

static void every_allocation_may_fail(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(judge_once, NULL, 100) > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_asks_may_be_said_later),
      cmocka_unit_test(requests_behind_it_wait_their_turn),
      cmocka_unit_test(the_answer_is_the_same_at_any_split),
      cmocka_unit_test(what_comes_with_the_verdict_waits_for_it),
      cmocka_unit_test(an_abort_after_the_verdict_is_answered),
      cmocka_unit_test(who_has_gone_is_not_waited_for),
      cmocka_unit_test(end_of_input_is_no_end_of_waiting),
      cmocka_unit_test(a_judge_has_its_time),
      cmocka_unit_test(no_more_heads_wait_than_may),
      cmocka_unit_test(a_server_that_stops_waits_for_the_judge_or_refuses),
      cmocka_unit_test(one_that_answers_on_the_spot_need_not_wait),
      cmocka_unit_test(every_allocation_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
