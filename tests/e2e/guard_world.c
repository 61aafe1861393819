/* guard_world.c - see guard_world.h. */
#include "guard_world.h"

#include <stdlib.h>
#include <time.h>

/* ------------------------------------------------------------- the issuer */

static void answer_keys(world *in, script_conn *conn) {
  char body[8192] = "{\"keys\":[";
  for (size_t i = 0; i < in->key_count; i++) {
    if (i) strcat(body, ",");
    jwt_put_jwk(body, sizeof body, &in->keys[i]);
  }
  strcat(body, "]}");
  script_answer(conn, "200 OK", "Content-Type: application/json\r\n", body);
}

/* One key under many names. */
static void answer_many(world *in, script_conn *conn) {
  static char body[65536];
  snprintf(body, sizeof body, "{\"keys\":[");
  for (size_t i = 0; i < 65; i++) {
    if (i) strcat(body, ",");
    jwt_put_jwk(body, sizeof body, &in->keys[0]);
  }
  strcat(body, "]}");
  script_answer(conn, "200 OK", "Content-Type: application/json\r\n", body);
}

static void send_much(script_conn *conn, size_t bytes) {
  static char piece[65536];
  memset(piece, ' ', sizeof piece - 1);
  for (size_t sent = 0; sent < bytes; sent += sizeof piece - 1) script_send(conn, piece);
}

static void serve_keys(world *in, script_conn *conn) {
  in->jwks++;
  if (strcmp(in->manner, "many") == 0) {
    answer_many(in, conn);
  } else if (strcmp(in->manner, "huge") == 0) {
    script_send(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10485760\r\n\r\n");
    send_much(conn, 1 << 20);
  } else if (strcmp(in->manner, "endless") == 0) {
    script_send(conn, "HTTP/1.1 200 OK\r\n\r\n{\"keys\":[");
    send_much(conn, 1 << 20);
  } else if (strcmp(in->manner, "500") == 0) {
    script_answer(conn, "500 Internal Server Error", "", "{}");
  } else if (strcmp(in->manner, "redirect") == 0) {
    script_answer(conn, "302 Found", "Location: http://127.0.0.2:9/jwks\r\n", "");
  } else if (strcmp(in->manner, "silent") == 0) {
    in->held = conn;
  } else {
    answer_keys(in, conn);
  }
}

static void serve_metadata(world *in, script_conn *conn) {
  char body[512];
  const char *origin = strcmp(in->manner, "elsewhere") == 0 ? "http://192.0.2.1" : in->issuer_url;
  in->metadata++;
  snprintf(body, sizeof body, "{\"issuer\":\"%s\",\"jwks_uri\":\"%s/jwks\"}", in->issuer_url,
           origin);
  script_answer(conn, "200 OK", "Content-Type: application/json\r\n", body);
}

void answer_held(world *in) {
  script_answer(in->held, "200 OK", "Content-Type: application/json\r\n", in->introspection);
}

static void on_issuer(script_conn *conn, const char *request, void *user) {
  world *in = user;
  if (strncmp(request, "GET /jwks ", 10) == 0) {
    serve_keys(in, conn);
  } else if (strncmp(request, "GET /.well-known/oauth-authorization-server ", 44) == 0) {
    serve_metadata(in, conn);
  } else if (strncmp(request, "POST /introspect ", 17) == 0) {
    in->introspections++;
    snprintf(in->last_form, sizeof in->last_form, "%s", script_body(request));
    snprintf(in->last_authorization, sizeof in->last_authorization, "%s",
             script_header(request, "Authorization"));
    in->held = conn;
    if (strcmp(in->manner, "silent") == 0) return;
    script_answer(conn, strcmp(in->manner, "500") == 0 ? "500 Internal Server Error" : "200 OK",
                  "Content-Type: application/json\r\n", in->introspection);
  } else {
    in->strangers++;
    script_answer(conn, "404 Not Found", "", "");
  }
}

/* -------------------------------------------------------------- the server */

static void say_who(idem_request *request, yyjson_val *arguments, void *user) {
  (void)arguments, (void)user;
  idem_tool_text(request, idem_principal(request), strlen(idem_principal(request)));
}

void open_server(world *in, const idem_http_auth *auth, idem_http_opts http) {
  idem_server_opts opts = {.name = "t", .version = "1"};
  idem_server_os(&opts);
  assert_int_equal(idem_server_new(&opts, &in->server), IDEM_OK);
  assert_int_equal(
      idem_server_add_tool(in->server, &(idem_tool){.name = "who", .fn = say_who}, NULL, 0),
      IDEM_OK);
  http.auth = auth;
  idem_serve_opts serve = {
      .server = in->server, .http = &http, .grace_ms = 20, .log = in->log, .alloc = in->alloc};
  assert_int_equal(idem_serve(&in->loop, "http://127.0.0.1:0/mcp", &serve, &in->listener), IDEM_OK);
  snprintf(in->url, sizeof in->url, "%s", idem_listener_url(in->listener));
}

void open_issuer(world *in) {
  *in = (world){.manner = "", .introspection = "{\"active\":false}"};
  uv_loop_init(&in->loop);
  idem__guard_pause_ms = 60000; /* unless a test says otherwise nothing is fetched twice */
  in->issuer = script_start(&in->loop, on_issuer, in);
  snprintf(in->issuer_url, sizeof in->issuer_url, "http://127.0.0.1:%d", script_port(in->issuer));
}

static void keep_line(void *ctx, const char *line, size_t len) {
  world *in = ctx;
  size_t at = strlen(in->logged);
  snprintf(in->logged + at, sizeof in->logged - at, "%.*s", (int)len, line);
}

void open_log(world *in) {
  idem_log_opts opts = {.level = IDEM_LOG_WARN, .write = keep_line, .write_ctx = in};
  assert_int_equal(idem_log_new(&opts, &in->log), IDEM_OK);
}

void add_key(world *in, const char *id, const char *algorithm) {
  in->keys[in->key_count++] = jwt_key_new(id, algorithm);
}

void trust_issuer(world *in, idem_http_opts http) {
  idem_http_issuer issuer = {.issuer = in->issuer_url};
  open_server(in, &(idem_http_auth){.issuers = &issuer, .issuer_count = 1}, http);
}

static void open_loops(world *in, idem_http_opts http) {
  open_issuer(in);
  add_key(in, "k1", "ES256");
  trust_issuer(in, http);
}

void open_world(world *in) { open_loops(in, (idem_http_opts){0}); }
void open_several(world *in) { open_loops(in, (idem_http_opts){.workers = 3}); }

idem_listener *open_another(world *in, const idem_http_auth *auth) {
  idem_listener *listener;
  idem_http_opts http = {.auth = auth};
  idem_serve_opts serve = {.server = in->server, .http = &http, .grace_ms = 20};
  assert_int_equal(idem_serve(&in->loop, "http://127.0.0.1:0/mcp", &serve, &listener), IDEM_OK);
  return listener;
}

static void on_another_stopped(void *user) { *(bool *)user = true; }

void stop_another(idem_listener *listener, bool *stopped) {
  idem_listener_stop(listener, on_another_stopped, stopped);
}

static void on_stopped(void *user) { ((world *)user)->stopped = true; }

void close_world(world *in) {
  if (in->listener) idem_listener_stop(in->listener, on_stopped, in);
  while (in->listener && !in->stopped) uv_run(&in->loop, UV_RUN_ONCE);
  idem_server_free(in->server);
  idem_log_free(in->log);
  script_stop(in->issuer);
  uv_run(&in->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&in->loop), 0);
  for (size_t i = 0; i < in->key_count; i++) jwt_key_free(&in->keys[i]);
}

/* -------------------------------------------------------------- the caller */

void on_answer(const idem_fetch_answer *answer, void *user) {
  outcome *out = user;
  bool came = answer->status == IDEM_OK;
  const char *challenge = came ? idem_fetch_header(answer, "WWW-Authenticate") : NULL;
  const char *nonce = came ? idem_fetch_header(answer, "DPoP-Nonce") : NULL;
  out->status = answer->status == IDEM_OK ? answer->http_status : 0;
  snprintf(out->challenge, sizeof out->challenge, "%s", challenge ? challenge : "");
  snprintf(out->nonce, sizeof out->nonce, "%s", nonce ? nonce : "");
  snprintf(out->body, sizeof out->body, "%s",
           answer->status == IDEM_OK ? answer->body : answer->why);
}

static bool on_head(const idem_fetch_answer *answer, void *user) {
  (void)answer;
  ((outcome *)user)->began = true;
  return false;
}

static bool on_data(const char *data, size_t len, void *user) {
  (void)data, (void)len, (void)user;
  return false;
}

static const char call_body[] =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/"
    "call\",\"params\":{\"name\":\"who\",\"_meta\":{"
    "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/"
    "clientCapabilities\":{}}}}";

idem_fetch *send_body(world *in, const char *authorization, const char *method, const char *name,
                      const char *body, outcome *out) {
  static char line[TOKEN + 64], method_line[128], name_line[128], client_line[128];
  static char again_line[TOKEN + 64];
  snprintf(line, sizeof line, "Authorization: %s", authorization ? authorization : "");
  snprintf(method_line, sizeof method_line, "Mcp-Method: %s", method);
  snprintf(name_line, sizeof name_line, "Mcp-Name: %s", name);
  static char proof_lines[2][TOKEN];
  const char *headers[12] = {"Content-Type: application/json",
                             "Accept: application/json, text/event-stream",
                             "MCP-Protocol-Version: 2026-07-28", method_line};
  size_t count = 4;
  if (*name) headers[count++] = name_line;
  if (authorization) headers[count++] = line;
  snprintf(client_line, sizeof client_line, "X-Forwarded-For: %s", in->client ? in->client : "");
  if (in->client) headers[count++] = client_line;
  snprintf(again_line, sizeof again_line, "Authorization: %s", in->again ? in->again : "");
  if (in->again) headers[count++] = again_line;
  for (size_t i = 0; i < 2; i++) {
    snprintf(proof_lines[i], sizeof proof_lines[i], "DPoP: %s", in->proofs[i] ? in->proofs[i] : "");
    if (in->proofs[i]) headers[count++] = proof_lines[i];
  }
  idem_fetch_opts opts = {.method = "POST",
                          .url = in->url,
                          .headers = headers,
                          .body = body,
                          .body_len = strlen(body),
                          .on_head = on_head,
                          .on_data = on_data,
                          .proxy = ""};
  idem_fetch *fetch;
  *out = (outcome){.in = in, .status = -1};
  assert_int_equal(idem_fetch_start(&in->loop, &opts, on_answer, out, &fetch), IDEM_OK);
  return fetch;
}

idem_fetch *send_call(world *in, const char *authorization, outcome *out) {
  return send_body(in, authorization, "tools/call", "who", call_body, out);
}

void wait_for(world *in, const outcome *out) {
  while (out->status == -1) uv_run(&in->loop, UV_RUN_ONCE);
}

void call_with(world *in, const char *token, outcome *out) {
  static char value[TOKEN + 16];
  snprintf(value, sizeof value, "Bearer %s", token);
  send_call(in, value, out);
  wait_for(in, out);
}

int status_of(world *in, const char *token) {
  outcome out;
  call_with(in, token, &out);
  return out.status;
}

const char *claims_of(const world *in, const char *more) {
  static char claims[1024];
  snprintf(claims, sizeof claims,
           "{\"iss\":\"%s\",\"aud\":\"%s\",\"sub\":\"alice\",\"exp\":%lld%s}", in->issuer_url,
           in->url, (long long)time(NULL) + 600, more);
  return claims;
}

const char *token_of(const world *in, const jwt_key *key, const char *more) {
  static char token[TOKEN];
  jwt_make(token, sizeof token, key, claims_of(in, more));
  return token;
}

void expect_bad_token(world *in, const char *what, const char *token) {
  outcome out;
  call_with(in, token, &out);
  if (out.status != 401 || !strstr(out.challenge, "error=\"invalid_token\""))
    fail_msg("%s: %d %s", what, out.status, out.challenge);
}
