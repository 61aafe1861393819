/* test_headers.c - the headers of 2026-07-28 say what the message says, or the request is refused
 * before anyone acts on it; a tool whose marks could not be told apart is refused when it is added. */
#include "mcp_server/mcp_server.h"
#include "support/fault_alloc.h"
#include "support/mcp_peer.h"
#include "support/unit.h"

#include <stdio.h>

/* ------------------------------------------------------------------- an edge */

typedef struct edge {
  const char *headers; /* "name: value\n" and so on */
  int status;
} edge;

static bool find_header(void *ctx, const char *name, const char **value, size_t *len) {
  edge *e = ctx;
  char mark[128];
  int mark_len = snprintf(mark, sizeof mark, "%s:", name);
  for (const char *at = e->headers; at && *at; at = strchr(at, '\n') + 1) {
    if (strncmp(at, mark, (size_t)mark_len) != 0) continue;
    *value = at + mark_len;
    *len = strcspn(*value, "\n");
    return true;
  }
  return false;
}

static void set_status(void *ctx, int status) { ((edge *)ctx)->status = status; }

static const idem__edge edge_calls = {.header = find_header, .set_status = set_status};

/* -------------------------------------------------------------------- a server */

static void say(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_tool_text(request, "done", 4);
}

static const char marked[] =
    "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\",\"x-mcp-header\":"
    "\"Region\"},"
    "\"count\":{\"type\":\"integer\",\"x-mcp-header\":\"Count\"},\"deep\":{\"type\":\"object\","
    "\"properties\":{\"flag\":{\"type\":\"boolean\",\"x-mcp-header\":\"Flag\"}}},"
    "\"free\":{\"default\":{\"x-mcp-header\":\"data\"}}}}";

static idem_status add_marked(idem_server *server, const char *schema, char *why, size_t len) {
  idem_tool tool = {.name = "t", .input_schema = schema, .fn = say};
  return idem_server_add_tool(server, &tool, why, len);
}

/* One request with these headers; what came back is compared in part. */
static void expect(const char *headers, const char *method, const char *members, int status,
                   const char *part) {
  idem_server *server = mcp_test_server(NULL);
  edge e = {.headers = headers};
  mcp_peer peer;
  assert_int_equal(add_marked(server, marked, NULL, 0), IDEM_OK);
  mcp_peer_open(&peer, server, "2026-07-28");
  idem__mcp_peer_of(peer.conn)->edge = &edge_calls;
  idem__mcp_peer_of(peer.conn)->edge_ctx = &e;
  mcp_peer_expect_part(&peer, method, members, part);
  if (e.status != status) fail_msg("%s %s: status %d, not %d", headers, members, e.status, status);
  mcp_peer_close(&peer);
  idem_server_free(server);
}

#define HEAD "mcp-protocol-version:2026-07-28\nmcp-method:tools/call\n"

static void expect_call(const char *more, const char *arguments, bool good, const char *part) {
  char headers[1024], members[1024];
  snprintf(headers, sizeof headers, HEAD "mcp-name:t\n%s", more);
  snprintf(members, sizeof members, "\"name\":\"t\",\"arguments\":%s", arguments);
  expect(headers, "tools/call", members, good ? 0 : 400, part);
}

/* ------------------------------------------------------------------ the promises */

static void version_and_method_are_mirrored(void **state) {
  (void)state;
  expect("mcp-protocol-version:2026-07-28\nmcp-method:\ttools/list \n", "tools/list", "", 0,
         "\"tools\":[");
}

static void a_version_header_must_be_the_claim(void **state) {
  (void)state;
  expect("mcp-method: tools/list\n", "tools/list", "", 400, "\"code\":-32020");
  expect("mcp-protocol-version:2025-11-25\nmcp-method: tools/list\n", "tools/list", "", 400,
         "differs from _meta");
}

static void a_method_header_must_be_the_method(void **state) {
  (void)state;
  expect("mcp-protocol-version:2026-07-28\n", "tools/list", "", 400,
         "\"header\":\"Mcp-Method\",\"details\":\"the header is missing\"");
  expect("mcp-protocol-version:2026-07-28\nmcp-method:tools/lis\n", "tools/list", "", 400,
         "\"header\":\"Mcp-Method\",\"details\":\"the header differs");
  expect("mcp-protocol-version:2026-07-28\nmcp-method:none\n", "none", "", 404, "\"code\":-32601");
}

static void a_name_header_must_be_the_name(void **state) {
  (void)state;
  static const char t[] = "\"name\":\"t\",\"arguments\":{}";
  expect(HEAD "mcp-name:t\n", "tools/call", t, 0, "done");
  expect(HEAD "mcp-name: t\t\n", "tools/call", t, 0, "done");
  expect(HEAD "mcp-name:=?base64?dA==?=\n", "tools/call", t, 0, "done");
  expect(HEAD, "tools/call", t, 400,
         "\"header\":\"Mcp-Name\",\"details\":\"the header is missing\"");
  expect(HEAD "mcp-name:T\n", "tools/call", t, 400, "\"code\":-32020");
  expect(HEAD "mcp-name:\n", "tools/call", t, 400, "\"code\":-32020");
  expect(HEAD "mcp-name:=?base64?dA=?=\n", "tools/call", t, 400, "not valid base64");
  expect(HEAD "mcp-name:=?base64?/w==?=\n", "tools/call", t, 400, "not valid base64");
  expect(HEAD "mcp-name:=?BASE64?dA==?=\n", "tools/call", t, 400, "differs");
  expect(HEAD "mcp-name:=?base64?dA==\n", "tools/call", t, 400, "differs");
  expect(HEAD "mcp-name:t\n", "tools/call", "\"name\":7", 0, "\"code\":-32602");
  expect(HEAD "mcp-name:t\xc3\xa9\n", "tools/call", "\"name\":\"t\xc3\xa9\"", 400,
         "must be base64");
  expect("mcp-protocol-version:2026-07-28\nmcp-method:prompts/get\nmcp-name:x\n", "prompts/get",
         "\"name\":\"y\"", 400, "\"code\":-32020");
}

static void marked_arguments_are_mirrored(void **state) {
  (void)state;
  expect_call("", "{}", true, "done");
  expect_call("mcp-param-region:eu\n", "{\"region\":\"eu\"}", true, "done");
  expect_call("mcp-param-region:\n", "{\"region\":\"\"}", true, "done");
  expect_call("mcp-param-region:=?base64?w6k=?=\n", "{\"region\":\"\xc3\xa9\"}", true, "done");
  expect_call("mcp-param-count:42\n", "{\"count\":42}", true, "done");
  expect_call("mcp-param-count:42.0\n", "{\"count\":42}", true, "done");
  expect_call("mcp-param-count:-7\n", "{\"count\":-7}", true, "done");
  expect_call("mcp-param-flag:true\n", "{\"deep\":{\"flag\":true}}", true, "done");
  expect_call("mcp-param-flag:false\n", "{\"deep\":{\"flag\":false}}", true, "done");
}

static void arguments_that_disagree_are_refused(void **state) {
  (void)state;
  expect_call("", "{\"region\":\"eu\"}", false, "the header is missing");
  expect_call("mcp-param-region:eu\n", "{}", false, "the arguments hold no such value");
  expect_call("mcp-param-region:us\n", "{\"region\":\"eu\"}", false, "differs from the arguments");
  expect_call("mcp-param-region:=?base64?!?=\n", "{\"region\":\"eu\"}", false, "not valid base64");
  expect_call("mcp-param-region:\xc3\xa9\n", "{\"region\":\"\xc3\xa9\"}", false, "must be base64");
  expect_call("mcp-param-region:a\x7f\n", "{\"region\":\"a\x7f\"}", false, "must be base64");
  expect_call("mcp-param-count:43\n", "{\"count\":42}", false, "differs");
  expect_call("mcp-param-count:\n", "{\"count\":42}", false, "differs");
  expect_call("mcp-param-count:0x2a\n", "{\"count\":42}", false, "differs");
  expect_call("mcp-param-count:nan\n", "{\"count\":42}", false, "differs");
  expect_call("mcp-param-count:42 and more\n", "{\"count\":42}", false, "differs");
  expect_call("mcp-param-count:9007199254740992\n", "{\"count\":9007199254740992}", false,
              "differs");
  expect_call("mcp-param-count:00000000000000000000000000000000042\n", "{\"count\":42}", false,
              "differs");
  expect_call("mcp-param-flag:True\n", "{\"deep\":{\"flag\":true}}", false, "differs");
  expect_call("mcp-param-flag:true\n", "{\"deep\":{\"flag\":false}}", false, "differs");
  expect_call("mcp-param-flag:true\n", "{\"deep\":7}", false, "no such value");
}

/* What the header was held against is what runs: of a repeated member the last. */
static void of_repeated_members_the_last_is_mirrored(void **state) {
  (void)state;
  expect_call("mcp-param-count:2\n", "{\"count\":1,\"count\":2}", true, "done");
  expect_call("mcp-param-count:1\n", "{\"count\":1,\"count\":2}", false, "differs");
  expect_call("mcp-param-count:1\n", "{\"count\":1,\"c\\u006funt\":2}", false, "differs");
  expect_call("mcp-param-flag:true\n", "{\"deep\":{\"flag\":false},\"deep\":{\"flag\":true}}", true,
              "done");
  expect(HEAD "mcp-name:t\n", "tools/call", "\"name\":\"none\",\"name\":\"t\"", 0, "done");
  expect(HEAD "mcp-name:t\n", "tools/call", "\"name\":\"t\",\"name\":\"none\"", 400, "-32020");
}

static void who_claims_nothing_but_sends_the_header_is_not_served_as_old(void **state) {
  (void)state;
  idem_server *server = mcp_test_server(NULL);
  edge e = {.headers = "mcp-protocol-version:2026-07-28\n"};
  mcp_peer peer;
  assert_int_equal(add_marked(server, marked, NULL, 0), IDEM_OK);
  mcp_peer_open(&peer, server, "2026-07-28");
  peer.modern = false; /* no claim from here on */
  idem__mcp_peer_of(peer.conn)->edge = &edge_calls;
  idem__mcp_peer_of(peer.conn)->edge_ctx = &e;
  mcp_peer_expect_part(&peer, "tools/list", "", "\"code\":-32602");
  assert_int_equal(e.status, 400);
  mcp_peer_expect_part(&peer, "initialize", "\"protocolVersion\":\"2025-11-25\"",
                       "\"code\":-32020");
  mcp_peer_close(&peer);
  idem_server_free(server);
}

/* --------------------------------------------------------------------- defining */

/* MUST tools.header-rules 2026-07-28 */
static void marks_that_cannot_work_are_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "\"a\":{\"type\":\"string\",\"x-mcp-header\":\"\"}",
      "\"a\":{\"type\":\"string\",\"x-mcp-header\":\"a b\"}",
      "\"a\":{\"type\":\"string\",\"x-mcp-header\":7}",
      "\"a\":{\"type\":\"number\",\"x-mcp-header\":\"A\"}",
      "\"a\":{\"x-mcp-header\":\"A\"}",
      ("\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"},\"b\":{\"type\":\"string\","
       "\"x-mcp-header\":\"a\"}"),
      "\"a\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}}",
      "\"a\":{\"anyOf\":[{\"type\":\"string\",\"x-mcp-header\":\"A\"}]}",
  };
  idem_server *server = mcp_test_server(NULL);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char schema[512], why[256] = "";
    snprintf(schema, sizeof schema, "{\"type\":\"object\",\"properties\":{%s}}", bad[i]);
    if (add_marked(server, schema, why, sizeof why) != IDEM_E_INVAL) fail_msg("%s", schema);
    if (!strstr(why, "x-mcp-header")) fail_msg("%s: %s", schema, why);
    assert_int_equal(add_marked(server, schema, NULL, 0), IDEM_E_INVAL);
  }
  assert_int_equal(add_marked(server, marked, NULL, 0), IDEM_OK);
  idem_server_free(server);
}

/* ------------------------------------------------------------ tools that are alike */

#define ALIKE "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}}}"

static idem_status add_alike(idem_server *server, const char *name, const char *input) {
  idem_tool tool = {.name = name, .input_schema = input, .output_schema = ALIKE, .fn = say};
  return idem_server_add_tool(server, &tool, NULL, 0);
}

static const idem__tool_entry *entry_of(idem_server *server, const char *name) {
  return idem__registry_tool(server->registry, name, strlen(name));
}

static void a_program_is_made_when_it_is_first_needed(void **state) {
  (void)state;
  idem_server *server = mcp_test_server(NULL);
  mcp_peer peer;
  assert_int_equal(add_alike(server, "a", ALIKE), IDEM_OK);
  assert_int_equal(add_alike(server, "b", " " ALIKE), IDEM_OK);
  const idem__tool_entry *a = entry_of(server, "a"), *b = entry_of(server, "b");
  assert_null(a->input);
  assert_true(a->output_is_object && b->output_is_object);
  mcp_peer_open(&peer, server, "2025-11-25");
  mcp_peer_expect_part(&peer, "tools/call", "\"name\":\"b\",\"arguments\":{\"n\":\"x\"}",
                       "Invalid arguments for tool b: n: expected");
  assert_null(a->input);
  const idem_schema *made = b->input;
  assert_non_null(made);
  mcp_peer_expect_part(&peer, "tools/call", "\"name\":\"b\",\"arguments\":{\"n\":true}",
                       "Invalid arguments for tool b: n: expected");
  assert_ptr_equal(b->input, made);
  mcp_peer_close(&peer);
  idem_server_free(server);
}

static void a_faulty_schema_is_refused_also_beside_one_that_is_alike(void **state) {
  (void)state;
  idem_server *server = mcp_test_server(NULL);
  static const char faulty[] =
      "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integral\"}}}";
  assert_int_equal(add_alike(server, "a", ALIKE), IDEM_OK);
  assert_int_equal(add_alike(server, "b", faulty), IDEM_E_INVAL);
  assert_int_equal(add_alike(server, "c", faulty), IDEM_E_INVAL);
  idem_server_free(server);
}

static void names_are_of_few_letters_and_not_too_long(void **state) {
  (void)state;
  char longest[130];
  idem_server *server = mcp_test_server(NULL);
  static const char *const bad[] = {"", " ", "a b", "a/b", "caf\xc3\xa9", "a@", "a[", "a\n", "a{"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(add_alike(server, bad[i], ALIKE), IDEM_E_INVAL);
  assert_int_equal(add_alike(server, "AZaz09_.-", ALIKE), IDEM_OK);
  memset(longest, 'x', sizeof longest);
  longest[129] = '\0';
  assert_int_equal(add_alike(server, longest, ALIKE), IDEM_E_INVAL);
  longest[128] = '\0';
  assert_int_equal(add_alike(server, longest, ALIKE), IDEM_OK);
  idem_server_free(server);
}

static void marks_are_kept_by_each_tool_of_the_same_schema(void **state) {
  (void)state;
  idem_server *server = mcp_test_server(NULL);
  assert_int_equal(add_alike(server, "a", marked), IDEM_OK);
  assert_int_equal(add_alike(server, "b", marked), IDEM_OK);
  assert_int_equal(entry_of(server, "a")->headers.count, 3);
  assert_int_equal(entry_of(server, "b")->headers.count, 3);
  idem_server_free(server);
}

static void define_without_memory(fault_alloc *memory, void *user) {
  (void)user;
  idem_server *server;
  if (mcp_test_server_try(&(idem_server_opts){.alloc = &memory->alloc}, &server) != IDEM_OK) return;
  idem_status status = add_marked(server, marked, NULL, 0);
  assert_true(status == IDEM_OK || status == IDEM_E_NOMEM);
  for (const char *name = "ab"; *name; name++) {
    status = add_alike(server, (char[]){*name, 0}, ALIKE);
    assert_true(status == IDEM_OK || status == IDEM_E_NOMEM);
  }
  idem_server_free(server);
}

static void any_allocation_may_fail(void **state) {
  (void)state;
  assert_true(fault_alloc_sweep(define_without_memory, NULL, 5000) > 50);
}

/* ------------------------------------------ methods registered beside MCP's own */

static void plain(idem_request *request, yyjson_val *params, void *user) {
  (void)user;
  yyjson_val *say_what = yyjson_obj_get(params, "say");
  const char *text = yyjson_get_str(say_what);
  if (text)
    idem_mcp_reply_json(request, text, strlen(text));
  else
    idem_mcp_reply(request, say_what);
}

static void built(idem_request *request, yyjson_val *params, void *user) {
  (void)params, (void)user;
  yyjson_mut_doc *doc = idem_request_doc(request);
  idem_mcp_reply_mut(request, yyjson_mut_int(doc, 7));
}

static void other_methods_answer_as_the_revision_wants(void **state) {
  (void)state;
  idem_server *server = mcp_test_server(NULL);
  idem_router *router = idem_server_router(server);
  assert_int_equal(idem_router_method(router, "plain", plain, NULL), IDEM_OK);
  assert_int_equal(idem_router_method(router, "built", built, NULL), IDEM_OK);
  mcp_peer old, new;
  mcp_peer_open(&old, server, "2025-06-18");
  mcp_peer_open(&new, server, "2026-07-28");
  mcp_peer_expect(&old, "plain", "\"say\":5", "\"result\":{\"value\":5}");
  mcp_peer_expect(&old, "plain", "", "\"result\":{\"value\":null}");
  mcp_peer_expect(&old, "plain", "\"say\":{\"a\":1,\"_meta\":{\"m\":1}}",
                  "\"result\":{\"a\":1,\"_meta\":{\"m\":1}}");
  mcp_peer_expect(&old, "plain", "\"say\":\"[1]\"", "\"result\":{\"value\":[1]}");
  mcp_peer_expect(&old, "built", "", "\"result\":{\"value\":7}");
  mcp_peer_expect_part(&old, "plain", "\"say\":\"{\"", "\"code\":-32603");
  mcp_peer_expect(&new, "built", "",
                  "\"result\":{\"resultType\":\"complete\",\"value\":7," MCP_TEST_INFO "}");
  mcp_peer_expect(&new, "plain", "\"say\":{\"resultType\":\"mine\",\"a\":1}",
                  "\"result\":{\"resultType\":\"complete\",\"a\":1," MCP_TEST_INFO "}");
  mcp_peer_expect_part(&new, "plain", "\"say\":{\"_meta\":{\"m\":1}}", "\"m\":1}}}");
  mcp_peer_close(&old);
  mcp_peer_close(&new);
  idem_server_free(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(version_and_method_are_mirrored),
      cmocka_unit_test(a_version_header_must_be_the_claim),
      cmocka_unit_test(a_method_header_must_be_the_method),
      cmocka_unit_test(a_name_header_must_be_the_name),
      cmocka_unit_test(marked_arguments_are_mirrored),
      cmocka_unit_test(arguments_that_disagree_are_refused),
      cmocka_unit_test(of_repeated_members_the_last_is_mirrored),
      cmocka_unit_test(who_claims_nothing_but_sends_the_header_is_not_served_as_old),
      cmocka_unit_test(marks_that_cannot_work_are_refused),
      cmocka_unit_test(names_are_of_few_letters_and_not_too_long),
      cmocka_unit_test(a_program_is_made_when_it_is_first_needed),
      cmocka_unit_test(a_faulty_schema_is_refused_also_beside_one_that_is_alike),
      cmocka_unit_test(marks_are_kept_by_each_tool_of_the_same_schema),
      cmocka_unit_test(any_allocation_may_fail),
      cmocka_unit_test(other_methods_answer_as_the_revision_wants),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
