/* owner.c - who answers on the stream of a POST that a client takes up again. Its number names the node. Where that has died, or has
 * nothing to say any more, nobody would ever end the stream: so whoever notices puts an error for each of its ids into the log, as its
 * last event, and all who come for it hear the same. What a process that lives has said may have been pushed out of the log since, or found no
 * room there: only that process knows, and is asked. See docs/internals/mcp_http.md. */
#include "get_stream.h"

#include <string.h>

#define IDS_BYTES ((size_t)64 << 10)
#define END_BYTES ((size_t)16 << 20) /* an error for each of them */

/* Another table of this server: it answers as long as it is there. */
static bool table_is_gone(const idem_server *server, unsigned place) {
  return place < IDEM__TABLE_PLACES && !(atomic_load(&server->session_tables) >> place & 1);
}

bool idem__stream_owner_doubtful(idem__http_session *session, uint64_t stream) {
  const idem__session_table *table = session->table;
  const idem_server *server = table->opts.server;
  uint32_t node = IDEM__STREAM_NODE(stream);
  unsigned place = IDEM__STREAM_TABLE(stream);
  if (stream == 0) return false;
  if (node != idem__node_number(server)) return !idem__node_lives(server, node);
  if (place != table->place) return table_is_gone(server, place);
  return place < IDEM__TABLE_PLACES && !idem__post_streams(session, stream);
}

bool idem__stream_is_own(const idem__session_table *table, uint64_t stream) {
  return IDEM__STREAM_NODE(stream) == idem__node_number(table->opts.server) &&
         IDEM__STREAM_TABLE(stream) == table->place;
}

static bool is_ours(const idem__stream_owner *owner) {
  const idem_server *server = owner->session->table->opts.server;
  return IDEM__STREAM_NODE(owner->stream) == idem__node_number(server);
}

static void tell(idem__stream_owner *owner, idem__owner_end end) {
  idem_buf_deinit(&owner->ids);
  owner->known(end, owner->user);
}

void idem__stream_owner_forget(idem__stream_owner *owner) {
  idem__store_forget(owner->pending);
  if (owner->ids.alloc) idem_buf_deinit(&owner->ids);
}

/* ---------------------------------------------------------------- its last event */

/* The next scalar of an array that was read as JSON, as it is spelled there; false: that was the last. */
static bool next_id(idem__view *rest, idem__view *id) {
  const char *at = rest->at, *end = at + rest->len;
  while (at < end && strchr("[, ", *at)) at++;
  id->at = at;
  bool string = at < end && *at == '"';
  for (at += string; at < end && !strchr(string ? "\"" : ",] ", *at); at++)
    if (string && *at == '\\') at++;
  at += string;
  id->len = at < end ? (size_t)(at - id->at) : 0;
  *rest = (idem__view){at, at < end ? (size_t)(end - at) : 0};
  return id->len != 0;
}

static void write_error(idem__writer *writer, idem__view id, const char *reason) {
  idem__write_object(writer);
  idem__write_member_text(writer, "jsonrpc", "2.0");
  idem__write_key(writer, "id");
  idem__write_raw(writer, id.at, id.len);
  idem__write_key(writer, "error");
  idem__write_object(writer);
  idem__write_member_int(writer, "code", IDEM_RPC_INTERNAL_ERROR);
  idem__write_member_text(writer, "message", "Internal error");
  idem__write_key(writer, "data");
  idem__write_object(writer);
  idem__write_member_text(writer, "reason", reason);
  idem__write_object_end(writer);
  idem__write_object_end(writer);
  idem__write_object_end(writer);
}

/* What was asked as an array is answered by one. */
static idem_status write_end(const idem__stream_owner *owner, idem_buf *out) {
  const idem_buf *ids = &owner->ids;
  yyjson_alc alc = idem__json_alc(&owner->endpoint->alloc);
  yyjson_doc *doc =
      yyjson_read_opts(ids->data + 1, ids->len - 1, YYJSON_READ_NUMBER_AS_RAW, &alc, NULL);
  bool batch = ids->data[0] == 'b';
  idem__event_head head = {.stream = owner->stream, .last = 1};
  idem_status status = doc ? idem_buf_put(out, &head, sizeof head) : IDEM_E_NOMEM;
  idem__writer writer = idem__writer_on(out);
  idem__view rest = {ids->data + 1, doc ? ids->len - 1 : 0}, id;
  if (batch) idem__write_array(&writer);
  while (next_id(&rest, &id))
    write_error(&writer, id, is_ours(owner) ? "answer-not-kept" : "process-ended");
  if (batch) idem__write_array_end(&writer);
  yyjson_doc_free(doc);
  return status == IDEM_OK ? writer.status : status;
}

static void on_ended(const idem__store_answer *answer, void *user) {
  tell(user, answer->status == IDEM_OK ? IDEM__OWNER_ENDED : IDEM__OWNER_UNKNOWN);
}

static void put_end(idem__stream_owner *owner) {
  idem_buf entry;
  idem_buf_init(&entry, &owner->endpoint->alloc, END_BYTES);
  if (write_end(owner, &entry) == IDEM_OK) {
    idem__store_op op = idem__http_session_op(owner->session, IDEM__STORE_APPEND);
    op.bytes = entry.data;
    op.len = entry.len;
    op.limit = owner->session->table->opts.log_bytes;
    op.done = on_ended;
    op.user = owner;
    idem__store_submit(owner->session->table->store, owner->endpoint->queue, &op, &owner->pending);
  } else {
    tell(owner, IDEM__OWNER_UNKNOWN);
  }
  idem_buf_deinit(&entry);
}

/* ----------------------------------------------------------------------- the log */

static bool look_at(const idem__store_item *item, void *user) {
  idem__stream_owner *owner = user;
  idem__event_head head;
  if (!idem__event_read(item, &head)) return true;
  bool begins = head.stream == IDEM__STREAM_BEGINS && item->number == (uint32_t)owner->stream;
  if (begins &&
      idem_buf_put(&owner->ids, item->bytes + sizeof head, item->len - sizeof head) != IDEM_OK)
    return false;
  owner->ended |= head.stream == owner->stream && head.last;
  owner->lost |= head.stream == owner->stream && head.last == IDEM__STREAM_LOST;
  return !owner->ended;
}

/* Whoever answers there has not yet, or nothing is left of it. */
static void ask_there(idem__stream_owner *owner) {
  idem__carry_ask_stream(owner->endpoint, owner->session, owner->stream);
  tell(owner, IDEM__OWNER_WORKS);
}

/* Without a word of what was to be answered there is nobody to tell: the word went with older events, or was never there. */
static void on_read(const idem__store_answer *answer, void *user) {
  idem__stream_owner *owner = user;
  if (answer->status != IDEM_OK)
    tell(owner, IDEM__OWNER_UNKNOWN);
  else if (owner->ended)
    tell(owner, owner->lost ? IDEM__OWNER_LOST : IDEM__OWNER_ENDED);
  else if (owner->lives)
    ask_there(owner);
  else if (owner->ids.len > 1)
    put_end(owner);
  else
    tell(owner, IDEM__OWNER_LOST);
}

static void read_log(idem__stream_owner *owner) {
  idem__store_op op = idem__http_session_op(owner->session, IDEM__STORE_READ);
  op.after = (uint32_t)owner->stream - 1;
  op.each = look_at;
  op.done = on_read;
  op.user = owner;
  idem__store_submit(owner->session->table->store, owner->endpoint->queue, &op, &owner->pending);
}

/* ----------------------------------------------------------------------- the node */

/* One that is there and nobody had told us of is known from now on. */
static bool see(const idem__store_item *item, void *user) {
  idem__stream_owner *owner = user;
  if (item->name_len != IDEM__NODE_ID) return true;
  if (idem__node_number_of(item->name) != IDEM__STREAM_NODE(owner->stream)) return true;
  owner->lives = true;
  idem__node_meet(owner->session->table->opts.server, item->name);
  return false;
}

static void on_seen(const idem__store_answer *answer, void *user) {
  idem__stream_owner *owner = user;
  if (answer->status != IDEM_OK)
    tell(owner, IDEM__OWNER_UNKNOWN);
  else
    read_log(owner);
}

static void look_for_node(idem__stream_owner *owner) {
  idem_server *server = owner->session->table->opts.server;
  idem__store_op op = {.verb = IDEM__STORE_LIST,
                       .space = IDEM__STORE_NODES,
                       .now_ms = idem__server_wall_ms(server),
                       .each = see,
                       .done = on_seen,
                       .user = owner};
  idem__store_submit(server->store, owner->endpoint->queue, &op, &owner->pending);
}

void idem__stream_owner_ask(idem__stream_owner *owner) {
  const idem__session_table *table = owner->session->table;
  bool doubtful = idem__stream_owner_doubtful(owner->session, owner->stream);
  owner->ended = owner->lost = false;
  owner->lives = !doubtful;
  idem_buf_init(&owner->ids, &owner->endpoint->alloc, IDS_BYTES);
  if (!doubtful && idem__stream_is_own(table, owner->stream))
    tell(owner, IDEM__OWNER_WORKS);
  else if (!doubtful || is_ours(owner))
    read_log(owner);
  else
    look_for_node(owner);
}

/* ---------------------------------------------------------------- being asked */

typedef struct asked {
  idem_alloc alloc;
  idem__session_finding finding;
  idem__stream_owner owner;
} asked;

static void end_asked(asked *self) {
  idem_alloc alloc = self->alloc;
  if (self->owner.session) idem__http_session_unref(self->owner.session);
  idem__free(&alloc, self);
}

/* Where it is known which ids it had, their end is in the log now. */
static void on_known(idem__owner_end end, void *user) {
  asked *self = user;
  idem__stream_owner *owner = &self->owner;
  if (end == IDEM__OWNER_LOST && !owner->lost)
    idem__http_session_end_stream(owner->session, owner->stream, true);
  end_asked(self);
}

static void on_found(idem__http_session *session, idem_status status, void *user) {
  asked *self = user;
  (void)status;
  self->owner.session = session;
  if (session)
    idem__stream_owner_ask(&self->owner);
  else
    end_asked(self);
}

static void look_for_session(idem__mcp_endpoint *endpoint, void *arg) {
  asked *self = arg;
  if (!endpoint) {
    end_asked(self);
    return;
  }
  self->owner.endpoint = endpoint;
  self->finding.queue = endpoint->queue;
  idem__http_session_load(&self->finding);
}

static bool is_answered_here(idem__session_table *table, const char *id, uint64_t stream) {
  idem__session_table_lock(table);
  idem__http_session *session = idem_map_get(&table->by_id, id, IDEM__SESSION_ID);
  if (session) idem__http_session_hold(session);
  idem__session_table_unlock(table);
  bool answered = session && idem__post_streams(session, stream);
  if (session) idem__http_session_unref(session);
  return answered;
}

void idem__stream_asked(idem__session_table *table, const char *session, uint64_t stream) {
  bool ours = (uint32_t)stream && idem__stream_is_own(table, stream);
  if (!ours || is_answered_here(table, session, stream)) return;
  asked *self = idem__calloc(&table->alloc, sizeof *self);
  if (!self) return; /* it is asked again */
  self->alloc = table->alloc;
  self->finding = (idem__session_finding){.table = table, .found = on_found, .user = self};
  memcpy(self->finding.id, session, IDEM__SESSION_ID);
  self->owner = (idem__stream_owner){.stream = stream, .known = on_known, .user = self};
  if (idem__session_table_post(table, look_for_session, self) != IDEM_OK) end_asked(self);
}
