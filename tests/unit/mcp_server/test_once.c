/* test_once.c - calls with a key at one server: which tools take one, what is stored before anybody hears it, what a
 * cancelled call leaves behind. The wire's side is in tests/transcripts/mcp_once.txt. */
#include "keyed_tool.h"

#include "mcp_server/once.h"

#include <stdlib.h>

static void run_busy(idem_request *request, yyjson_val *arguments, void *user) {
  tool_state *self = user;
  (void)arguments;
  if (self->runs++ == 0) {
    idem_not_run(request);
    idem_tool_failed(request, "busy");
  } else {
    idem_tool_text(request, "ran", 3);
  }
}

static void a_tool_may_want_a_key_or_none(void **state) {
  tool_state always = {0}, never = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  (void)state;
  add_tool(server, "always", run_count, &always, IDEM_ONCE_ALWAYS, NULL);
  add_tool(server, "never", run_count, &never, IDEM_ONCE_NEVER, NULL);
  mcp_peer_open(&peer, server, "2025-11-25");
  mcp_peer_expect_part(&peer, "tools/call", UNKEYED("always"),
                       "a key: this tool wants one, here or by HTTP's Idempotency-Key");
  assert_int_equal(always.runs, 0);
  mcp_peer_expect_part(&peer, "tools/call", KEYED("always"), "\"ran\"");
  mcp_peer_expect_part(&peer, "tools/call", KEYED("always"), "\"idem/replayed\":true");
  assert_int_equal(always.runs, 1);
  mcp_peer_expect_part(&peer, "tools/call", KEYED("never"), "\"ran\"");
  mcp_peer_expect_part(&peer, "tools/call", KEYED("never"), "\"ran\"");
  assert_int_equal(never.runs, 2);
  /* Who says that it asks again would have it run twice. */
  mcp_peer_expect_part(&peer, "tools/call",
                       "\"name\":\"never\",\"_meta\":{\"idem/key\":\"k\",\"idem/repeat\":\"x\"}",
                       "outcome-unknown");
  assert_int_equal(never.runs, 2);
  mcp_peer_close_with(&peer, server);
}

static void a_refusal_before_anything_was_done_is_not_stored(void **state) {
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  (void)state;
  add_tool(server, "busy", run_busy, &self, IDEM_ONCE_KEY, NULL);
  mcp_peer_open(&peer, server, "2025-11-25");
  mcp_peer_expect_part(&peer, "tools/call", KEYED("busy"), "\"isError\":true");
  mcp_peer_expect_part(&peer, "tools/call", KEYED("busy"), "\"ran\"");
  mcp_peer_expect_part(&peer, "tools/call", KEYED("busy"), "\"idem/replayed\":true");
  assert_int_equal(self.runs, 2);
  mcp_peer_close_with(&peer, server);
}

static void run_visit(idem_request *request, yyjson_val *arguments, void *user) {
  tool_state *self = user;
  (void)arguments;
  idem_ask ask = {.key = "u", .kind = IDEM_ASK_URL, .message = "Go", .url = "https://x.example/"};
  if (self->runs++ == 0)
    idem_requires_url(request, &ask, 1);
  else
    idem_tool_text(request, "been there", 10);
}

/* In 2025-11-25, by a client that can be asked. */
static void open_able(mcp_peer *peer, idem_server *server) {
  static const char hello[] =
      "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
      "\"2025-11-25\",\"capabilities\":{\"elicitation\":{\"url\":{}},\"roots\":{}},"
      "\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}\n";
  *peer = (mcp_peer){.date = "2025-11-25"};
  assert_int_equal(idem_server_accept(server, &(idem_conn_opts){0}, &peer->conn), IDEM_OK);
  assert_int_equal(idem_conn_feed(peer->conn, hello, strlen(hello)), IDEM_OK);
  expect_in(mcp_peer_more(peer), "\"result\"");
}

/* Its client goes there and asks again, with the same key. */
static void an_address_to_visit_first_is_no_outcome(void **state) {
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  (void)state;
  add_tool(server, "visit", run_visit, &self, IDEM_ONCE_KEY, NULL);
  open_able(&peer, server);
  mcp_peer_expect_part(&peer, "tools/call", KEYED("visit"), "-32042");
  mcp_peer_expect_part(&peer, "tools/call", KEYED("visit"), "been there");
  mcp_peer_close_with(&peer, server);
}

/* Never content with an answer. */
static void run_asking(idem_request *request, yyjson_val *arguments, void *user) {
  tool_state *self = user;
  (void)arguments;
  self->runs++;
  idem_ask ask = {.key = "r", .kind = IDEM_ASK_ROOTS};
  idem_needs_input(request, &ask, 1, NULL, 0);
}

static void answer_question(mcp_peer *peer, const char *question) {
  const char *id = strstr(question, "\"id\":");
  char line[128];
  assert_non_null(id);
  snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"roots\":[]}}\n",
           atoi(id + 5));
  assert_int_equal(idem_conn_feed(peer->conn, line, strlen(line)), IDEM_OK);
}

/* The one who is asked goes; before it has answered anything, the next one is asked. */
static void who_waits_for_an_answer_that_nobody_gives_is_asked(void **state) {
  (void)state;
  for (int answered = 0; answered < 2; answered++) {
    tool_state self = {0};
    idem_server *server = mcp_test_server(NULL);
    mcp_peer first, second;
    add_tool(server, "asking", run_asking, &self, IDEM_ONCE_KEY, NULL);
    open_able(&first, server);
    open_able(&second, server);
    const char *question = mcp_peer_ask(&first, "tools/call", KEYED("asking"));
    expect_in(question, "roots/list");
    if (answered) answer_question(&first, question);
    assert_string_equal(mcp_peer_ask(&second, "tools/call", KEYED("asking")), "");
    mcp_peer_close(&first);
    idem__once_deliver(server->own_worker);
    expect_in(mcp_peer_more(&second), answered ? "outcome-unknown" : "roots/list");
    assert_int_equal(self.runs, 2);
    mcp_peer_close_with(&second, server);
  }
}

/* The first answers later; none can be asked. */
static void run_asking_later(idem_request *request, yyjson_val *arguments, void *user) {
  tool_state *self = user;
  if (self->kept)
    run_asking(request, arguments, user);
  else
    run_keep(request, arguments, user);
}

/* Nor are they run inside each other where the store answers at once. */
static void many_who_cannot_be_asked_are_refused_one_after_the_other(void **state) {
  enum { CROWD = 300 };
  static mcp_peer crowd[CROWD];
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  idem_ask ask = {.key = "r", .kind = IDEM_ASK_ROOTS};
  (void)state;
  add_tool(server, "asking", run_asking_later, &self, IDEM_ONCE_KEY, NULL);
  for (size_t i = 0; i < CROWD; i++) {
    mcp_peer_open(&crowd[i], server, "2025-11-25");
    assert_string_equal(mcp_peer_ask(&crowd[i], "tools/call", KEYED("asking")), "");
  }
  idem_needs_input(self.kept, &ask, 1, NULL, 0);
  assert_int_equal(self.runs, CROWD);
  for (size_t i = 0; i < CROWD; i++) {
    expect_in(mcp_peer_more(&crowd[i]), "a client that can be asked");
    if (i) mcp_peer_close(&crowd[i]);
  }
  mcp_peer_close_with(&crowd[0], server);
}

static void run_no_resource(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments;
  ((tool_state *)user)->runs++;
  idem_reply_fault(request, IDEM_FAULT_RESOURCE_NOT_FOUND, "x:y");
}

/* What a handler says by itself is an outcome, whatever its code. */
static void run_own_code(idem_request *request, yyjson_val *arguments, void *user) {
  static const char data[] = "{\"requiredCapabilities\":{}}";
  (void)arguments;
  ((tool_state *)user)->runs++;
  idem_reply_error_json(request, -32021, "lacks", data, sizeof data - 1);
}

#define MODERN_KEYED(name)                                                                         \
  "\"name\":\"" name "\",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","   \
  "\"io.modelcontextprotocol/clientCapabilities\":{},\"idem/key\":\"k\"}"

static void a_code_is_the_one_of_the_revision_that_hears_it(void **state) {
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer old, new;
  (void)state;
  add_tool(server, "gone", run_no_resource, &self, IDEM_ONCE_KEY, NULL);
  add_tool(server, "own", run_own_code, &self, IDEM_ONCE_KEY, NULL);
  mcp_peer_open(&old, server, "2025-11-25");
  mcp_peer_open(&new, server, "2026-07-28");
  new.modern = false; /* it brings its _meta itself */
  mcp_peer_expect_part(&old, "tools/call", KEYED("gone"), "\"code\":-32002");
  mcp_peer_expect_part(&new, "tools/call", MODERN_KEYED("gone"), "\"code\":-32602");
  mcp_peer_expect_part(&new, "tools/call", MODERN_KEYED("own"), "\"code\":-32021");
  mcp_peer_expect_part(&old, "tools/call", KEYED("own"), "\"code\":-32601");
  assert_int_equal(self.runs, 2);
  mcp_peer_close(&old);
  mcp_peer_close_with(&new, server);
}

static void a_lost_connection_does_not_stop_what_has_a_key(void **state) {
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer first, second;
  (void)state;
  add_tool(server, "keep", run_keep, &self, IDEM_ONCE_KEY, NULL);
  mcp_peer_open(&first, server, "2025-11-25");
  assert_string_equal(mcp_peer_ask(&first, "tools/call", KEYED("keep")), "");
  mcp_peer_close(&first);
  assert_false(self.cancelled);
  mcp_peer_open(&second, server, "2025-11-25");
  assert_string_equal(mcp_peer_ask(&second, "tools/call", KEYED("keep")), "");
  assert_int_equal(self.runs, 1);
  idem_tool_text(self.kept, "it happened", 11);
  expect_in(mcp_peer_more(&second), "it happened");
  mcp_peer_expect_part(&second, "tools/call", KEYED("keep"), "it happened");
  mcp_peer_close_with(&second, server);
}

static void a_server_that_ends_tells_the_handlers_of_calls_with_keys(void **state) {
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  (void)state;
  add_tool(server, "keep", run_keep, &self, IDEM_ONCE_KEY, NULL);
  mcp_peer_open(&peer, server, "2025-11-25");
  assert_string_equal(mcp_peer_ask(&peer, "tools/call", KEYED("keep")), "");
  mcp_peer_close(&peer);
  idem__worker_free(server->own_worker);
  server->own_worker = NULL;
  assert_true(self.cancelled);
  idem_request_drop(self.kept);
  idem_server_free(server);
}

/* ------------------------------------------------------------------------ turns */

static uint64_t hasty_clock(void *ctx) {
  static uint64_t now_ns;
  (void)ctx;
  return now_ns += 1000000;
}

static void nobody(void *user) { (void)user; }

static void count_wake(idem__mcp_worker *worker, void *user) {
  (void)worker;
  ++*(unsigned *)user;
}

/* Every look at the clock but the first of a turn says that it is over. */
static void those_who_wait_for_one_answer_are_told_in_turns(void **state) {
  enum { WAITING = 5 };
  tool_state self = {0};
  unsigned woken = 0;
  idem_pool *pool;
  idem_server *server = mcp_test_server(NULL);
  mcp_peer first, waiting[WAITING];
  (void)state;
  assert_int_equal(idem_pool_new(NULL, &pool), IDEM_OK);
  idem__pool_set_turns(pool, 1000000, hasty_clock, nobody, NULL);
  add_tool(server, "keep", run_keep, &self, IDEM_ONCE_KEY, NULL);
  mcp_peer_open(&first, server, "2025-11-25");
  assert_string_equal(mcp_peer_ask(&first, "tools/call", KEYED("keep")), "");
  for (size_t i = 0; i < WAITING; i++) {
    mcp_peer_open(&waiting[i], server, "2025-11-25");
    assert_string_equal(mcp_peer_ask(&waiting[i], "tools/call", KEYED("keep")), "");
  }
  idem__mcp_worker *worker = server->own_worker;
  worker->pool = pool;
  worker->wake = count_wake;
  worker->wake_user = &woken;
  idem_tool_text(self.kept, "it happened", 11);
  expect_in(mcp_peer_more(&first), "it happened");
  mcp_peer_close(&waiting[3]); /* after it was put off */
  for (size_t i = 0; i < WAITING; i++) {
    if (i == 3) continue;
    unsigned before = woken;
    idem__pool_new_turn(pool);
    const char *answer = mcp_peer_more(&waiting[i]);
    if (!*answer) {
      assert_true(before > 0);
      while (!*answer) {
        idem__pool_new_turn(pool);
        idem__worker_deliver(worker);
        answer = mcp_peer_more(&waiting[i]);
      }
    }
    expect_in(answer, "it happened");
    expect_in(answer, "\"idem/replayed\":true");
    if (i + 1 < WAITING) assert_string_equal(mcp_peer_more(&waiting[WAITING - 1]), "");
  }
  idem__worker_deliver(worker);
  assert_null(worker->marked.of);
  assert_int_equal(self.runs, 1);
  worker->pool = NULL;
  worker->wake = NULL;
  for (size_t i = 0; i < WAITING; i++)
    if (i != 3) mcp_peer_close(&waiting[i]);
  mcp_peer_close_with(&first, server);
  idem_pool_free(pool);
}

/* ------------------------------------------------------------------ broken off */

/* Asked, cancelled by all, and asked again by another: "" where it runs again. */
static void expect_after_cancel(idem_tool_fn fn, const char *annotations, const char *part) {
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer first, second;
  add_tool(server, "t", fn, &self, IDEM_ONCE_KEY, annotations);
  mcp_peer_open(&first, server, "2025-11-25");
  mcp_peer_open(&second, server, "2025-11-25");
  assert_string_equal(mcp_peer_ask(&first, "tools/call", KEYED("t")), "");
  assert_string_equal(mcp_peer_ask(&second, "tools/call", KEYED("t")), "");
  cancel_last(&first);
  assert_false(self.cancelled);
  cancel_last(&second);
  idem__once_deliver(server->own_worker);
  assert_true(self.cancelled);
  const char *answer = mcp_peer_ask(&second, "tools/call", KEYED("t"));
  assert_null(strstr(answer, "replayed"));
  if (*part) {
    expect_in(answer, part);
    assert_int_equal(self.runs, 1);
  } else {
    assert_string_equal(answer, "");
    assert_int_equal(self.runs, 2);
    idem_tool_text(self.kept, "again", 5);
    expect_in(mcp_peer_more(&second), "again");
  }
  mcp_peer_close(&first);
  mcp_peer_close_with(&second, server);
}

static void what_all_have_cancelled_is_unknown(void **state) {
  (void)state;
  expect_after_cancel(run_dropping, NULL, "outcome-unknown");
}

static void what_all_have_cancelled_runs_again_where_it_may(void **state) {
  (void)state;
  expect_after_cancel(run_dropping, "{\"idempotentHint\":true}", "");
}

static void what_was_cancelled_before_it_began_leaves_nothing(void **state) {
  (void)state;
  expect_after_cancel(run_queued, NULL, "");
}

/* Who comes after all have cancelled, and before the handler has let go. */
static void expect_while_ending(const char *annotations, bool again) {
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer first, second;
  add_tool(server, "keep", run_keep, &self, IDEM_ONCE_KEY, annotations);
  mcp_peer_open(&first, server, "2025-11-25");
  mcp_peer_open(&second, server, "2025-11-25");
  assert_string_equal(mcp_peer_ask(&first, "tools/call", KEYED("keep")), "");
  cancel_last(&first);
  assert_true(self.cancelled);
  assert_string_equal(mcp_peer_ask(&second, "tools/call", KEYED("keep")), "");
  idem_request_drop(self.kept);
  assert_int_equal(self.runs, again ? 2 : 1);
  if (again) idem_tool_text(self.kept, "again", 5);
  expect_in(mcp_peer_more(&second), again ? "again" : "outcome-unknown");
  mcp_peer_expect_part(&first, "tools/call", KEYED("keep"), again ? "again" : "outcome-unknown");
  mcp_peer_close(&first);
  mcp_peer_close_with(&second, server);
}

static void who_joins_what_is_being_broken_off_is_told_so(void **state) {
  (void)state;
  expect_while_ending(NULL, false);
}

static void who_joins_what_is_being_broken_off_runs_it_where_it_may(void **state) {
  (void)state;
  expect_while_ending("{\"idempotentHint\":true}", true);
}

static void what_a_cancelled_handler_answers_all_the_same_is_stored(void **state) {
  tool_state self = {0};
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  (void)state;
  add_tool(server, "keep", run_keep, &self, IDEM_ONCE_KEY, NULL);
  mcp_peer_open(&peer, server, "2025-11-25");
  assert_string_equal(mcp_peer_ask(&peer, "tools/call", KEYED("keep")), "");
  cancel_last(&peer);
  assert_true(self.cancelled);
  idem_tool_text(self.kept, "done by then", 12);
  mcp_peer_expect_part(&peer, "tools/call", KEYED("keep"), "done by then");
  assert_int_equal(self.runs, 1);
  mcp_peer_close_with(&peer, server);
}

/* --------------------------------------------------------------------- digests */

static void digest_of(const char *json, uint8_t digest[IDEM_SHA256_BYTES]) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)json, strlen(json),
                                     YYJSON_READ_BIGNUM_AS_RAW, NULL, NULL);
  assert_non_null(doc);
  assert_int_equal(idem__digest_value(&alloc, yyjson_doc_get_root(doc), digest), IDEM_OK);
  yyjson_doc_free(doc);
}

static bool say_the_same(const char *one, const char *other) {
  uint8_t a[IDEM_SHA256_BYTES], b[IDEM_SHA256_BYTES];
  digest_of(one, a);
  digest_of(other, b);
  return memcmp(a, b, sizeof a) == 0;
}

static void a_digest_tells_what_is_said_not_how(void **state) {
  (void)state;
  assert_true(
      say_the_same("{\"a\":1,\"b\":[true,null]}", " { \"b\" : [true , null], \"a\": 1.0 }"));
  assert_true(say_the_same("{\"a\":\"\\u0041\"}", "{\"a\":\"A\"}"));
  assert_true(say_the_same("[10,0]", "[1e1,0.0]"));
  assert_false(say_the_same("{\"a\":1}", "{\"a\":\"1\"}"));
  assert_false(say_the_same("[1,2]", "[2,1]"));
  assert_false(say_the_same("{\"a\":{}}", "{\"a\":[]}"));
  assert_false(say_the_same("[1.5]", "[1.25]"));
  assert_false(say_the_same("[123456789012345678901]", "[123456789012345678902]"));
}

/* ---------------------------------------------------------------- memory fails */

static void fill(idem_server *server) {
  static tool_state self;
  idem_tool tool = {.name = "count", .fn = run_count, .user = &self};
  (void)idem_server_add_tool(server, &tool, NULL, 0);
}

static void empty(idem_server *server) { (void)idem_server_remove_tool(server, "count"); }

static void nothing_is_left_where_memory_fails(void **state) {
  (void)state;
  mcp_test_sweep(&(mcp_test_life){.fill = fill,
                                  .questions = {{"tools/call", KEYED("count")},
                                                {"tools/call", KEYED("count")},
                                                {"tools/call", UNKEYED("count")}},
                                  .empty = empty});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(those_who_wait_for_one_answer_are_told_in_turns),
      cmocka_unit_test(a_tool_may_want_a_key_or_none),
      cmocka_unit_test(a_refusal_before_anything_was_done_is_not_stored),
      cmocka_unit_test(an_address_to_visit_first_is_no_outcome),
      cmocka_unit_test(who_waits_for_an_answer_that_nobody_gives_is_asked),
      cmocka_unit_test(many_who_cannot_be_asked_are_refused_one_after_the_other),
      cmocka_unit_test(a_code_is_the_one_of_the_revision_that_hears_it),
      cmocka_unit_test(a_lost_connection_does_not_stop_what_has_a_key),
      cmocka_unit_test(a_server_that_ends_tells_the_handlers_of_calls_with_keys),
      cmocka_unit_test(what_all_have_cancelled_is_unknown),
      cmocka_unit_test(what_all_have_cancelled_runs_again_where_it_may),
      cmocka_unit_test(what_was_cancelled_before_it_began_leaves_nothing),
      cmocka_unit_test(who_joins_what_is_being_broken_off_is_told_so),
      cmocka_unit_test(who_joins_what_is_being_broken_off_runs_it_where_it_may),
      cmocka_unit_test(what_a_cancelled_handler_answers_all_the_same_is_stored),
      cmocka_unit_test(a_digest_tells_what_is_said_not_how),
      cmocka_unit_test(nothing_is_left_where_memory_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
