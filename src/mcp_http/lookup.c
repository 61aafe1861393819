/* lookup.c - GET and DELETE, which name a session: it is looked for, now or later, and then listened to or
 * ended. A lookup goes with its peer. */
#include "get_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct lookup {
  idem__mcp_endpoint *endpoint;
  idem_http_exchange *exchange;
  bool ends;    /* DELETE */
  bool resumes; /* Last-Event-ID names an event, or what is none */
  bool known_event;
  uint64_t stream;
  uint32_t after;
  idem__http_session *session; /* counted; NULL: not found yet */
  idem__session_finding finding;
  idem__session_removing removing;
  idem__session_reading newest;
  idem__stream_owner owner;
  struct claiming *claiming; /* its session is being told that it listens here; NULL: it is not */
  bool missed;               /* the node where it did before is dead */
  bool over;                 /* the log has the last event of its stream */
  char principal[IDEM__PRINCIPAL];
} lookup;

/* Outlives a lookup that goes. */
typedef struct claiming {
  idem_alloc alloc;
  lookup *one; /* NULL: nobody waits any more */
  idem__mcp_endpoint *endpoint;
  idem__http_session *session;      /* counted */
  char listener[IDEM__NODE_ID + 1]; /* the node where it listened before */
} claiming;

static void refuse(idem_http_exchange *exchange, uint16_t status, const char *reason,
                   const char *headers) {
  idem__http_refuse(exchange, &(idem__http_refusal){.status = status, .reason = reason}, headers);
}

/* What was to be known is no longer wanted. */
static void end_lookup(lookup *one) {
  idem__store_forget(one->finding.pending);
  idem__store_forget(one->removing.pending);
  idem__store_forget(one->newest.pending);
  idem__stream_owner_forget(&one->owner);
  if (one->claiming) one->claiming->one = NULL;
  if (one->session) idem__http_session_unref(one->session);
  idem__free(&one->endpoint->alloc, one);
}

/* A set of codes of its own has a number for who has no session. */
static void refuse_unknown(const idem__mcp_endpoint *endpoint, idem_http_exchange *exchange) {
  bool own = endpoint->worker->server->opts.codes == IDEM_CODES_ERLMCP;
  idem__http_refuse(exchange,
                    &(idem__http_refusal){.status = 404,
                                          .code = own ? -32005 : 0,
                                          .reason = "unknown-session",
                                          .cause = "the session is unknown or has ended",
                                          .hint = "initialize again"},
                    NULL);
}

static void refuse_lookup_unknown(lookup *one) {
  const idem__mcp_endpoint *endpoint = one->endpoint;
  idem_http_exchange *exchange = one->exchange;
  end_lookup(one);
  refuse_unknown(endpoint, exchange);
}

static void refuse_lookup(lookup *one, uint16_t status, const char *reason) {
  idem_http_exchange *exchange = one->exchange;
  end_lookup(one);
  refuse(exchange, status, reason, NULL);
}

static void refuse_lookup_away(lookup *one) {
  idem_http_exchange *exchange = one->exchange;
  end_lookup(one);
  idem__http_refuse(exchange, &idem__mcp_store_away, NULL);
}

static void on_abort(idem_http_exchange *exchange, void *user) {
  (void)exchange;
  end_lookup(user);
}

static void on_stop(void *user, idem__http_stop how) {
  if (how == IDEM__HTTP_STOP_NOW) refuse_lookup(user, 503, "unavailable");
}

/* -------------------------------------------------------------------- DELETE */

static void on_removed(idem_status status, void *user) {
  lookup *one = user;
  idem_http_exchange *exchange = one->exchange;
  idem_server *server = one->endpoint->worker->server;
  if (status != IDEM_OK) {
    refuse_lookup_away(one);
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
  if (copy.missed) idem__http_session_ref(session);
  end_lookup(one);
  idem__get_stream_open(
      copy.endpoint, copy.exchange,
      &(idem__get_stream_place){
          .session = session, .stream = copy.stream, .after = copy.after, .over = copy.over});
  if (!copy.missed) return;
  idem__http_session_remind(session);
  idem__http_session_unref(session);
}

/* A new stream begins now. */
static void on_newest(idem_status status, void *user) {
  lookup *one = user;
  one->after = one->newest.newest;
  if (status == IDEM_OK)
    open_stream(one);
  else if (status == IDEM_E_NOTFOUND)
    refuse_lookup_unknown(one);
  else
    refuse_lookup_away(one);
}

static void begin_stream(lookup *one) {
  if (one->resumes) {
    open_stream(one);
  } else {
    one->newest = (idem__session_reading){
        .session = one->session, .queue = one->endpoint->queue, .newest_alone = true};
    one->newest.read = on_newest;
    one->newest.user = one;
    idem__http_session_read(&one->newest);
  }
}

/* Who takes a stream up on which nobody will say anything must not wait for it. */
static void on_owner_known(idem__owner_end end, void *user) {
  lookup *one = user;
  one->over = end == IDEM__OWNER_ENDED;
  if (end == IDEM__OWNER_LOST)
    refuse_lookup(one, 400, "unavailable"); /* there is no such stream any more */
  else if (end == IDEM__OWNER_UNKNOWN)
    refuse_lookup_away(one);
  else
    open_stream(one);
}

static void ask_owner(lookup *one) {
  one->owner = (idem__stream_owner){.endpoint = one->endpoint,
                                    .session = one->session,
                                    .stream = one->stream,
                                    .known = on_owner_known,
                                    .user = one};
  idem__stream_owner_ask(&one->owner);
}

static lookup *end_claiming(claiming *self) {
  lookup *one = self->one;
  idem_alloc alloc = self->alloc;
  idem__http_session_unref(self->session);
  idem__free(&alloc, self);
  if (one) one->claiming = NULL;
  return one;
}

/* Where nobody knows whether it lives it is taken for dead: then the client looks once too often. One whose record is there may have died
 * all the same, within its lease. */
static void on_listener_known(const idem__store_answer *answer, void *user) {
  claiming *self = user;
  bool dead = answer->status != IDEM_OK;
  if (!dead || !self->one) idem__http_session_doubt(self->session, dead ? "" : self->listener);
  lookup *one = end_claiming(self);
  if (!one) return;
  one->missed = dead;
  begin_stream(one);
}

/* From now on we keep what is told. Until now the node before us did, unless it is dead. */
static void on_claimed(idem_status status, void *user) {
  claiming *self = user;
  if (status == IDEM_OK && self->listener[0]) {
    const idem__mcp_endpoint *endpoint = self->endpoint;
    idem__node_find(endpoint->worker->server, endpoint->queue, self->listener, on_listener_known,
                    self);
    return;
  }
  lookup *one = end_claiming(self);
  if (one && status == IDEM_OK)
    begin_stream(one);
  else if (one)
    refuse_lookup_away(one);
}

/* Of several nodes one tells the session: this one from now on. The record says so, before anything is told. */
static void claim(lookup *one, const char *listener) {
  const idem_server *server = one->endpoint->worker->server;
  claiming *self = idem__calloc(&one->endpoint->alloc, sizeof *self);
  if (!self) {
    refuse_lookup(one, 503, "unavailable");
    return;
  }
  self->alloc = one->endpoint->alloc;
  self->one = one;
  self->endpoint = one->endpoint;
  self->session = one->session;
  idem__http_session_ref(self->session);
  memcpy(self->listener, listener, sizeof self->listener);
  one->claiming = self;
  idem__http_session_change(one->session, one->endpoint->queue,
                            &(idem__session_change){.kind = IDEM__SESSION_LISTENS,
                                                    .uri = server->node.id,
                                                    .uri_len = IDEM__NODE_ID},
                            on_claimed, self);
}

static void listen_to(lookup *one) {
  const idem_server *server = one->endpoint->worker->server;
  char listener[IDEM__NODE_ID + 1];
  idem__session_table_lock(one->endpoint->table);
  memcpy(listener, one->session->legacy.listener, sizeof listener);
  idem__session_table_unlock(one->endpoint->table);
  bool foreign = idem__node_number(server) && !idem__node_is_own(server, listener);
  if (one->resumes && !one->known_event)
    refuse_lookup(one, 400, "unavailable"); /* there are no such events */
  else if (idem__http_head_of_events(one->exchange))
    end_lookup(one);
  else if (foreign && one->stream == 0)
    claim(one, listener);
  else if (one->stream != 0)
    ask_owner(one);
  else
    begin_stream(one);
}

/* ------------------------------------------------------------------- finding */

static void on_found(idem__http_session *session, idem_status status, void *user) {
  lookup *one = user;
  one->session = session;
  if (status == IDEM_E_NOTFOUND)
    refuse_lookup_unknown(one);
  else if (!session)
    refuse_lookup_away(one);
  else if (one->ends)
    remove_session(one);
  else
    listen_to(one);
}

/* "stream-sequence", both in hexadecimal, spelled as we do: one event has one id. */
static bool read_event_id(idem__view id, uint64_t *stream, uint32_t *sequence) {
  char copy[40], again[40], *end;
  if (!id.at || id.len >= sizeof copy) return false;
  memcpy(copy, id.at, id.len);
  copy[id.len] = '\0';
  if (strspn(copy, "0123456789abcdef-") != id.len) return false;
  unsigned long long first = strtoull(copy, &end, 16);
  if (*end != '-') return false;
  unsigned long second = strtoul(end + 1, &end, 16);
  if (second > UINT32_MAX || (first && !(uint32_t)first)) return false;
  snprintf(again, sizeof again, "%llx-%lx", first, second);
  if (strcmp(copy, again) != 0) return false;
  *stream = first;
  *sequence = (uint32_t)second;
  return true;
}

/* False: it was refused. */
static bool check(idem__mcp_endpoint *endpoint, idem_http_exchange *exchange,
                  const idem_http_request *request) {
  idem__view id = idem__mcp_given(request, IDEM__MCP_H_SESSION);
  idem__view version = idem__mcp_given(request, IDEM__MCP_H_VERSION);
  const idem__revision *named = version.at ? idem__revision_find(version.at, version.len) : NULL;
  bool legacy = idem__revision_legacy(endpoint->worker->server->opts.revisions) != NULL;
  static const idem__http_refusal no_session = {
      .status = 400, .reason = "not-initialized", .hint = "this URL is for an MCP client"};
  static const idem__http_refusal no_stream = {.status = 406,
                                               .reason = "method-not-allowed",
                                               .cause = "Accept does not name event streams",
                                               .hint = "Accept: text/event-stream"};
  if (request->method != IDEM_HTTP_DELETE && !idem__http_accepts(request, "text/event-stream"))
    idem__http_refuse(exchange, &no_stream, NULL);
  else if (!legacy || (named && idem__revision_has(named, IDEM__R_MODERN)))
    refuse(exchange, 405, "method-not-allowed", "Allow: POST\r\n");
  else if (version.at && !(named && (endpoint->worker->server->opts.revisions & named->bit)))
    idem__http_refuse(exchange, &endpoint->bad_version, NULL);
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
  idem__http_session_find(&one->finding, idem__mcp_given(request, IDEM__MCP_H_SESSION),
                          idem__http_exchange_now(exchange));
}
