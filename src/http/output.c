/* output.c - the queue of bytes that a connection has to send, and who waits for room in it.
 * See docs/internals/http.md. */
#include "conn.h"

#include <string.h>

/* ------------------------------------------------------------ output queue */

static void append_block(idem_http_conn *conn, block *out) {
  if (conn->last)
    conn->last->next = out;
  else
    conn->first = out;
  conn->last = out;
}

block *idem__http_room_for(idem_http_conn *conn, size_t len) {
  block *out = conn->last;
  if (out && !out->chunk.data && out->cap - out->len >= len) return out;
  out = idem__http_server_take_block(conn->server, len);
  if (!out) {
    conn->failed = IDEM_E_NOMEM;
    return NULL;
  }
  append_block(conn, out);
  return out;
}

idem_status idem__http_put(idem_http_conn *conn, const char *data, size_t len) {
  if (conn->failed != IDEM_OK) return conn->failed;
  block *out = len ? idem__http_room_for(conn, len) : NULL;
  if (!out) return len ? IDEM_E_NOMEM : IDEM_OK;
  memcpy(out->data + out->len, data, len);
  out->len += len;
  conn->queued += len;
  return IDEM_OK;
}

void idem__http_put_chunk(idem_http_conn *conn, idem_chunk *chunk) {
  if (chunk->len <= IDEM__HTTP_COPY) {
    idem__http_put(conn, chunk->data, chunk->len);
    idem_chunk_free(chunk);
    return;
  }
  block *out = idem__http_server_take_block(conn->server, 0);
  if (!out) {
    conn->failed = IDEM_E_NOMEM;
    idem_chunk_free(chunk);
    return;
  }
  out->chunk = *chunk;
  *chunk = (idem_chunk){0};
  conn->queued += out->chunk.len;
  append_block(conn, out);
}

idem_status idem__http_conn_put(idem_http_conn *conn, const char *data, size_t len) {
  return idem__http_put(conn, data, len);
}

void idem__http_conn_notify(idem_http_conn *conn) {
  if (!conn->inside && conn->on_output) conn->on_output(conn, conn->user);
}

bool idem__http_conn_has_room(idem_http_conn *conn, void (*fn)(void *user), void *user) {
  if (conn->queued <= conn->server->queued_bytes) return true;
  conn->on_room = fn;
  conn->room_user = user;
  return false;
}

const char *idem__http_conn_principal(const idem_http_conn *conn) {
  return conn->exchange.principal;
}
idem__grant *idem__http_conn_grant(const idem_http_conn *conn) { return conn->exchange.grant; }
const char *idem__http_conn_challenge(const idem_http_conn *conn) {
  const idem_http_server *server = conn->server;
  const idem__grant *grant = conn->exchange.grant;
  if (grant && grant->bound && server->bound_stem) return server->bound_stem;
  return server->challenge_stem ? server->challenge_stem : "Bearer";
}

bool idem__http_conn_checks_who(const idem_http_conn *conn) {
  return conn->server->tokens.count || conn->server->principal || conn->server->judge;
}

void idem__http_conn_on_stop(idem_http_conn *conn, idem__http_stop_fn fn, void *user) {
  conn->on_stop = fn;
  conn->stop_user = user;
}

void idem__http_conn_set_time(idem_http_conn *conn, uint64_t at_ms,
                              void (*fn)(void *user, uint64_t now_ms), void *user) {
  conn->time_at_ms = at_ms;
  conn->on_time = fn;
  conn->time_user = user;
}

size_t idem__http_conn_queued(const idem_http_conn *conn) { return conn->queued; }
uint64_t idem__http_conn_now(const idem_http_conn *conn) { return conn->now_ms; }
const idem__ip *idem__http_conn_client(const idem_http_conn *conn) {
  return &conn->exchange.client;
}
const char *idem__http_conn_peer(const idem_http_conn *conn) { return conn->peer; }

bool idem__http_conn_next_chunk(idem_http_conn *conn, idem_http_chunk *chunk) {
  block *out = conn->first;
  if (!out) return false;
  conn->first = out->next;
  if (!conn->first) conn->last = NULL;
  chunk->data = out->chunk.data ? out->chunk.data : out->data;
  chunk->len = out->chunk.data ? out->chunk.len : out->len;
  chunk->owner = out;
  idem__metrics_add(conn->server->metrics, IDEM__M_BYTES_OUT, chunk->len);
  return true;
}

/* Half is a good moment: the queue neither runs dry nor is filled again at once. */
static void tell_room(idem_http_conn *conn) {
  void (*fn)(void *user) = conn->on_room;
  if (!fn || conn->queued > conn->server->queued_bytes / 2) return;
  conn->on_room = NULL;
  conn->inside++;
  fn(conn->room_user);
  conn->inside--;
}

void idem__http_chunk_free(idem_http_conn *conn, idem_http_chunk *chunk, uint64_t now_ms) {
  if (!chunk->owner) return;
  if (conn) {
    conn->queued -= chunk->len;
    conn->last_ms = conn->now_ms = now_ms;
    if (conn->backlog.len && !conn->exchange.active && !conn->closing) conn->resume = true;
    tell_room(conn);
  }
  idem__http_server_give_block(chunk->owner);
  *chunk = (idem_http_chunk){0};
}
