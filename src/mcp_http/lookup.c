/* lookup.c - GET and DELETE, which name a session: it is looked for, now or later, and then listened to or
 * ended. A lookup goes with its peer. */
#include "mcp_http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct lookup {
  idem__mcp_endpoint *endpoint;
  idem_http_exchange *exchange;
  bool ends;    /* DELETE */
  bool resumes; /* Last-Event-ID names an event, or what is none */
  bool known_event;
  uint32_t stream, after;
  idem__http_session *session; /* counted; NULL: not found yet */
  idem__session_finding finding;
  idem__session_removing removing;
  idem__session_reading newest;
  char principal[IDEM__PRINCIPAL];
} lookup;

static void refuse(idem_http_exchange *exchange, uint16_t status, const char *reason,
                   const char *headers) {
  idem__http_refuse(exchange, &(idem__http_refusal){.status = status, .reason = reason}, headers);
}

/* What was to be known is no longer wanted. */
static void end_lookup(lookup *one) {
  idem__store_forget(one->finding.pending);
  idem__store_forget(one->removing.pending);
  idem__store_forget(one->newest.pending);
  if (one->session) idem__http_session_unref(one->session);
  idem__free(&one->endpoint->alloc, one);
}

static void refuse_lookup(lookup *one, uint16_t status, const char *reason) {
  idem_http_exchange *exchange = one->exchange;
  end_lookup(one);
  refuse(exchange, status, reason, status == 503 ? "Retry-After: 1\r\n" : NULL);
}

static void on_abort(idem_http_exchange *exchange, void *user) {
  (void)exchange;
  end_lookup(user);
}

static void on_stop(void *user, bool now) {
  if (now) refuse_lookup(user, 503, "unavailable");
}

/* -------------------------------------------------------------------- DELETE */

static void on_removed(idem_status status, void *user) {
  lookup *one = user;
  idem_http_exchange *exchange = one->exchange;
  idem_server *server = one->endpoint->worker->server;
  if (status != IDEM_OK) {
    refuse_lookup(one, 503, "unavailable");
    return;
  }
  end_lookup(one);
  idem__http_respond(exchange, &(idem__http_answer){.status = 204});
  idem__server_wake(server); /* its streams notice */
}

static void remove_session(lookup *one) {
  one->removing =
      (idem__session_removing){.session = one->session, .removed = on_removed, .user = one};
  idem__http_session_remove(one->endpoint->queue, &one->removing);
}

/* ----------------------------------------------------------------------- GET */

/* The stream's from now on. */
static void open_stream(lookup *one) {
  idem__http_session *session = one->session;
  lookup copy = *one;
  one->session = NULL;
  end_lookup(one);
  idem__get_stream_open(copy.endpoint, copy.exchange, session, copy.stream, copy.after, NULL);
}

/* A new stream begins now. */
static void on_newest(idem_status status, void *user) {
  lookup *one = user;
  one->after = one->newest.newest;
  if (status == IDEM_OK)
    open_stream(one);
  else
    refuse_lookup(one, status == IDEM_E_NOTFOUND ? 404 : 503,
                  status == IDEM_E_NOTFOUND ? "not-initialized" : "unavailable");
}

static void listen_to(lookup *one) {
  idem_http_exchange *exchange = one->exchange;
  if (one->resumes && !one->known_event) {
    refuse_lookup(one, 400, "unavailable"); /* there are no such events */
  } else if (idem__http_head_of_events(exchange)) {
    end_lookup(one);
  } else if (one->resumes) {
    open_stream(one);
  } else {
    one->newest = (idem__session_reading){
        .session = one->session, .queue = one->endpoint->queue, .newest_alone = true};
    one->newest.read = on_newest;
    one->newest.user = one;
    idem__http_session_read(&one->newest);
  }
}

/* ------------------------------------------------------------------- finding */

static void on_found(idem__http_session *session, idem_status status, void *user) {
  lookup *one = user;
  one->session = session;
  if (status == IDEM_E_NOTFOUND)
    refuse_lookup(one, 404, "not-initialized");
  else if (!session)
    refuse_lookup(one, 503, "unavailable");
  else if (one->ends)
    remove_session(one);
  else
    listen_to(one);
}

/* "stream-sequence", both in hexadecimal, spelled as we do: one event has one id. */
static bool read_event_id(idem__view id, uint32_t *stream, uint32_t *sequence) {
  char copy[32], again[32], *end;
  if (!id.at || id.len >= sizeof copy) return false;
  memcpy(copy, id.at, id.len);
  copy[id.len] = '\0';
  if (strspn(copy, "0123456789abcdef-") != id.len) return false;
  unsigned long first = strtoul(copy, &end, 16);
  if (*end != '-') return false;
  unsigned long second = strtoul(end + 1, &end, 16);
  if (first > UINT32_MAX || second > UINT32_MAX) return false;
  snprintf(again, sizeof again, "%lx-%lx", first, second);
  if (strcmp(copy, again) != 0) return false;
  *stream = (uint32_t)first;
  *sequence = (uint32_t)second;
  return true;
}

/* False: it was refused. */
static bool check(idem__mcp_endpoint *endpoint, idem_http_exchange *exchange,
                  const idem_http_request *request) {
  idem__view id = idem__http_given_value(request, IDEM__MCP_H_SESSION);
  idem__view version = idem__http_given_value(request, IDEM__MCP_H_VERSION);
  const idem__revision *named = version.at ? idem__revision_find(version.at, version.len) : NULL;
  bool legacy = idem__revision_legacy(endpoint->worker->server->opts.revisions) != NULL;
  static const idem__http_refusal no_session = {
      .status = 400, .reason = "not-initialized", .hint = "this URL is for an MCP client"};
  if (request->method != IDEM_HTTP_DELETE && !idem__http_accepts(request, "text/event-stream"))
    refuse(exchange, 406, "method-not-allowed", NULL);
  else if (!legacy || (named && idem__revision_has(named, IDEM__R_MODERN)))
    refuse(exchange, 405, "method-not-allowed", "Allow: POST\r\n");
  else if (version.at && !named)
    refuse(exchange, 400, "bad-version", NULL);
  else if (!id.at)
    idem__http_refuse(exchange, &no_session, NULL);
  else
    return true;
  return false;
}

/* What the head says; the request is lent. */
static void read_head(lookup *one, const idem_http_request *request) {
  idem__view last = idem__http_header_value(request, "last-event-id");
  one->ends = request->method == IDEM_HTTP_DELETE;
  one->resumes = request->known[IDEM__H_LAST_EVENT_ID] != 0;
  one->known_event = read_event_id(last, &one->stream, &one->after);
  idem__mcp_principal(idem__http_exchange_conn(one->exchange), request, one->principal);
}

void idem__mcp_lookup(idem__mcp_endpoint *endpoint, idem_http_exchange *exchange,
                      const idem_http_request *request) {
  if (!check(endpoint, exchange, request)) return;
  lookup *one = idem__calloc(&endpoint->alloc, sizeof *one);
  if (!one) {
    refuse(exchange, 503, "unavailable", NULL);
    return;
  }
  one->endpoint = endpoint;
  one->exchange = exchange;
  read_head(one, request);
  one->finding = (idem__session_finding){.table = endpoint->table, .queue = endpoint->queue};
  one->finding.principal = one->principal;
  one->finding.found = on_found;
  one->finding.user = one;
  idem__http_on_abort(exchange, on_abort, one);
  idem__http_conn_on_stop(idem__http_exchange_conn(exchange), on_stop, one);
  idem__http_session_find(&one->finding, idem__http_given_value(request, IDEM__MCP_H_SESSION),
                          idem__http_exchange_now(exchange));
}
