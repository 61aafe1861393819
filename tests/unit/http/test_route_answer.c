/* test_route_answer.c - what an embedder's route answers: later, in pieces, as a file. */
#include "route.h"

/* One route, /a, whose function keeps what it is asked; `route` says what else there is to it. */
static void open_kept(http_peer *peer, served *one, idem_http_route route,
                      const idem_http_opts *opts) {
  *one = (served){.keeps = true};
  route.path = "/a";
  route.methods = IDEM_HTTP_GET;
  route.serve = serve;
  route.user = one;
  open_routes(peer, &route, 1, opts);
}

/* -------------------------------------------------------------------- later */

static void an_answer_may_come_later(void **state) {
  (void)state;
  served one;
  http_peer peer;
  open_kept(&peer, &one, (idem_http_route){0}, NULL);
  feed(&peer, GET("/a") ECHO, 0);
  assert_int_equal(one.status, IDEM_OK);
  assert_int_equal(peer.output_len, 0);
  assert_int_equal(idem_http_keep(one.exchange, &(idem_http_keep_opts){0}), IDEM_E_INVAL);
  assert_int_equal(idem_http_respond(one.exchange, &hello), IDEM_OK);
  assert_true(peer.wakes > 0);
  http_peer_settle(&peer);
  assert_non_null(strstr(peer.output, "hello"));
  assert_non_null(strstr(peer.output, ECHO_ANSWER));
  http_peer_deinit(&peer);
  assert_int_equal(one.gone, 0);
}

static void who_has_gone_is_not_waited_for(void **state) {
  (void)state;
  served one;
  http_peer peer;
  open_kept(&peer, &one, (idem_http_route){.max_kept = 1}, NULL);
  for (size_t i = 1; i <= 3; i++) {
    feed(&peer, GET("/a"), 0);
    assert_int_equal(one.status, IDEM_OK); /* what has gone is not counted */
    assert_int_equal(http_peer_reconnect(&peer), IDEM_OK);
    assert_int_equal(one.gone, i);
  }
  feed(&peer, GET("/a"), 0);
  http_peer_eof(&peer); /* which may still read */
  assert_int_equal(one.gone, 3);
  assert_int_equal(idem_http_respond(one.exchange, &hello), IDEM_OK);
  http_peer_settle(&peer);
  assert_non_null(strstr(peer.output, "hello"));
  assert_int_equal(one.gone, 3);
  http_peer_deinit(&peer);
}

static void a_kept_request_has_its_time_and_its_bound(void **state) {
  (void)state;
  served one;
  http_peer peer;
  open_kept(&peer, &one, (idem_http_route){.max_kept = 1, .answer_ms = 5000}, NULL);
  feed(&peer, GET("/a"), 0);
  idem_http_conn *other;
  assert_int_equal(
      idem__http_conn_new(&(idem__http_conn_opts){.server = peer.server, .now_ms = peer.now_ms},
                          &other),
      IDEM_OK);
  idem_http_exchange *first = one.exchange;
  idem__http_conn_feed(other, GET("/a"), sizeof GET("/a") - 1, peer.now_ms);
  assert_int_equal(one.status, IDEM_E_LIMIT);
  idem__http_conn_free(other);
  one.exchange = first;
  http_peer_wait(&peer, 4999);
  assert_int_equal(peer.output_len, 0);
  http_peer_wait(&peer, 1);
  assert_non_null(strstr(peer.output, "503 Service Unavailable"));
  assert_int_equal(one.gone, 1);
  http_peer_deinit(&peer);
  assert_int_equal(one.gone, 1);
}

static void a_server_that_stops_gives_time_to_answers_and_ends_streams(void **state) {
  (void)state;
  served one;
  http_peer peer;
  open_kept(&peer, &one, (idem_http_route){0}, NULL);
  feed(&peer, GET("/a"), 0);
  idem__http_conn_close(peer.conn, peer.now_ms);
  assert_int_equal(one.gone, 0);
  idem__http_conn_abort(peer.conn, peer.now_ms);
  http_peer_settle(&peer);
  assert_int_equal(one.gone, 1);
  assert_non_null(strstr(peer.output, "503 "));
  assert_int_equal(http_peer_reconnect(&peer), IDEM_OK);
  feed(&peer, GET("/a"), 0);
  assert_int_equal(idem_http_stream_begin(one.exchange, &(idem_http_answer){.status = 200}),
                   IDEM_OK);
  idem__http_conn_close(peer.conn, peer.now_ms);
  http_peer_settle(&peer);
  assert_int_equal(one.gone, 2);
  assert_non_null(strstr(peer.output, "\r\n0\r\n\r\n"));
  assert_true(idem__http_conn_closing(peer.conn));
  http_peer_deinit(&peer);
}

/* ------------------------------------------------------------------ streams */

static void a_body_may_come_in_pieces(void **state) {
  (void)state;
  served one;
  http_peer peer;
  open_kept(&peer, &one, (idem_http_route){.answer_ms = 1000},
            &(idem_http_opts){.stream_ms = 7000});
  feed(&peer, GET("/a"), 0);
  assert_int_equal(idem_http_stream_write(one.exchange, "x", 1), IDEM_E_INVAL); /* not begun */
  assert_int_equal(idem_http_stream_begin(one.exchange, &events), IDEM_OK);
  assert_int_equal(idem_http_stream_write(one.exchange, "data: 1\n\n", 9), IDEM_OK);
  http_peer_wait(&peer, 6999);
  assert_non_null(strstr(peer.output, "Transfer-Encoding: chunked\r\n"));
  assert_non_null(strstr(peer.output, "\r\n\r\n9\r\ndata: 1\n\n\r\n"));
  assert_int_equal(http_peer_count(&peer, ":\n\n"), 0);
  http_peer_wait(&peer, 1);
  assert_int_equal(http_peer_count(&peer, "3\r\n:\n\n\r\n"), 1);
  http_peer_wait(&peer, 7000);
  assert_int_equal(http_peer_count(&peer, "3\r\n:\n\n\r\n"), 2);
  idem_http_stream_end(one.exchange);
  http_peer_settle(&peer);
  assert_non_null(strstr(peer.output, "0\r\n\r\n"));
  feed(&peer, ECHO, 0);
  assert_non_null(strstr(peer.output, ECHO_ANSWER));
  http_peer_deinit(&peer);
  assert_int_equal(one.gone, 0);
}

static void who_ends_its_input_has_left_a_stream(void **state) {
  (void)state;
  served one;
  http_peer peer;
  open_kept(&peer, &one, (idem_http_route){0}, NULL);
  feed(&peer, GET("/a"), 0);
  assert_int_equal(idem_http_stream_begin(one.exchange, &events), IDEM_OK);
  http_peer_eof(&peer);
  assert_int_equal(one.gone, 1);
  assert_true(idem__http_conn_finished(peer.conn));
  http_peer_deinit(&peer);
  assert_int_equal(one.gone, 1);
}

static void head_has_all_of_a_stream_with_its_head(void **state) {
  (void)state;
  served one;
  http_peer peer;
  open_kept(&peer, &one, (idem_http_route){0}, NULL);
  feed(&peer, ASK("HEAD", "/a", ""), 0);
  assert_int_equal(idem_http_stream_begin(one.exchange, &events), IDEM_E_CLOSED);
  http_peer_settle(&peer);
  assert_non_null(strstr(peer.output, "200 OK"));
  feed(&peer, ECHO, 0);
  assert_non_null(strstr(peer.output, ECHO_ANSWER));
  http_peer_deinit(&peer);
  assert_int_equal(one.gone, 0);
}

static void a_slow_reader_is_waited_for_within_bounds(void **state) {
  (void)state;
  served one;
  http_peer peer;
  char piece[1000];
  memset(piece, 'x', sizeof piece);
  open_kept(&peer, &one, (idem_http_route){0},
            &(idem_http_opts){.queued_bytes = 20000, .idle_ms = 60000});
  feed(&peer, GET("/a"), 0);
  assert_int_equal(idem_http_stream_begin(one.exchange, &events), IDEM_OK);
  size_t written = 0;
  while (written < 100 && idem_http_stream_write(one.exchange, piece, sizeof piece) == IDEM_OK)
    written++;
  assert_in_range(written, 19, 21);
  assert_int_equal(idem_http_stream_write(one.exchange, piece, sizeof piece), IDEM_E_LIMIT);
  assert_int_equal(one.rooms, 0);
  http_peer_settle(&peer); /* which reads it all */
  assert_int_equal(one.rooms, 1);
  assert_int_equal(idem_http_stream_write(one.exchange, piece, sizeof piece), IDEM_OK);
  assert_int_equal(one.rooms, 1);
  peer.now_ms += 60001; /* and nothing is read */
  assert_int_equal(idem__http_conn_expire(peer.conn, peer.now_ms), IDEM_E_TIMEOUT);
  assert_true(idem__http_conn_finished(peer.conn));
  http_peer_deinit(&peer);
  assert_int_equal(one.gone, 1);
}

/* -------------------------------------------------------------------- files */

static void a_file_is_sent_as_it_is_taken(void **state) {
  (void)state;
  static const idem_http_file file = {.type = "text/css",
                                      .etag = "\"v1\"",
                                      .encoding = "gzip",
                                      .body = "zipped",
                                      .len = 6,
                                      .plain = "unzipped",
                                      .plain_len = 8};
  static const idem_http_file zipped = {
      .type = "text/css", .encoding = "gzip", .body = "z", .len = 1};
  const idem_http_route routes[] = {{.path = "/a.css",
                                     .methods = IDEM_HTTP_GET,
                                     .serve = idem_http_serve_file,
                                     .user = (void *)(uintptr_t)&file},
                                    {.path = "/z.css",
                                     .methods = IDEM_HTTP_GET,
                                     .serve = idem_http_serve_file,
                                     .user = (void *)(uintptr_t)&zipped}};
  http_peer peer;
  open_routes(&peer, routes, 2, NULL);
  expect(&peer, ASK("GET", "/a.css", "Accept-Encoding: br;q=1, GZIP\r\n"), "200 OK",
         "ETag: \"v1\"\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\n");
  expect(&peer, ASK("GET", "/a.css", "Accept-Encoding: *\r\n"), "200 OK", "\r\n\r\nzipped");
  expect(&peer, GET("/a.css"), "200 OK", "\r\n\r\nunzipped");
  assert_int_equal(http_peer_count(&peer, "Content-Encoding"), 0);
  expect(&peer, ASK("GET", "/a.css", "Accept-Encoding: gzip;q=0, *\r\n"), "200 OK", "unzipped");
  expect(&peer, ASK("HEAD", "/a.css", "Accept-Encoding: gzip\r\n"), "200 OK",
         "Content-Length: 6\r\n");
  assert_int_equal(http_peer_count(&peer, "zipped"), 0);
  expect(&peer, ASK("GET", "/a.css", "If-None-Match: \"v0\", W/\"v1\"\r\n"), "304 Not Modified",
         "ETag: \"v1\"\r\nVary: Accept-Encoding\r\n\r\n");
  assert_int_equal(http_peer_count(&peer, "Content-"), 2); /* the two security headers */
  expect(&peer, ASK("GET", "/a.css", "If-None-Match: *\r\n"), "304 ", "");
  expect(&peer, ASK("GET", "/a.css", "If-None-Match: \"v2\"\r\n"), "200 OK", "");
  expect(&peer, GET("/z.css"), "406 Not Acceptable", "Accept-Encoding: gzip");
  http_peer_deinit(&peer);
}

static void a_large_file_is_sent_without_a_copy(void **state) {
  (void)state;
  char *large = malloc(100000);
  assert_non_null(large);
  memset(large, 'x', 100000);
  idem_http_file file = {.type = "text/plain", .body = large, .len = 100000};
  const idem_http_route route = {
      .path = "/a", .methods = IDEM_HTTP_GET, .serve = idem_http_serve_file, .user = &file};
  http_peer peer;
  open_routes(&peer, &route, 1, NULL);
  idem__http_conn_feed(peer.conn, GET("/a"), sizeof GET("/a") - 1, peer.now_ms);
  idem_http_chunk chunk;
  assert_true(idem__http_conn_next_chunk(peer.conn, &chunk));
  idem__http_chunk_free(peer.conn, &chunk, peer.now_ms);
  assert_true(idem__http_conn_next_chunk(peer.conn, &chunk));
  assert_ptr_equal(chunk.data, large);
  assert_int_equal(chunk.len, 100000);
  idem__http_chunk_free(peer.conn, &chunk, peer.now_ms);
  http_peer_deinit(&peer);
  free(large);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_answer_may_come_later),
      cmocka_unit_test(who_has_gone_is_not_waited_for),
      cmocka_unit_test(a_kept_request_has_its_time_and_its_bound),
      cmocka_unit_test(a_server_that_stops_gives_time_to_answers_and_ends_streams),
      cmocka_unit_test(a_body_may_come_in_pieces),
      cmocka_unit_test(who_ends_its_input_has_left_a_stream),
      cmocka_unit_test(head_has_all_of_a_stream_with_its_head),
      cmocka_unit_test(a_slow_reader_is_waited_for_within_bounds),
      cmocka_unit_test(a_file_is_sent_as_it_is_taken),
      cmocka_unit_test(a_large_file_is_sent_without_a_copy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
