/* head.c - judging a complete request head, before its body is read.
 * The order is fixed: syntax, Host, Origin, route, token, method, body's kind and size, then what
 * the route's own rules ask. The first fault decides. See docs/internals/http.md. */
#include "conn.h"

#include <string.h>

static void refuse(idem__http_conn *conn, uint16_t status, int code, const char *reason) {
  conn->refusal = (idem__http_refusal){.status = status, .code = code, .reason = reason};
}

static void refuse_syntax(idem__http_conn *conn) {
  refuse(conn, 400, IDEM_RPC_PARSE_ERROR, NULL);
  conn->refusal.close = true;
}

static void hint(idem__http_conn *conn, const char *flag, idem__view value) {
  size_t len = idem__utf8_cut(value.at, value.len, sizeof conn->refusal.hint_value - 1);
  conn->refusal.hint = flag;
  memcpy(conn->refusal.hint_value, value.at, len);
  conn->refusal.hint_value[len] = 0;
}

static idem__http_method method_of(uint8_t method) {
  switch (method) {
  case HTTP_GET: return IDEM__HTTP_GET;
  case HTTP_HEAD: return IDEM__HTTP_HEAD;
  case HTTP_POST: return IDEM__HTTP_POST;
  case HTTP_DELETE: return IDEM__HTTP_DELETE;
  case HTTP_OPTIONS: return IDEM__HTTP_OPTIONS;
  default: return IDEM__HTTP_OTHER;
  }
}

static void sort_headers(idem__http_request *request) {
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
static bool good_transfer_encoding(const idem__http_request *request) {
  if (!request->known[IDEM__H_TRANSFER_ENCODING]) return true;
  idem__view value = idem__http_known_value(request, IDEM__H_TRANSFER_ENCODING);
  return request->known_count[IDEM__H_TRANSFER_ENCODING] == 1 && request->minor == 1 &&
         idem__view_eq(value, "chunked") && !request->known[IDEM__H_CONTENT_LENGTH];
}

static bool check_syntax(idem__http_conn *conn, idem__http_request *request) {
  if (conn->parser.http_major != 1 || conn->parser.http_minor > 1) {
    refuse_syntax(conn);
    conn->refusal.status = 505;
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
static bool check_share(idem__http_conn *conn) {
  idem__http_server *server = conn->server;
  idem__http_exchange *exchange = &conn->exchange;
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

static bool host_allowed(idem__http_server *server, idem__view host) {
  size_t len = server->good_host_len;
  if (len && len == host.len && memcmp(server->good_host, host.at, len) == 0) return true;
  if (!idem__host_allowed(&server->hosts, host, server->port)) return false;
  if (host.len > sizeof server->good_host) return true;
  memcpy(server->good_host, host.at, host.len);
  server->good_host_len = host.len;
  return true;
}

static bool check_host(idem__http_conn *conn, const idem__http_request *request) {
  idem__http_server *server = conn->server;
  if (!server->check_hosts) return true;
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

static bool check_origin(idem__http_conn *conn, const idem__http_request *request) {
  const idem__http_server *server = conn->server;
  if (!request->known[IDEM__H_ORIGIN]) return true;
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

static const idem__http_route *find_route(const idem__http_server *server, idem__view path) {
  for (size_t i = 0; i < server->route_count; i++) {
    size_t len = strlen(server->routes[i].path);
    if (len == path.len && memcmp(server->routes[i].path, path.at, len) == 0)
      return &server->routes[i];
  }
  return NULL;
}

/* Who opens the bare address in a browser is shown the way. */
static void tell_path(idem__http_conn *conn) {
  const idem__http_server *server = conn->server;
  for (size_t i = 0; i < server->route_count; i++) {
    const char *path = server->routes[i].path;
    if (!server->routes[i].told) continue;
    hint(conn, "the endpoint is", (idem__view){path, strlen(path)});
    return;
  }
}

static bool check_route(idem__http_conn *conn, const idem__http_request *request) {
  conn->exchange.route = find_route(conn->server, request->path);
  if (conn->exchange.route || request->method == IDEM__HTTP_OPTIONS) return true;
  refuse(conn, 404, 0, "unavailable");
  tell_path(conn);
  return false;
}

static bool check_token(idem__http_conn *conn, const idem__http_request *request) {
  idem__http_server *server = conn->server;
  if (!server->token_count || !conn->exchange.route->token) return true;
  bool once = request->known_count[IDEM__H_AUTHORIZATION] == 1;
  idem__view given = idem__http_known_value(request, IDEM__H_AUTHORIZATION);
  const char *const *tokens = (const char *const *)(void *)server->tokens;
  if (once && idem__token_allowed(tokens, server->token_lens, server->token_count, given))
    return true;
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

bool idem__http_take_principal(idem__http_conn *conn, int status, const char *principal) {
  idem__http_server *server = conn->server;
  if (status != 0) {
    idem__metrics_add(server->metrics, IDEM__M_AUTH_FAILURES, 1);
    refuse(conn, (uint16_t)(status >= 400 && status < 600 ? status : 403), 0, "unauthorized");
    return false;
  }
  size_t len = idem__utf8_cut(principal, strlen(principal), IDEM_PRINCIPAL_MAX);
  conn->exchange.principal = idem__strndup(&server->alloc, principal, len);
  if (!conn->exchange.principal) conn->failed = IDEM_E_NOMEM;
  return conn->exchange.principal != NULL;
}

/* The embedder says who it is, that it may not ask, or that it will say so later. */
static bool ask_principal(idem__http_conn *conn, const idem__http_request *request) {
  idem__http_server *server = conn->server;
  char principal[IDEM_PRINCIPAL_MAX + 1] = "";
  idem_http_caller caller = {.conn = conn, .request = request};
  idem__ip_text(&conn->exchange.client, caller.address);
  int status = server->principal(&caller, principal, sizeof principal, server->principal_user);
  principal[IDEM_PRINCIPAL_MAX] = '\0';
  if (status == IDEM_HTTP_LATER && conn->judging) return false;
  idem__http_judge_gone(conn); /* it did not want to wait after all */
  return idem__http_take_principal(conn, status, principal);
}

static bool check_principal(idem__http_conn *conn, const idem__http_request *request) {
  if (!conn->server->principal || !conn->exchange.route->token) return true;
  return ask_principal(conn, request);
}

static bool check_method(idem__http_conn *conn, const idem__http_request *request) {
  const idem__http_route *route = conn->exchange.route;
  unsigned methods = route->methods;
  if (methods & IDEM__HTTP_GET) methods |= IDEM__HTTP_HEAD;
  if (route->upgrade && request->method == IDEM__HTTP_GET && idem__websocket_asked(request)) {
    conn->upgrading = true;
    idem__websocket_check(request, &conn->refusal);
    return !conn->refusal.status;
  }
  if (methods & (unsigned)request->method) return true;
  refuse(conn, 405, 0, "method-not-allowed");
  return false;
}

/* ------------------------------------------------------------------- body */

static const char *type_fault(idem__view value) {
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

static bool check_body(idem__http_conn *conn, const idem__http_request *request) {
  bool long_body = (conn->parser.flags & F_CONTENT_LENGTH) &&
                   conn->parser.content_length > conn->server->body_bytes;
  idem__view encoding = idem__http_known_value(request, IDEM__H_CONTENT_ENCODING);
  const char *fault = NULL;
  if (long_body) {
    refuse(conn, 413, 0, "oversize");
    conn->refusal.close = true;
    return false;
  }
  if (request->method != IDEM__HTTP_POST) return true;
  if (request->known_count[IDEM__H_CONTENT_TYPE] != 1 ||
      (encoding.at && !idem__view_eq(encoding, "identity")))
    fault = "unsupported-content-type";
  else
    fault = type_fault(idem__http_known_value(request, IDEM__H_CONTENT_TYPE));
  if (fault) {
    refuse(conn, 415, 0, fault);
    conn->refusal.hint = "Content-Type: application/json";
  }
  return !fault;
}

static bool check_expect(idem__http_conn *conn, const idem__http_request *request) {
  if (!request->known[IDEM__H_EXPECT] || request->minor == 0) return true;
  if (idem__view_eq(idem__http_known_value(request, IDEM__H_EXPECT), "100-continue")) return true;
  refuse(conn, 417, 0, "unavailable");
  return false;
}

static bool check_rules(idem__http_conn *conn, const idem__http_request *request) {
  const idem__http_rules *rules = conn->exchange.route->rules;
  if (rules && rules->check_head) rules->check_head(request, &conn->refusal, rules->user);
  return !conn->refusal.status;
}

/* ------------------------------------------------------------------ story */

/* Who asks is known: what it asks. */
static bool judge_asked(idem__http_conn *conn, const idem__http_request *request) {
  return check_method(conn, request) && check_body(conn, request) && check_expect(conn, request) &&
         check_rules(conn, request);
}

static bool judge(idem__http_conn *conn, idem__http_request *request) {
  if (!check_syntax(conn, request) || !check_share(conn) || !check_host(conn, request) ||
      !check_origin(conn, request) || !check_route(conn, request))
    return false;
  if (request->method == IDEM__HTTP_OPTIONS) return check_body(conn, request);
  return check_token(conn, request) && check_principal(conn, request) && judge_asked(conn, request);
}

static void invite_body(idem__http_conn *conn, const idem__http_request *request) {
  bool expected = (conn->parser.flags & F_CHUNKED) || conn->parser.content_length > 0;
  if (!request->known[IDEM__H_EXPECT] || request->minor == 0 || !expected) return;
  static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
  if (conn->refusal.status)
    conn->refusal.close = true; /* who was not invited may send its body all the same, or not */
  else
    idem__http_put(conn, text, sizeof text - 1);
}

void idem__http_judge(idem__http_conn *conn, idem__http_request *request) {
  idem__http_exchange *exchange = &conn->exchange;
  request->method = method_of(llhttp_get_method(&conn->parser));
  request->minor = conn->parser.http_minor;
  request->keep_alive = llhttp_should_keep_alive(&conn->parser) != 0;
  request->given = conn->server->given_names;
  sort_headers(request);
  exchange->minor = request->minor;
  exchange->keep_alive = request->keep_alive;
  exchange->head_only = request->method == IDEM__HTTP_HEAD;
  exchange->client = idem__client_address(request, &conn->from, &conn->server->proxies);
  if (conn->server->access_log) idem__http_log_begin(exchange, request);
  judge(conn, request);
  if (!conn->judging) invite_body(conn, request);
}

void idem__http_judge_rest(idem__http_conn *conn, idem__http_request *request) {
  if (!conn->refusal.status) judge_asked(conn, request);
  invite_body(conn, request);
}
