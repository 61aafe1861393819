/* auth_world.c - see auth_world.h. */
#include "auth_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
             "WWW-Authenticate: Bearer resource_metadata=\"%s%s\", scope=\"read\"\r\n",
             in->challenged ? in->challenged : in->url, in->challenged ? "" : "/prm");
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

static void answer_without_end(script_conn *conn) {
  static char piece[8192];
  memset(piece, ' ', sizeof piece - 1);
  script_send(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n");
  for (int i = 0; i < 256; i++) script_send(conn, piece);
}

static void serve_resource(world *in, script_conn *conn) {
  char body[512], location[128];
  in->found++;
  if (strcmp(in->metadata, "redirect") == 0) {
    snprintf(location, sizeof location, "Location: %s/prm\r\n", in->elsewhere);
    script_answer(conn, "302 Found", location, "");
  } else if (strcmp(in->metadata, "endless") == 0) {
    answer_without_end(conn);
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
  if (strcmp(in->metadata, "token-redirect") == 0) {
    snprintf(body, sizeof body, "Location: %s/token\r\n", in->elsewhere);
    script_answer(conn, "307 Temporary Redirect", body, "");
    return;
  }
  if (strcmp(in->metadata, "token-endless") == 0) {
    answer_without_end(conn);
    return;
  }
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

void world_on_page(idem_auth *auth, const char *page, const char *user_code, void *user) {
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

void world_come_back(const world *in) {
  char query[1024];
  const char *state = strstr(in->page, "state=");
  assert_non_null(state);
  int len = snprintf(query, sizeof query, "code=sesame&%.*s&iss=%s", (int)strcspn(state, "&"),
                     state, in->url);
  assert_int_equal(idem_auth_redirected(in->auth, query, (size_t)len), IDEM_OK);
}

void world_save(idem_auth *auth, const char *kept, size_t len, void *user) {
  world *in = user;
  (void)auth;
  in->saves++;
  snprintf(in->kept, sizeof in->kept, "%.*s", (int)len, kept);
}

void world_on_refused(idem_mcp_client *client, idem_mcp_refusal *refusal, void *user) {
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

void world_set_up(world *in) {
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

void world_make_auth(world *in, idem_auth_opts opts) {
  if (!opts.url) opts.url = in->mcp;
  opts.redirect_uri = "http://127.0.0.1:9/back";
  opts.refresh = true;
  opts.save = world_save;
  opts.user = in;
  assert_int_equal(idem_auth_new(&in->loop, &opts, &in->auth), IDEM_OK);
}

void world_connect(world *in, const char *header) {
  const char *const headers[] = {header, NULL};
  idem_client_opts wire = {.headers = headers};
  idem_mcp_client_opts opts = {.known = IDEM_MCP_2026_07_28,
                               .at_once = true,
                               .on_refused = world_on_refused,
                               .on_close = on_close,
                               .wire = &wire,
                               .user = in,
                               .log = in->log};
  assert_int_equal(idem_mcp_connect(&in->loop, in->mcp, &opts, on_ready, in, &in->client), IDEM_OK);
  while (!in->ready) uv_run(&in->loop, UV_RUN_ONCE);
}

void world_begin(world *in) {
  world_set_up(in);
  world_make_auth(in, (idem_auth_opts){.on_page = world_on_page});
  world_connect(in, NULL);
}

void world_tear_down(world *in) {
  idem_mcp_client_close(in->client);
  while (!in->closed) uv_run(&in->loop, UV_RUN_ONCE);
  idem_auth_free(in->auth);
  uv_close((uv_handle_t *)&in->ticker, NULL);
  script_stop(in->server);
  script_stop(in->other);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&in->loop), 0);
}

void world_on_result(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  world *in = user;
  (void)client;
  in->ended++;
  in->fine += result->status == IDEM_OK;
  in->http_status = result->http_status;
}

void world_call(world *in, int times) {
  int before = in->ended;
  for (int i = 0; i < times; i++)
    assert_int_equal(
        idem_mcp_call_tool_json(in->client, "tool", "{}", 2, NULL, world_on_result, in, NULL),
        IDEM_OK);
  while (in->ended < before + times) uv_run(&in->loop, UV_RUN_ONCE);
}

void world_call_in_vain(world *in, const char *words) {
  world_call(in, 1);
  assert_int_equal(in->fine, 0);
  assert_int_equal(in->http_status, 401);
  if (!strstr(idem_auth_why(in->auth), words))
    fail_msg("\"%s\" is not in \"%s\"", words, idem_auth_why(in->auth));
}
