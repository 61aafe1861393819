/* client_world.c - see client_world.h. */
#include "client_world.h"

#include <stdio.h>
#include <stdlib.h>

static void greet(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  idem_reply_json(request, "\"hello\"", 7);
}

static void on_tick(uv_timer_t *timer) { (void)timer; }

void set_up(world *in, script_fn on_request) {
  *in = (world){0};
  assert_int_equal(uv_loop_init(&in->loop), 0);
  uv_timer_init(&in->loop, &in->ticker);
  uv_timer_start(&in->ticker, on_tick, 20, 20);
  assert_int_equal(idem_router_new(NULL, &in->router), IDEM_OK);
  assert_int_equal(idem_router_method(in->router, "greet", greet, in), IDEM_OK);
  in->server = script_start(&in->loop, on_request, in);
  in->other = script_start(&in->loop, on_request, in);
  snprintf(in->url, sizeof in->url, "http://127.0.0.1:%d", script_port(in->server));
  snprintf(in->elsewhere, sizeof in->elsewhere, "http://127.0.0.1:%d", script_port(in->other));
}

void on_ready(idem_conn *conn, idem_status status, void *user) {
  world *in = user;
  in->readies++;
  in->ready = status;
  in->conn = conn;
}

static void on_close(idem_conn *conn, void *user) {
  (void)conn;
  world *in = user;
  in->closed++;
}

static void on_protocol_error(idem_conn *conn, const idem_protocol_error *error, void *user) {
  (void)conn, (void)error;
  world *in = user;
  in->protocol_errors++;
}

void connect_to(world *in, const char *url, const idem_client_opts *client) {
  idem_policy policy = idem_policy_preset(IDEM_PROFILE_JSONRPC);
  policy.answer_junk = false;
  policy.limits.message_bytes = 4096;
  if (in->idle_ms) policy.limits.idle_ms = in->idle_ms;
  idem_connect_opts opts = {.router = in->router,
                            .policy = &policy,
                            .client = client,
                            .on_close = on_close,
                            .on_protocol_error = on_protocol_error,
                            .user = in};
  assert_int_equal(idem_connect(&in->loop, url, &opts, on_ready, in), IDEM_OK);
  assert_int_equal(in->readies, 0);
  while (!in->readies) uv_run(&in->loop, UV_RUN_ONCE);
  assert_int_equal(in->ready, IDEM_OK);
}

void tear_down(world *in) {
  if (in->conn) idem_conn_close(in->conn);
  while (in->readies && !in->closed) uv_run(&in->loop, UV_RUN_ONCE);
  uv_close((uv_handle_t *)&in->ticker, NULL);
  script_stop(in->server);
  script_stop(in->other);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  assert_int_equal(in->closed, in->readies);
  assert_int_equal(uv_loop_close(&in->loop), 0);
  idem_router_free(in->router);
}

void on_response(idem_conn *conn, const idem_response *response, void *user) {
  answer *to = user;
  (void)conn;
  to->times++;
  to->status = response->status;
  to->code = response->code;
  snprintf(to->message, sizeof to->message, "%.*s", (int)response->message_len,
           response->message ? response->message : "");
  char *text = response->result ? yyjson_val_write(response->result, 0, NULL) : NULL;
  snprintf(to->result, sizeof to->result, "%s", text ? text : "");
  free(text);
  text = response->data ? yyjson_val_write(response->data, 0, NULL) : NULL;
  snprintf(to->data, sizeof to->data, "%s", text ? text : "");
  free(text);
}

void call_with(world *in, const char *method, const char *params, answer *to) {
  *to = (answer){0};
  assert_int_equal(
      idem_call_json(in->conn, method, params, strlen(params), NULL, on_response, to, NULL),
      IDEM_OK);
  assert_int_equal(to->times, 0);
}

void call(world *in, const char *method, answer *to) { call_with(in, method, "[1]", to); }

void wait_for(world *in, const answer *to) {
  while (!to->times) uv_run(&in->loop, UV_RUN_ONCE);
  assert_int_equal(to->times, 1);
}

answer ask(world *in, const char *method) {
  static answer to;
  call(in, method, &to);
  wait_for(in, &to);
  return to;
}

void member(const char *request, const char *name, char *value, size_t size) {
  yyjson_doc *doc = yyjson_read(script_body(request), strlen(script_body(request)), 0);
  yyjson_val *val = yyjson_obj_get(yyjson_doc_get_root(doc), name);
  char *text = val ? yyjson_val_write(val, 0, NULL) : NULL;
  snprintf(value, size, "%s", text ? text : "");
  free(text);
  yyjson_doc_free(doc);
}

void close_conn(world *in) {
  idem_conn_close(in->conn);
  while (!in->closed) uv_run(&in->loop, UV_RUN_ONCE);
  in->closed = in->readies = 0;
  in->conn = NULL;
}
