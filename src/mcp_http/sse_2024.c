/* sse_2024.c - the transport of 2024-11-05: a GET holds an event stream open whose first event says
 * where to post; what is posted there is answered on the stream. One conn of the engine a stream, on
 * the thread of the GET; posts (sse_post.c) may come in on any, and at any process of the store: a stream's id says
 * whose it is. See docs/guide/mcp-eras.md. */
#include "http/endpoint.h"
#include "mcp_http.h"

#include <stdio.h>
#include <string.h>

#define WAITING_BYTES ((size_t)8 << 20) /* of messages to one stream that are not begun */

/* One open stream. The table's lock guards its place in the map, and its life for other threads. */
typedef struct line {
  idem_list link; /* in the endpoint, those that have ended included */
  idem__mcp_endpoint *endpoint;
  idem_http_exchange *exchange; /* NULL: going */
  idem_conn *conn;
  uint64_t comment_ms;
  _Atomic uint64_t used_ms; /* when something was posted */
  idem__late late;          /* in line for a turn, while messages wait */
  idem_list waiting;        /* for it */
  _Atomic size_t bytes;     /* of these, and of those that are on their way from other threads */
  bool paid;                /* by its POST, for its first element */
  idem__ip client;          /* whose message was taken last, and when it came */
  uint64_t taken_ms;
  char id[IDEM__SESSION_ID + 1];
  char principal[IDEM__PRINCIPAL];
} line;

static void refuse(idem_http_exchange *exchange, uint16_t status, const char *reason) {
  idem__http_refuse(exchange, &(idem__http_refusal){.status = status, .reason = reason}, NULL);
}

/* ------------------------------------------------------------------ its end */

static void leave_table(line *open) {
  idem__session_table *table = open->endpoint->table;
  idem__session_table_lock(table);
  if (idem_map_remove(&table->sse_lines, open->id, IDEM__SESSION_ID))
    idem__metrics_add(table->opts.metrics, IDEM__M_SESSIONS_CLOSED, 1);
  idem__session_table_unlock(table);
}

static void forget_waiting(line *open);

static void free_line(line *open) {
  leave_table(open);
  idem_list_remove(&open->link);
  forget_waiting(open);
  idem_conn_free(open->conn);
  idem__free(&open->endpoint->alloc, open);
}

/* The conn may be on the stack: what has ended is freed when the endpoint is next called from outside. */
static void end_line(line *open) {
  idem_http_exchange *exchange = open->exchange;
  if (!exchange) return;
  open->exchange = NULL;
  leave_table(open);
  idem__http_stream_end(exchange);
  idem__server_wake(open->endpoint->worker->server);
}

void idem__sse_sweep(idem__mcp_endpoint *endpoint, bool all) {
  for (idem_list *at = endpoint->sse_lines.next; at != &endpoint->sse_lines;) {
    line *open = IDEM_CONTAINER(at, line, link);
    at = at->next;
    if (all || !open->exchange) free_line(open);
  }
}

/* Called by the driver, never from inside the conn. */
static void on_abort(idem_http_exchange *exchange, void *user) {
  (void)exchange;
  free_line(user);
}

/* ------------------------------------------------------------------- output */

static void put_event(line *open, const char *event, const char *text, size_t len) {
  idem_buf *out = &open->endpoint->rpc->event;
  out->len = 0;
  if (idem__sse_put_event(out, event, NULL, text, len) == IDEM_OK)
    idem__http_stream_put(open->exchange, out->data, out->len);
  out->len = 0;
  idem_buf_trim(out, (size_t)64 << 10);
}

static void pump(line *open);
static void set_time(line *open);

/* What the engine held back for want of room may go on: its deadline says so. */
static void on_room(void *user) {
  line *open = user;
  pump(open);
  if (open->exchange) set_time(open);
}

static void pump(line *open) {
  idem_chunk chunk;
  while (open->exchange &&
         idem__http_conn_has_room(idem__http_exchange_conn(open->exchange), on_room, open) &&
         idem_conn_next_chunk(open->conn, &chunk)) {
    put_event(open, "message", chunk.data, chunk.len);
    idem_chunk_free(&chunk);
  }
  if (open->exchange && idem_conn_done(open->conn)) end_line(open);
}

static void on_output(idem_conn *conn, void *user) {
  line *open = user;
  (void)conn;
  if (!open->exchange) return;
  idem_http_conn *http = idem__http_exchange_conn(open->exchange);
  on_room(open);
  idem__http_conn_notify(http);
}

/* -------------------------------------------------------------- admission */

/* A message on its way to the thread of its stream. */
typedef struct carried {
  idem_list link; /* waiting for a turn of its stream */
  idem_alloc alloc;
  idem__session_table *table;
  const idem__mcp_endpoint *endpoint;
  char id[IDEM__SESSION_ID];
  idem__ip client; /* who posted it, and when */
  uint64_t now_ms;
  idem__grant *grant; /* of the token that it came with, counted; NULL: none */
  const char *key;    /* of its header, behind the text; NULL: none */
  size_t key_len;
  bool refusal; /* an error of ours to be said there */
  size_t len;
  char text[];
} carried;

static void free_carried(carried *message) {
  idem_alloc alloc = message->alloc;
  idem__grant_unref(message->grant);
  idem__free(&alloc, message);
}

static size_t size_of(const carried *message) {
  return sizeof *message + message->len + message->key_len;
}

/* With the table's lock held. The first may be as large as one can come. */
static bool has_room(line *open, const carried *message) {
  size_t bytes = atomic_load_explicit(&open->bytes, memory_order_relaxed);
  if (bytes && (bytes > WAITING_BYTES || size_of(message) > WAITING_BYTES - bytes)) return false;
  atomic_fetch_add_explicit(&open->bytes, size_of(message), memory_order_relaxed);
  return true;
}

/* It is begun, or will not be. */
static void uncount(line *open, const carried *message) {
  atomic_fetch_sub_explicit(&open->bytes, size_of(message), memory_order_relaxed);
}

static carried *pop_waiting(line *open) {
  if (idem_list_empty(&open->waiting)) return NULL;
  carried *first = IDEM_CONTAINER(open->waiting.next, carried, link);
  idem_list_remove(&first->link);
  return first;
}

static void forget_waiting(line *open) {
  idem_list_remove(&open->late.link);
  for (carried *message; (message = pop_waiting(open));) free_carried(message);
}

/* The POST has taken a token; the elements of a batch after the first take their own. */
static bool on_admit(idem_conn *conn, void *user) {
  line *open = user;
  uint32_t retry_s;
  bool paid = open->paid;
  (void)conn;
  open->paid = false;
  return paid || idem__limiter_take(open->endpoint->rpc->opts.limiter, &open->client,
                                    open->taken_ms, &retry_s);
}

/* --------------------------------------------------------------------- time */

static void set_time(line *open) {
  uint64_t at = idem_conn_deadline(open->conn);
  idem__http_set_time(open->exchange, at < open->comment_ms ? at : open->comment_ms);
}

static bool is_idle(const line *open, uint64_t now_ms) {
  uint64_t used_ms = atomic_load_explicit(&open->used_ms, memory_order_relaxed);
  return now_ms >= used_ms + open->endpoint->table->opts.session_idle_ms &&
         !idem_conn_in_flight(open->conn);
}

static void on_time(idem_http_exchange *exchange, uint64_t now_ms, void *user) {
  line *open = user;
  if (idem_conn_deadline(open->conn) <= now_ms) {
    if (idem_conn_expire(open->conn) != IDEM_OK) {
      end_line(open);
      return;
    }
    pump(open);
    if (open->exchange != exchange) return;
  }
  if (is_idle(open, now_ms)) {
    end_line(open);
    return;
  }
  if (open->comment_ms <= now_ms) {
    idem__http_stream_put(exchange, IDEM__SSE_COMMENT, sizeof IDEM__SSE_COMMENT - 1);
    open->comment_ms = now_ms + open->endpoint->stream_ms;
  }
  set_time(open);
}

static void take_message(line *open, carried *message);

/* Out of turn: all that waits. */
static void take_waiting(line *open) {
  idem_list_remove(&open->late.link);
  for (carried *message; (message = pop_waiting(open));) take_message(open, message);
}

static void on_stop(void *user, idem__http_stop how) {
  line *open = user;
  if (!idem_list_empty(&open->waiting)) {
    idem__conn_refuse_new(open->conn, how == IDEM__HTTP_STOP_UNAUTHORIZED ? IDEM__UNAUTHORIZED
                                                                          : IDEM__UNAVAILABLE);
    take_waiting(open);
  }
  switch (how) {
  case IDEM__HTTP_STOP_SOON: idem_conn_close(open->conn); break;
  case IDEM__HTTP_STOP_NOW: idem_conn_abort(open->conn); break;
  case IDEM__HTTP_STOP_UNAUTHORIZED: idem__conn_revoke(open->conn); break;
  }
  pump(open);
}

/* One message in a turn, as others have theirs. What its conn still has of a batch comes first. */
static void take_one(idem__late *late) {
  line *open = IDEM_CONTAINER(late, line, late);
  carried *message = idem__conn_waits(open->conn) ? NULL : pop_waiting(open);
  if (message) take_message(open, message);
  if (!idem_list_empty(&open->waiting)) idem__pool_put_off(open->endpoint->rpc->pool, late);
}

/* ------------------------------------------------------------------ opening */

static idem_status enter_table(line *open) {
  idem__session_table *table = open->endpoint->table;
  idem__sse_make_id(table, open->principal, open->id);
  idem__session_table_lock(table);
  bool full = table->sse_lines.count >= table->opts.max_sessions;
  idem_status status =
      full ? IDEM_E_LIMIT : idem_map_put(&table->sse_lines, open->id, IDEM__SESSION_ID, open);
  if (status == IDEM_OK) idem__metrics_add(table->opts.metrics, IDEM__M_SESSIONS_OPENED, 1);
  idem__session_table_unlock(table);
  return status;
}

static line *new_line(idem__mcp_endpoint *endpoint, idem_http_exchange *exchange,
                      const idem_http_request *request) {
  line *open = idem__calloc(&endpoint->alloc, sizeof *open);
  if (!open) return NULL;
  open->endpoint = endpoint;
  open->exchange = exchange;
  open->late.run = take_one;
  idem_list_init(&open->late.link);
  idem_list_init(&open->waiting);
  atomic_init(&open->bytes, 0);
  atomic_init(&open->used_ms, idem__http_exchange_now(exchange));
  endpoint->upgrading_claimed =
      idem__mcp_principal(idem__http_exchange_conn(exchange), request, open->principal);
  endpoint->upgrading = open->principal;
  endpoint->upgrading_grant = idem__http_conn_grant(idem__http_exchange_conn(exchange));
  idem_status status = idem__http_rpc_conn(endpoint->rpc, open, on_output, on_admit,
                                           idem__http_exchange_peer(exchange), &open->conn);
  endpoint->upgrading = NULL;
  endpoint->upgrading_grant = NULL;
  if (status == IDEM_OK) {
    idem__conn_set_client(open->conn, idem__http_exchange_client(exchange)->bytes);
    status = enter_table(open);
  }
  if (status == IDEM_OK) {
    idem_list_append(&endpoint->sse_lines, &open->link);
    return open;
  }
  idem_conn_free(open->conn);
  idem__free(&endpoint->alloc, open);
  return NULL;
}

static void say_where_to_post(line *open) {
  char text[512];
  idem_buf url;
  idem_buf_fixed(&url, text, sizeof text);
  if (idem_buf_printf(&url, "%s?sessionId=%s", open->endpoint->message_path, open->id) == IDEM_OK)
    put_event(open, "endpoint", url.data, url.len);
}

void idem__mcp_serve_sse(idem_http_exchange *exchange, const idem_http_request *request,
                         void *user) {
  idem__mcp_endpoint *endpoint = user;
  if (!idem__http_accepts(request, "text/event-stream")) {
    refuse(exchange, 406, "method-not-allowed");
    return;
  }
  if (!idem__http_rpc_admit(endpoint->rpc, exchange) || idem__http_head_of_events(exchange)) return;
  line *open = new_line(endpoint, exchange, request);
  if (!open) {
    refuse(exchange, 503, "unavailable");
    return;
  }
  idem__http_exchange_set_user(exchange, open);
  idem__http_on_abort(exchange, on_abort, open);
  idem__http_conn_on_stop(idem__http_exchange_conn(exchange), on_stop, open);
  idem__http_on_time(exchange, UINT64_MAX, on_time);
  idem__http_stream_begin(exchange, 200, "text/event-stream", "X-Accel-Buffering: no\r\n");
  say_where_to_post(open);
  open->comment_ms = idem__http_exchange_now(exchange) + endpoint->stream_ms;
  set_time(open);
}

/* ----------------------------------------------------------------- messages */

static idem_status begin_message(line *open, const carried *message) {
  open->paid = true;
  open->client = message->client;
  open->taken_ms = message->now_ms;
  idem__mcp_peer_set_grant(idem__mcp_peer_of(open->conn), message->grant);
  if (open->exchange)
    idem__http_conn_renew(idem__http_exchange_conn(open->exchange), message->grant);
  idem__conn_set_note(open->conn, message->key, (uint32_t)message->key_len);
  idem_status status = idem__conn_message(open->conn, message->text, message->len, NULL);
  idem__conn_set_note(open->conn, NULL, 0);
  return status;
}

/* Frees it. */
static void take_message(line *open, carried *message) {
  uncount(open, message);
  idem_status status = begin_message(open, message);
  free_carried(message);
  if (status != IDEM_OK && status != IDEM_E_CLOSED) {
    end_line(open);
    return;
  }
  on_output(open->conn, open);
  if (open->exchange) set_time(open);
}

/* True: it waits for a turn. */
static bool put_off(line *open, carried *message) {
  idem_pool *pool = open->endpoint->rpc->pool;
  bool behind = !idem_list_empty(&open->waiting) || idem__conn_waits(open->conn);
  if (!behind && !idem__pool_turn_over(pool, idem__conn_clock(open->conn))) return false;
  idem_list_append(&open->waiting, &message->link);
  idem__pool_put_off(pool, &open->late);
  return true;
}

static void say_refusal(line *open, const carried *message) {
  if (!open->exchange) return;
  if (idem__http_conn_queued(idem__http_exchange_conn(open->exchange)) > WAITING_BYTES) {
    end_line(open); /* who reads nothing hears no refusals either */
    return;
  }
  put_event(open, "message", message->text, message->len);
  idem__http_conn_notify(idem__http_exchange_conn(open->exchange));
}

/* On the stream's own thread, the only one that ends it: what is found stays. */
static void deliver(void *arg) {
  carried *message = arg;
  idem__session_table_lock(message->table);
  line *open = idem_map_get(&message->table->sse_lines, message->id, IDEM__SESSION_ID);
  idem__session_table_unlock(message->table);
  bool there = open && open->endpoint == message->endpoint;
  if (there && !message->refusal) {
    if (!put_off(open, message)) take_message(open, message);
    return;
  }
  if (there) say_refusal(open, message);
  free_carried(message);
}

static carried *carry(const idem__mcp_endpoint *endpoint, const idem__sse_message *message) {
  size_t len = message->body.len + (message->key.at ? message->key.len : 0);
  carried *copy = idem__malloc(&endpoint->alloc, sizeof *copy + len);
  if (!copy) return NULL;
  *copy = (carried){.alloc = endpoint->alloc,
                    .table = endpoint->table,
                    .client = message->client,
                    .now_ms = message->now_ms,
                    .grant = idem__grant_ref(message->grant),
                    .refusal = message->refusal,
                    .len = message->body.len};
  memcpy(copy->id, message->session, IDEM__SESSION_ID);
  if (copy->len) memcpy(copy->text, message->body.at, copy->len);
  if (!message->key.at) return copy;
  copy->key = memcpy(copy->text + copy->len, message->key.at, message->key.len);
  copy->key_len = message->key.len;
  return copy;
}

/* With the table's lock held: the stream's worker is there as long. One of our own is called when it is not. */
static uint16_t post_to(line *open, const idem__mcp_endpoint *endpoint, carried *message) {
  if (!message->refusal && !has_room(open, message)) return 503;
  if (open->endpoint == endpoint ||
      idem__worker_post(open->endpoint->worker, deliver, message) == IDEM_OK)
    return 202;
  if (!message->refusal) uncount(open, message);
  return 503;
}

uint16_t idem__sse_post(idem__mcp_endpoint *endpoint, const idem__sse_message *sent) {
  idem__session_table *table = endpoint->table;
  carried *message = carry(endpoint, sent);
  if (!message) return 503;
  uint16_t status = 404;
  idem__session_table_lock(table);
  line *open = idem_map_get(&table->sse_lines, sent->session, IDEM__SESSION_ID);
  if (open && strcmp(open->principal, sent->principal) == 0) {
    atomic_store_explicit(&open->used_ms, message->now_ms, memory_order_relaxed);
    message->endpoint = open->endpoint;
    status = post_to(open, endpoint, message);
  }
  bool ours = status == 202 && message->endpoint == endpoint;
  idem__session_table_unlock(table);
  if (ours)
    deliver(message);
  else if (status != 202)
    free_carried(message);
  return status;
}
