/* test_sse.c - the transport of 2024-11-05: a stream that says where to post and carries every
 * answer, on whichever thread the posts come in; and who asks, as the embedder says. */
#include "http/endpoint.h"
#include "support/mcp_web.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define HELLO_IN(revision)                                                                         \
  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"       \
  "\"" revision "\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define HELLO HELLO_IN("2024-11-05")
#define READY "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"
#define CALL(id, tool)                                                                             \
  "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool     \
  "\",\"arguments\":{}}}"

static void expect_on(const mcp_web_conn *stream, const char *text) {
  if (!strstr(stream->output, text)) fail_msg("no %s in:\n%s", text, stream->output);
}

/* Opens a stream and gives the target it names. */
static void open_stream(mcp_web *web, mcp_web_conn *stream, const char *headers, char target[128]) {
  mcp_web_connect(web, stream);
  mcp_web_open_sse(stream, headers, target);
}

static void the_stream_says_where_to_post_and_carries_the_answers(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn stream;
  char target[128];
  mcp_web_open(&web, &(mcp_web_opts){.store = NULL});
  open_stream(&web, &stream, "", target);
  assert_memory_equal(target, "/message?sessionId=", 19);
  expect_on(&stream, "Content-Type: text/event-stream");
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "", HELLO), "202 Accepted");
  mcp_web_settle(&stream);
  expect_on(&stream,
            "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":"
            "\"2024-11-05\"");
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "", READY), "202 Accepted");
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "", CALL(2, "who")), "202 Accepted");
  mcp_web_settle(&stream);
  expect_on(&stream, "\"id\":2,\"result\"");
  /* What nobody asked for comes the same way; what is no message is answered there, too. */
  assert_int_equal(mcp_fixture_add_tool(web.fixture, "extra"), IDEM_OK);
  mcp_web_settle(&stream);
  expect_on(&stream, "notifications/tools/list_changed");
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "", "{nonsense"), "202 Accepted");
  mcp_web_settle(&stream);
  expect_on(&stream, "-32700");
  mcp_web_disconnect(&stream);
  mcp_web_deliver(&web);
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "", CALL(3, "who")), "404 Not Found");
  mcp_web_close(&web);
}

static void a_slow_reader_of_the_stream_gets_every_answer(void **state) {
  (void)state;
  enum { ASKED = 20 };
  static const idem_http_opts small = {.queued_bytes = 4096};
  mcp_web web;
  mcp_web_conn stream;
  char target[128], ask[128], answer[64];
  mcp_web_open(&web, &(mcp_web_opts){.http = &small});
  open_stream(&web, &stream, "", target);
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "", HELLO), "202 Accepted");
  for (int i = 2; i < ASKED; i++) {
    snprintf(ask, sizeof ask, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/list\"}", i);
    mcp_web_expect(mcp_web_ask(&web, "POST", target, "", ask), "202 Accepted");
  }
  assert_true(idem__http_conn_queued(stream.conn) < 32768);
  mcp_web_settle(&stream);
  for (int i = 1; i < ASKED; i++) {
    snprintf(answer, sizeof answer, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"result\"", i);
    expect_on(&stream, answer);
  }
  mcp_web_disconnect(&stream);
  mcp_web_deliver(&web);
  mcp_web_close(&web);
}

/* What the engine held back while nobody read goes on as soon as there is room, not with the next
 * comment of the stream. */
static void a_reader_that_caught_up_has_what_it_is_owed_at_once(void **state) {
  (void)state;
  enum { ASKED = 40 };
  static const idem_http_opts small = {.queued_bytes = 4096};
  mcp_web web;
  mcp_web_conn stream;
  char target[128], ask[128], answer[64];
  mcp_web_open(&web, &(mcp_web_opts){.http = &small});
  web.endpoint->rpc->policy.limits.queued_output_bytes = 8192;
  open_stream(&web, &stream, "", target);
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "", HELLO), "202 Accepted");
  for (int i = 2; i < ASKED; i++) {
    snprintf(ask, sizeof ask, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/list\"}", i);
    mcp_web_expect(mcp_web_ask(&web, "POST", target, "", ask), "202 Accepted");
  }
  for (int i = 0; i < ASKED; i++) mcp_web_settle(&stream);
  for (int i = 1; i < ASKED; i++) {
    snprintf(answer, sizeof answer, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"result\"", i);
    expect_on(&stream, answer);
  }
  mcp_web_disconnect(&stream);
  mcp_web_deliver(&web);
  mcp_web_close(&web);
}

static void drop_cancelled(idem_request *request, idem_cancel_reason reason, void *user) {
  (void)reason, (void)user;
  idem_request_drop(request);
}

static void keep(idem_request *request, void *user) {
  (void)user;
  idem_request_keep(request);
  idem_request_on_cancel(request, drop_cancelled, NULL);
}

/* A server that must go answers what it owes, then ends the stream. */
static void a_stream_that_is_cut_off_says_so_first(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn stream;
  char target[128];
  mcp_web_open(&web, &(mcp_web_opts){.store = NULL});
  web.fixture->keep = keep;
  open_stream(&web, &stream, "", target);
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "", HELLO), "202 Accepted");
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "", READY), "202 Accepted");
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "", CALL(2, "slow")), "202 Accepted");
  idem__http_conn_close(stream.conn, web.now_ms);
  mcp_web_settle(&stream);
  assert_null(strstr(stream.output, "\"id\":2,"));
  idem__http_conn_abort(stream.conn, web.now_ms);
  mcp_web_settle(&stream);
  expect_on(&stream, "\"id\":2,\"error\"");
  assert_memory_equal(stream.output + stream.len - 5, "0\r\n\r\n", 5);
  mcp_web_disconnect(&stream);
  mcp_web_deliver(&web);
  mcp_web_close(&web);
}

/* Where nobody waits for it on the stream: the POST itself is answered, with the request's id. */
/* MUST tools.rate 2024-11-05 */
static void over_the_rate_a_post_is_answered_with_its_id(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn stream;
  idem__limiter *limiter;
  char target[128];
  assert_int_equal(idem__limiter_new(NULL, 2, 20, 0, 7, &limiter), IDEM_OK);
  mcp_web_open(&web, &(mcp_web_opts){.limiter = limiter});
  open_stream(&web, &stream, "", target); /* which takes one, too */
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "", HELLO), "202 Accepted");
  char *answer = mcp_web_ask(&web, "POST", target, "", CALL("s-2", "who"));
  assert_non_null(strstr(answer, "HTTP/1.1 429 "));
  assert_non_null(strstr(answer, "Retry-After: 10\r\n"));
  mcp_web_expect(answer, "\"id\":\"s-2\",\"error\":{\"code\":-32000,");
  answer = mcp_web_ask(&web, "POST", target, "", READY);
  assert_null(strstr(answer, "jsonrpc"));
  mcp_web_expect(answer, "HTTP/1.1 429 ");
  mcp_web_settle(&stream);
  assert_null(strstr(stream.output, "s-2"));
  mcp_web_disconnect(&stream);
  mcp_web_close(&web);
  idem__limiter_free(limiter);
}

#define PINGS                                                                                      \
  "[{\"jsonrpc\":\"2.0\",\"id\":11,\"method\":\"ping\"},{\"jsonrpc\":\"2.0\",\"id\":12,"           \
  "\"method\":\"ping\"},"                                                                          \
  "{\"jsonrpc\":\"2.0\",\"id\":13,\"method\":\"ping\"}]"

/* Each element of a batch is a message, whichever way it comes. */
static void a_batch_costs_its_elements(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn stream;
  idem__limiter *limiter;
  char target[128];
  assert_int_equal(idem__limiter_new(NULL, 4, 40, 0, 7, &limiter), IDEM_OK);
  mcp_web_open(&web, &(mcp_web_opts){.limiter = limiter});
  open_stream(&web, &stream, "", target); /* one */
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "", HELLO_IN("2025-03-26")), "202 Accepted");
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "", PINGS), "202 Accepted");
  mcp_web_settle(&stream);
  expect_on(&stream, "\"id\":11,\"result\"");
  expect_on(&stream, "\"id\":12,\"result\"");
  expect_on(&stream, "\"id\":13,\"error\":{\"code\":-32000,");
  mcp_web_disconnect(&stream);
  mcp_web_deliver(&web);
  mcp_web_close(&web);
  idem__limiter_free(limiter);
}

/* Streams are opened and taken up at the same rate; what nobody can read as a message counts, too. */
static void every_way_in_passes_the_limit(void **state) {
  (void)state;
  static const struct {
    const char *method, *target, *headers, *body;
  } ways[] = {{"GET", "/sse", "", NULL},
              {"GET", "/mcp", NULL, NULL},
              {"GET", "/mcp", "Last-Event-ID: 1-1\r\n", NULL},
              {"DELETE", "/mcp", NULL, NULL},
              {"POST", "/mcp", "", "{nonsense"},
              {"POST", "/mcp", "", "[]"}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    mcp_web web;
    idem__limiter *limiter;
    char session[64], headers[128];
    assert_int_equal(idem__limiter_new(NULL, 1, 20, 0, 7, &limiter), IDEM_OK);
    mcp_web_open(&web, &(mcp_web_opts){.limiter = limiter});
    mcp_web_hello(&web, "", session); /* the only token */
    snprintf(headers, sizeof headers, "%s%s", session, ways[i].headers ? ways[i].headers : "");
    char *answer = mcp_web_ask(&web, ways[i].method, ways[i].target, headers, ways[i].body);
    if (!strstr(answer, "HTTP/1.1 429 ") || !strstr(answer, "Retry-After: ") ||
        !strstr(answer, "rate-limited"))
      fail_msg("way %zu:\n%s", i, answer);
    free(answer);
    mcp_web_deliver(&web);
    mcp_web_close(&web);
    idem__limiter_free(limiter);
  }
}

static void an_unknown_or_foreign_stream_takes_nothing(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn stream;
  char target[128];
  mcp_web_open(&web, &(mcp_web_opts){.store = NULL});
  open_stream(&web, &stream, "Authorization: Bearer a\r\n", target);
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "Authorization: Bearer b\r\n", HELLO),
                 "404 Not Found");
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "", HELLO), "404 Not Found");
  mcp_web_expect(mcp_web_ask(&web, "POST", "/message", "Authorization: Bearer a\r\n", HELLO),
                 "404");
  mcp_web_expect(mcp_web_ask(&web, "POST", "/message?sessionId=00000000000000000000000000000000",
                             "Authorization: Bearer a\r\n", HELLO),
                 "404 Not Found");
  mcp_web_expect(mcp_web_ask(&web, "GET", target, "", NULL), "405 Method Not Allowed");
  mcp_web_expect(mcp_web_ask(&web, "POST", "/sse", "", HELLO), "405 Method Not Allowed");
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "Authorization: Bearer a\r\n", HELLO),
                 "202 Accepted");
  mcp_web_disconnect(&stream);
  mcp_web_close(&web);
}

static void streams_are_checked_like_everything_else(void **state) {
  (void)state;
  mcp_web web;
  static const char *const tokens[] = {"secret", NULL};
  const idem_http_opts http = {.tokens = tokens};
  mcp_web_open(&web, &(mcp_web_opts){.http = &http});
  mcp_web_expect(mcp_web_ask(&web, "GET", "/sse", "", NULL), "401 Unauthorized");
  mcp_web_expect(mcp_web_ask(&web, "POST", "/message?sessionId=x", "", HELLO), "401 Unauthorized");
  mcp_web_expect(mcp_web_ask(&web, "GET", "/sse",
                             "Authorization: Bearer secret\r\nOrigin: https://evil.example\r\n",
                             NULL),
                 "403 Forbidden");
  mcp_web_expect(mcp_web_ask(&web, "GET", "/sse", "Authorization: Bearer secret\r\n", NULL),
                 "event: endpoint");
  mcp_web_deliver(&web);
  mcp_web_close(&web);
}

static void streams_are_capped_and_end_when_nobody_posts(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn streams[2];
  char target[2][128];
  mcp_web_open(&web, &(mcp_web_opts){.table = {.max_sessions = 2, .session_idle_ms = 60000}});
  for (int i = 0; i < 2; i++) open_stream(&web, &streams[i], "", target[i]);
  mcp_web_expect(mcp_web_ask(&web, "GET", "/sse", "", NULL), "503 Service Unavailable");
  web.now_ms += 45000;
  mcp_web_expect(mcp_web_ask(&web, "POST", target[0], "", HELLO), "202 Accepted");
  for (int i = 0; i < 2; i++) mcp_web_settle(&streams[i]);
  web.now_ms += 15000;
  for (int i = 0; i < 2; i++) mcp_web_settle(&streams[i]);
  mcp_web_expect(mcp_web_ask(&web, "POST", target[1], "", HELLO), "404 Not Found");
  mcp_web_expect(mcp_web_ask(&web, "POST", target[0], "", READY), "202 Accepted");
  assert_memory_equal(streams[1].output + streams[1].len - 5, "0\r\n\r\n", 5);
  for (int i = 0; i < 2; i++) mcp_web_disconnect(&streams[i]);
  mcp_web_deliver(&web);
  mcp_web_close(&web);
}

/* The stream is held by one loop, the first message has come in on another. */
typedef struct two_loops {
  mcp_web first, second;
  mcp_web_conn stream;
  char target[128];
} two_loops;

static void open_two_loops(two_loops *in) {
  mcp_web_open(&in->first, &(mcp_web_opts){.store = NULL});
  mcp_web_open(&in->second,
               &(mcp_web_opts){.fixture = in->first.fixture, .shared = in->first.table});
  open_stream(&in->first, &in->stream, "", in->target);
  mcp_web_expect(mcp_web_ask(&in->second, "POST", in->target, "", HELLO), "202 Accepted");
}

static void posts_reach_the_stream_of_another_loop(void **state) {
  (void)state;
  two_loops in;
  open_two_loops(&in);
  mcp_web_expect(mcp_web_ask(&in.second, "POST", in.target, "", READY), "202 Accepted");
  mcp_web_expect(mcp_web_ask(&in.second, "POST", in.target, "", CALL(2, "who")), "202 Accepted");
  mcp_web_settle(&in.stream);
  expect_on(&in.stream, "\"id\":1,\"result\"");
  expect_on(&in.stream, "\"id\":2,\"result\"");
  mcp_web_disconnect(&in.stream);
  mcp_web_expect(mcp_web_ask(&in.second, "POST", in.target, "", CALL(3, "who")), "404 Not Found");
  mcp_web_deliver(&in.first);
  mcp_web_close(&in.second);
  mcp_web_close(&in.first);
}

/* One loop takes posts faster than the other begins them: they would wait in between in any number. */
static void posts_on_their_way_to_another_loop_have_a_bound(void **state) {
  enum { BYTES = 3 << 20 };
  static const char start[] = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"";
  (void)state;
  two_loops in;
  open_two_loops(&in);
  char *body = malloc(BYTES + 1);
  assert_non_null(body);
  memset(body, ' ', BYTES);
  memcpy(body, start, sizeof start - 1);
  body[BYTES - 1] = '}';
  body[BYTES] = '\0';
  mcp_web_expect(mcp_web_ask(&in.second, "POST", in.target, "", body), "202 Accepted");
  mcp_web_expect(mcp_web_ask(&in.second, "POST", in.target, "", body), "202 Accepted");
  char *refusal = mcp_web_ask(&in.second, "POST", in.target, "", body);
  assert_non_null(strstr(refusal, " 503 "));
  mcp_web_expect(refusal, "\"id\":7,\"error\"");
  mcp_web_settle(&in.stream);
  mcp_web_expect(mcp_web_ask(&in.second, "POST", in.target, "", body), "202 Accepted");
  mcp_web_settle(&in.stream);
  assert_int_equal(mcp_web_times(&in.stream, "\"id\":7,\"result\""), 3);
  free(body);
  mcp_web_disconnect(&in.stream);
  mcp_web_close(&in.second);
  mcp_web_close(&in.first);
}

static void what_was_posted_to_a_loop_that_ends_leads_nowhere(void **state) {
  (void)state;
  two_loops in;
  open_two_loops(&in);
  mcp_web_disconnect(&in.stream);
  mcp_web_close(&in.second);
  mcp_web_close(&in.first); /* the message is still on its way */
}

/* --------------------------------------------------------------- principals */

/* X-User names them; "mallory" may not ask, nobody must say who they are. */
static int who(const idem_http_caller *caller, char *principal, size_t size, void *user) {
  size_t len;
  const char *name = idem_http_caller_header(caller, "X-User", &len);
  ++*(unsigned *)user;
  assert_non_null(idem_http_caller_address(caller));
  if (!name) return 401;
  if (len == 7 && memcmp(name, "mallory", 7) == 0) return 403;
  snprintf(principal, size, "%.*s", (int)len, name);
  return 0;
}

static void the_embedder_says_who_asks(void **state) {
  (void)state;
  mcp_web web;
  mcp_web_conn stream;
  unsigned asked = 0;
  char session[64], headers[128], target[128];
  const idem_http_opts http = {.principal = who, .principal_user = &asked};
  mcp_web_open(&web, &(mcp_web_opts){.http = &http});
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", "", HELLO), "401 Unauthorized");
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", "X-User: mallory\r\n", HELLO), "403 Forbidden");
  mcp_web_expect(mcp_web_ask(&web, "GET", "/sse", "X-User: mallory\r\n", NULL), "403 Forbidden");
  assert_int_equal(asked, 3);
  mcp_web_hello(&web, "X-User: alice\r\nAuthorization: Bearer 1\r\n", session);
  /* The handler sees the name; another token does not matter, another name does. */
  snprintf(headers, sizeof headers, "%sX-User: alice\r\nAuthorization: Bearer 2\r\n", session);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", headers, CALL(2, "who")), "t|alice|");
  snprintf(headers, sizeof headers, "%sX-User: bob\r\nAuthorization: Bearer 1\r\n", session);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", headers, CALL(2, "who")), "404 Not Found");
  mcp_web_expect(mcp_web_ask(&web, "DELETE", "/mcp", headers, NULL), "404 Not Found");
  open_stream(&web, &stream, "X-User: alice\r\n", target);
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "X-User: bob\r\n", HELLO), "404 Not Found");
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "X-User: alice\r\n", HELLO), "202 Accepted");
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "X-User: alice\r\n", READY), "202 Accepted");
  mcp_web_expect(mcp_web_ask(&web, "POST", target, "X-User: alice\r\n", CALL(2, "who")),
                 "202 Accepted");
  mcp_web_settle(&stream);
  expect_on(&stream, "t|alice|");
  mcp_web_disconnect(&stream);
  mcp_web_deliver(&web);
  mcp_web_close(&web);
}

/* Two long names that differ at their ends are two principals, as handlers see them, too. */
static void a_long_name_is_as_good_as_a_short_one(void **state) {
  (void)state;
  mcp_web web;
  unsigned asked = 0;
  char session[64], name[201], headers[400], seen[256];
  const idem_http_opts http = {.principal = who, .principal_user = &asked};
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = 0;
  mcp_web_open(&web, &(mcp_web_opts){.http = &http});
  snprintf(headers, sizeof headers, "X-User: %s\r\n", name);
  mcp_web_hello(&web, headers, session);
  snprintf(headers, sizeof headers, "%sX-User: %s\r\n", session, name);
  snprintf(seen, sizeof seen, "|%s|", name);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", headers, CALL(2, "who")), seen);
  snprintf(headers, sizeof headers, "%sX-User: %.199sm\r\n", session, name);
  mcp_web_expect(mcp_web_ask(&web, "POST", "/mcp", headers, CALL(3, "who")), "404 Not Found");
  mcp_web_close(&web);
}

#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{}}}"

static char *call_ask(mcp_web *web, const char *user, const char *more) {
  char headers[256], body[1024];
  snprintf(headers, sizeof headers,
           "X-User: %s\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n"
           "Mcp-Name: ask\r\n",
           user);
  snprintf(body, sizeof body,
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"ask\","
           "\"arguments\":{}%s," META "}}",
           more);
  return mcp_web_ask(web, "POST", "/mcp", headers, body);
}

static void state_comes_back_from_its_principal_alone(void **state) {
  (void)state;
  mcp_web web;
  unsigned asked = 0;
  char more[512];
  const idem_http_opts http = {.principal = who, .principal_user = &asked};
  mcp_web_open(&web, &(mcp_web_opts){.http = &http});
  char *answer = call_ask(&web, "alice", "");
  const char *at = strstr(answer, "\"requestState\":\"");
  assert_non_null(at);
  at += 16;
  snprintf(more, sizeof more,
           ",\"requestState\":\"%.*s\",\"inputResponses\":{\"who\":{\"action\":\"accept\","
           "\"content\":{\"name\":\"Ann\"}}}",
           (int)strcspn(at, "\""), at);
  free(answer);
  mcp_web_expect(call_ask(&web, "bob", more), "-32602");
  mcp_web_expect(call_ask(&web, "alice", more), "Ann");
  mcp_web_close(&web);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_stream_says_where_to_post_and_carries_the_answers),
      cmocka_unit_test(a_slow_reader_of_the_stream_gets_every_answer),
      cmocka_unit_test(a_stream_that_is_cut_off_says_so_first),
      cmocka_unit_test(over_the_rate_a_post_is_answered_with_its_id),
      cmocka_unit_test(a_reader_that_caught_up_has_what_it_is_owed_at_once),
      cmocka_unit_test(a_batch_costs_its_elements),
      cmocka_unit_test(every_way_in_passes_the_limit),
      cmocka_unit_test(an_unknown_or_foreign_stream_takes_nothing),
      cmocka_unit_test(streams_are_checked_like_everything_else),
      cmocka_unit_test(streams_are_capped_and_end_when_nobody_posts),
      cmocka_unit_test(posts_reach_the_stream_of_another_loop),
      cmocka_unit_test(posts_on_their_way_to_another_loop_have_a_bound),
      cmocka_unit_test(what_was_posted_to_a_loop_that_ends_leads_nowhere),
      cmocka_unit_test(the_embedder_says_who_asks),
      cmocka_unit_test(a_long_name_is_as_good_as_a_short_one),
      cmocka_unit_test(state_comes_back_from_its_principal_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
