/* endpoint.c - MCP's endpoint: POST for messages of every revision; GET and DELETE for the sessions
 * of older ones. What it wants of HTTP is data (idem__mcp_rules). */
#include "get_stream.h"

extern const idem__http_protocol idem__mcp_protocol;

#define LENGTH(text) (sizeof(text) - 1)
static const idem__http_names header_names = {
    .list = {[IDEM__MCP_H_METHOD] = "mcp-method",
             [IDEM__MCP_H_NAME] = "mcp-name",
             [IDEM__MCP_H_SESSION] = "mcp-session-id",
             [IDEM__MCP_H_VERSION] = "mcp-protocol-version",
             [IDEM__MCP_H_KEY] = "idempotency-key"},
    .by_length = {[LENGTH("mcp-method")] = 1 + IDEM__MCP_H_METHOD,
                  [LENGTH("mcp-name")] = 1 + IDEM__MCP_H_NAME,
                  [LENGTH("mcp-session-id")] = 1 + IDEM__MCP_H_SESSION,
                  [LENGTH("mcp-protocol-version")] = 1 + IDEM__MCP_H_VERSION,
                  [LENGTH("idempotency-key")] = 1 + IDEM__MCP_H_KEY}};

static const idem__http_subject subjects[] = {{"tools/call", "name", "tool"},
                                              {"prompts/get", "name", "prompt"},
                                              {"resources/read", "uri", "resource"},
                                              {"resources/subscribe", "uri", "resource"},
                                              {"resources/unsubscribe", "uri", "resource"},
                                              {NULL, NULL, NULL}};

const idem__http_rules idem__mcp_rules = {
    .names = &header_names,
    .subjects = subjects,
    .event_streams = true,
    .causes = true,
    .disconnect_cancels = true,
};

/* Lines of one name are one list (RFC 9110, 5.3), which is neither a session's id nor a version nor a key. */
idem__view idem__mcp_given(const idem_http_request *request, size_t place) {
  bool several = request->known_count[IDEM__H_GIVEN + place] > 1;
  return several ? (idem__view){"", 0} : idem__http_given_value(request, place);
}

idem__view idem__mcp_key(const idem_http_request *request) {
  return idem__mcp_given(request, IDEM__MCP_H_KEY);
}

/* ------------------------------------------------------------------ telling */

#define NEWS_BYTES ((size_t)5 << 20) /* a log line may have 4 MiB */

idem_status idem__news_write(idem_buf *out, const idem__mcp_news *news) {
  idem__writer writer = idem__writer_on(out);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "jsonrpc", "2.0");
  idem__write_member_text(&writer, "method", news->method);
  if (news->params) {
    idem__write_key(&writer, "params");
    idem__write_raw(&writer, news->params, news->len);
  }
  idem__write_object_end(&writer);
  return writer.status;
}

static bool wants(idem__mcp_endpoint *endpoint, idem__get_stream *stream,
                  const idem__mcp_news *news) {
  if (!stream->session->legacy.initialized || !idem__get_stream_tells(stream)) return false;
  idem__session_table_lock(endpoint->table);
  bool wanted = idem__http_session_takes(stream->session, news);
  idem__session_table_unlock(endpoint->table);
  return wanted;
}

static void on_news(idem__mcp_subscriber *subscriber, const idem__mcp_news *news) {
  idem__mcp_endpoint *endpoint = IDEM_CONTAINER(subscriber, idem__mcp_endpoint, subscriber);
  idem_buf text;
  idem_buf_init(&text, &endpoint->alloc, NEWS_BYTES);
  if (idem__news_write(&text, news) == IDEM_OK) {
    for (idem_list *at = endpoint->streams.next; at != &endpoint->streams; at = at->next) {
      idem__get_stream *stream = IDEM_CONTAINER(at, idem__get_stream, link);
      if (!wants(endpoint, stream, news)) continue;
      idem__http_session_keep(stream->session, text.data, text.len);
    }
    idem__session_table_keep_notification(endpoint, news, text.data, text.len);
  }
  idem_buf_deinit(&text);
}

/* A session has ended: nobody will come back for what was asked in it. */
static void end_orphans(idem__mcp_endpoint *endpoint) {
  unsigned orphans = atomic_load(&endpoint->table->orphans);
  if (endpoint->orphans == orphans) return;
  endpoint->orphans = orphans;
  idem__http_rpc_tend(endpoint->rpc, atomic_load(&endpoint->table->now_ms));
}

/* Its node looked at the others: one endpoint does for all what nobody may have been told of. */
static void look_around(idem__mcp_endpoint *endpoint) {
  idem__session_table *table = endpoint->table;
  unsigned looks = atomic_load(&table->opts.server->node.looks);
  if (endpoint->looks == looks) return;
  endpoint->looks = looks;
  idem__session_table_lock(table);
  bool first = table->endpoints.next == &endpoint->link;
  idem__session_table_unlock(table);
  if (!first) return;
  idem__sessions_look_for_lost(endpoint);
  idem__letters_look(endpoint);
  idem__session_table_remind(table);
}

static void on_delivered(idem__mcp_subscriber *subscriber) {
  idem__mcp_endpoint *endpoint = IDEM_CONTAINER(subscriber, idem__mcp_endpoint, subscriber);
  idem__store_queue_run(endpoint->queue);
  idem__sse_sweep(endpoint, false);
  look_around(endpoint);
  end_orphans(endpoint);
  idem__get_streams_flush(endpoint);
}

static uint64_t endpoint_deadline(idem__mcp_subscriber *subscriber) {
  const idem__mcp_endpoint *endpoint = IDEM_CONTAINER(subscriber, idem__mcp_endpoint, subscriber);
  uint64_t rpc = idem__http_rpc_deadline(endpoint->rpc);
  uint64_t queue = idem__store_queue_deadline(endpoint->queue);
  uint64_t table = idem__session_table_deadline(endpoint->table);
  uint64_t first = rpc < queue ? rpc : queue;
  return first < table ? first : table;
}

static void on_time(idem__mcp_subscriber *subscriber, uint64_t now_ms) {
  idem__mcp_endpoint *endpoint = IDEM_CONTAINER(subscriber, idem__mcp_endpoint, subscriber);
  if (idem__store_queue_deadline(endpoint->queue) <= now_ms)
    idem__store_queue_expire(endpoint->queue, now_ms);
  idem__session_table_settle(endpoint->table, now_ms);
  if (idem__http_rpc_deadline(endpoint->rpc) > now_ms) return;
  idem__session_table_tend(endpoint->table, now_ms);
  idem__http_rpc_tend(endpoint->rpc, now_ms);
}

/* ------------------------------------------------------------------- errands */

typedef struct errand {
  idem_alloc alloc;
  idem__session_table *table;
  idem__mcp_endpoint *endpoint;
  idem__errand_fn fn;
  void *arg;
} errand;

static bool is_endpoint(idem__session_table *table, const idem__mcp_endpoint *endpoint) {
  bool found = false;
  idem__session_table_lock(table);
  for (const idem_list *at = table->endpoints.next; at != &table->endpoints; at = at->next)
    found |= at == &endpoint->link;
  idem__session_table_unlock(table);
  return found;
}

static void run_errand(void *arg) {
  errand *self = arg, copy = *self;
  idem__free(&copy.alloc, self);
  copy.fn(is_endpoint(copy.table, copy.endpoint) ? copy.endpoint : NULL, copy.arg);
}

/* With the lock held its worker is there; it is posted to without, since a worker without a thread runs it at once. */
static idem__mcp_endpoint *first_endpoint(idem__session_table *table) {
  if (idem_list_empty(&table->endpoints)) return NULL;
  return IDEM_CONTAINER(table->endpoints.next, idem__mcp_endpoint, link);
}

idem_status idem__session_table_post(idem__session_table *table, idem__errand_fn fn, void *arg) {
  errand *self = idem__malloc(&table->alloc, sizeof *self);
  idem_status status = self ? IDEM_E_NOTFOUND : IDEM_E_NOMEM;
  if (!self) return status;
  idem__session_table_lock(table);
  idem__mcp_endpoint *endpoint = first_endpoint(table);
  *self = (errand){table->alloc, table, endpoint, fn, arg};
  if (endpoint && endpoint->worker->wake)
    status = idem__worker_post(endpoint->worker, run_errand, self);
  idem__session_table_unlock(table);
  if (endpoint && !endpoint->worker->wake) { /* the only thread there is */
    run_errand(self);
    return IDEM_OK;
  }
  if (status != IDEM_OK) idem__free(&table->alloc, self);
  return status;
}

/* -------------------------------------------------------------------- endpoints */

static idem_status accept_websocket(void *user, const idem_conn_opts *opts, idem_conn **out) {
  const idem__mcp_endpoint *endpoint = user;
  idem_status status = idem__worker_accept(endpoint->worker, opts, endpoint->upgrading, out);
  if (status != IDEM_OK) return status;
  idem__mcp_peer_of(*out)->principal_claimed = endpoint->upgrading_claimed;
  idem__mcp_peer_set_grant(idem__mcp_peer_of(*out), endpoint->upgrading_grant);
  return status;
}

static void end_unauthorized(void *user, idem_conn *conn) {
  const idem__mcp_endpoint *endpoint = user;
  idem__listeners_end(endpoint->worker, conn);
}

idem__websocket *idem__mcp_upgrade(idem_http_conn *conn, const idem_http_request *request,
                                   void *user) {
  idem__mcp_endpoint *endpoint = user;
  char principal[IDEM__PRINCIPAL];
  endpoint->upgrading_claimed = idem__mcp_principal(conn, request, principal);
  endpoint->upgrading = principal;
  endpoint->upgrading_grant = idem__http_conn_grant(conn);
  idem__websocket *socket = idem__http_rpc_upgrade(conn, request, endpoint->rpc);
  endpoint->upgrading = NULL;
  endpoint->upgrading_grant = NULL;
  return socket;
}

static void on_store(void *user) {
  idem__mcp_worker *worker = ((idem__mcp_endpoint *)user)->worker;
  worker->wake(worker, worker->wake_user);
}

static void set_up(idem__mcp_endpoint *endpoint, const idem__mcp_endpoint_opts *opts) {
  endpoint->alloc = opts->worker->alloc;
  endpoint->table = opts->table;
  endpoint->worker = opts->worker;
  endpoint->message_path = opts->message_path ? opts->message_path : "/message";
  endpoint->stream_ms = opts->rpc.stream_ms ? opts->rpc.stream_ms : 15000;
  endpoint->bad_version = (idem__http_refusal){.status = 400,
                                               .reason = "bad-version",
                                               .cause = "unsupported MCP-Protocol-Version",
                                               .hint = "supported:"};
  idem__supported_versions(opts->worker->server, endpoint->bad_version.hint_value);
  idem_list_init(&endpoint->streams);
  idem_list_init(&endpoint->sse_lines);
}

static idem_status make_parts(idem__mcp_endpoint *endpoint, idem__http_rpc_opts rpc) {
  const idem__mcp_worker *worker = endpoint->worker;
  rpc.router = worker->server->router;
  rpc.policy = &worker->server->policy;
  rpc.rules = &idem__mcp_rules;
  rpc.protocol = &idem__mcp_protocol;
  rpc.protocol_user = endpoint;
  rpc.accept = accept_websocket;
  rpc.unauthorized = end_unauthorized;
  idem__store_queue_opts queue = {
      .user = endpoint, .alloc = &endpoint->alloc, .wake = worker->wake ? on_store : NULL};
  idem_status status = idem__store_queue_new(&queue, &endpoint->queue);
  return status == IDEM_OK ? idem__http_rpc_new(&rpc, &endpoint->rpc) : status;
}

static void subscribe(idem__mcp_endpoint *endpoint) {
  endpoint->subscriber.on_news = on_news;
  endpoint->subscriber.on_delivered = on_delivered;
  endpoint->subscriber.deadline = endpoint_deadline;
  endpoint->subscriber.on_time = on_time;
  idem_list_append(&endpoint->worker->subscribers, &endpoint->subscriber.link);
  idem__session_table_join(endpoint->table, endpoint);
}

idem_status idem__mcp_endpoint_new(const idem__mcp_endpoint_opts *opts, idem__mcp_endpoint **out) {
  idem_alloc alloc = opts->worker->alloc;
  idem__mcp_endpoint *endpoint = idem__calloc(&alloc, sizeof *endpoint);
  if (!endpoint) return IDEM_E_NOMEM;
  set_up(endpoint, opts);
  idem_status status = make_parts(endpoint, opts->rpc);
  if (status != IDEM_OK) {
    idem__store_queue_free(endpoint->queue);
    idem__free(&alloc, endpoint);
    return status;
  }
  subscribe(endpoint);
  *out = endpoint;
  return IDEM_OK;
}

void idem__mcp_endpoint_free(idem__mcp_endpoint *endpoint) {
  if (!endpoint) return;
  idem_list_remove(&endpoint->subscriber.link);
  idem__session_table_leave(endpoint->table, endpoint);
  idem__sse_sweep(endpoint, true);
  idem__http_rpc_free(endpoint->rpc);
  idem__store_queue_free(endpoint->queue);
  /* Nobody can post to us any more; what was on its way finds nothing, while the table is still there. */
  idem__worker_run_posted(endpoint->worker);
  idem_alloc alloc = endpoint->alloc;
  idem__free(&alloc, endpoint);
}

/* ------------------------------------------------------------------- routes */

static idem_status add_route(idem__mcp_endpoint *endpoint, idem_http_server *http, const char *path,
                             unsigned methods, idem_http_serve_fn serve,
                             const idem__http_binding *binding) {
  idem_http_route route = {
      .path = path,
      .methods = methods,
      .serve = serve,
      .user = endpoint,
      .allow_headers = "Mcp-Session-Id, MCP-Protocol-Version, Last-Event-ID, Mcp-Method, Mcp-Name, "
                       "Idempotency-Key",
      .allow_prefix = "Mcp-Param-",
      .expose_headers = "Mcp-Session-Id, MCP-Protocol-Version, Idempotency-Replayed"};
  return idem__http_server_add(http, &route, binding);
}

/* GET and DELETE are for the sessions of older revisions. */
idem_status idem__mcp_endpoint_add(idem__mcp_endpoint *endpoint, idem_http_server *http,
                                   const char *path, bool websocket_alone, bool told) {
  unsigned methods = IDEM_HTTP_POST | IDEM_HTTP_GET | IDEM_HTTP_DELETE;
  idem__http_binding binding = {.told = told, .upgrade = idem__mcp_upgrade};
  binding.rules = &idem__mcp_rules;
  return add_route(endpoint, http, path, websocket_alone ? 0 : methods, idem__mcp_serve, &binding);
}

idem_status idem__mcp_endpoint_add_sse(idem__mcp_endpoint *endpoint, idem_http_server *http,
                                       const char *path) {
  idem__http_binding binding = {.rules = &idem__mcp_rules};
  idem_status status =
      add_route(endpoint, http, path, IDEM_HTTP_GET, idem__mcp_serve_sse, &binding);
  if (status != IDEM_OK) return status;
  return add_route(endpoint, http, endpoint->message_path, IDEM_HTTP_POST, idem__mcp_serve_message,
                   &binding);
}

/* ------------------------------------------------------------------ serving */

void idem__mcp_serve(idem_http_exchange *exchange, const idem_http_request *request, void *user) {
  idem__mcp_endpoint *endpoint = user;
  if (request->method == IDEM_HTTP_POST)
    idem__http_rpc_serve(exchange, request, endpoint->rpc);
  else if (!idem__http_rpc_admit(endpoint->rpc, exchange))
    return;
  else
    idem__mcp_lookup(endpoint, exchange, request);
}
