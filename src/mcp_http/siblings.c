/* siblings.c - the POSTs of one session, each with a conn of its own and perhaps on another thread: an answer
 * to a question of ours goes to whoever asked it, an id is in flight once, a cancellation finds its request. */
#include "serving.h"

#include <string.h>

/* ------------------------------------------------------------------ answers */

/* An answer on its way to another thread. */
typedef struct carried {
  idem_alloc alloc;
  idem__mcp_endpoint *endpoint;
  idem__http_session *session; /* counted */
  uint64_t id;
  size_t len;
  char text[];
} carried;

static void free_carried(carried *answer) {
  idem_alloc alloc = answer->alloc;
  idem__free(&alloc, answer);
}

static void deliver_carried(void *arg) {
  carried *answer = arg;
  idem__in_flight_lock(answer->session);
  const idem__session_post *post = idem__post_of_call(answer->session, answer->id);
  idem_conn *target = post && post->endpoint == answer->endpoint ? post->conn : NULL;
  idem__in_flight_unlock(answer->session);
  if (target && idem__conn_message(target, answer->text, answer->len, NULL) == IDEM_OK) {
    idem__conn_tell_output(target);
  }
  idem__http_session_unref(answer->session);
  free_carried(answer);
}

idem_status idem__carry_write(idem_buf *out, const idem__message *message) {
  idem__writer writer = idem__writer_on(out);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "jsonrpc", "2.0");
  idem__write_member_int(&writer, "id", message->id.integer);
  idem__write_member_value(&writer, "result", message->result);
  idem__write_member_value(&writer, "error", message->error);
  idem__write_object_end(&writer);
  return writer.status;
}

/* As long as the lock is held whoever asked is there, and so is its worker. NOTFOUND: nobody waits for it. */
static idem_status send_to_post(carried *answer) {
  idem__http_session *session = answer->session;
  idem_status status = IDEM_E_NOTFOUND;
  idem__http_session_ref(session); /* for the way */
  idem__in_flight_lock(session);
  const idem__session_post *post = idem__post_of_call(session, answer->id);
  if (post) {
    answer->endpoint = post->endpoint;
    status = idem__worker_post(post->endpoint->worker, deliver_carried, answer);
  }
  idem__in_flight_unlock(session);
  if (status != IDEM_OK) idem__http_session_unref(session);
  return status;
}

static carried *new_carried(idem__http_session *session, uint64_t id, const char *text,
                            size_t len) {
  const idem_alloc *alloc = &session->table->alloc;
  carried *answer = idem__malloc(alloc, sizeof *answer + len);
  if (!answer) return NULL;
  *answer = (carried){.alloc = *alloc, .session = session, .id = id, .len = len};
  memcpy(answer->text, text, len);
  return answer;
}

idem_status idem__carried_answer(idem__http_session *session, uint64_t id, const char *text,
                                 size_t len) {
  carried *answer = new_carried(session, id, text, len);
  idem_status status = answer ? send_to_post(answer) : IDEM_E_NOMEM;
  if (answer && status != IDEM_OK) free_carried(answer);
  return status;
}

/* To another process, which asked; true: it is done with. */
static bool carry_far(idem__mcp_serving *serving, const idem__message *message) {
  idem__carry_end end = idem__carry_response(serving, message);
  serving->unavailable |= end == IDEM__CARRY_NO_ROOM;
  return end != IDEM__CARRY_NOBODY;
}

static bool carry(idem__mcp_serving *serving, const idem__message *message) {
  const idem_alloc *alloc = &serving->endpoint->alloc;
  idem_buf text;
  idem_buf_init(&text, alloc, idem__answer_bytes(serving->endpoint->worker->server));
  carried *answer =
      idem__carry_write(&text, message) == IDEM_OK
          ? new_carried(serving->session, (uint64_t)message->id.integer, text.data, text.len)
          : NULL;
  idem_buf_deinit(&text);
  if (!answer) return false;
  bool sent = send_to_post(answer) == IDEM_OK;
  if (!sent) free_carried(answer);
  return sent;
}

/* The client answers a question of ours: it goes to whoever asked it, on whichever thread. */
static bool on_response(idem_conn *conn, const idem__message *message) {
  idem__mcp_serving *serving = IDEM_CONTAINER(idem__mcp_peer_of(conn), idem__mcp_serving, peer);
  if (!serving->session || message->id.kind != IDEM__ID_INTEGER) return false;
  idem__in_flight_lock(serving->session);
  const idem__session_post *post =
      idem__post_of_call(serving->session, (uint64_t)message->id.integer);
  const idem__mcp_endpoint *endpoint = post ? post->endpoint : NULL;
  idem_conn *target = post ? post->conn : NULL;
  idem__in_flight_unlock(serving->session);
  if (!target) return carry_far(serving, message);
  if (target == conn) return false;
  if (endpoint != serving->endpoint) return carry(serving, message);
  idem__conn_take_response(target, message);
  return true;
}

/* ------------------------------------------------------------- ids in flight */

/* Equal ids have equal keys; one too long for the room given comes from the allocator. */
typedef struct id_key {
  const idem_alloc *alloc;
  char *at;
  size_t len;
  char room[128];
} id_key;

static bool make_key(const idem__http_session *session, const idem__id *id, id_key *key) {
  bool usual = id->kind == IDEM__ID_INTEGER || id->kind == IDEM__ID_NUMBER;
  if (!usual && id->kind != IDEM__ID_STRING) return false;
  size_t most = idem__id_key_max(id);
  key->alloc = &session->table->alloc;
  key->at = most <= sizeof key->room ? key->room : idem__malloc(key->alloc, most);
  if (!key->at) return false;
  key->len = idem__id_key(id, key->at);
  return true;
}

static void free_key(id_key *key) {
  if (key->at != key->room) idem__free(key->alloc, key->at);
}

/* With the lock held: the idem__mcp_serving of this session, on any thread, that has the id in flight. */
static idem__mcp_serving *find_claim(const idem__http_session *session, const id_key *key) {
  idem__session_post *holder = idem__claim_holder(session, key->at, key->len);
  return holder ? IDEM_CONTAINER(holder, idem__mcp_serving, post) : NULL;
}

/* This thread's idem__mcp_serving of a session that owes an answer to an id; NULL: none. It stays: it is ours. */
static idem__mcp_serving *find_owing(idem__http_session *session,
                                     const idem__mcp_endpoint *endpoint, const idem__id *id) {
  id_key key;
  if (!make_key(session, id, &key)) return NULL;
  idem__in_flight_lock(session);
  idem__mcp_serving *found = find_claim(session, &key);
  if (found && found->post.endpoint != endpoint) found = NULL;
  idem__in_flight_unlock(session);
  free_key(&key);
  return found && idem__conn_owes(found->peer.conn, id) ? found : NULL;
}

static void cancel_serving(idem__mcp_serving *owing, const idem__id *id) {
  if (!idem__conn_cancel_id(owing->peer.conn, id)) return;
  owing->cancelled = true;
  idem__http_serving_cancelled(owing);
}

/* A cancellation on its way to another thread, where the request may be. */
typedef struct far_cancel {
  idem_alloc alloc;
  idem__mcp_endpoint *endpoint;
  idem__http_session *session; /* counted */
  idem__id id;
  char bytes[];
} far_cancel;

static void cancel_there(void *arg) {
  far_cancel *order = arg;
  idem__mcp_serving *owing = find_owing(order->session, order->endpoint, &order->id);
  if (owing) cancel_serving(owing, &order->id);
  idem__http_session_unref(order->session);
  idem_alloc alloc = order->alloc;
  idem__free(&alloc, order);
}

/* With the lock of what is in flight held, so that the other endpoint is still there. Strings have a decoded text, too. */
static void send_far(idem__http_session *session, idem__mcp_endpoint *endpoint,
                     const idem__id *id) {
  const idem_alloc *alloc = &session->table->alloc;
  size_t text_len = id->kind == IDEM__ID_STRING ? id->text_len : 0;
  far_cancel *order = idem__malloc(alloc, sizeof *order + id->raw_len + text_len);
  if (!order) return;
  *order = (far_cancel){.alloc = *alloc, .endpoint = endpoint, .session = session, .id = *id};
  memcpy(order->bytes, id->raw, id->raw_len);
  if (text_len) memcpy(order->bytes + id->raw_len, id->text, text_len);
  order->id.raw = order->bytes;
  order->id.text = order->bytes + id->raw_len;
  order->id.text_len = text_len;
  idem__http_session_ref(order->session);
  if (idem__worker_post(endpoint->worker, cancel_there, order) == IDEM_OK) return;
  idem__http_session_unref(order->session); /* not the last: the serving holds it, too */
  idem__free(alloc, order);
}

void idem__carried_cancel(idem__http_session *session, const idem__id *id) {
  id_key key;
  if (!make_key(session, id, &key)) return;
  idem__in_flight_lock(session);
  const idem__mcp_serving *owing = find_claim(session, &key);
  if (owing) send_far(session, owing->endpoint, id);
  idem__in_flight_unlock(session);
  free_key(&key);
}

/* Ids are a session's, but each POST has a conn of its own, and they may be on several threads. */
static bool in_flight_elsewhere(idem_conn *conn, const idem__id *id, bool cancel) {
  idem__mcp_serving *serving = IDEM_CONTAINER(idem__mcp_peer_of(conn), idem__mcp_serving, peer);
  id_key key;
  if (!serving->session || !make_key(serving->session, id, &key)) return false;
  idem__in_flight_lock(serving->session);
  idem__mcp_serving *other = find_claim(serving->session, &key);
  if (other == serving) other = NULL;
  if (!other && !cancel) idem__claim_add(serving->session, &serving->post, key.at, key.len);
  bool far = other && other->endpoint != serving->endpoint;
  if (far && cancel) send_far(serving->session, other->endpoint, id);
  idem__in_flight_unlock(serving->session);
  free_key(&key);
  /* One of our own thread does not go away meanwhile. */
  if (other && cancel && !far) cancel_serving(other, id);
  if (!other && cancel) idem__carry_cancel(serving, id);
  return other != NULL;
}

const idem__conn_siblings idem__mcp_siblings = {.stray_response = on_response,
                                                .in_flight_elsewhere = in_flight_elsewhere};
