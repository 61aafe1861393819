/* stream.c - GET streams of legacy sessions: a cursor over what the session has kept for one of
 * its streams. Notifications nobody asked for go to stream 0; a client that lost the stream of a
 * POST comes back for the rest of that one. */
#include "../mcp_server/scope.h"
#include "get_stream.h"

#include <stdio.h>
#include <string.h>

#define RETRY_MS 500u /* before a client that lost its stream comes back */

/* Another node answers on it. */
static bool is_elsewhere(const idem__get_stream *stream) {
  const idem_server *server = stream->session->table->opts.server;
  return stream->stream && IDEM__STREAM_NODE(stream->stream) != idem__node_number(server);
}

static void close_stream(idem__get_stream *stream) {
  idem__http_session *session = stream->session;
  idem__session_table_lock(stream->endpoint->table);
  if (stream->stream == 0) session->get_streams--;
  if (stream->stream != 0) session->resumed--;
  if (is_elsewhere(stream)) atomic_fetch_sub(&session->table->opts.server->node.awaited, 1);
  if (session->primary == stream) session->primary = NULL;
  idem__session_table_unlock(stream->endpoint->table);
  idem_list_remove(&stream->link);
  idem__store_forget(stream->reading.pending);
  idem__store_forget(stream->loading.pending);
  idem__stream_owner_forget(&stream->owner);
  idem_buf_deinit(&stream->reading.events);
  idem__http_session_unref(session);
  idem__free(&stream->endpoint->alloc, stream);
}

static void end_stream(idem__get_stream *stream) {
  idem_http_exchange *exchange = stream->exchange;
  close_stream(stream);
  idem__http_stream_end(exchange);
}

static void on_abort(idem_http_exchange *exchange, void *user) {
  (void)exchange;
  close_stream(user);
}

/* An event without data, by which a client that loses the stream can come back after the last one it has seen. Those of
 * older revisions take no event without a message: without a line of data it is none, and yet counts for those who
 * read by the letter. */
static void put_place(const idem__get_stream *stream, unsigned retry_ms) {
  bool primed = idem__revision_has(stream->session->legacy.revision, IDEM__R_PRIME_EVENT);
  char text[96];
  int len = snprintf(text, sizeof text, "id: %llx-%x\nretry: %u\n%s\n",
                     (unsigned long long)stream->stream, (unsigned)stream->after, retry_ms,
                     primed ? "data:\n" : "");
  idem__http_stream_put(stream->exchange, text, (size_t)len);
}

/* The server is going, and nobody waits for an answer here: the client comes back elsewhere, not all of them at once. */
static void on_stop(void *user, idem__http_stop how) {
  idem__get_stream *stream = user;
  uint16_t spread;
  (void)how;
  idem__server_random(stream->endpoint->worker->server, &spread, sizeof spread);
  put_place(stream, RETRY_MS / 2 + spread % RETRY_MS);
  end_stream(stream);
}

static void put_comment(idem__get_stream *stream, uint64_t now_ms) {
  idem__http_stream_put(stream->exchange, IDEM__SSE_COMMENT, sizeof IDEM__SSE_COMMENT - 1);
  stream->comment_ms = now_ms + stream->endpoint->stream_ms;
  idem__http_set_time(stream->exchange, stream->comment_ms);
}

static void on_time(idem_http_exchange *exchange, uint64_t now_ms, void *user) {
  idem__get_stream *stream = user;
  (void)exchange;
  idem__http_session_alive(stream->session, now_ms);
  put_comment(stream, now_ms);
  if (stream->stream && !idem__stream_is_own(stream->session->table, stream->stream))
    idem__carry_ask_stream(stream->endpoint, stream->session, stream->stream);
  /* Of a change nobody may have been told. */
  if (!stream->session->table->store->kind->immediate) idem__get_stream_flush(stream);
}

bool idem__get_stream_tells(idem__get_stream *stream) {
  idem__http_session *session = stream->session;
  if (stream->stream != 0) return false;
  idem__session_table_lock(stream->endpoint->table);
  bool here = idem__http_session_is_told_here(session);
  if (!session->primary && here) { /* goes on where the one before it ended */
    session->primary = stream;
    if (stream->after < session->told) stream->after = session->told;
  }
  bool tells = here && session->primary == stream;
  idem__session_table_unlock(stream->endpoint->table);
  return tells;
}

static void note_told(const idem__get_stream *stream) {
  idem__session_table_lock(stream->endpoint->table);
  stream->session->told = stream->after;
  idem__session_table_unlock(stream->endpoint->table);
}

static void on_room(void *user) { idem__get_stream_flush(user); }

/* Everything that is kept for a session, with what the format adds to short ones, and one that is larger. */
static size_t events_bytes(const idem__get_stream *stream) {
  const idem__session_table *table = stream->session->table;
  return table->opts.log_bytes * 4 + idem__answer_bytes(table->opts.server);
}

/* What a session has subscribed to with one token may be beyond that of the stream. Its text is idem__news_write's. */
static bool shows(const char *text, size_t len, void *user) {
  static const char updated[] =
      "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\"";
  const idem__get_stream *stream = user;
  const idem__grant *grant = idem__http_conn_grant(idem__http_exchange_conn(stream->exchange));
  if (!grant || len < sizeof updated || memcmp(text, updated, sizeof updated - 1) != 0) return true;
  yyjson_alc alc = idem__json_alc(&stream->endpoint->alloc);
  yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)text, len, 0, &alc, NULL);
  yyjson_val *params = yyjson_obj_get(yyjson_doc_get_root(doc), "params");
  const char *uri = yyjson_get_str(yyjson_obj_get(params, "uri"));
  bool may = uri && idem__scope_may_hear(stream->endpoint->worker, grant, uri);
  yyjson_doc_free(doc);
  return may;
}

/* The image it goes by is behind its record: what was subscribed to may be another. */
static void load(idem__get_stream *stream) {
  idem__http_session *session = stream->session;
  idem__session_table_lock(session->table);
  bool behind = session->behind && !stream->loading.pending;
  if (behind) session->behind = false;
  idem__session_table_unlock(session->table);
  if (behind) idem__http_session_load(&stream->loading);
}

/* What changed meanwhile is read next, what could not be read when the stream is looked at next. */
static void on_loaded(idem__http_session *session, idem_status status, void *user) {
  idem__get_stream *stream = user;
  (void)status;
  if (session) {
    idem__http_session_unref(session);
    load(stream);
    return;
  }
  idem__session_table_lock(stream->endpoint->table);
  stream->session->behind = true;
  idem__session_table_unlock(stream->endpoint->table);
}

/* What whoever answers on it came to is read next, or it never ends by itself. Of what is not known now it hears when it is looked at next. */
static void on_owner_known(idem__owner_end end, void *user) {
  idem__get_stream *stream = user;
  stream->asks = false;
  stream->over = end == IDEM__OWNER_ENDED;
  if (end == IDEM__OWNER_LOST)
    end_stream(stream);
  else if (stream->over)
    idem__get_stream_flush(stream);
}

static void ask_owner(idem__get_stream *stream) {
  if (stream->asks) return;
  stream->asks = true;
  idem__stream_owner_ask(&stream->owner);
}

/* Its record is gone, of which nobody may have been told. */
static void lose_session(idem__get_stream *stream) {
  idem__session_table *table = stream->endpoint->table;
  idem__session_table_lock(table);
  idem__http_session_forget(stream->session);
  idem__session_table_unlock(table);
  end_stream(stream);
  idem__server_wake(table->opts.server); /* what else it has here ends, too */
}

/* Events are put out as they were kept; those that come while the log is read are read next. */
static void on_read(idem_status status, void *user) {
  idem__get_stream *stream = user;
  idem_buf *events = &stream->reading.events;
  stream->is_reading = false;
  stream->after = stream->reading.after;
  if (events->len) idem__http_stream_put(stream->exchange, events->data, events->len);
  idem_buf_deinit(events);
  if (stream->stream == 0) note_told(stream);
  if (status == IDEM_E_NOTFOUND)
    lose_session(stream);
  else if (stream->reading.last || (stream->over && status == IDEM_OK))
    end_stream(stream); /* what is not there by now will not come */
  else if (stream->again)
    idem__get_stream_flush(stream);
  else if (stream->doubtful && status == IDEM_OK)
    ask_owner(stream);
}

void idem__get_stream_flush(idem__get_stream *stream) {
  if (stream->session->ended) {
    end_stream(stream);
    return;
  }
  load(stream);
  stream->again = stream->is_reading;
  if (stream->is_reading) return;
  if (!idem__http_conn_has_room(idem__http_exchange_conn(stream->exchange), on_room, stream)) {
    return;
  }
  if (stream->stream == 0 && !idem__get_stream_tells(stream)) return; /* another's to tell */
  stream->is_reading = true;
  stream->news = stream->session->news;
  stream->looks = atomic_load(&stream->session->table->opts.server->node.looks);
  stream->doubtful = idem__stream_owner_doubtful(stream->session, stream->stream); /* first */
  stream->reading.after = stream->after;
  idem__http_session_read(&stream->reading);
}

/* That nobody seems to answer is news when it is seen first, and when the nodes were looked at since. Were it news as long as it lasts, each
 * answer of the store would have the log read once more, and who reads again does not ask. */
static bool doubts_anew(const idem__get_stream *stream) {
  const idem_server *server = stream->session->table->opts.server;
  if (stream->doubtful && stream->looks == atomic_load(&server->node.looks)) return false;
  return idem__stream_owner_doubtful(stream->session, stream->stream);
}

/* A store that answers later wakes us with each answer: its log is read when there is news of it. */
static bool has_news(const idem__get_stream *stream) {
  const idem__http_session *session = stream->session;
  if (session->table->store->kind->immediate) return true;
  if (session->ended || session->behind || stream->news != session->news) return true;
  return doubts_anew(stream);
}

void idem__get_streams_flush(idem__mcp_endpoint *endpoint) {
  for (idem_list *at = endpoint->streams.next; at != &endpoint->streams;) {
    idem__get_stream *stream = IDEM_CONTAINER(at, idem__get_stream, link);
    at = at->next;
    if (has_news(stream)) idem__get_stream_flush(stream);
  }
}

void idem__get_stream_open(idem__mcp_endpoint *endpoint, idem_http_exchange *exchange,
                           const idem__get_stream_place *place) {
  idem__http_session *session = place->session;
  uint64_t stream = place->stream;
  idem__get_stream *open = idem__calloc(&endpoint->alloc, sizeof *open);
  if (!open) {
    idem__http_session_unref(session);
    idem__http_refuse(exchange, &(idem__http_refusal){.status = 503, .reason = "unavailable"},
                      NULL);
    return;
  }
  open->endpoint = endpoint;
  open->exchange = exchange;
  open->session = session;
  open->stream = stream;
  open->after = place->after;
  open->over = place->over;
  idem__session_reading *reading = &open->reading;
  *reading = (idem__session_reading){.session = session, .queue = endpoint->queue};
  reading->stream = stream;
  reading->read = on_read;
  reading->shows = stream ? NULL : shows;
  reading->user = open;
  idem_buf_init(&reading->events, &endpoint->alloc, events_bytes(open));
  open->loading = (idem__session_finding){
      .table = endpoint->table, .queue = endpoint->queue, .found = on_loaded, .user = open};
  memcpy(open->loading.id, session->id, IDEM__SESSION_ID);
  open->owner = (idem__stream_owner){.endpoint = endpoint,
                                     .session = session,
                                     .stream = stream,
                                     .known = on_owner_known,
                                     .user = open};
  idem__session_table_lock(endpoint->table);
  if (stream != 0) session->resumed++;
  if (is_elsewhere(open)) atomic_fetch_add(&session->table->opts.server->node.awaited, 1);
  if (stream == 0) {
    session->get_streams++;
    session->had_stream = true;
    session->primary = open;
  }
  idem__session_table_unlock(endpoint->table);
  idem_list_append(&endpoint->streams, &open->link);
  idem__http_exchange_set_user(exchange, open);
  idem__http_on_abort(exchange, on_abort, open);
  idem__http_conn_on_stop(idem__http_exchange_conn(exchange), on_stop, open);
  idem__http_on_time(exchange, UINT64_MAX, on_time);
  idem__http_stream_begin(exchange, 200, "text/event-stream", "X-Accel-Buffering: no\r\n");
  if (idem__revision_has(session->legacy.revision, IDEM__R_PRIME_EVENT)) put_place(open, RETRY_MS);
  put_comment(open, idem__http_exchange_now(exchange));
  idem__get_stream_flush(open);
}
