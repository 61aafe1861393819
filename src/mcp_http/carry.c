/* carry.c - what a client says to one process of a store and another must hear: answers to a question of its session go to the
 * process that asked, cancellations to whichever has the request. Both travel as news of the store, which every process
 * hears; one that has no such session passes them over. See docs/internals/mcp_http.md. */
#include "serving.h"

#include <string.h>

#define MARK IDEM__NEWS_CARRIED
#define LEAD (1 + IDEM__SESSION_ID)

/* Numbers of questions say who asked: each node counts from its own. */
#define NODE_SHIFT 28

uint64_t idem__carry_first_call(const idem__session_table *table) {
  return 1 + ((uint64_t)idem__node_number(table->opts.server) << NODE_SHIFT);
}

static bool tell(const idem__http_session *session, const idem__buf *name) {
  idem__store_op op = {.verb = IDEM__STORE_TELL,
                       .space = IDEM__STORE_NEWS,
                       .name = name->data,
                       .name_len = name->len};
  idem__store_run(session->table->store, &op);
  return true;
}

static idem_status begin(const idem__http_session *session, idem__buf *name) {
  static const char mark = MARK;
  idem__buf_init(name, &session->table->alloc, IDEM__STORE_NAME_MAX);
  idem_status status = idem__buf_put(name, &mark, 1);
  return status == IDEM_OK ? idem__buf_put(name, session->id, IDEM__SESSION_ID) : status;
}

idem__carry_end idem__carry_response(idem__http_session *session, const idem__message *message) {
  const idem_server *server = session->table->opts.server;
  uint64_t id = (uint64_t)message->id.integer;
  uint32_t node = id ? (uint32_t)((id - 1) >> NODE_SHIFT) : 0;
  idem__buf name;
  if (!node || node == idem__node_number(server)) return IDEM__CARRY_NOBODY;
  if (!idem__node_lives(server, node)) return IDEM__CARRY_DEAD;
  idem_status status = begin(session, &name);
  if (status == IDEM_OK) status = idem__carry_write(&name, message);
  if (status == IDEM_OK) tell(session, &name);
  idem__buf_deinit(&name);
  return status == IDEM_OK ? IDEM__CARRY_SENT : IDEM__CARRY_TOO_LARGE;
}

void idem__carry_cancel(idem__http_session *session, const idem__id *id) {
  idem__buf name;
  if (!idem__node_number(session->table->opts.server)) return;
  idem_status status = begin(session, &name);
  if (status == IDEM_OK) status = idem__buf_puts(&name, "{\"cancel\":");
  if (status == IDEM_OK) status = idem__buf_put(&name, id->raw, id->raw_len);
  if (status == IDEM_OK) status = idem__buf_puts(&name, "}");
  if (status == IDEM_OK) tell(session, &name);
  idem__buf_deinit(&name);
}

/* ------------------------------------------------------------------- hearing */

static idem__http_session *find(idem__session_table *table, const char *id) {
  idem__session_table_lock(table);
  idem__http_session *session = idem__map_get(&table->by_id, id, IDEM__SESSION_ID);
  if (session) idem__http_session_hold(session);
  idem__session_table_unlock(table);
  return session;
}

static void hear(idem__http_session *session, const char *text, size_t len) {
  static const char lead[] = "{\"cancel\":";
  yyjson_alc alc = idem__json_alc(&session->table->alloc);
  yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)text, len, 0, &alc, NULL);
  yyjson_val *root = yyjson_doc_get_root(doc), *cancel = yyjson_obj_get(root, "cancel");
  int64_t number;
  if (cancel && len > sizeof lead) {
    idem__id id;
    idem__id_read(cancel, text + sizeof lead - 1, len - sizeof lead, &id);
    idem__carried_cancel(session, &id);
  } else if (idem__json_get_int(yyjson_obj_get(root, "id"), &number)) {
    idem__carried_answer(session, (uint64_t)number, text, len);
  }
  yyjson_doc_free(doc);
}

void idem__carry_on_news(const idem__store_change *change, void *user) {
  bool carried =
      change->event == IDEM__STORE_WAS_TOLD && change->name_len > LEAD && change->name[0] == MARK;
  idem__http_session *session = carried ? find(user, change->name + 1) : NULL;
  if (!session) return;
  hear(session, change->name + LEAD, change->name_len - LEAD);
  idem__http_session_unref(session);
}
