/* session_record.c - a legacy session as bytes for the store, and back: JSON, so that it can be read
 * where it is kept. The principal it is bound to is part of it. See docs/internals/store.md. */
#include "mcp_http.h"

#include <string.h>

#define MOST_SUBSCRIPTIONS ((size_t)1 << 32) /* as many as the record has */

/* ------------------------------------------------------------------ images */

idem__http_session *idem__http_session_new(idem__session_table *table, const char *principal,
                                           const idem__revision *revision, yyjson_val *params) {
  size_t principal_size = strlen(principal) + 1;
  idem__http_session *session = idem__calloc(&table->alloc, sizeof *session + principal_size);
  if (!session) return NULL;
  session->principal = memcpy(session + 1, principal, principal_size);
  session->table = table;
  idem_list_init(&session->link);
  idem_list_init(&session->idle);
  idem_list_init(&session->own_idle);
  idem_list_init(&session->doubt);
  idem_list_init(&session->changes);
  idem__in_flight_init(session);
  idem_status status =
      idem__session_init(&session->legacy, &table->alloc, table->by_id.seed, revision, params);
  session->legacy.name = session->id;
  if (status == IDEM_OK) return session;
  idem__http_session_destroy(session);
  return NULL;
}

void idem__http_session_destroy(idem__http_session *session) {
  idem_alloc alloc = session->table->alloc;
  idem__session_deinit(&session->legacy);
  idem__in_flight_deinit(session);
  idem__free(&alloc, session);
}

/* ----------------------------------------------------------------- writing */

static void write_subscriptions(const idem_map *subscriptions, idem__writer *writer) {
  size_t at = 0;
  idem__write_key(writer, "subscriptions");
  idem__write_array(writer);
  for (const char *uri; (uri = idem_map_next(subscriptions, &at));) idem__write_text(writer, uri);
  idem__write_array_end(writer);
}

idem_status idem__record_write(const idem__http_session *session, idem_buf *out) {
  const idem__mcp_session *legacy = &session->legacy;
  idem__writer writer = idem__writer_on(out);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "principal", session->principal);
  if (session->claimed) idem__write_member_bool(&writer, "claimed", true);
  idem__write_member_text(&writer, "revision", legacy->revision->date);
  idem__write_member_bool(&writer, "initialized", atomic_load(&legacy->initialized));
  idem__write_member_int(&writer, "level", atomic_load(&legacy->log_level));
  if (legacy->listener[0]) idem__write_member_text(&writer, "listener", legacy->listener);
  if (legacy->subscriptions.count) write_subscriptions(&legacy->subscriptions, &writer);
  idem__write_member_value(&writer, "hello", legacy->hello->root);
  idem__write_object_end(&writer);
  return writer.status;
}

/* ----------------------------------------------------------------- reading */

/* Takes over what may have changed; who asked for what is as the record says. */
static idem_status take_over(idem__mcp_session *legacy, yyjson_val *root) {
  yyjson_val *level = yyjson_obj_get(root, "level"), *listener = yyjson_obj_get(root, "listener");
  idem_map old = legacy->subscriptions;
  idem_status status = IDEM_OK;
  atomic_store(&legacy->initialized, yyjson_is_true(yyjson_obj_get(root, "initialized")));
  if (yyjson_is_int(level)) atomic_store(&legacy->log_level, (int)yyjson_get_sint(level));
  if (yyjson_get_len(listener) == IDEM__NODE_ID && yyjson_is_str(listener))
    memcpy(legacy->listener, yyjson_get_str(listener), IDEM__NODE_ID);
  idem_map_init(&legacy->subscriptions, &legacy->alloc, old.seed);
  legacy->subscribed_bytes = 0;
  yyjson_arr_iter iter = yyjson_arr_iter_with(yyjson_obj_get(root, "subscriptions"));
  for (yyjson_val *uri; status == IDEM_OK && (uri = yyjson_arr_iter_next(&iter));) {
    idem__session_change change = {.kind = IDEM__SESSION_SUBSCRIBE};
    change.uri = yyjson_get_str(uri);
    change.uri_len = yyjson_get_len(uri);
    if (change.uri) status = idem__session_apply(legacy, &change, MOST_SUBSCRIPTIONS);
  }
  size_t at = 0;
  for (char *uri; (uri = idem_map_next(&old, &at));) idem__free(&legacy->alloc, uri);
  idem_map_deinit(&old);
  return status;
}

static idem__http_session *new_from(idem__session_table *table, yyjson_val *root) {
  yyjson_val *principal = yyjson_obj_get(root, "principal");
  yyjson_val *date = yyjson_obj_get(root, "revision");
  yyjson_val *hello = yyjson_obj_get(root, "hello");
  const idem__revision *revision =
      yyjson_is_str(date) ? idem__revision_find(yyjson_get_str(date), yyjson_get_len(date)) : NULL;
  if (!revision || !yyjson_is_str(principal) || !yyjson_is_obj(hello)) return NULL;
  idem__http_session *session =
      idem__http_session_new(table, yyjson_get_str(principal), revision, hello);
  if (session) session->claimed = yyjson_is_true(yyjson_obj_get(root, "claimed"));
  return session;
}

idem_status idem__record_read(idem__session_table *table, const char *text, size_t len,
                              idem__http_session *into, idem__http_session **out) {
  yyjson_alc alc = idem__json_alc(&table->alloc);
  yyjson_doc *doc =
      yyjson_read_opts((char *)(uintptr_t)text, len, YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL);
  yyjson_val *root = yyjson_doc_get_root(doc);
  idem__http_session *session = into ? into : new_from(table, root);
  idem_status status = session && root ? take_over(&session->legacy, root) : IDEM_E_INVAL;
  if (status != IDEM_OK && session && !into) {
    idem__http_session_destroy(session);
    session = NULL;
  }
  yyjson_doc_free(doc);
  if (out) *out = session;
  return status;
}
