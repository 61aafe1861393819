/* test_told.c - each shape of line that the engine writes to the log: what a peer did, what came of it,
 * and that nothing is told twice. */
#include "support/unit.h"

#include <idem/mcp.h>
#include <stdio.h>

typedef struct fixture {
  idem_log *log;
  idem_metrics *metrics;
  idem_router *router;
  idem_conn *conn;
  idem_request *kept;
  uint64_t now_ns;
  bool admits;
  char lines[1 << 16];
  size_t len;
} fixture;

static void keep_line(void *ctx, const char *line, size_t len) {
  fixture *self = ctx;
  assert_true(self->len + len < sizeof self->lines);
  memcpy(self->lines + self->len, line, len);
  self->len += len;
  self->lines[self->len] = '\0';
}

static uint64_t now_ns(void *ctx) { return ((const fixture *)ctx)->now_ns; }
static bool admit(idem_conn *conn, void *user) {
  (void)conn;
  return ((const fixture *)user)->admits;
}

static void on_echo(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_reply(request, params);
}
static void on_fail(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_request_drop(request);
}
static void on_forget(idem_request *request, yyjson_val *params, void *user) {
  (void)request;
  (void)params;
  (void)user;
}
static void on_reserved(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply_error(request, -32700 - 10, "mine", NULL);
}
static void on_own_code(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply_error(request, 17, "mine", NULL);
}
static void on_not_json(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply_json(request, "{", 1);
}
static void on_picky(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  idem_param_fault fault;
  const char *text;
  size_t len;
  if (idem_param_string(params, "level", 0, &text, &len, &fault) != IDEM_OK)
    idem_reply_invalid_params(request, &fault);
  else
    idem_reply(request, NULL);
}
static void on_missing(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem_reply_fault(request, IDEM_FAULT_RESOURCE_NOT_FOUND, "x:y");
}
static void on_keep(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  ((fixture *)user)->kept = request;
  idem_request_keep(request);
}

static void add_methods(fixture *self) {
  static const struct {
    const char *name;
    idem_method_fn fn;
  } rows[] = {{"echo", on_echo},         {"fail", on_fail},         {"forget", on_forget},
              {"reserved", on_reserved}, {"own_code", on_own_code}, {"not_json", on_not_json},
              {"picky", on_picky},       {"missing", on_missing},   {"keep", on_keep}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    idem_status status = idem_router_method(self->router, rows[i].name, rows[i].fn, self);
    assert_int_equal(status, IDEM_OK);
  }
}

static void open_fixture(fixture *self, idem_profile profile, idem_log_level level) {
  *self = (fixture){.now_ns = 1000000000u, .admits = true};
  idem_log_opts log = {.level = level, .write = keep_line, .write_ctx = self};
  assert_int_equal(idem_log_new(&log, &self->log), IDEM_OK);
  assert_int_equal(idem_metrics_new(NULL, &self->metrics), IDEM_OK);
  assert_int_equal(idem_router_new(NULL, &self->router), IDEM_OK);
  add_methods(self);
  if (profile == IDEM_PROFILE_LSP) {
    idem_lsp_opts lsp = {.server_name = "t", .server_version = "1.0.0", .log = self->log};
    assert_int_equal(idem_router_lsp(self->router, &lsp), IDEM_OK);
  }
  assert_int_equal(idem_router_label(self->router, self->metrics), IDEM_OK);
  idem_policy policy = idem_policy_preset(profile);
  policy.framing = IDEM_FRAMING_LINE;
  policy.limits.message_bytes = 4096;
  policy.limits.request_ms = 1000;
  idem_conn_opts opts = {.router = self->router,
                         .policy = &policy,
                         .log = self->log,
                         .metrics = self->metrics,
                         .peer = "test",
                         .now_ns = now_ns,
                         .clock_ctx = self,
                         .admit = admit,
                         .user = self};
  assert_int_equal(idem_conn_new(&opts, &self->conn), IDEM_OK);
}

static void close_fixture(fixture *self) {
  idem_conn_free(self->conn);
  idem_router_free(self->router);
  idem_metrics_free(self->metrics);
  idem_log_free(self->log);
}

static void feed(fixture *self, const char *line) {
  char text[8192];
  int len = snprintf(text, sizeof text, "%s\n", line);
  self->len = 0;
  self->lines[0] = '\0';
  assert_int_equal(idem_conn_feed(self->conn, text, (size_t)len), IDEM_OK);
}

/* One message, and the lines it leaves. */
static void expect(fixture *self, const char *line, const char *lines) {
  feed(self, line);
  assert_string_equal(self->lines, lines);
}

static void expect_counted(const fixture *self, const char *count) {
  char *text;
  size_t len;
  assert_int_equal(idem_metrics_render(&self->metrics, 1, &text, &len), IDEM_OK);
  if (!strstr(text, count)) fail_msg("%s not in %s", count, text);
  idem_metrics_text_free(self->metrics, text);
}

#define REQUEST(id, method) "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"" method "\"}"
#define NOTIFICATION(method) "{\"jsonrpc\":\"2.0\",\"method\":\"" method "\"}"

static void an_internal_error_has_its_line_with_id_and_method(void **state) {
  (void)state;
  fixture self;
  open_fixture(&self, IDEM_PROFILE_JSONRPC, IDEM_LOG_INFO);
  expect(&self, REQUEST("7", "fail"),
         "ERROR a request failed id=7 method=fail peer=test detail=Internal error, 40 bytes\n");
  expect(&self, REQUEST("null", "fail"),
         "ERROR a request failed id=null method=fail peer=test detail=Internal error, 43 bytes\n");
  expect(&self, REQUEST("8", "forget"),
         "ERROR a handler forgot to answer id=8 method=forget peer=test\n");
  expect(&self, REQUEST("9", "reserved"),
         "ERROR a handler raised a reserved error code id=9 method=reserved peer=test detail=code "
         "-32710\n");
  expect(&self, REQUEST("10", "not_json"),
         "ERROR an answer could not be sent id=10 method=not_json peer=test detail=invalid "
         "argument\n");
  expect(&self, "[" REQUEST("11", "fail") "]",
         "ERROR a request failed id=11 method=fail peer=test detail=Internal error, 43 bytes\n");
  close_fixture(&self);
}

static void refusals_are_warnings_with_reason_and_size(void **state) {
  (void)state;
  fixture self;
  open_fixture(&self, IDEM_PROFILE_JSONRPC, IDEM_LOG_INFO);
  expect(&self, "nonsense", "WARN  a message is not JSON peer=test detail=Parse error, 8 bytes\n");
  expect(&self, "{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"echo\"}",
         "WARN  a request was refused id=7 method=echo peer=test detail=bad-version, 40 bytes\n");
  expect(&self, "[]", "WARN  a message was refused peer=test detail=empty-batch, 2 bytes\n");
  expect(&self, REQUEST("7", "nope"),
         "WARN  an unknown method was called id=7 method=nope peer=test detail=40 bytes\n");
  expect(&self, REQUEST("7", "missing"),
         "WARN  a request was refused id=7 method=missing peer=test detail=Resource not found, 43 "
         "bytes\n");
  expect(&self, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"picky\",\"params\":{\"level\":5}}",
         "WARN  params were refused id=7 method=picky peer=test detail=level: expected string, "
         "received number, 62 bytes\n");
  close_fixture(&self);
}

static void what_is_too_large_is_told_by_its_size(void **state) {
  (void)state;
  fixture self;
  char long_line[5001];
  memset(long_line, 'x', sizeof long_line - 1);
  long_line[sizeof long_line - 1] = '\0';
  open_fixture(&self, IDEM_PROFILE_JSONRPC, IDEM_LOG_INFO);
  expect(&self, long_line, "WARN  a message was refused peer=test detail=oversize, 5000 bytes\n");
  close_fixture(&self);
}

static void a_failing_notification_has_its_line(void **state) {
  (void)state;
  fixture self;
  open_fixture(&self, IDEM_PROFILE_JSONRPC, IDEM_LOG_INFO);
  expect(&self, NOTIFICATION("fail"),
         "ERROR a notification failed method=fail peer=test detail=Internal error, 33 bytes\n");
  expect(&self, NOTIFICATION("missing"),
         "WARN  a notification was refused method=missing peer=test detail=Resource not found, 36 "
         "bytes\n");
  expect(&self, NOTIFICATION("picky"),
         "WARN  params were refused method=picky peer=test detail=level: expected string, "
         "received nothing, 34 bytes\n");
  expect(&self, NOTIFICATION("nope"),
         "WARN  a notification was ignored method=nope peer=test detail=Method not found, 33 "
         "bytes\n");
  expect(&self, NOTIFICATION("notifications/initialized"), "");
  close_fixture(&self);
}

static void requests_and_notifications_are_debug(void **state) {
  (void)state;
  fixture self;
  open_fixture(&self, IDEM_PROFILE_JSONRPC, IDEM_LOG_DEBUG);
  expect(&self, REQUEST("\"a\"", "echo"), "DEBUG request id=\"a\" method=echo peer=test\n");
  expect(&self, NOTIFICATION("echo"), "DEBUG notification method=echo peer=test\n");
  expect(&self, NOTIFICATION("notifications/initialized"),
         "DEBUG notification method=notifications/initialized peer=test\n");
  static const char cancel[] = "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{"
                               "\"id\":777}}";
  fixture lsp;
  open_fixture(&lsp, IDEM_PROFILE_LSP, IDEM_LOG_DEBUG);
  expect(&lsp, cancel, "DEBUG notification method=$/cancelRequest peer=test\n");
  close_fixture(&lsp);
  expect(&self, REQUEST("5", "own_code"),
         "DEBUG request id=5 method=own_code peer=test\n"
         "DEBUG a request was answered with an error id=5 method=own_code peer=test detail=code "
         "17, 44 bytes\n");
  close_fixture(&self);
}

static void cancellations_are_told_and_counted(void **state) {
  (void)state;
  static const char cancel[] = "{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{"
                               "\"id\":3}}";
  static const char mcp_cancel[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                                   "\"params\":{\"requestId\":3}}";
  static const char told[] = "INFO  a request was cancelled id=3 method=keep peer=test\n";
  static const char counted[] = "mcp_requests_total{method=\"keep\",status=\"cancelled\"} 1\n";
  fixture self;
  open_fixture(&self, IDEM_PROFILE_LSP, IDEM_LOG_INFO);
  expect(&self, REQUEST("3", "keep"), "");
  expect(&self, cancel, told);
  expect_counted(&self, counted);
  idem_request_drop(self.kept);
  close_fixture(&self);
  open_fixture(&self, IDEM_PROFILE_MCP, IDEM_LOG_INFO);
  expect(&self, REQUEST("3", "keep"), "");
  expect(&self, mcp_cancel, told);
  expect_counted(&self, counted);
  idem_request_drop(self.kept);
  close_fixture(&self);
}

static void tell_and_drop(idem_request *request, idem_cancel_reason reason, void *user) {
  char after[32];
  (void)user;
  assert_int_equal(reason, IDEM_CANCEL_CLOSED);
  snprintf(after, sizeof after, "after %d ms", (int)idem_request_age_ms(request));
  idem_request_log(request, NULL, IDEM_LOG_INFO, "nobody waits", after);
  idem_request_drop(request);
}

/* Over HTTP that is how a call is cancelled: the line still says whose it was. */
static void a_request_whose_conn_goes_is_told_of(void **state) {
  (void)state;
  fixture self;
  open_fixture(&self, IDEM_PROFILE_JSONRPC, IDEM_LOG_INFO);
  expect(&self, REQUEST("3", "keep"), "");
  idem_request_on_cancel(self.kept, tell_and_drop, &self);
  self.now_ns += 250000000u;
  self.len = 0;
  idem_conn_free(self.conn);
  self.conn = NULL;
  assert_string_equal(
      self.lines,
      "INFO  a request was cancelled id=3 method=keep peer=test detail=its peer has gone\n"
      "INFO  nobody waits id=3 method=keep peer=test detail=after 250 ms\n");
  close_fixture(&self);
}

static void on_response(idem_conn *conn, const idem_response *response, void *user) {
  (void)conn;
  (void)user;
  assert_int_equal(response->status, IDEM_E_CANCELLED);
}

static void an_answer_to_what_was_cancelled_is_no_warning(void **state) {
  (void)state;
  static const char late[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":0}";
  uint64_t id;
  fixture self;
  open_fixture(&self, IDEM_PROFILE_JSONRPC, IDEM_LOG_DEBUG);
  expect(&self, late, "WARN  a response with an unknown id id=1 peer=test\n");
  assert_int_equal(idem_call(self.conn, "ask", NULL, NULL, on_response, NULL, &id), IDEM_OK);
  assert_int_equal(id, 1);
  assert_int_equal(idem_cancel(self.conn, id), IDEM_OK);
  expect(&self, late, "DEBUG a response with an unknown id id=1 peer=test\n");
  close_fixture(&self);
}

static void time_that_ran_out_is_told_of(void **state) {
  (void)state;
  fixture self;
  open_fixture(&self, IDEM_PROFILE_JSONRPC, IDEM_LOG_INFO);
  expect(&self, REQUEST("3", "keep"), "");
  self.now_ns += 2000000000u;
  assert_int_equal(idem_conn_expire(self.conn), IDEM_OK);
  assert_string_equal(self.lines, "WARN  a request ran out of time id=3 method=keep peer=test\n");
  expect_counted(&self, "mcp_requests_total{method=\"keep\",status=\"timeout\"} 1\n");
  idem_request_drop(self.kept);
  close_fixture(&self);
}

static void what_an_end_cuts_off_is_told_of(void **state) {
  (void)state;
  fixture self;
  open_fixture(&self, IDEM_PROFILE_LSP, IDEM_LOG_INFO);
  expect(&self, REQUEST("3", "keep"), "");
  expect(&self, REQUEST("4", "echo"), "");
  idem_conn_abort(self.conn);
  assert_string_equal(self.lines,
                      "INFO  a request was cut off by the end of its connection id=3 method=keep "
                      "peer=test detail=it had begun\n"
                      "INFO  a request was cut off by the end of its connection id=4 method=echo "
                      "peer=test detail=it had not begun\n");
  idem_request_drop(self.kept);
  close_fixture(&self);
}

static void on_note(idem_conn *conn, yyjson_val *params, void *user) {
  (void)conn, (void)params, (void)user;
  fail_msg("the conn acts on it itself");
}

static void a_cancellation_is_counted_by_its_name(void **state) {
  (void)state;
  static const char note[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                             "\"params\":{\"requestId\":9}}";
  fixture self;
  open_fixture(&self, IDEM_PROFILE_MCP, IDEM_LOG_WARN);
  expect(&self, note, "");
  expect_counted(&self, "mcp_notifications_total{method=\"other\"} 1\n");
  assert_int_equal(idem_router_notification(self.router, "notifications/cancelled", on_note, NULL),
                   IDEM_OK);
  assert_int_equal(idem_router_label(self.router, self.metrics), IDEM_OK);
  expect(&self, note, "");
  expect_counted(&self, "mcp_notifications_total{method=\"notifications/cancelled\"} 1\n");
  close_fixture(&self);
}

static void an_unknown_response_is_told_of_with_its_id(void **state) {
  (void)state;
  fixture self;
  open_fixture(&self, IDEM_PROFILE_JSONRPC, IDEM_LOG_INFO);
  expect(&self, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":1}",
         "WARN  a response with an unknown id id=\"x\" peer=test\n");
  expect(&self, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"\"}}",
         "WARN  an error answer with id null id=null peer=test\n");
  close_fixture(&self);
}

static void what_a_rate_limit_takes_is_told_of_and_counted(void **state) {
  (void)state;
  fixture self;
  open_fixture(&self, IDEM_PROFILE_JSONRPC, IDEM_LOG_INFO);
  self.admits = false;
  expect(&self, NOTIFICATION("echo"),
         "WARN  a notification was dropped method=echo peer=test detail=rate-limited, 33 bytes\n");
  expect(&self, REQUEST("4", "echo"),
         "WARN  a request was refused id=4 method=echo peer=test detail=rate-limited, 40 bytes\n");
  expect_counted(&self, "idem_rate_limited_total 2\n");
  close_fixture(&self);
}

/* Warnings of a flood do not hide a fault of ours. */
static void no_kind_of_line_hides_another(void **state) {
  (void)state;
  fixture self;
  open_fixture(&self, IDEM_PROFILE_JSONRPC, IDEM_LOG_INFO);
  for (int i = 0; i < 20; i++) feed(&self, REQUEST("7", "nope"));
  assert_string_equal(self.lines, "");
  expect(&self, REQUEST("7", "fail"),
         "ERROR a request failed id=7 method=fail peer=test detail=Internal error, 40 bytes\n");
  for (int i = 0; i < 20; i++) feed(&self, REQUEST("7", "fail"));
  assert_string_equal(self.lines, "");
  close_fixture(&self);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_internal_error_has_its_line_with_id_and_method),
      cmocka_unit_test(refusals_are_warnings_with_reason_and_size),
      cmocka_unit_test(what_is_too_large_is_told_by_its_size),
      cmocka_unit_test(a_failing_notification_has_its_line),
      cmocka_unit_test(requests_and_notifications_are_debug),
      cmocka_unit_test(cancellations_are_told_and_counted),
      cmocka_unit_test(a_request_whose_conn_goes_is_told_of),
      cmocka_unit_test(an_answer_to_what_was_cancelled_is_no_warning),
      cmocka_unit_test(time_that_ran_out_is_told_of),
      cmocka_unit_test(what_an_end_cuts_off_is_told_of),
      cmocka_unit_test(a_cancellation_is_counted_by_its_name),
      cmocka_unit_test(an_unknown_response_is_told_of_with_its_id),
      cmocka_unit_test(what_a_rate_limit_takes_is_told_of_and_counted),
      cmocka_unit_test(no_kind_of_line_hides_another),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
