/* test_guard_scopes.c - what a token reaches: scopes of tools, resources, prompts and methods, in lists and calls; claims for
 * handlers; sessions of another principal. */
#include "guard_world.h"

#include <stdlib.h>

#define META                                                                                       \
  "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                         \
  "\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define ASK(method, params)                                                                        \
  "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"" method "\",\"params\":{" params META "}}"

/* ------------------------------------------------------------- the server */

static void say_claims(idem_request *request, yyjson_val *arguments, void *user) {
  char text[256];
  (void)arguments, (void)user;
  yyjson_val *groups = idem_claim(request, "groups");
  snprintf(text, sizeof text, "%s %s %zu %d", idem_principal(request),
           yyjson_get_str(yyjson_arr_get_first(groups)), yyjson_arr_size(groups),
           idem_has_scopes(request, "admin"));
  assert_null(idem_claim(request, "nothing"));
  idem_tool_text(request, text, strlen(text));
}

static void read_text(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  idem_resource_text(request, "text/plain", "x", 1);
}

static void get_prompt(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_prompt_text(request, "x", 1);
}

static void complete(idem_request *request, const idem_completion_query *query, void *user) {
  (void)query, (void)user;
  idem_completion_reply(request, NULL, 0, false);
}

static void fill(world *in) {
  idem_server *server = in->server;
  static const idem_tool tool = {
      .name = "secret_tool", .scopes = "admin files:read", .fn = say_claims};
  static const idem_resource resource = {
      .uri = "x://secret", .name = "secret_resource", .scopes = "admin", .fn = read_text};
  static const idem_resource pattern = {.uri = "y://secret/{id}",
                                        .name = "secret_template",
                                        .is_template = true,
                                        .scopes = "admin",
                                        .fn = read_text};
  static const idem_prompt prompt = {.name = "secret_prompt", .scopes = "admin", .fn = get_prompt};
  static const idem_resource open = {.uri = "x://open", .name = "open_resource", .fn = read_text};
  static const idem_prompt plain = {.name = "open_prompt", .fn = get_prompt};
  assert_int_equal(idem_server_add_tool(server, &tool, NULL, 0), IDEM_OK);
  assert_int_equal(idem_server_add_resource(server, &resource, NULL, 0), IDEM_OK);
  assert_int_equal(idem_server_add_resource(server, &pattern, NULL, 0), IDEM_OK);
  assert_int_equal(idem_server_add_resource(server, &open, NULL, 0), IDEM_OK);
  assert_int_equal(idem_server_add_prompt(server, &prompt, NULL, 0), IDEM_OK);
  assert_int_equal(idem_server_add_prompt(server, &plain, NULL, 0), IDEM_OK);
  idem_server_on_complete(server, complete, NULL);
}

static void ask(world *in, const char *token, const char *method, const char *name,
                const char *body, outcome *out) {
  char value[TOKEN + 16];
  snprintf(value, sizeof value, "Bearer %s", token);
  send_body(in, value, method, name, body, out);
  wait_for(in, out);
}

/* ------------------------------------------------------------------ tests */

static void expect_refusal(const outcome *out, const char *needed, const char *all) {
  char text[128];
  if (out->status != 403) fail_msg("%d %s", out->status, out->body);
  assert_non_null(strstr(out->challenge, "Bearer resource_metadata=\"http://127.0.0.1"));
  assert_non_null(strstr(out->challenge, "error=\"insufficient_scope\""));
  snprintf(text, sizeof text, "scope=\"%s\"", all);
  if (!strstr(out->challenge, text)) fail_msg("%s", out->challenge);
  assert_non_null(strstr(out->body, "\"id\":7,\"error\":{\"code\":-32600"));
  snprintf(text, sizeof text, "\"reason\":\"insufficient-scope\",\"scope\":\"%s\"", needed);
  if (!strstr(out->body, text)) fail_msg("%s", out->body);
}

static void what_a_token_does_not_reach_is_refused_with_all_that_it_takes(void **state) {
  (void)state;
  world w;
  outcome out;
  char token[TOKEN];
  open_world(&w);
  fill(&w);
  snprintf(token, sizeof token, "%s", token_of(&w, &w.keys[0], ",\"scope\":\"files:read mail\""));
  ask(&w, token, "tools/call", "secret_tool", ASK("tools/call", "\"name\":\"secret_tool\","), &out);
  expect_refusal(&out, "admin files:read", "files:read mail admin");
  ask(&w, token, "resources/read", "x://secret", ASK("resources/read", "\"uri\":\"x://secret\","),
      &out);
  expect_refusal(&out, "admin", "files:read mail admin");
  ask(&w, token, "resources/read", "y://secret/1",
      ASK("resources/read", "\"uri\":\"y://secret/1\","), &out);
  expect_refusal(&out, "admin", "files:read mail admin");
  ask(&w, token, "prompts/get", "secret_prompt", ASK("prompts/get", "\"name\":\"secret_prompt\","),
      &out);
  expect_refusal(&out, "admin", "files:read mail admin");
  ask(&w, token, "completion/complete", "",
      ASK("completion/complete", "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"secret_prompt\"},"
                                 "\"argument\":{\"name\":\"a\",\"value\":\"\"},"),
      &out);
  expect_refusal(&out, "admin", "files:read mail admin");
  ask(&w, token, "resources/read", "x://open", ASK("resources/read", "\"uri\":\"x://open\","),
      &out);
  assert_int_equal(out.status, 200);
  close_world(&w);
}

static void a_token_that_reaches_it_may_and_its_claims_are_the_handlers(void **state) {
  (void)state;
  world w;
  outcome out;
  open_world(&w);
  fill(&w);
  const char *token =
      token_of(&w, &w.keys[0], ",\"scope\":\"files:read admin\",\"groups\":[\"ops\",\"dev\"]");
  ask(&w, token, "tools/call", "secret_tool", ASK("tools/call", "\"name\":\"secret_tool\","), &out);
  assert_int_equal(out.status, 200);
  assert_non_null(strstr(out.body, "\"text\":\"alice ops 2 1\""));
  close_world(&w);
}

static void lists_show_what_the_caller_may_use(void **state) {
  (void)state;
  static const struct {
    const char *method, *body, *open, *secret;
  } lists[] = {
      {"tools/list", ASK("tools/list", ""), "\"who\"", "secret_tool"},
      {"resources/list", ASK("resources/list", ""), "open_resource", "secret_resource"},
      {"resources/templates/list", ASK("resources/templates/list", ""), "[]", "secret_template"},
      {"prompts/list", ASK("prompts/list", ""), "open_prompt", "secret_prompt"},
  };
  world w;
  outcome out;
  char poor[TOKEN], rich[TOKEN];
  open_world(&w);
  fill(&w);
  snprintf(poor, sizeof poor, "%s", token_of(&w, &w.keys[0], ",\"scope\":\"files:read\""));
  snprintf(rich, sizeof rich, "%s",
           token_of(&w, &w.keys[0], ",\"scp\":[\"files:read\",\"admin\"]"));
  for (int turn = 0; turn < 2; turn++) {
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
      ask(&w, poor, lists[i].method, "", lists[i].body, &out);
      assert_int_equal(out.status, 200);
      assert_non_null(strstr(out.body, lists[i].open));
      assert_null(strstr(out.body, lists[i].secret));
      assert_non_null(strstr(out.body, "\"cacheScope\":\"private\""));
      ask(&w, rich, lists[i].method, "", lists[i].body, &out);
      assert_int_equal(out.status, 200);
      assert_non_null(strstr(out.body, lists[i].secret));
    }
  }
  close_world(&w);
}

static void a_method_may_need_scopes_too(void **state) {
  (void)state;
  world w;
  outcome out;
  open_world(&w);
  fill(&w);
  assert_int_equal(idem_server_require_scopes(w.server, "prompts/list", "prompts"), IDEM_OK);
  assert_int_equal(idem_server_require_scopes(w.server, "prompts/list", "prompts"), IDEM_E_EXISTS);
  assert_int_equal(idem_server_require_scopes(w.server, "prompts/get", "a\"b"), IDEM_E_INVAL);
  assert_int_equal(idem_server_require_scopes(w.server, "", "a"), IDEM_E_INVAL);
  ask(&w, token_of(&w, &w.keys[0], ""), "prompts/list", "", ASK("prompts/list", ""), &out);
  expect_refusal(&out, "prompts", "prompts");
  ask(&w, token_of(&w, &w.keys[0], ",\"scope\":\"prompts\""), "prompts/list", "",
      ASK("prompts/list", ""), &out);
  assert_int_equal(out.status, 200);
  close_world(&w);
}

/* A broad scope has narrower ones in it, and these others; not the other way round. */
static void a_scope_may_imply_others(void **state) {
  (void)state;
  static const char *const implies[] = {"all",  "admin mail", "admin", "files:read",
                                        "loop", "loop",       NULL};
  static const struct {
    const char *claims;
    int status;
  } cases[] = {{",\"scope\":\"all\"", 200},
               {",\"scope\":\"loop admin\"", 200},
               {",\"scope\":\"loop files:read mail\"", 403},
               {"", 403}};
  world w;
  outcome out;
  open_issuer(&w);
  add_key(&w, "k1", "ES256");
  idem_http_issuer issuer = {.issuer = w.issuer_url};
  idem_http_auth auth = {.issuers = &issuer, .issuer_count = 1, .scope_implies = implies};
  open_server(&w, &auth, (idem_http_opts){0});
  fill(&w);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ask(&w, token_of(&w, &w.keys[0], cases[i].claims), "tools/call", "secret_tool",
        ASK("tools/call", "\"name\":\"secret_tool\","), &out);
    if (out.status != cases[i].status) fail_msg("%s: %d", cases[i].claims, out.status);
  }
  close_world(&w);
}

/* Who is told of one need after the other has a person asked twice. */
static void what_a_method_and_its_object_need_is_said_together(void **state) {
  (void)state;
  static const struct {
    const char *method, *name, *body, *needed;
  } cases[] = {
      {"prompts/get", "secret_prompt", ASK("prompts/get", "\"name\":\"secret_prompt\","),
       "m admin"},
      {"tools/call", "secret_tool", ASK("tools/call", "\"name\":\"secret_tool\","),
       "m admin files:read"},
      {"resources/read", "y://secret/1", ASK("resources/read", "\"uri\":\"y://secret/1\","),
       "m admin"},
      {"prompts/get", "open_prompt", ASK("prompts/get", "\"name\":\"open_prompt\","), "m"},
      {"prompts/get", "nobody", ASK("prompts/get", "\"name\":\"nobody\","), "m"},
  };
  world w;
  outcome out;
  char token[TOKEN], all[64];
  open_world(&w);
  fill(&w);
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(idem_server_require_scopes(w.server, cases[i].method, "m"), IDEM_OK);
  snprintf(token, sizeof token, "%s", token_of(&w, &w.keys[0], ",\"scope\":\"mail\""));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ask(&w, token, cases[i].method, cases[i].name, cases[i].body, &out);
    snprintf(all, sizeof all, "mail %s", cases[i].needed);
    expect_refusal(&out, cases[i].needed, all);
  }
  close_world(&w);
}

/* Who may not get a prompt or read a resource has nothing completed of it, and is told at once all that it takes. */
static void a_completion_takes_what_its_object_takes(void **state) {
  (void)state;
#define COMPLETE(ref)                                                                              \
  ASK("completion/complete", "\"ref\":{" ref "},\"argument\":{\"name\":\"a\",\"value\":\"\"},")
  static const struct {
    const char *scopes, *body, *needed; /* NULL: nothing */
  } cases[] = {
      {"mail", COMPLETE("\"type\":\"ref/prompt\",\"name\":\"secret_prompt\""), "c p admin"},
      {"mail", COMPLETE("\"type\":\"ref/resource\",\"uri\":\"y://secret/{id}\""), "c r admin"},
      {"mail", COMPLETE("\"type\":\"ref/prompt\",\"name\":\"nobody\""), "c"},
      {"c", COMPLETE("\"type\":\"ref/prompt\",\"name\":\"secret_prompt\""), "p admin"},
      {"c admin", COMPLETE("\"type\":\"ref/prompt\",\"name\":\"secret_prompt\""), "p admin"},
      {"c p", COMPLETE("\"type\":\"ref/prompt\",\"name\":\"secret_prompt\""), "p admin"},
      {"c", COMPLETE("\"type\":\"ref/prompt\",\"name\":\"open_prompt\""), "p"},
      {"c admin", COMPLETE("\"type\":\"ref/resource\",\"uri\":\"y://secret/{id}\""), "r admin"},
      {"c p", COMPLETE("\"type\":\"ref/prompt\",\"name\":\"open_prompt\""), NULL},
      {"c p admin", COMPLETE("\"type\":\"ref/prompt\",\"name\":\"secret_prompt\""), NULL},
      {"c r admin", COMPLETE("\"type\":\"ref/resource\",\"uri\":\"y://secret/{id}\""), NULL},
  };
#undef COMPLETE
  world w;
  outcome out;
  char claims[64];
  open_world(&w);
  fill(&w);
  assert_int_equal(idem_server_require_scopes(w.server, "completion/complete", "c"), IDEM_OK);
  assert_int_equal(idem_server_require_scopes(w.server, "prompts/get", "p"), IDEM_OK);
  assert_int_equal(idem_server_require_scopes(w.server, "resources/read", "r"), IDEM_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char wanted[64];
    snprintf(claims, sizeof claims, ",\"scope\":\"%s\"", cases[i].scopes);
    ask(&w, token_of(&w, &w.keys[0], claims), "completion/complete", "", cases[i].body, &out);
    snprintf(wanted, sizeof wanted, "\"scope\":\"%s\"", cases[i].needed ? cases[i].needed : "");
    if (out.status != (cases[i].needed ? 403 : 200) ||
        (cases[i].needed && !strstr(out.body, wanted)))
      fail_msg("%s: %s: %d %s", cases[i].scopes, cases[i].body, out.status, out.body);
  }
  close_world(&w);
}

/* What not everybody may read, nobody is to keep for everybody. */
static void what_needs_scopes_is_cached_for_its_reader_alone(void **state) {
  (void)state;
  static const char *const uris[] = {"x://open", "x://secret", "y://secret/1"};
  world w;
  outcome out;
  char token[TOKEN], body[512];
  open_world(&w);
  fill(&w);
  snprintf(token, sizeof token, "%s", token_of(&w, &w.keys[0], ",\"scope\":\"admin m\""));
  for (size_t i = 0; i < 4; i++) {
    const char *uri = uris[i % 3];
    if (i == 3)
      assert_int_equal(idem_server_require_scopes(w.server, "resources/read", "m"), IDEM_OK);
    snprintf(body, sizeof body, ASK("resources/read", "\"uri\":\"%s\","), uri);
    ask(&w, token, "resources/read", uri, body, &out);
    assert_int_equal(out.status, 200);
    if (!strstr(out.body, i ? "\"cacheScope\":\"private\"" : "\"cacheScope\":\"public\""))
      fail_msg("%s: %s", uri, out.body);
  }
  close_world(&w);
}

static void bearers_of_the_operators_token_may_do_everything(void **state) {
  (void)state;
  static const char *const tokens[] = {"operator-token", NULL};
  world w;
  outcome out;
  open_issuer(&w);
  add_key(&w, "k1", "ES256");
  trust_issuer(&w, (idem_http_opts){.tokens = tokens});
  fill(&w);
  ask(&w, "operator-token", "tools/list", "", ASK("tools/list", ""), &out);
  assert_non_null(strstr(out.body, "secret_tool"));
  close_world(&w);
}

/* ---------------------------------------------------------------- sessions */

static const char hello[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
    "\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}";

typedef struct session_outcome {
  outcome out;
  char id[128];
} session_outcome;

static void on_hello(const idem_fetch_answer *answer, void *user) {
  session_outcome *self = user;
  const char *id = idem_fetch_header(answer, "Mcp-Session-Id");
  snprintf(self->id, sizeof self->id, "%s", id ? id : "");
  on_answer(answer, &self->out);
}

static void post(world *in, const char *token, const char *session, const char *body,
                 session_outcome *self) {
  char line[TOKEN + 64], session_line[256];
  snprintf(line, sizeof line, "Authorization: Bearer %s", token);
  snprintf(session_line, sizeof session_line, "Mcp-Session-Id: %s", session ? session : "");
  const char *const headers[] = {"Content-Type: application/json",
                                 "Accept: application/json, text/event-stream", line,
                                 session ? session_line : NULL, NULL};
  *self = (session_outcome){.out = {.in = in, .status = -1}};
  idem_fetch_opts opts = {.method = "POST",
                          .url = in->url,
                          .headers = headers,
                          .body = body,
                          .body_len = strlen(body),
                          .proxy = ""};
  assert_int_equal(idem_fetch_start(&in->loop, &opts, on_hello, self, NULL), IDEM_OK);
  wait_for(in, &self->out);
}

static void a_session_is_its_principals_alone_whatever_token_shows_it(void **state) {
  (void)state;
  static const char list[] = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}";
  world w;
  session_outcome first, next;
  char alice[TOKEN], again[TOKEN], bob[TOKEN], claims[512];
  open_world(&w);
  snprintf(alice, sizeof alice, "%s", token_of(&w, &w.keys[0], ""));
  snprintf(again, sizeof again, "%s", token_of(&w, &w.keys[0], ",\"jti\":\"2\""));
  snprintf(claims, sizeof claims,
           "{\"iss\":\"%s\",\"aud\":\"%s\",\"sub\":\"bob\",\"exp\":99999999999}", w.issuer_url,
           w.url);
  jwt_make(bob, sizeof bob, &w.keys[0], claims);
  post(&w, alice, NULL, hello, &first);
  assert_int_equal(first.out.status, 200);
  assert_true(first.id[0]);
  post(&w, again, first.id, list, &next); /* a token that was refreshed is the same caller's */
  assert_int_equal(next.out.status, 200);
  post(&w, bob, first.id, list, &next);
  assert_int_equal(next.out.status, 404);
  close_world(&w);
}

/* The others of the batch have run: its status says nothing of one of them. */
static void a_batch_says_which_of_its_calls_lacks_a_scope(void **state) {
  (void)state;
  static const char old_hello[] =
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
      "\"2025-03-26\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}";
  static const char ready[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
  static const char batch[] = "[{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":"
                              "{\"name\":\"who\"}},{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":"
                              "\"tools/call\",\"params\":{\"name\":\"secret_tool\"}}]";
  world w;
  session_outcome first, next;
  char token[TOKEN];
  open_world(&w);
  fill(&w);
  snprintf(token, sizeof token, "%s", token_of(&w, &w.keys[0], ",\"scope\":\"files:read\""));
  post(&w, token, NULL, old_hello, &first);
  assert_int_equal(first.out.status, 200);
  post(&w, token, first.id, ready, &next);
  assert_int_equal(next.out.status, 202);
  post(&w, token, first.id, batch, &next);
  if (next.out.status != 200) fail_msg("%d %s", next.out.status, next.out.body);
  assert_string_equal(next.out.challenge, "");
  assert_non_null(strstr(next.out.body, "\"id\":2,\"result\":"));
  assert_non_null(strstr(next.out.body, "\"text\":\"alice\""));
  assert_non_null(strstr(next.out.body, "\"id\":\"x\",\"error\":{\"code\":-32600"));
  assert_non_null(
      strstr(next.out.body, "\"reason\":\"insufficient-scope\",\"scope\":\"admin files:read\""));
  close_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_token_does_not_reach_is_refused_with_all_that_it_takes),
      cmocka_unit_test(a_token_that_reaches_it_may_and_its_claims_are_the_handlers),
      cmocka_unit_test(lists_show_what_the_caller_may_use),
      cmocka_unit_test(a_method_may_need_scopes_too),
      cmocka_unit_test(a_scope_may_imply_others),
      cmocka_unit_test(what_a_method_and_its_object_need_is_said_together),
      cmocka_unit_test(a_completion_takes_what_its_object_takes),
      cmocka_unit_test(what_needs_scopes_is_cached_for_its_reader_alone),
      cmocka_unit_test(bearers_of_the_operators_token_may_do_everything),
      cmocka_unit_test(a_session_is_its_principals_alone_whatever_token_shows_it),
      cmocka_unit_test(a_batch_says_which_of_its_calls_lacks_a_scope),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  uv_library_shutdown(); /* its threads give back what OpenSSL has kept for them */
  return failed;
}
