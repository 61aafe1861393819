/* test_http_client.c - the asking side without I/O: posts, streams that break, and calls that end
 * once whatever the server and the allocator do. */
#include "http/http_client.h"

#include "support/fault_alloc.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define ASKS 64

/* One request the client made. */
typedef struct asked {
  idem__http_post *post;
  char body[256];
  char last_event_id[64];
  bool get, live, held;
} asked;

typedef struct world {
  idem_conn *conn;
  idem__http_client *client;
  asked asks[ASKS];
  int count, live, cancels;
  int answers[16], total;
  idem_status status[16];
  char message[128];
  uint64_t now_ms;
  idem_status refuse; /* what `send` says */
  int notified;
} world;

/* ------------------------------------------------------------------ a fake transport */

static idem_status fake_send(void *user, idem__http_post *post, const idem__http_ask *ask,
                             void **handle) {
  world *in = user;
  if (in->refuse != IDEM_OK) return in->refuse;
  assert_true(in->count < ASKS);
  asked *one = &in->asks[in->count++];
  *one = (asked){.post = post, .get = !ask->body, .live = true};
  snprintf(one->body, sizeof one->body, "%.*s", (int)ask->len, ask->body ? ask->body : "");
  if (ask->last_event_id)
    snprintf(one->last_event_id, sizeof one->last_event_id, "%s", ask->last_event_id);
  in->live++;
  *handle = one;
  return IDEM_OK;
}

static void fake_cancel(void *user, void *handle) {
  world *in = user;
  asked *one = handle;
  assert_true(one->live);
  one->live = false;
  in->live--;
  in->cancels++;
}

static void fake_hold(void *user, void *handle, bool held) {
  asked *one = handle;
  (void)user;
  assert_true(one->live);
  one->held = held;
}

static void end_with(world *in, int which, idem__http_outcome outcome) {
  asked *one = &in->asks[which];
  assert_true(one->live);
  one->live = false;
  in->live--;
  idem__http_post_end(one->post, &outcome, in->now_ms);
  idem__http_client_pump(in->client, in->now_ms);
}

static void end_json(world *in, int which, int status, const char *body) {
  idem__http_post_head(in->asks[which].post,
                       &(idem__http_outcome){.http_status = status, .type = "application/json"});
  end_with(in, which,
           (idem__http_outcome){.http_status = status,
                                .why = "",
                                .type = "application/json",
                                .body = body,
                                .len = strlen(body)});
}

static bool stream(world *in, int which, const char *text, size_t piece) {
  assert_true(idem__http_post_head(
      in->asks[which].post,
      &(idem__http_outcome){.http_status = 200, .type = "Text/Event-Stream; charset=utf-8"}));
  for (size_t at = 0, len = strlen(text); at < len; at += piece) {
    size_t take = len - at < piece ? len - at : piece;
    if (!idem__http_post_data(in->asks[which].post, text + at, take)) return false;
  }
  idem__http_client_pump(in->client, in->now_ms);
  return true;
}

static void end_stream(world *in, int which, idem_status status) {
  end_with(in, which,
           (idem__http_outcome){.status = status,
                                .why = status ? "it broke" : "",
                                .http_status = 200,
                                .type = "text/event-stream",
                                .body = ""});
}

/* ------------------------------------------------------------------------- the world */

static uint64_t clock_ns(void *ctx) { return ((const world *)ctx)->now_ms * 1000000; }

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  world *in = user;
  (void)conn;
  assert_true(response->id < 16);
  in->answers[response->id]++;
  in->total++;
  in->status[response->id] = response->status;
  snprintf(in->message, sizeof in->message, "%.*s", (int)response->message_len,
           response->message ? response->message : "");
}

static idem_status open_world(world *in, const idem_alloc *alloc, size_t max_requests) {
  *in = (world){.now_ms = 1000};
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.framing = IDEM_FRAMING_WHOLE;
  policy.answer_junk = false;
  policy.limits.message_bytes = 2048;
  idem_status status = idem_conn_new(
      &(idem_conn_opts){.policy = &policy, .alloc = alloc, .now_ns = clock_ns, .clock_ctx = in},
      &in->conn);
  if (status != IDEM_OK) return status;
  return idem__http_client_new(&(idem__http_client_opts){.conn = in->conn,
                                                         .max_requests = max_requests,
                                                         .alloc = alloc,
                                                         .send = fake_send,
                                                         .cancel = fake_cancel,
                                                         .hold = fake_hold,
                                                         .user = in},
                               &in->client);
}

static void close_world(world *in) {
  idem__http_client_free(in->client);
  idem_conn_free(in->conn);
  assert_int_equal(in->live, 0);
}

static uint64_t call(world *in) {
  uint64_t id = 0;
  assert_int_equal(idem_call_json(in->conn, "m", NULL, 0, NULL, on_response, in, &id), IDEM_OK);
  idem__http_client_pump(in->client, in->now_ms);
  return id;
}

static void pass(world *in, uint64_t ms) {
  in->now_ms += ms;
  if (idem_conn_deadline(in->conn) <= in->now_ms) idem_conn_expire(in->conn);
  idem__http_client_pump(in->client, in->now_ms);
}

#define RESULT "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":true}"

/* --------------------------------------------------------------------------- promises */

static void a_call_is_posted_and_answered(void **state) {
  (void)state;
  world in;
  assert_int_equal(open_world(&in, NULL, 0), IDEM_OK);
  call(&in);
  assert_string_equal(in.asks[0].body, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}");
  assert_int_equal(idem__http_client_posts(in.client), 1);
  assert_true(idem_conn_queued(in.conn) > 0); /* until the server has it */
  end_json(&in, 0, 200, RESULT);
  assert_int_equal(idem_conn_queued(in.conn), 0);
  assert_int_equal(in.answers[1], 1);
  assert_int_equal(in.status[1], IDEM_OK);
  assert_int_equal(idem__http_client_posts(in.client), 0);
  close_world(&in);
}

static void a_stream_is_read_at_any_split_and_resumed(void **state) {
  (void)state;
  static const char first[] =
      "retry: 150\n\nid: a\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n"
      "id: b\ndata: {\"half";
  for (size_t piece = 1; piece < 12; piece++) {
    world in;
    assert_int_equal(open_world(&in, NULL, 0), IDEM_OK);
    call(&in);
    assert_true(stream(&in, 0, first, piece));
    end_stream(&in, 0, IDEM_E_CLOSED);
    assert_int_equal(in.total, 0);
    assert_int_equal(idem__http_client_deadline(in.client), in.now_ms + 150);
    pass(&in, 149);
    assert_int_equal(in.count, 1);
    pass(&in, 1);
    assert_int_equal(in.count, 2);
    assert_true(in.asks[1].get);
    assert_string_equal(in.asks[1].last_event_id, "a"); /* b was not complete */
    assert_true(stream(&in, 1, "id: c\r\ndata: " RESULT "\r\n\r\n", piece));
    assert_int_equal(in.answers[1], 1);
    end_stream(&in, 1, IDEM_OK);
    assert_int_equal(idem__http_client_posts(in.client), 0);
    close_world(&in);
  }
}

static void a_stream_is_not_resumed_for_ever(void **state) {
  (void)state;
  world in;
  assert_int_equal(open_world(&in, NULL, 0), IDEM_OK);
  call(&in);
  assert_true(stream(&in, 0, "id: a\nretry: 1\ndata:\n\n", 100));
  end_stream(&in, 0, IDEM_OK);
  for (int i = 1; i <= 5; i++) {
    pass(&in, 100);
    assert_int_equal(in.count, i + 1);
    end_with(&in, i, (idem__http_outcome){.status = IDEM_E_SYS, .why = "nobody there"});
  }
  assert_int_equal(in.answers[1], 1);
  assert_int_equal(in.status[1], IDEM_E_CLOSED); /* its message was sent */
  assert_string_equal(in.message, "nobody there");
  close_world(&in);
}

/* A call whose stream has ended in order, without its answer. */
static void call_and_cut(world *in, bool cuts) {
  assert_int_equal(open_world(in, NULL, 0), IDEM_OK);
  if (cuts) idem__http_client_cut(in->client);
  call(in);
  assert_true(stream(in, 0, "id: 7\nretry: 1\ndata:\n\n", 100));
  end_stream(in, 0, IDEM_OK);
  pass(in, 100);
}

/* A GET that is refused says nothing of the call: that was sent, and has no answer. */
static void a_stream_that_cannot_be_resumed_leaves_the_outcome_open(void **state) {
  (void)state;
  static const char error[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32600,"
                              "\"message\":\"no such session\"}}";
  static const struct {
    int status;
    const char *body;
  } answers[] = {{405, ""}, {404, error}, {401, ""}, {429, ""}, {204, ""}, {299, "text"}};
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    world in;
    call_and_cut(&in, false);
    assert_true(in.asks[1].get);
    const char *type = answers[i].body == error ? "application/json" : "text/plain";
    idem__http_outcome outcome = {.http_status = answers[i].status,
                                  .type = type,
                                  .body = answers[i].body,
                                  .len = strlen(answers[i].body)};
    assert_false(idem__http_post_head(in.asks[1].post, &outcome));
    end_with(&in, 1, outcome);
    assert_int_equal(in.answers[1], 1);
    assert_int_equal(in.status[1], IDEM_E_CLOSED);
    assert_non_null(strstr(in.message, "ended without an answer"));
    if (answers[i].status == 405)
      assert_non_null(strstr(in.message, "HTTP 405 Method Not Allowed"));
    if (answers[i].status == 299) assert_non_null(strstr(in.message, "HTTP 299"));
    assert_int_equal(idem__http_client_posts(in.client), 0);
    close_world(&in);
  }
}

/* One that is overloaded is asked again, and in the end the same holds. */
static void a_server_that_is_too_busy_to_resume_leaves_it_open_too(void **state) {
  (void)state;
  world in;
  call_and_cut(&in, false);
  for (int i = 1; i <= 5; i++) {
    assert_int_equal(in.count, i + 1);
    end_json(&in, i, 503, "{\"error\":{\"code\":1,\"message\":\"m\"}}");
    pass(&in, 100);
  }
  assert_int_equal(in.status[1], IDEM_E_CLOSED);
  close_world(&in);
  call_and_cut(&in, false);
  end_json(&in, 1, 200, RESULT); /* the answer itself, in whatever form, is one */
  assert_int_equal(in.status[1], IDEM_OK);
  close_world(&in);
}

/* Where leaving is cancelling there is nothing to come back to. */
static void who_cancels_by_leaving_resumes_nothing(void **state) {
  (void)state;
  world in;
  call_and_cut(&in, true);
  assert_int_equal(in.count, 1);
  assert_int_equal(in.status[1], IDEM_E_CLOSED);
  assert_string_equal(in.message, "the event stream ended without an answer");
  close_world(&in);
}

static void a_server_in_a_hurry_is_asked_ten_times_a_second_at_most(void **state) {
  (void)state;
  world in;
  assert_int_equal(open_world(&in, NULL, 0), IDEM_OK);
  call(&in);
  for (int i = 0; i < 10; i++) {
    assert_true(
        stream(&in, i, "id: a\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n", 7));
    end_stream(&in, i, IDEM_OK);
    assert_int_equal(idem__http_client_deadline(in.client), in.now_ms + 100);
    pass(&in, 99);
    assert_int_equal(in.count, i + 1);
    pass(&in, 1);
    assert_int_equal(in.count, i + 2);
  }
  assert_true(stream(&in, 10, "id: b\ndata: " RESULT "\n\n", 7));
  assert_int_equal(in.answers[1], 1);
  end_stream(&in, 10, IDEM_OK);
  close_world(&in);
}

static void a_stream_without_ids_ends_its_call(void **state) {
  (void)state;
  world in;
  assert_int_equal(open_world(&in, NULL, 0), IDEM_OK);
  call(&in);
  assert_true(stream(&in, 0, ": hello\n\n", 100));
  end_stream(&in, 0, IDEM_E_CLOSED);
  assert_int_equal(in.status[1], IDEM_E_CLOSED);
  call(&in);
  assert_true(stream(&in, 1, "", 1));
  end_stream(&in, 1, IDEM_OK);
  assert_int_equal(in.status[2], IDEM_E_CLOSED);
  call(&in);
  char large[4096];
  memset(large, 'x', sizeof large - 1);
  memcpy(large, "id: a\ndata: ", 12);
  large[sizeof large - 1] = 0;
  assert_false(stream(&in, 2, large, 100));
  end_stream(&in, 2, IDEM_E_CANCELLED);
  assert_int_equal(in.status[3], IDEM_E_LIMIT);
  assert_int_equal(in.total, 3);
  close_world(&in);
}

static void an_ended_call_lets_its_exchange_finish_for_a_second(void **state) {
  (void)state;
  world in;
  assert_int_equal(open_world(&in, NULL, 0), IDEM_OK);
  call(&in);
  assert_true(stream(&in, 0, "data: " RESULT "\n\n", 100));
  assert_int_equal(in.answers[1], 1);
  pass(&in, 999);
  assert_int_equal(in.cancels, 0);
  pass(&in, 1);
  assert_int_equal(in.cancels, 1);
  uint64_t id = call(&in);
  assert_int_equal(idem_cancel(in.conn, id), IDEM_OK);
  pass(&in, 1000); /* noticed by then */
  pass(&in, 1000);
  assert_int_equal(in.cancels, 2);
  assert_int_equal(idem__http_client_posts(in.client), 0);
  close_world(&in);
}

static void calls_wait_for_room_and_others_pass_them(void **state) {
  (void)state;
  world in;
  assert_int_equal(open_world(&in, NULL, 2), IDEM_OK);
  for (int i = 0; i < 4; i++) call(&in);
  assert_int_equal(in.count, 2);
  assert_int_equal(idem_notify_json(in.conn, "n", NULL, 0), IDEM_OK);
  idem__http_client_pump(in.client, in.now_ms);
  assert_int_equal(in.count, 3);
  assert_string_equal(in.asks[2].body, "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}");
  assert_int_equal(idem_cancel(in.conn, 3), IDEM_OK); /* never sent */
  end_json(&in, 0, 200, RESULT);
  assert_int_equal(in.count, 4);
  assert_non_null(strstr(in.asks[3].body, "\"id\":4"));
  end_json(&in, 2, 202, "");
  close_world(&in);
}

static void echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}

/* The server asks faster than it takes our answers. (While a call is pending the conn reads on and
 * holds requests back by itself.) */
static void a_stream_is_not_read_while_its_server_does_not_read(void **state) {
  (void)state;
  world in = {.now_ms = 1000};
  idem_router *router;
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.framing = IDEM_FRAMING_WHOLE;
  policy.limits.queued_output_bytes = 200;
  assert_int_equal(idem_router_new(NULL, &router), IDEM_OK);
  assert_int_equal(idem_router_method(router, "echo", echo, NULL), IDEM_OK);
  idem_conn_opts opts = {.router = router, .policy = &policy, .now_ns = clock_ns, .clock_ctx = &in};
  assert_int_equal(idem_conn_new(&opts, &in.conn), IDEM_OK);
  assert_int_equal(idem__http_client_new(&(idem__http_client_opts){.conn = in.conn,
                                                                   .max_requests = 1,
                                                                   .send = fake_send,
                                                                   .cancel = fake_cancel,
                                                                   .hold = fake_hold,
                                                                   .user = &in},
                                         &in.client),
                   IDEM_OK);
  static const char question[] = "data: {\"jsonrpc\":\"2.0\",\"id\":\"%d\",\"method\":\"echo\","
                                 "\"params\":[\"0123456789012345678901234567890123456789\"]}\n\n";
  char text[256];
  call(&in);
  assert_true(stream(&in, 0, "data: " RESULT "\n\n", 100));
  assert_int_equal(in.answers[1], 1);
  for (int i = 0; i < 10 && !in.asks[0].held; i++) {
    snprintf(text, sizeof text, question, i);
    assert_true(stream(&in, 0, text, sizeof text));
  }
  assert_true(in.asks[0].held);
  assert_int_equal(in.count, 2); /* one answer is under way, the others wait */
  for (int i = 1; i < in.count; i++) end_json(&in, i, 202, "");
  assert_false(in.asks[0].held);
  assert_true(in.count > 2);
  end_stream(&in, 0, IDEM_OK);
  close_world(&in);
  idem_router_free(router);
}

static void what_cannot_be_sent_fails_its_call(void **state) {
  (void)state;
  world in;
  assert_int_equal(open_world(&in, NULL, 0), IDEM_OK);
  in.refuse = IDEM_E_NOMEM;
  call(&in);
  assert_int_equal(in.answers[1], 1);
  assert_int_equal(in.status[1], IDEM_E_NOMEM);
  assert_int_equal(idem__http_client_posts(in.client), 0);
  close_world(&in);
}

/* A conversation with every kind of end; with a failing allocation anywhere in it each call that
 * was accepted still ends once. */
static int converse(world *in, const idem_alloc *alloc) {
  int accepted = 0;
  if (open_world(in, alloc, 2) != IDEM_OK) {
    idem_conn_free(in->conn);
    return 0;
  }
  for (int i = 0; i < 5; i++)
    accepted += idem_call_json(in->conn, "m", NULL, 0, NULL, on_response, in, NULL) == IDEM_OK;
  idem__http_client_pump(in->client, in->now_ms);
  for (int i = 0; i < in->count; i++) {
    if (!in->asks[i].live) continue;
    if (i % 4 == 0) {
      end_json(in, i, 200, RESULT);
    } else if (i % 4 == 1 && stream(in, i, "id: a\nretry: 1\ndata: {}\n\n", 5)) {
      end_stream(in, i, IDEM_OK);
      pass(in, 100);
    } else if (in->asks[i].live) {
      end_json(in, i, 503, "{\"error\":{\"code\":1,\"message\":\"m\"}}");
    }
  }
  idem__http_client_free(in->client);
  idem_conn_free(in->conn);
  assert_int_equal(in->live, 0);
  return accepted;
}

static void play(fault_alloc *faults, void *user) {
  world *in = user;
  int accepted = converse(in, &faults->alloc);
  assert_int_equal(in->total, accepted);
  for (int id = 0; id < 16; id++) assert_true(in->answers[id] <= 1);
}

static void every_call_ends_once_whatever_fails(void **state) {
  (void)state;
  static world in;
  assert_int_equal(converse(&in, NULL), 5);
  assert_int_equal(in.total, 5);
  assert_true(fault_alloc_sweep(play, &in, 2000) > 20);
  assert_true(fault_alloc_sweep_ever_after(play, &in, 2000) > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_call_is_posted_and_answered),
      cmocka_unit_test(a_stream_is_read_at_any_split_and_resumed),
      cmocka_unit_test(a_stream_is_not_resumed_for_ever),
      cmocka_unit_test(a_stream_that_cannot_be_resumed_leaves_the_outcome_open),
      cmocka_unit_test(a_server_that_is_too_busy_to_resume_leaves_it_open_too),
      cmocka_unit_test(who_cancels_by_leaving_resumes_nothing),
      cmocka_unit_test(a_server_in_a_hurry_is_asked_ten_times_a_second_at_most),
      cmocka_unit_test(a_stream_without_ids_ends_its_call),
      cmocka_unit_test(an_ended_call_lets_its_exchange_finish_for_a_second),
      cmocka_unit_test(calls_wait_for_room_and_others_pass_them),
      cmocka_unit_test(a_stream_is_not_read_while_its_server_does_not_read),
      cmocka_unit_test(what_cannot_be_sent_fails_its_call),
      cmocka_unit_test(every_call_ends_once_whatever_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
