/* endpoint.c - MCP's endpoint: POST for messages of every revision; GET and DELETE for the sessions
 * of older ones. Statuses and CORS headers are data (idem__mcp_rules). */
#include "mcp_http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const idem__http_protocol idem__mcp_protocol;

const idem__http_rules idem__mcp_rules = {
    .notification_status = 202,
    .response_status = 202,
    .event_streams = true,
    .disconnect_cancels = true,
    .allow_headers = "Mcp-Session-Id, MCP-Protocol-Version, Last-Event-ID, Mcp-Method, Mcp-Name",
    .allow_prefix = "Mcp-Param-",
    .expose_headers = "Mcp-Session-Id, MCP-Protocol-Version",
};

/* ------------------------------------------------------------------ telling */

static idem_status write_notification(idem__buf *out, const char *method, const char *uri) {
  idem__writer writer = idem__writer_on(out);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "jsonrpc", "2.0");
  idem__write_member_text(&writer, "method", method);
  if (uri) {
    idem__write_key(&writer, "params");
    idem__write_object(&writer);
    idem__write_member_text(&writer, "uri", uri);
    idem__write_object_end(&writer);
  }
  idem__write_object_end(&writer);
  return writer.status;
}

static bool wants(idem__mcp_endpoint *endpoint, idem__get_stream *stream, const char *uri) {
  if (!stream->session->legacy.initialized || !idem__get_stream_tells(stream)) return false;
  if (!uri) return true;
  idem__session_table_lock(endpoint->table);
  bool subscribed = idem__session_subscribed(&stream->session->legacy, uri);
  idem__session_table_unlock(endpoint->table);
  return subscribed;
}

static void on_notification(idem__mcp_subscriber *subscriber, const char *method, const char *uri) {
  idem__mcp_endpoint *endpoint = IDEM__CONTAINER(subscriber, idem__mcp_endpoint, subscriber);
  idem__buf text;
  idem__buf_init(&text, &endpoint->alloc, (size_t)1 << 20);
  if (write_notification(&text, method, uri) == IDEM_OK) {
    for (idem__list *at = endpoint->streams.next; at != &endpoint->streams; at = at->next) {
      idem__get_stream *stream = IDEM__CONTAINER(at, idem__get_stream, link);
      if (!wants(endpoint, stream, uri)) continue;
      idem__http_session_event_add(stream->session, 0, text.data, text.len, false, NULL);
    }
    idem__session_table_keep_notification(endpoint, uri, text.data, text.len);
  }
  idem__buf_deinit(&text);
}

/* A session has ended: nobody will come back for what was asked in it. */
static void end_orphans(idem__mcp_endpoint *endpoint) {
  unsigned orphans = atomic_load(&endpoint->table->orphans);
  if (endpoint->orphans == orphans) return;
  endpoint->orphans = orphans;
  idem__http_rpc_tend(endpoint->rpc, atomic_load(&endpoint->table->now_ms));
}

static void on_delivered(idem__mcp_subscriber *subscriber) {
  idem__mcp_endpoint *endpoint = IDEM__CONTAINER(subscriber, idem__mcp_endpoint, subscriber);
  idem__sse_sweep(endpoint, false);
  end_orphans(endpoint);
  idem__get_streams_flush(endpoint);
}

static uint64_t desk_deadline(idem__mcp_subscriber *subscriber) {
  return idem__http_rpc_deadline(IDEM__CONTAINER(subscriber, idem__mcp_endpoint, subscriber)->rpc);
}

static void on_time(idem__mcp_subscriber *subscriber, uint64_t now_ms) {
  idem__mcp_endpoint *endpoint = IDEM__CONTAINER(subscriber, idem__mcp_endpoint, subscriber);
  idem__session_table_tend(endpoint->table, now_ms);
  idem__http_rpc_tend(endpoint->rpc, now_ms);
}

/* -------------------------------------------------------------------- endpoints */

static idem_status accept_websocket(void *user, const idem_conn_opts *opts, idem_conn **out) {
  const idem__mcp_endpoint *endpoint = user;
  return idem__worker_accept(endpoint->worker, opts, endpoint->upgrading, out);
}

idem__websocket *idem__mcp_upgrade(idem__http_conn *conn, const idem__http_request *request,
                                   void *user) {
  idem__mcp_endpoint *endpoint = user;
  char principal[IDEM__PRINCIPAL];
  idem__mcp_principal(conn, request, principal);
  endpoint->upgrading = principal;
  idem__websocket *socket = idem__http_rpc_upgrade(conn, request, endpoint->rpc);
  endpoint->upgrading = NULL;
  return socket;
}

idem_status idem__mcp_endpoint_new(const idem__mcp_endpoint_opts *opts, idem__mcp_endpoint **out) {
  idem_alloc alloc = opts->worker->alloc;
  idem__mcp_endpoint *endpoint = idem__calloc(&alloc, sizeof *endpoint);
  if (!endpoint) return IDEM_E_NOMEM;
  endpoint->alloc = alloc;
  endpoint->table = opts->table;
  endpoint->worker = opts->worker;
  endpoint->message_path = opts->message_path ? opts->message_path : "/message";
  endpoint->stream_ms = opts->rpc.stream_ms ? opts->rpc.stream_ms : 15000;
  idem__list_init(&endpoint->streams);
  idem__list_init(&endpoint->sse_lines);
  idem__http_rpc_opts rpc = opts->rpc;
  rpc.router = opts->worker->server->router;
  rpc.policy = &opts->worker->server->policy;
  rpc.rules = &idem__mcp_rules;
  rpc.protocol = &idem__mcp_protocol;
  rpc.protocol_user = endpoint;
  rpc.accept = accept_websocket;
  idem_status status = idem__http_rpc_new(&rpc, &endpoint->rpc);
  if (status != IDEM_OK) {
    idem__free(&alloc, endpoint);
    return status;
  }
  endpoint->subscriber.on_notification = on_notification;
  endpoint->subscriber.on_delivered = on_delivered;
  endpoint->subscriber.deadline = desk_deadline;
  endpoint->subscriber.on_time = on_time;
  idem__list_append(&endpoint->worker->subscribers, &endpoint->subscriber.link);
  idem__session_table_join(endpoint->table, endpoint);
  *out = endpoint;
  return IDEM_OK;
}

void idem__mcp_endpoint_free(idem__mcp_endpoint *endpoint) {
  if (!endpoint) return;
  idem__list_remove(&endpoint->subscriber.link);
  idem__session_table_leave(endpoint->table, endpoint);
  idem__sse_sweep(endpoint, true);
  idem__http_rpc_free(endpoint->rpc);
  /* Nobody can post to us any more; what was on its way finds nothing, while the table is still there. */
  idem__worker_run_posted(endpoint->worker);
  idem_alloc alloc = endpoint->alloc;
  idem__free(&alloc, endpoint);
}

/* ------------------------------------------------------------ GET and DELETE */

static void refuse(idem__http_exchange *exchange, uint16_t status, const char *reason,
                   const char *headers) {
  idem__http_refuse(exchange, &(idem__http_refusal){.status = status, .reason = reason}, headers);
}

/* The session a GET or DELETE names; NULL: it was refused. */
static idem__http_session *find_session(idem__mcp_endpoint *endpoint, idem__http_exchange *exchange,
                                        const idem__http_request *request) {
  char principal[IDEM__PRINCIPAL];
  idem__view id = idem__http_header_value(request, "mcp-session-id");
  idem__view version = idem__http_header_value(request, "mcp-protocol-version");
  const idem__revision *named = version.at ? idem__revision_find(version.at, version.len) : NULL;
  bool legacy = idem__revision_legacy(endpoint->worker->server->opts.revisions) != NULL;
  if (!legacy || (named && idem__revision_has(named, IDEM__R_MODERN))) {
    refuse(exchange, 405, "method-not-allowed", "Allow: POST\r\n");
    return NULL;
  }
  if (version.at && !named) {
    refuse(exchange, 400, "bad-version", NULL);
    return NULL;
  }
  if (!id.at) {
    static const idem__http_refusal refusal = {
        .status = 400, .reason = "not-initialized", .hint = "this URL is for an MCP client"};
    idem__http_refuse(exchange, &refusal, NULL);
    return NULL;
  }
  idem__mcp_principal(idem__http_exchange_conn(exchange), request, principal);
  idem__http_session *session =
      idem__http_session_find(endpoint->table, id, principal, idem__http_exchange_now(exchange));
  if (!session) refuse(exchange, 404, "not-initialized", NULL);
  return session;
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

static void serve_get(idem__mcp_endpoint *endpoint, idem__http_exchange *exchange,
                      const idem__http_request *request) {
  uint32_t stream = 0, after = 0;
  idem__view last = idem__http_header_value(request, "last-event-id");
  if (!idem__http_accepts(request, "text/event-stream")) {
    refuse(exchange, 406, "method-not-allowed", NULL);
    return;
  }
  idem__http_session *session = find_session(endpoint, exchange, request);
  if (!session) return;
  if (request->known[IDEM__H_LAST_EVENT_ID] && !read_event_id(last, &stream, &after)) {
    idem__http_session_unref(session);
    refuse(exchange, 400, "unavailable", NULL); /* there are no such events */
    return;
  }
  if (idem__http_head_of_events(exchange)) {
    idem__http_session_unref(session);
    return;
  }
  if (!last.at) after = idem__http_session_sequence(session); /* a new stream begins now */
  idem__get_stream_open(endpoint, exchange, session, stream, after, NULL);
}

static void serve_delete(idem__mcp_endpoint *endpoint, idem__http_exchange *exchange,
                         const idem__http_request *request) {
  idem__http_session *session = find_session(endpoint, exchange, request);
  if (!session) return;
  idem__http_session_end(session);
  idem__http_session_unref(session);
  idem__http_respond(exchange, &(idem__http_answer){.status = 204});
  idem__server_wake(endpoint->worker->server); /* its streams notice */
}

void idem__mcp_serve(idem__http_exchange *exchange, const idem__http_request *request, void *user) {
  idem__mcp_endpoint *endpoint = user;
  if (request->method == IDEM__HTTP_POST)
    idem__http_rpc_serve(exchange, request, endpoint->rpc);
  else if (!idem__http_rpc_admit(endpoint->rpc, exchange))
    return;
  else if (request->method == IDEM__HTTP_DELETE)
    serve_delete(endpoint, exchange, request);
  else
    serve_get(endpoint, exchange, request);
}
