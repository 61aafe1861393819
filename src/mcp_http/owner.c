/* owner.c - who answers on the stream of a POST that a client takes up again. Its number names the node. Where that has died, or has
 * nothing to say any more, nobody would ever end the stream: so whoever notices puts an error for each of its ids into the log, as its
 * last event, and all who come for it hear the same. See docs/internals/mcp_http.md. */
#include "mcp_http.h"

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

static void write_error(idem__writer *writer, yyjson_val *id, const char *reason) {
  idem__write_object(writer);
  idem__write_member_text(writer, "jsonrpc", "2.0");
  idem__write_member_value(writer, "id", id);
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
  yyjson_arr_iter iter;
  yyjson_arr_iter_init(yyjson_doc_get_root(doc), &iter);
  if (batch) idem__write_array(&writer);
  for (yyjson_val *id; (id = yyjson_arr_iter_next(&iter));)
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
  return !owner->ended;
}

/* Without a word of what was to be answered there is nobody to tell: the word went with older events, or was never there. */
static void on_read(const idem__store_answer *answer, void *user) {
  idem__stream_owner *owner = user;
  if (answer->status != IDEM_OK)
    tell(owner, IDEM__OWNER_UNKNOWN);
  else if (owner->ended)
    tell(owner, IDEM__OWNER_ENDED);
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
  else if (owner->lives)
    tell(owner, IDEM__OWNER_WORKS);
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
  owner->lives = owner->ended = false;
  idem_buf_init(&owner->ids, &owner->endpoint->alloc, IDS_BYTES);
  if (!idem__stream_owner_doubtful(owner->session, owner->stream))
    tell(owner, IDEM__OWNER_WORKS);
  else if (is_ours(owner))
    read_log(owner);
  else
    look_for_node(owner);
}
