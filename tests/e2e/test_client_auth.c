/* test_client_auth.c - an MCP client that is refused, and comes to a token: a server that is its own authorization server,
 * in the ways in which such servers behave and misbehave; the browser is a function. */
#include "script.h"

#include "support/fault_alloc.h"
#include "support/unit.h"

#include <idem/auth.h>
#include <idem/mcp_client.h>
#include <idem/uv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum browser { HONEST, OTHER_STATE, OTHER_ISSUER, REFUSES, LEAVES, FREES } browser;

typedef struct world {
  uv_loop_t loop;
  uv_timer_t ticker; /* a turn of the loop never blocks for long */
  script *server, *other;
  char url[64], mcp[80], elsewhere[64];
  idem_mcp_client *client;
  idem_auth *auth;
  bool ready, closed;
  /* The server. */
  int registered, tokens, refreshed, revoked, found, posts, strangers;
  int good;             /* the number of the token that is good */
  const char *scope;    /* that tools/call wants beside; NULL: none */
  const char *metadata; /* how /prm is answered: "", "redirect", "endless", "foreign", "missing" */
  bool no_refresh;
  char token_form[2048];
  /* The person. */
  browser browser;
  int visits;
  char page[4096];
  /* What came of it. */
  int ended, fine, http_status, held, left;
  char kept[4096];
  int saves;
} world;

/* ------------------------------------------------------------------------ the servers */

static void answer_json(script_conn *conn, const char *status, const char *more, const char *body) {
  char headers[512];
  snprintf(headers, sizeof headers, "Content-Type: application/json\r\n%s", more);
  script_answer(conn, status, headers, body);
}

static void refuse(world *in, script_conn *conn, bool scope) {
  char header[512];
  if (scope)
    snprintf(header, sizeof header,
             "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"%s\", "
             "resource_metadata=\"%s/prm\"\r\n",
             in->scope, in->url);
  else
    snprintf(header, sizeof header,
             "WWW-Authenticate: Negotiate\r\n"
             "WWW-Authenticate: Bearer resource_metadata=\"%s/prm\", scope=\"read\"\r\n",
             in->url);
  answer_json(conn, scope ? "403 Forbidden" : "401 Unauthorized", header, "{}");
}

static void serve_mcp(world *in, script_conn *conn, const char *request) {
  char wanted[64], body[256];
  const char *id = strstr(script_body(request), "\"id\":");
  snprintf(wanted, sizeof wanted, "Bearer token-%d", in->good);
  in->posts++;
  if (in->good == 0 || strcmp(script_header(request, "Authorization"), wanted) != 0) {
    refuse(in, conn, false);
  } else if (in->scope && !strstr(in->page, in->scope)) {
    refuse(in, conn, true);
  } else {
    snprintf(
        body, sizeof body,
        "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"resultType\":\"complete\",\"content\":[]}}",
        id ? atoi(id + 5) : 0);
    answer_json(conn, "200 OK", "", body);
  }
}

static void serve_resource(world *in, script_conn *conn) {
  char body[512], location[128];
  in->found++;
  if (strcmp(in->metadata, "redirect") == 0) {
    snprintf(location, sizeof location, "Location: %s/prm\r\n", in->elsewhere);
    script_answer(conn, "302 Found", location, "");
  } else if (strcmp(in->metadata, "endless") == 0) {
    static char piece[8192];
    memset(piece, ' ', sizeof piece - 1);
    script_send(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n");
    for (int i = 0; i < 256; i++) script_send(conn, piece);
  } else if (strcmp(in->metadata, "missing") == 0) {
    script_answer(conn, "404 Not Found", "", "");
  } else {
    bool foreign = strcmp(in->metadata, "foreign") == 0;
    snprintf(body, sizeof body, "{\"resource\":\"%s/mcp\",\"authorization_servers\":[\"%s\"]}",
             foreign ? in->elsewhere : in->url, in->url);
    answer_json(conn, "200 OK", "", body);
  }
}

static void serve_metadata(const world *in, script_conn *conn) {
  char body[1024];
  snprintf(body, sizeof body,
           "{\"issuer\":\"%s\",\"authorization_endpoint\":\"%s/authorize\",\"token_endpoint\":\"%s/"
           "token\",\"registration_endpoint\":\"%s/register\",\"code_challenge_methods_supported\":"
           "[\"S256\"],\"token_endpoint_auth_methods_supported\":[\"none\"],"
           "\"authorization_response_iss_parameter_supported\":true,"
           "\"revocation_endpoint\":\"%s/revoke\"}",
           in->url, in->url, in->url, in->url, in->url);
  answer_json(conn, "200 OK", "", body);
}

static void serve_token(world *in, script_conn *conn, const char *request) {
  char body[256];
  snprintf(in->token_form, sizeof in->token_form, "%s", script_body(request));
  in->tokens++;
  if (strstr(in->token_form, "grant_type=refresh_token")) {
    in->refreshed++;
    if (in->no_refresh) {
      answer_json(conn, "400 Bad Request", "", "{\"error\":\"invalid_grant\"}");
      return;
    }
  }
  in->good++;
  snprintf(
      body, sizeof body,
      "{\"access_token\":\"token-%d\",\"token_type\":\"bearer\",\"refresh_token\":\"again-%d\","
      "\"expires_in\":60}",
      in->good, in->good);
  answer_json(conn, "200 OK", "", body);
}

static void on_request(script_conn *conn, const char *request, void *user) {
  world *in = user;
  char path[256] = "";
  sscanf(request, "%*s %255s", path);
  if (strcmp(path, "/mcp") == 0) {
    serve_mcp(in, conn, request);
  } else if (strcmp(path, "/prm") == 0) {
    serve_resource(in, conn);
  } else if (strcmp(path, "/.well-known/oauth-authorization-server") == 0) {
    serve_metadata(in, conn);
  } else if (strcmp(path, "/register") == 0) {
    in->registered++;
    answer_json(conn, "201 Created", "",
                "{\"client_id\":\"me\",\"token_endpoint_auth_method\":\"none\"}");
  } else if (strcmp(path, "/revoke") == 0) {
    in->revoked++;
    script_answer(conn, "200 OK", "", "");
  } else if (strcmp(path, "/token") == 0) {
    serve_token(in, conn, request);
  } else {
    script_answer(conn, "404 Not Found", "", "");
  }
}

static void on_stranger(script_conn *conn, const char *request, void *user) {
  world *in = user;
  (void)request;
  in->strangers++;
  script_answer(conn, "404 Not Found", "", "");
}

/* ------------------------------------------------------------------------- the client */

static void on_page(idem_auth *auth, const char *page, const char *user_code, void *user) {
  world *in = user;
  char query[1024];
  const char *state = strstr(page, "state=");
  assert_null(user_code);
  assert_non_null(state);
  in->visits++;
  snprintf(in->page, sizeof in->page, "%s", page);
  if (in->browser == LEAVES) return;
  if (in->browser == FREES) {
    idem_auth_free(auth);
    in->auth = NULL;
    return;
  }
  int len = snprintf(query, sizeof query, "%s&%.*s%s&iss=%s",
                     in->browser == REFUSES ? "error=access_denied" : "code=sesame",
                     (int)strcspn(state, "&"), state, in->browser == OTHER_STATE ? "x" : "",
                     in->browser == OTHER_ISSUER ? in->elsewhere : in->url);
  assert_int_equal(idem_auth_redirected(auth, query, (size_t)len), IDEM_OK);
  assert_int_equal(idem_auth_redirected(auth, query, (size_t)len), IDEM_E_STATE);
}

/* From the page it was shown, with all that is wanted. */
static void come_back(const world *in) {
  char query[1024];
  const char *state = strstr(in->page, "state=");
  assert_non_null(state);
  int len = snprintf(query, sizeof query, "code=sesame&%.*s&iss=%s", (int)strcspn(state, "&"),
                     state, in->url);
  assert_int_equal(idem_auth_redirected(in->auth, query, (size_t)len), IDEM_OK);
}

/* It may have ended by the time it has come back. */
static void on_page_without_memory(idem_auth *auth, const char *page, const char *user_code,
                                   void *user) {
  world *in = user;
  (void)auth, (void)user_code;
  snprintf(in->page, sizeof in->page, "%s", page);
  come_back(in);
}

static void save(idem_auth *auth, const char *kept, size_t len, void *user) {
  world *in = user;
  (void)auth;
  in->saves++;
  snprintf(in->kept, sizeof in->kept, "%.*s", (int)len, kept);
}

static void on_refused(idem_mcp_client *client, idem_mcp_refusal *refusal, void *user) {
  const world *in = user;
  (void)client;
  if (in->auth)
    idem_auth_refused(in->auth, refusal);
  else
    idem_mcp_refusal_give_up(refusal);
}

static void on_tick(uv_timer_t *timer) { (void)timer; }
static void on_ready(idem_mcp_client *client, idem_status status, void *user) {
  world *in = user;
  (void)client;
  assert_int_equal(status, IDEM_OK);
  in->ready = true;
}
static void on_close(idem_mcp_client *client, void *user) {
  (void)client;
  ((world *)user)->closed = true;
}

static void set_up(world *in) {
  *in = (world){.metadata = ""};
  assert_int_equal(uv_loop_init(&in->loop), 0);
  uv_timer_init(&in->loop, &in->ticker);
  uv_timer_start(&in->ticker, on_tick, 20, 20);
  in->server = script_start(&in->loop, on_request, in);
  in->other = script_start(&in->loop, on_stranger, in);
  snprintf(in->url, sizeof in->url, "http://127.0.0.1:%d", script_port(in->server));
  snprintf(in->mcp, sizeof in->mcp, "%s/mcp", in->url);
  snprintf(in->elsewhere, sizeof in->elsewhere, "http://127.0.0.1:%d", script_port(in->other));
}

static void make_auth(world *in, idem_auth_opts opts) {
  if (!opts.url) opts.url = in->mcp;
  opts.redirect_uri = "http://127.0.0.1:9/back";
  opts.refresh = true;
  opts.save = save;
  opts.user = in;
  assert_int_equal(idem_auth_new(&in->loop, &opts, &in->auth), IDEM_OK);
}

static void connect_with(world *in, const char *header) {
  const char *const headers[] = {header, NULL};
  idem_client_opts wire = {.headers = headers};
  idem_mcp_client_opts opts = {.known = IDEM_MCP_2026_07_28,
                               .at_once = true,
                               .on_refused = on_refused,
                               .on_close = on_close,
                               .wire = &wire,
                               .user = in};
  assert_int_equal(idem_mcp_connect(&in->loop, in->mcp, &opts, on_ready, in, &in->client), IDEM_OK);
  while (!in->ready) uv_run(&in->loop, UV_RUN_ONCE);
}

static void begin(world *in) {
  set_up(in);
  make_auth(in, (idem_auth_opts){.on_page = on_page});
  connect_with(in, NULL);
}

static void tear_down(world *in) {
  idem_mcp_client_close(in->client);
  while (!in->closed) uv_run(&in->loop, UV_RUN_ONCE);
  idem_auth_free(in->auth);
  uv_close((uv_handle_t *)&in->ticker, NULL);
  script_stop(in->server);
  script_stop(in->other);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&in->loop), 0);
}

static void on_result(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  world *in = user;
  (void)client;
  in->ended++;
  in->fine += result->status == IDEM_OK;
  in->http_status = result->http_status;
}

static void call(world *in, int times) {
  int before = in->ended;
  for (int i = 0; i < times; i++)
    assert_int_equal(
        idem_mcp_call_tool_json(in->client, "tool", "{}", 2, NULL, on_result, in, NULL), IDEM_OK);
  while (in->ended < before + times) uv_run(&in->loop, UV_RUN_ONCE);
}

/* A call that is given up, for a reason that has these words in it. */
static void call_in_vain(world *in, const char *words) {
  call(in, 1);
  assert_int_equal(in->fine, 0);
  assert_int_equal(in->http_status, 401);
  if (!strstr(idem_auth_why(in->auth), words))
    fail_msg("\"%s\" is not in \"%s\"", words, idem_auth_why(in->auth));
}

/* -------------------------------------------------------------------------- promises */

static void a_refused_request_is_sent_again_with_a_token(void **state) {
  (void)state;
  world in;
  begin(&in);
  assert_null(idem_auth_line(in.auth));
  call(&in, 1);
  assert_int_equal(in.fine, 1);
  assert_string_equal(idem_auth_line(in.auth), "Authorization: Bearer token-1");
  assert_string_equal(idem_auth_why(in.auth), "");
  assert_non_null(strstr(in.page, "code_challenge_method=S256"));
  assert_non_null(strstr(in.page, "scope=read"));
  assert_non_null(strstr(in.token_form, "code=sesame"));
  assert_non_null(strstr(in.token_form, "code_verifier="));
  assert_non_null(strstr(in.token_form, "resource=http%3A%2F%2F"));
  int posts = in.posts;
  call(&in, 1); /* and the next one has it from the start */
  assert_int_equal(in.posts, posts + 1);
  assert_int_equal(in.registered, 1);
  tear_down(&in);
}

static void requests_refused_together_wait_for_one_token(void **state) {
  (void)state;
  world in;
  begin(&in);
  call(&in, 1); /* which lists the tools first */
  in.good = 7;  /* no token is good any more, nor can one be refreshed */
  in.no_refresh = true;
  call(&in, 8);
  assert_int_equal(in.fine, 9);
  assert_int_equal(in.visits, 2);
  assert_int_equal(in.refreshed, 1);
  assert_int_equal(in.tokens, 3);
  tear_down(&in);
}

static void a_token_that_is_over_is_refreshed_without_a_person(void **state) {
  (void)state;
  world in;
  begin(&in);
  call(&in, 1);
  in.good = 7; /* and token-1 is not */
  call(&in, 4);
  assert_int_equal(in.fine, 5);
  assert_int_equal(in.refreshed, 1);
  assert_int_equal(in.visits, 1);
  assert_non_null(strstr(in.token_form, "refresh_token=again-1"));
  tear_down(&in);
}

static void a_refresh_token_that_is_over_is_forgotten(void **state) {
  (void)state;
  world in;
  begin(&in);
  call(&in, 1);
  in.good = 7;
  in.no_refresh = true;
  call(&in, 1);
  assert_int_equal(in.fine, 2);
  assert_int_equal(in.visits, 2);
  assert_null(strstr(in.kept, "again-1"));
  tear_down(&in);
}

static void more_scopes_are_asked_for_beside_the_old_ones(void **state) {
  (void)state;
  world in;
  begin(&in);
  in.scope = "write";
  call(&in, 1);
  assert_int_equal(in.fine, 1);
  assert_int_equal(in.visits, 2);
  assert_non_null(strstr(in.page, "scope=read%20write"));
  tear_down(&in);
}

static void what_was_kept_is_good_in_another_process(void **state) {
  (void)state;
  world in;
  begin(&in);
  call(&in, 1);
  assert_int_equal(in.saves, 1);
  idem_auth_free(in.auth);
  make_auth(&in, (idem_auth_opts){.kept = in.kept}); /* and nobody to ask */
  assert_string_equal(idem_auth_line(in.auth), "Authorization: Bearer token-1");
  in.good = 4;
  call(&in, 1);
  assert_int_equal(in.fine, 2);
  assert_int_equal(in.refreshed, 1);
  tear_down(&in);
}

static void load(idem_auth *auth, void *user) {
  const world *in = user;
  char kept[256];
  int len = snprintf(kept, sizeof kept, "{\"url\":\"%s\",\"access_token\":\"token-5\"}", in->mcp);
  assert_int_equal(idem_auth_take(auth, kept, (size_t)len), IDEM_OK);
}

static void what_another_process_has_got_is_used_first(void **state) {
  (void)state;
  world in;
  set_up(&in);
  make_auth(&in, (idem_auth_opts){.load = load});
  connect_with(&in, NULL);
  in.good = 5;
  call(&in, 1);
  assert_int_equal(in.fine, 1);
  assert_int_equal(in.tokens + in.found, 0);
  tear_down(&in);
}

/* Whoever waits for a lock says later that it has it. */
static void load_later(idem_auth *auth, void *user) {
  world *in = user;
  in->held++;
  idem_auth_hold(auth);
}

static void what_is_kept_may_come_later(void **state) {
  (void)state;
  world in;
  set_up(&in);
  make_auth(&in, (idem_auth_opts){.load = load_later, .on_page = on_page});
  connect_with(&in, NULL);
  in.good = 5;
  assert_int_equal(idem_mcp_call_tool_json(in.client, "tool", "{}", 2, NULL, on_result, &in, NULL),
                   IDEM_OK);
  while (!in.held) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.found + in.visits, 0);
  load(in.auth, &in);
  idem_auth_loaded(in.auth, NULL);
  idem_auth_loaded(in.auth, NULL); /* once is enough */
  while (!in.ended) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.fine, 1);
  assert_int_equal(in.tokens + in.found, 0);
  in.good = 6;
  in.held = 0;
  assert_int_equal(idem_mcp_read(in.client, "a:b", NULL, on_result, &in, NULL), IDEM_OK);
  while (!in.held) uv_run(&in.loop, UV_RUN_ONCE);
  idem_auth_loaded(in.auth, "nobody gives the lock back");
  while (in.ended < 2) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.fine, 1);
  assert_string_equal(idem_auth_why(in.auth), "nobody gives the lock back");
  in.held = 0; /* and one that goes while it is waited for */
  assert_int_equal(idem_mcp_read(in.client, "a:b", NULL, on_result, &in, NULL), IDEM_OK);
  while (!in.held) uv_run(&in.loop, UV_RUN_ONCE);
  idem_auth_free(in.auth);
  in.auth = NULL;
  while (in.ended < 3) uv_run(&in.loop, UV_RUN_ONCE);
  tear_down(&in);
}

static void on_left(idem_auth *auth, bool revoked, void *user) {
  world *in = user;
  assert_null(idem_auth_line(auth));
  in->left = revoked ? 2 : 1;
}

static void who_logs_out_is_a_stranger_again(void **state) {
  (void)state;
  world in;
  begin(&in);
  call(&in, 1);
  assert_int_equal(idem_auth_log_out(in.auth, on_left), IDEM_OK);
  assert_int_equal(idem_auth_log_out(in.auth, on_left), IDEM_E_STATE);
  while (!in.left) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.left, 2);
  assert_int_equal(in.revoked, 1);
  in.browser = REFUSES;
  in.good = 7;
  call(&in, 1);
  assert_int_equal(in.fine, 1);
  assert_int_equal(in.refreshed, 0);
  tear_down(&in);
}

static void play_browser(browser how, const char *words) {
  world in;
  begin(&in);
  in.browser = how;
  call_in_vain(&in, words);
  assert_int_equal(in.tokens, 0); /* the code went nowhere */
  assert_int_equal(in.strangers, 0);
  tear_down(&in);
}

static void a_browser_with_another_state_issuer_or_no_is_not_believed(void **state) {
  (void)state;
  play_browser(OTHER_STATE, "another state");
  play_browser(OTHER_ISSUER, "another authorization server");
  play_browser(REFUSES, "access_denied");
}

static void play_metadata(const char *how, const char *words) {
  world in;
  begin(&in);
  in.metadata = how;
  call_in_vain(&in, words);
  assert_int_equal(in.visits + in.tokens + in.strangers, 0);
  tear_down(&in);
}

static void metadata_that_lead_elsewhere_end_it(void **state) {
  (void)state;
  play_metadata("redirect", "resource metadata could not be had");
  play_metadata("endless", "resource metadata could not be had");
  play_metadata("foreign", "of another resource");
  play_metadata("missing", "no resource metadata");
}

static void a_server_of_the_world_cannot_point_at_this_machine(void **state) {
  (void)state;
  world in;
  set_up(&in);
  make_auth(&in, (idem_auth_opts){.url = "https://mcp.example/mcp", .on_page = on_page});
  connect_with(&in, NULL);
  call_in_vain(&in, "a private one");
  assert_int_equal(in.found, 0);
  tear_down(&in);
}

static void nobody_to_ask_and_nobody_back_are_said(void **state) {
  (void)state;
  world in;
  set_up(&in);
  make_auth(&in, (idem_auth_opts){.url = NULL});
  connect_with(&in, NULL);
  call_in_vain(&in, "nobody can be asked");
  idem_auth_free(in.auth);
  make_auth(&in, (idem_auth_opts){.on_page = on_page, .page_ms = 1});
  in.browser = LEAVES;
  call_in_vain(&in, "nobody came back");
  in.browser = HONEST; /* a further request begins anew */
  call(&in, 1);
  assert_int_equal(in.visits, 2);
  tear_down(&in);
}

static void a_person_may_take_longer_than_a_server(void **state) {
  (void)state;
  world in;
  begin(&in);
  in.browser = LEAVES;
  const idem_mcp_call_opts opts = {.idle_ms = 1500};
  assert_int_equal(idem_mcp_read(in.client, "a:b", &opts, on_result, &in, NULL), IDEM_OK);
  while (!in.visits) uv_run(&in.loop, UV_RUN_ONCE);
  uint64_t until = uv_now(&in.loop) + 2000;
  while (uv_now(&in.loop) < until) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.ended, 0);
  come_back(&in);
  while (!in.ended) uv_run(&in.loop, UV_RUN_ONCE);
  assert_int_equal(in.fine, 1);
  tear_down(&in);
}

static void an_auth_that_goes_leaves_no_request_waiting(void **state) {
  (void)state;
  world in;
  begin(&in);
  in.browser = FREES;
  call(&in, 3);
  assert_int_equal(in.fine, 0);
  assert_int_equal(in.http_status, 401);
  tear_down(&in);
}

static void a_client_that_goes_while_its_request_waits_is_no_matter(void **state) {
  (void)state;
  world in;
  begin(&in);
  in.browser = LEAVES;
  assert_int_equal(idem_mcp_call_tool_json(in.client, "tool", "{}", 2, NULL, on_result, &in, NULL),
                   IDEM_OK);
  while (!in.visits) uv_run(&in.loop, UV_RUN_ONCE);
  tear_down(&in); /* the client first */
  assert_int_equal(in.ended, 1);
}

static void options_that_cannot_be_are_refused(void **state) {
  (void)state;
  uv_loop_t loop;
  idem_auth *auth;
  assert_int_equal(uv_loop_init(&loop), 0);
  const idem_auth_opts wrong[] = {{.url = NULL},
                                  {.url = "ftp://a/", .redirect_uri = "http://127.0.0.1/"},
                                  {.url = "https://a/"},
                                  {.url = "https://a/", .grant = IDEM_AUTH_JWT_BEARER},
                                  {.url = "https://a/", .grant = (idem_auth_grant)9},
                                  {.url = "https://a/", .grant = IDEM_AUTH_DEVICE, .kept = "[]"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(idem_auth_new(&loop, &wrong[i], &auth), IDEM_E_INVAL);
  uv_run(&loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&loop), 0);
}

/* The client has memory, the way to a token has not. */
static void log_in(fault_alloc *fault, void *user) {
  world in;
  (void)user;
  set_up(&in);
  connect_with(&in, NULL);
  idem_auth_opts opts = {.url = in.mcp,
                         .redirect_uri = "http://127.0.0.1:9/back",
                         .on_page = on_page_without_memory,
                         .save = save,
                         .user = &in,
                         .alloc = &fault->alloc};
  idem_status status = idem_auth_new(&in.loop, &opts, &in.auth);
  assert_true(status == IDEM_OK || (status == IDEM_E_NOMEM && !in.auth));
  call(&in, 1);
  in.good = 7; /* and once more, with what it has by then */
  call(&in, 1);
  if (fault->failures == 0) assert_int_equal(in.fine, 2);
  tear_down(&in);
}

static void a_login_without_memory_ends(void **state) {
  (void)state;
  size_t once = fault_alloc_sweep(log_in, NULL, 1000);
  print_message("  %zu failures survived\n", once);
  assert_true(once > 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_refused_request_is_sent_again_with_a_token),
      cmocka_unit_test(requests_refused_together_wait_for_one_token),
      cmocka_unit_test(a_token_that_is_over_is_refreshed_without_a_person),
      cmocka_unit_test(a_refresh_token_that_is_over_is_forgotten),
      cmocka_unit_test(more_scopes_are_asked_for_beside_the_old_ones),
      cmocka_unit_test(what_was_kept_is_good_in_another_process),
      cmocka_unit_test(what_another_process_has_got_is_used_first),
      cmocka_unit_test(what_is_kept_may_come_later),
      cmocka_unit_test(who_logs_out_is_a_stranger_again),
      cmocka_unit_test(a_browser_with_another_state_issuer_or_no_is_not_believed),
      cmocka_unit_test(metadata_that_lead_elsewhere_end_it),
      cmocka_unit_test(a_server_of_the_world_cannot_point_at_this_machine),
      cmocka_unit_test(nobody_to_ask_and_nobody_back_are_said),
      cmocka_unit_test(a_person_may_take_longer_than_a_server),
      cmocka_unit_test(an_auth_that_goes_leaves_no_request_waiting),
      cmocka_unit_test(a_client_that_goes_while_its_request_waits_is_no_matter),
      cmocka_unit_test(options_that_cannot_be_are_refused),
      cmocka_unit_test(a_login_without_memory_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
