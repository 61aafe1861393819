/* head.c - judging a complete request head, before its body is read.
 * The order is fixed: syntax, Host, Origin, route, token, method, body's kind and size, then what
 * the route's own rules ask. The first fault decides. See docs/internals/http.md. */
#include "conn.h"

#include <string.h>

static void refuse(idem_http_conn *conn, uint16_t status, int code, const char *reason) {
  conn->refusal = (idem__http_refusal){.status = status, .code = code, .reason = reason};
}

static void refuse_syntax(idem_http_conn *conn) {
  refuse(conn, 400, IDEM_RPC_PARSE_ERROR, NULL);
  conn->refusal.close = true;
}

static void hint(idem_http_conn *conn, const char *flag, idem__view value) {
  size_t len = idem_utf8_cut(value.at, value.len, sizeof conn->refusal.hint_value - 1);
  conn->refusal.hint = flag;
  memcpy(conn->refusal.hint_value, value.at, len);
  conn->refusal.hint_value[len] = 0;
}

static idem_http_method method_of(uint8_t method) {
  switch (method) {
  case HTTP_GET: return IDEM_HTTP_GET;
  case HTTP_HEAD: return IDEM_HTTP_HEAD;
  case HTTP_POST: return IDEM_HTTP_POST;
  case HTTP_DELETE: return IDEM_HTTP_DELETE;
  case HTTP_OPTIONS: return IDEM_HTTP_OPTIONS;
  case HTTP_PUT: return IDEM_HTTP_PUT;
  case HTTP_PATCH: return IDEM_HTTP_PATCH;
  default: return IDEM_HTTP_OTHER;
  }
}

static void sort_headers(idem_http_request *request) {
  memset(request->known, 0, sizeof request->known);
  memset(request->known_count, 0, sizeof request->known_count);
  for (size_t i = 0; i < request->header_count; i++) {
    const idem__http_header *header = &request->headers[i];
    idem__http_known which =
        idem__http_known_header(request->given, request->base + header->name, header->name_len);
    request->known[which] = (uint8_t)(i + 1);
    request->known_count[which]++;
  }
}

/* ---------------------------------------------------------------- syntax */

/* Only "chunked", once, and never in HTTP/1.0: two readers must not disagree where a body ends. */
static bool good_transfer_encoding(const idem_http_request *request) {
  if (!request->known[IDEM__H_TRANSFER_ENCODING]) return true;
  idem__view value = idem__http_known_value(request, IDEM__H_TRANSFER_ENCODING);
  return request->known_count[IDEM__H_TRANSFER_ENCODING] == 1 && request->minor == 1 &&
         idem__view_eq(value, "chunked") && !request->known[IDEM__H_CONTENT_LENGTH];
}

static bool check_syntax(idem_http_conn *conn, idem_http_request *request) {
  if (conn->parser.http_major != 1 || conn->parser.http_minor > 1) {
    refuse_syntax(conn);
    conn->refusal.status = 505;
  } else if (request->method == IDEM_HTTP_OTHER) {
    refuse(conn, 501, 0, "method-not-allowed");
    conn->refusal.close = true;
  } else if (!good_transfer_encoding(request) || !idem__http_split_target(request)) {
    refuse_syntax(conn);
  } else if (request->known_count[IDEM__H_CONTENT_LENGTH] > 1) {
    refuse(conn, 400, 0, "bad-content-length");
    conn->refusal.close = true;
  } else if (request->known_count[IDEM__H_HOST] != 1) {
    refuse(conn, 400, 0, "forbidden-host");
    conn->refusal.close = true;
  }
  return !conn->refusal.status;
}

/* ------------------------------------------------------------------ shares */

/* Connections of a proxy are many clients': each may keep so many of them busy. */
static bool check_share(idem_http_conn *conn) {
  idem_http_server *server = conn->server;
  idem_http_exchange *exchange = &conn->exchange;
  if (!server->shares || !idem__http_server_trusts(server, &conn->from)) return true;
  if (idem__http_server_trusts(server, &exchange->client) || idem__ip_loopback(&exchange->client))
    return true;
  exchange->counted = idem__shares_take(server->shares, &exchange->client);
  if (exchange->counted) return true;
  idem__metrics_add(server->metrics, IDEM__M_REFUSED_CONNECTIONS, 1);
  refuse(conn, 503, 0, "unavailable");
  return false;
}

/* ------------------------------------------------------- hosts and origins */

static bool host_allowed(idem_http_server *server, idem__view host) {
  size_t len = server->good_host_len;
  if (len && len == host.len && memcmp(server->good_host, host.at, len) == 0) return true;
  if (!idem__host_allowed(&server->hosts, host, server->port)) return false;
  if (host.len > sizeof server->good_host) return true;
  memcpy(server->good_host, host.at, host.len);
  server->good_host_len = host.len;
  return true;
}

static bool check_host(idem_http_conn *conn, const idem_http_request *request) {
  idem_http_server *server = conn->server;
  const idem__http_route *route = conn->exchange.route;
  if (!server->check_hosts || (route && route->is.any_host)) return true;
  idem__view host = idem__http_known_value(request, IDEM__H_HOST);
  bool named = !request->authority.at ||
               idem__host_allowed(&server->hosts, request->authority, server->port);
  bool allowed = host_allowed(server, host);
  if (named && allowed) return true;
  refuse(conn, named ? 403 : 400, 0, "forbidden-host");
  hint(conn, "--allow-host", named ? host : request->authority);
  conn->refusal.close = !named;
  return false;
}

/* The entry that would allow it; only an application's needs its scheme. */
static idem__view entry_for(idem__view origin) {
  for (size_t i = 0; i + 2 < origin.len; i++)
    if (memcmp(origin.at + i, "://", 3) == 0 && idem__web_scheme((idem__view){origin.at, i}))
      return (idem__view){origin.at + i + 3, origin.len - i - 3};
  return origin;
}

static bool check_origin(idem_http_conn *conn, const idem_http_request *request) {
  const idem_http_server *server = conn->server;
  const idem__http_route *route = conn->exchange.route;
  if (!request->known[IDEM__H_ORIGIN] || (route && route->is.any_origin)) return true;
  idem__view origin = idem__http_known_value(request, IDEM__H_ORIGIN);
  bool once = request->known_count[IDEM__H_ORIGIN] == 1;
  if (once && idem__origin_allowed(&server->origins, origin, server->port)) {
    conn->exchange.origin = idem__strndup(&server->alloc, origin.at, origin.len);
    if (!conn->exchange.origin) conn->failed = IDEM_E_NOMEM;
    return conn->exchange.origin != NULL;
  }
  refuse(conn, 403, 0, "forbidden-origin");
  if (once && !idem__view_eq(origin, "null")) hint(conn, "--allow-origin", entry_for(origin));
  return false;
}

/* ---------------------------------------------------------- route and token */

/* Who opens the bare address in a browser is shown the way. */
static void tell_path(idem_http_conn *conn) {
  const idem__http_route *route = idem__http_told_route(conn->server);
  if (route) hint(conn, "the endpoint is", (idem__view){route->is.path, route->path_len});
}

static bool check_route(idem_http_conn *conn, const idem_http_request *request) {
  if (conn->exchange.route || request->method == IDEM_HTTP_OPTIONS) return true;
  refuse(conn, 404, 0, "unavailable");
  conn->refusal.cause = "there is nothing at this path";
  conn->refusal.looked = true;
  tell_path(conn);
  return false;
}

/* Tokens and principal function of the route's own stand alone. */
static bool has_own_checks(const idem__http_route *route) {
  return route->tokens.count || route->is.principal;
}

/* Whose of two would count? A request that shows two is malformed (RFC 9110, 5.3; RFC 6750, 3.1). A judge says so itself. */
static bool refuse_two(idem_http_conn *conn) {
  const idem_http_server *server = conn->server;
  static const char challenge[] = "Bearer error=\"invalid_request\"";
  idem__metrics_add(server->metrics, IDEM__M_AUTH_FAILURES, 1);
  refuse(conn, 400, 0, IDEM__HTTP_TWO_CREDENTIALS);
  conn->refusal.hint = "one Authorization header";
  if (conn->exchange.route->is.challenge || server->challenge) return false; /* another scheme */
  conn->exchange.challenge = idem__strndup(&server->alloc, challenge, sizeof challenge - 1);
  if (!conn->exchange.challenge) conn->failed = IDEM_E_NOMEM;
  return false;
}

static bool check_token(idem_http_conn *conn, const idem_http_request *request) {
  const idem_http_server *server = conn->server;
  const idem__http_route *route = conn->exchange.route;
  const idem__token_list *tokens = has_own_checks(route) ? &route->tokens : &server->tokens;
  if (!tokens->count || route->is.no_token) return true;
  bool once = request->known_count[IDEM__H_AUTHORIZATION] == 1;
  idem__view given = idem__http_known_value(request, IDEM__H_AUTHORIZATION);
  conn->exchange.trusted = once && idem__token_allowed(tokens, given);
  if (conn->exchange.trusted) return true;
  if (server->judge && tokens == &server->tokens) return true; /* it may be one of the other kind */
  if (request->known_count[IDEM__H_AUTHORIZATION] > 1) return refuse_two(conn);
  idem__metrics_add(server->metrics, IDEM__M_AUTH_FAILURES, 1);
  refuse(conn, 401, 0, "unauthorized");
  return false;
}

const char *idem_http_caller_header(const idem_http_caller *caller, const char *name, size_t *len) {
  idem__view value = idem__http_header_value(caller->request, name);
  *len = value.len;
  return value.at;
}

const char *idem_http_caller_address(const idem_http_caller *caller) { return caller->address; }

idem__view idem__http_caller_authorization(const idem_http_caller *caller) {
  bool once = caller->request->known_count[IDEM__H_AUTHORIZATION] == 1;
  return once ? idem__http_known_value(caller->request, IDEM__H_AUTHORIZATION)
              : (idem__view){NULL, 0};
}

const idem__ip *idem__http_caller_client(const idem_http_caller *caller) {
  return &caller->conn->exchange.client;
}

const char *idem__http_caller_method(const idem_http_caller *caller) {
  return llhttp_method_name((llhttp_method_t)llhttp_get_method(&caller->conn->parser));
}

idem__view idem__http_caller_path(const idem_http_caller *caller) { return caller->request->path; }

size_t idem__http_caller_count(const idem_http_caller *caller, const char *name) {
  const idem_http_request *request = caller->request;
  size_t count = 0, len = strlen(name);
  for (size_t i = 0; i < request->header_count; i++) {
    const idem__http_header *header = &request->headers[i];
    count += idem__text_equal_nocase(request->base + header->name, header->name_len, name, len);
  }
  return count;
}

static const char *judged_reason(const idem__http_judgment *verdict, int status) {
  if (verdict->reason) return verdict->reason;
  if (status == 429) return "rate-limited";
  return status < 500 ? "unauthorized" : "unavailable";
}

static bool refuse_judged(idem_http_conn *conn, const idem__http_judgment *verdict) {
  const idem_http_server *server = conn->server;
  int status = verdict->status >= 400 && verdict->status < 600 ? verdict->status : 403;
  idem__metrics_add(server->metrics, IDEM__M_AUTH_FAILURES, 1);
  refuse(conn, (uint16_t)status, 0, judged_reason(verdict, status));
  conn->refusal.hint = verdict->why;
  if (!verdict->challenge) return false;
  conn->exchange.challenge =
      idem__strndup(&server->alloc, verdict->challenge, strlen(verdict->challenge));
  if (!conn->exchange.challenge) conn->failed = IDEM_E_NOMEM;
  return false;
}

static bool take_lines(idem_http_conn *conn, const char *lines) {
  if (!lines) return true;
  conn->exchange.judge_lines = idem__strndup(&conn->server->alloc, lines, strlen(lines));
  if (!conn->exchange.judge_lines) conn->failed = IDEM_E_NOMEM;
  return conn->exchange.judge_lines != NULL;
}

bool idem__http_take_judgment(idem_http_conn *conn, const idem__http_judgment *verdict) {
  const char *principal = verdict->principal ? verdict->principal : "";
  if (!take_lines(conn, verdict->headers)) return false;
  if (verdict->status != 0) return refuse_judged(conn, verdict);
  size_t len = idem_utf8_cut(principal, strlen(principal), IDEM_PRINCIPAL_MAX);
  conn->exchange.principal = idem__strndup(&conn->server->alloc, principal, len);
  if (!conn->exchange.principal) conn->failed = IDEM_E_NOMEM;
  if (conn->exchange.principal) conn->exchange.grant = idem__grant_ref(verdict->grant);
  return conn->exchange.principal != NULL;
}

/* The embedder says who it is, that it may not ask, or that it will say so later. */
static bool ask_principal(idem_http_conn *conn, const idem_http_request *request,
                          idem_http_principal_fn fn, void *user) {
  char principal[IDEM_PRINCIPAL_MAX + 1] = "";
  idem_http_caller caller = {.conn = conn, .request = request};
  idem__ip_text(&conn->exchange.client, caller.address);
  int status = fn(&caller, principal, sizeof principal, user);
  principal[IDEM_PRINCIPAL_MAX] = '\0';
  if (status == IDEM_HTTP_LATER && conn->judging) return false;
  idem__http_judge_gone(conn); /* it did not want to wait after all */
  return idem__http_take_judgment(conn,
                                  &(idem__http_judgment){.status = status, .principal = principal});
}

static bool ask_judge(idem_http_conn *conn, const idem_http_request *request) {
  const idem_http_server *server = conn->server;
  idem_http_caller caller = {.conn = conn, .request = request};
  idem__http_judgment verdict = {.status = 403};
  server->judge(&caller, &verdict, server->judge_user);
  if (verdict.status == IDEM_HTTP_LATER && conn->judging) return false;
  idem__http_judge_gone(conn);
  return idem__http_take_judgment(conn, &verdict);
}

static bool check_principal(idem_http_conn *conn, const idem_http_request *request) {
  const idem_http_server *server = conn->server;
  const idem__http_route *route = conn->exchange.route;
  bool own = has_own_checks(route);
  idem_http_principal_fn fn = own ? route->is.principal : server->principal;
  if (route->is.no_token) return true;
  if (server->judge && !own) return conn->exchange.trusted || ask_judge(conn, request);
  if (!fn) return true;
  if (request->known_count[IDEM__H_AUTHORIZATION] > 1) return refuse_two(conn);
  return ask_principal(conn, request, fn, own ? route->is.principal_user : server->principal_user);
}

static bool check_method(idem_http_conn *conn, const idem_http_request *request) {
  const idem__http_route *route = conn->exchange.route;
  if (route->binding.upgrade && request->method == IDEM_HTTP_GET &&
      idem__websocket_asked(request)) {
    conn->upgrading = true;
    idem__websocket_check(request, &conn->refusal);
    return !conn->refusal.status;
  }
  if (route->methods & (unsigned)request->method) return true;
  refuse(conn, 405, 0, "method-not-allowed");
  if (!conn->exchange.route->binding.told) tell_path(conn);
  return false;
}

/* ------------------------------------------------------------------- body */

static const char *json_fault(idem__view value) {
  if (idem__view_eq(value, "application/json")) return NULL; /* nearly always */
  const char *semicolon = value.len ? memchr(value.at, ';', value.len) : NULL;
  size_t len = semicolon ? (size_t)(semicolon - value.at) : value.len;
  idem__view type = idem__view_trim((idem__view){value.at, len});
  if (!idem__view_eq(type, "application/json")) return "unsupported-content-type";
  while (semicolon) {
    idem__view rest = {semicolon + 1, value.len - (size_t)(semicolon - value.at) - 1};
    semicolon = rest.len ? memchr(rest.at, ';', rest.len) : NULL;
    if (semicolon) rest.len = (size_t)(semicolon - rest.at);
    rest = idem__view_trim(rest);
    if (rest.len < 8 || !idem__text_equal_nocase(rest.at, 8, "charset=", 8)) continue;
    idem__view charset = {rest.at + 8, rest.len - 8};
    if (charset.len > 1 && charset.at[0] == '"' && charset.at[charset.len - 1] == '"')
      charset.at++, charset.len -= 2;
    if (!idem__view_eq(charset, "utf-8") && !idem__view_eq(charset, "utf8")) return "bad-charset";
  }
  return NULL;
}

/* Of the types that a route takes instead of JSON. */
static const char *type_fault(const char *const *types, idem__view value) {
  const char *semicolon = value.len ? memchr(value.at, ';', value.len) : NULL;
  if (semicolon) value.len = (size_t)(semicolon - value.at);
  value = idem__view_trim(value);
  for (; *types; types++)
    if (strcmp(*types, "*") == 0 || idem__view_is(value, *types, strlen(*types))) return NULL;
  return "unsupported-content-type";
}

static const char *body_fault(const idem__http_route *route, const idem_http_request *request) {
  idem__view encoding = idem__http_known_value(request, IDEM__H_CONTENT_ENCODING);
  idem__view type = idem__http_known_value(request, IDEM__H_CONTENT_TYPE);
  if (encoding.at && !idem__view_eq(encoding, "identity")) return "unsupported-content-type";
  if (route && route->is.types) return type_fault(route->is.types, type);
  if (request->known_count[IDEM__H_CONTENT_TYPE] != 1) return "unsupported-content-type";
  return json_fault(type);
}

static void hint_type(idem_http_conn *conn, const idem__http_route *route) {
  const char *const *types = route ? route->is.types : NULL;
  if (!types)
    conn->refusal.hint = "Content-Type: application/json";
  else if (*types)
    hint(conn, "Content-Type:", (idem__view){*types, strlen(*types)});
}

static bool check_body(idem_http_conn *conn, const idem_http_request *request) {
  const unsigned with_body = IDEM_HTTP_POST | IDEM_HTTP_PUT | IDEM_HTTP_PATCH;
  const idem__http_route *route = conn->exchange.route;
  bool long_body = (conn->parser.flags & F_CONTENT_LENGTH) &&
                   conn->parser.content_length > idem__http_body_most(conn);
  if (long_body) {
    refuse(conn, 413, 0, "oversize");
    conn->refusal.close = true;
    return false;
  }
  if (!((unsigned)request->method & with_body)) return true;
  const char *fault = body_fault(route, request);
  if (fault) {
    refuse(conn, 415, 0, fault);
    hint_type(conn, route);
  }
  return !fault;
}

static bool check_expect(idem_http_conn *conn, const idem_http_request *request) {
  if (!request->known[IDEM__H_EXPECT] || request->minor == 0) return true;
  if (idem__view_eq(idem__http_known_value(request, IDEM__H_EXPECT), "100-continue")) return true;
  refuse(conn, 417, 0, "unavailable");
  return false;
}

static bool check_rules(idem_http_conn *conn, const idem_http_request *request) {
  const idem__http_rules *rules = conn->exchange.route->binding.rules;
  if (rules && rules->check_head) rules->check_head(request, &conn->refusal, rules->user);
  return !conn->refusal.status;
}

/* ------------------------------------------------------------------ story */

/* Who asks is known: what it asks. */
static bool judge_asked(idem_http_conn *conn, const idem_http_request *request) {
  return check_method(conn, request) && check_body(conn, request) && check_expect(conn, request) &&
         check_rules(conn, request);
}

static bool judge(idem_http_conn *conn, idem_http_request *request) {
  if (!check_syntax(conn, request)) return false;
  conn->exchange.route = idem__http_find_route(conn->server, request->path);
  if (!check_share(conn) || !check_host(conn, request) || !check_origin(conn, request) ||
      !check_route(conn, request))
    return false;
  if (request->method == IDEM_HTTP_OPTIONS) return check_body(conn, request);
  return check_token(conn, request) && check_principal(conn, request) && judge_asked(conn, request);
}

static void invite_body(idem_http_conn *conn, const idem_http_request *request) {
  bool expected = (conn->parser.flags & F_CHUNKED) || conn->parser.content_length > 0;
  if (!request->known[IDEM__H_EXPECT] || request->minor == 0 || !expected) return;
  static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
  if (conn->refusal.status)
    conn->refusal.close = true; /* who was not invited may send its body all the same, or not */
  else
    idem__http_put(conn, text, sizeof text - 1);
}

void idem__http_judge(idem_http_conn *conn, idem_http_request *request) {
  idem_http_exchange *exchange = &conn->exchange;
  request->method = method_of(llhttp_get_method(&conn->parser));
  request->minor = conn->parser.http_minor;
  request->keep_alive = llhttp_should_keep_alive(&conn->parser) != 0;
  request->given = conn->server->given_names;
  sort_headers(request);
  exchange->minor = request->minor;
  exchange->trusted = false;
  exchange->keep_alive = request->keep_alive && !conn->final;
  exchange->head_only = request->method == IDEM_HTTP_HEAD;
  exchange->client = idem__client_address(request, &conn->from, &conn->server->proxies);
  if (conn->server->access_log) idem__http_log_begin(exchange, request);
  judge(conn, request);
  if (!conn->judging) invite_body(conn, request);
}

void idem__http_judge_rest(idem_http_conn *conn, idem_http_request *request) {
  if (!conn->refusal.status) judge_asked(conn, request);
  invite_body(conn, request);
}
