/* endpoint.c - MCP's endpoint: POST for messages of every revision; GET and DELETE for the sessions
 * of older ones. Statuses and CORS headers are data (idem__mcp_rules). */
#include "mcp_http.h"

#include <stdio.h>
#include <string.h>

extern const idem__http_guest idem__mcp_guest;

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

static bool wants(idem__mcp_desk *desk, idem__get_stream *stream, const char *uri) {
  if (!stream->session->legacy.initialized || !idem__get_stream_tells(stream)) return false;
  if (!uri) return true;
  idem__shop_lock(desk->shop);
  bool subscribed = idem__session_subscribed(&stream->session->legacy, uri);
  idem__shop_unlock(desk->shop);
  return subscribed;
}

static void on_notification(idem__mcp_hearer *hearer, const char *method, const char *uri) {
  idem__mcp_desk *desk = IDEM__CONTAINER(hearer, idem__mcp_desk, hearer);
  idem__buf text;
  idem__buf_init(&text, &desk->alloc, (size_t)1 << 20);
  if (write_notification(&text, method, uri) == IDEM_OK) {
    for (idem__list *at = desk->streams.next; at != &desk->streams; at = at->next) {
      idem__get_stream *stream = IDEM__CONTAINER(at, idem__get_stream, link);
      if (!wants(desk, stream, uri)) continue;
      idem__kept_event_add(stream->session, 0, text.data, text.len, false, NULL);
    }
    idem__shop_keep_notification(desk, uri, text.data, text.len);
  }
  idem__buf_deinit(&text);
}

/* A session has ended: nobody will come back for what was asked in it. */
static void end_orphans(idem__mcp_desk *desk) {
  unsigned orphans = atomic_load(&desk->shop->orphans);
  if (desk->orphans == orphans) return;
  desk->orphans = orphans;
  idem__http_rpc_tend(desk->rpc, atomic_load(&desk->shop->now_ms));
}

static void on_delivered(idem__mcp_hearer *hearer) {
  idem__mcp_desk *desk = IDEM__CONTAINER(hearer, idem__mcp_desk, hearer);
  idem__sse_sweep(desk, false);
  end_orphans(desk);
  idem__get_streams_flush(desk);
}

static uint64_t desk_deadline(idem__mcp_hearer *hearer) {
  return idem__http_rpc_deadline(IDEM__CONTAINER(hearer, idem__mcp_desk, hearer)->rpc);
}

static void on_time(idem__mcp_hearer *hearer, uint64_t now_ms) {
  idem__mcp_desk *desk = IDEM__CONTAINER(hearer, idem__mcp_desk, hearer);
  idem__shop_tend(desk->shop, now_ms);
  idem__http_rpc_tend(desk->rpc, now_ms);
}

/* -------------------------------------------------------------------- desks */

static idem_status accept_websocket(void *user, const idem_conn_opts *opts, idem_conn **out) {
  const idem__mcp_desk *desk = user;
  return idem__hub_accept(desk->hub, opts, desk->upgrading, out);
}

idem__websocket *idem__mcp_upgrade(idem__http_conn *conn, const idem__http_request *request,
                                   void *user) {
  idem__mcp_desk *desk = user;
  char principal[IDEM__PRINCIPAL];
  idem__mcp_principal(conn, request, principal);
  desk->upgrading = principal;
  idem__websocket *socket = idem__http_rpc_upgrade(conn, request, desk->rpc);
  desk->upgrading = NULL;
  return socket;
}

idem_status idem__mcp_desk_new(const idem__mcp_desk_opts *opts, idem__mcp_desk **out) {
  idem_alloc alloc = opts->hub->alloc;
  idem__mcp_desk *desk = idem__calloc(&alloc, sizeof *desk);
  if (!desk) return IDEM_E_NOMEM;
  desk->alloc = alloc;
  desk->shop = opts->shop;
  desk->hub = opts->hub;
  desk->message_path = opts->message_path ? opts->message_path : "/message";
  desk->stream_ms = opts->rpc.stream_ms ? opts->rpc.stream_ms : 15000;
  idem__list_init(&desk->streams);
  idem__list_init(&desk->sse_lines);
  idem__http_rpc_opts rpc = opts->rpc;
  rpc.router = opts->hub->server->router;
  rpc.policy = &opts->hub->server->policy;
  rpc.rules = &idem__mcp_rules;
  rpc.guest = &idem__mcp_guest;
  rpc.guest_user = desk;
  rpc.accept = accept_websocket;
  idem_status status = idem__http_rpc_new(&rpc, &desk->rpc);
  if (status != IDEM_OK) {
    idem__free(&alloc, desk);
    return status;
  }
  desk->hearer.on_notification = on_notification;
  desk->hearer.on_delivered = on_delivered;
  desk->hearer.deadline = desk_deadline;
  desk->hearer.on_time = on_time;
  idem__list_append(&desk->hub->hearers, &desk->hearer.link);
  idem__shop_join(desk->shop, desk);
  *out = desk;
  return IDEM_OK;
}

void idem__mcp_desk_free(idem__mcp_desk *desk) {
  if (!desk) return;
  idem__list_remove(&desk->hearer.link);
  idem__shop_leave(desk->shop, desk);
  idem__sse_sweep(desk, true);
  idem__http_rpc_free(desk->rpc);
  /* Nobody can post to us any more; what was on its way finds nothing, while the shop is still there. */
  idem__hub_run_posted(desk->hub);
  idem_alloc alloc = desk->alloc;
  idem__free(&alloc, desk);
}

/* ------------------------------------------------------------ GET and DELETE */

static void refuse(idem__http_exchange *exchange, uint16_t status, const char *reason,
                   const char *headers) {
  idem__http_refuse(exchange, &(idem__http_refusal){.status = status, .reason = reason}, headers);
}

/* The session a GET or DELETE names; NULL: it was refused. */
static idem__kept_session *find_session(idem__mcp_desk *desk, idem__http_exchange *exchange,
                                        const idem__http_request *request) {
  char principal[IDEM__PRINCIPAL];
  idem__view id = idem__http_header_value(request, "mcp-session-id");
  idem__view version = idem__http_header_value(request, "mcp-protocol-version");
  const idem__revision *named = version.at ? idem__revision_find(version.at, version.len) : NULL;
  bool legacy = idem__revision_legacy(desk->hub->server->opts.revisions) != NULL;
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
  idem__kept_session *session =
      idem__kept_find(desk->shop, id, principal, idem__http_exchange_now(exchange));
  if (!session) refuse(exchange, 404, "not-initialized", NULL);
  return session;
}

/* "stream-sequence", both in hexadecimal, spelled as we do: one event has one id. */
static bool read_event_id(idem__view id, uint32_t *stream, uint32_t *sequence) {
  char copy[32], again[32];
  unsigned first, second;
  if (!id.at || id.len >= sizeof copy) return false;
  memcpy(copy, id.at, id.len);
  copy[id.len] = '\0';
  if (strspn(copy, "0123456789abcdef-") != id.len) return false;
  if (sscanf(copy, "%8x-%8x", &first, &second) != 2) return false;
  snprintf(again, sizeof again, "%x-%x", first, second);
  if (strcmp(copy, again) != 0) return false;
  *stream = first;
  *sequence = second;
  return true;
}

static void serve_get(idem__mcp_desk *desk, idem__http_exchange *exchange,
                      const idem__http_request *request) {
  uint32_t stream = 0, after = 0;
  idem__view last = idem__http_header_value(request, "last-event-id");
  if (!idem__http_accepts(request, "text/event-stream")) {
    refuse(exchange, 406, "method-not-allowed", NULL);
    return;
  }
  idem__kept_session *session = find_session(desk, exchange, request);
  if (!session) return;
  if (request->known[IDEM__H_LAST_EVENT_ID] && !read_event_id(last, &stream, &after)) {
    idem__kept_unref(session);
    refuse(exchange, 400, "unavailable", NULL); /* there are no such events */
    return;
  }
  if (idem__http_head_of_events(exchange)) {
    idem__kept_unref(session);
    return;
  }
  if (!last.at) after = idem__kept_sequence(session); /* a new stream begins now */
  idem__get_stream_open(desk, exchange, session, stream, after, NULL);
}

static void serve_delete(idem__mcp_desk *desk, idem__http_exchange *exchange,
                         const idem__http_request *request) {
  idem__kept_session *session = find_session(desk, exchange, request);
  if (!session) return;
  idem__kept_end(session);
  idem__kept_unref(session);
  idem__http_respond(exchange, &(idem__http_answer){.status = 204});
  idem__server_wake(desk->hub->server); /* its streams notice */
}

void idem__mcp_serve(idem__http_exchange *exchange, const idem__http_request *request, void *user) {
  idem__mcp_desk *desk = user;
  if (request->method == IDEM__HTTP_POST)
    idem__http_rpc_serve(exchange, request, desk->rpc);
  else if (!idem__http_rpc_admit(desk->rpc, exchange))
    return;
  else if (request->method == IDEM__HTTP_DELETE)
    serve_delete(desk, exchange, request);
  else
    serve_get(desk, exchange, request);
}
