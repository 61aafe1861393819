/* flow_play.h - servers that are a table of answers, for tests of a client on its way to a token. */
#ifndef IDEM_TESTS_FLOW_PLAY_H
#define IDEM_TESTS_FLOW_PLAY_H

#include "auth/auth.h"
#include "support/unit.h"

#include <stdio.h>

#define URL "https://mcp.example/mcp"
#define AS "https://as.example"
#define METADATA "https://mcp.example/.well-known/oauth-protected-resource"

static uint64_t now;
static unsigned dice;

static inline void roll(void *bytes, size_t len, void *user) {
  (void)user;
  memset(bytes, (int)++dice, len);
}
static inline uint64_t clock_s(void *user) {
  (void)user;
  return now;
}

static inline idem_status sign(const char *claims, size_t len, idem_buf *out, void *user) {
  (void)user;
  return idem_buf_printf(out, "signed.%.*s", (int)len, claims);
}

static inline idem__auth_opts options(idem__auth_grant grant) {
  return (idem__auth_opts){.url = URL,
                           .grant = grant,
                           .redirect_uri = "http://127.0.0.1:7/callback",
                           .random = roll,
                           .now_s = clock_s};
}

static inline idem__auth_flow *start(const idem__auth_opts *opts) {
  idem__auth_flow *flow;
  now = 1000;
  dice = 0;
  assert_int_equal(idem__auth_flow_new(opts, &flow), IDEM_OK);
  assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_IDLE);
  return flow;
}

static inline void refuse_with(idem__auth_flow *flow, int status, const char *header, bool first) {
  idem_alloc alloc = idem__alloc_or_default(NULL);
  idem__auth_challenge challenge = {.bearer = false};
  idem__auth_challenge_read(&alloc, header, strlen(header), &challenge);
  idem__auth_refused(flow, status, &challenge, first);
  idem__auth_challenge_deinit(&alloc, &challenge);
}

static const char resource_document[] = "{\"resource\":\"" URL "\",\"authorization_servers\":[\"" AS
                                        "\"],\"scopes_supported\":[\"r\",\"w\"]}";
static const char server_document[] =
    "{\"issuer\":\"" AS "\",\"authorization_endpoint\":\"" AS
    "/authorize\",\"token_endpoint\":\"" AS "/token\",\"registration_endpoint\":\"" AS
    "/register\",\"device_authorization_endpoint\":\"" AS
    "/device\",\"code_challenge_methods_supported\":[\"S256\"],"
    "\"token_endpoint_auth_methods_supported\":[\"none\",\"client_secret_basic\",\"private_key_"
    "jwt\"],"
    "\"authorization_response_iss_parameter_supported\":true,"
    "\"client_id_metadata_document_supported\":true,\"scopes_supported\":[\"offline_access\"]}";
static const char token_document[] = "{\"access_token\":\"T1\",\"token_type\":\"bearer\",\"expires_"
                                     "in\":60,\"refresh_token\":\"R1\"}";

/* The next thing is to ask `url`; it is answered. */
static inline void answer(idem__auth_flow *flow, const char *url, int status, const char *body) {
  const idem__auth_step *step = idem__auth_step_of(flow);
  if (step->want != IDEM__AUTH_FETCH || strcmp(step->url, url) != 0)
    fail_msg("wants %d %s %s", (int)step->want, step->url ? step->url : "",
             step->why ? step->why : "");
  idem__auth_fetched(flow, status, body, strlen(body));
}

static inline void find_servers(idem__auth_flow *flow) {
  answer(flow, METADATA "/mcp", 200, resource_document);
  answer(flow, AS "/.well-known/oauth-authorization-server", 200, server_document);
}

#define NEW "https://new.example"

/* The server names another authorization server, with these members of its metadata beside the necessary ones. */
static inline void find_new_server(idem__auth_flow *flow, const char *more) {
  char document[512];
  answer(flow, METADATA "/mcp", 200,
         "{\"resource\":\"" URL "\",\"authorization_servers\":[\"" NEW "\"]}");
  snprintf(document, sizeof document,
           "{\"issuer\":\"" NEW "\",\"authorization_endpoint\":\"" NEW
           "/a\",\"token_endpoint\":\"" NEW
           "/t\",\"code_challenge_methods_supported\":[\"S256\"]%s}",
           more);
  answer(flow, NEW "/.well-known/oauth-authorization-server", 200, document);
}

/* A flow that was refused with 401 and a plain challenge; and has found its authorization server. */
static inline idem__auth_flow *start_refused(const idem__auth_opts *opts) {
  idem__auth_flow *flow = start(opts);
  refuse_with(flow, 401, "Bearer", true);
  return flow;
}
static inline idem__auth_flow *start_found(const idem__auth_opts *opts) {
  idem__auth_flow *flow = start_refused(opts);
  find_servers(flow);
  return flow;
}

static inline void expect_form(const idem__auth_flow *flow, const char *part) {
  const char *form = idem__auth_step_of(flow)->form;
  if (!form || !strstr(form, part)) fail_msg("\"%s\" is not in \"%s\"", part, form ? form : "");
}

static inline void expect_failed(idem__auth_flow *flow, const char *part) {
  const idem__auth_step *step = idem__auth_step_of(flow);
  assert_int_equal(step->want, IDEM__AUTH_FAILED);
  if (!strstr(step->why, part)) fail_msg("\"%s\" is not in \"%s\"", part, step->why);
  idem__auth_flow_free(flow);
}

static inline void take_token(idem__auth_flow *flow) {
  answer(flow, AS "/token", 200, token_document);
  assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_DONE);
  assert_string_equal(idem__auth_authorization(flow), "Bearer T1");
  assert_int_equal(idem__auth_expires(flow), now + 60);
}

/* Through registration to the browser. */
static inline idem__auth_flow *to_browser(const char *header) {
  idem__auth_opts opts = options(IDEM__AUTH_CODE);
  opts.refresh = true;
  idem__auth_flow *flow = start(&opts);
  refuse_with(flow, 401, header, true);
  find_servers(flow);
  const char *json = idem__auth_step_of(flow)->json;
  assert_non_null(strstr(json, "\"application_type\":\"native\""));
  assert_non_null(strstr(json, "\"refresh_token\""));
  answer(flow, AS "/register", 201, "{\"client_id\":\"c 1\"}");
  assert_int_equal(idem__auth_step_of(flow)->want, IDEM__AUTH_BROWSE);
  return flow;
}

static char state_text[64];

/* The state that the authorization URL carries. */
static inline const char *state_of(const idem__auth_flow *flow) {
  const char *at = strstr(idem__auth_step_of(flow)->url, "&state=");
  assert_non_null(at);
  snprintf(state_text, sizeof state_text, "%.*s", (int)strcspn(at + 7, "&"), at + 7);
  return state_text;
}

static inline void come_back(idem__auth_flow *flow, const char *rest) {
  char query[256];
  snprintf(query, sizeof query, "state=%s%s", state_of(flow), rest);
  idem__auth_redirected(flow, query, strlen(query));
}

#define ISS "&iss=https%3A%2F%2Fas.example"

/* ... and from there to a token. */
static inline idem__auth_flow *logged_in(const char *header) {
  idem__auth_flow *flow = to_browser(header);
  come_back(flow, "&code=C" ISS);
  take_token(flow);
  return flow;
}

#endif
