/* inflight.c - the ids a peer is waiting for.
 * One table per conn, keyed by the comparable form of the id. An entry lives in its request, or in
 * its batch until the batch's array is sent. Null ids are exempt: any number may be in flight. */
#include "inside.h"

static bool comparable(const idem__id *id) {
  return id->kind == IDEM__ID_INTEGER || id->kind == IDEM__ID_NUMBER || id->kind == IDEM__ID_STRING;
}

/* The key goes into the entry itself or, when long, into the message's memory. */
static idem_status make_key(idem__owed *owed, const idem__id *id, idem__block *block) {
  size_t max = idem__id_key_max(id);
  char *key = owed->inline_key;
  if (max > sizeof owed->inline_key) {
    key = idem__arena_malloc(&block->arena, max);
    if (!key) return IDEM_E_NOMEM;
  }
  owed->key = key;
  owed->key_len = idem__id_key(id, key);
  return IDEM_OK;
}

idem_status idem__owed_add(idem_conn *conn, idem__owed *owed, const idem__id *id,
                           idem__block *block) {
  if (!comparable(id)) return IDEM_OK;
  if (id->raw_len > conn->policy.limits.in_flight_id_bytes - conn->id_bytes) return IDEM_E_LIMIT;
  idem_status status = make_key(owed, id, block);
  if (status == IDEM_OK) status = idem_map_put(&conn->owed, owed->key, owed->key_len, owed);
  if (status != IDEM_OK) {
    owed->key = NULL;
    return status;
  }
  owed->id_bytes = id->raw_len;
  conn->id_bytes += id->raw_len;
  return IDEM_OK;
}

void idem__owed_remove(idem_conn *conn, idem__owed *owed) {
  if (!owed->key) return;
  idem_map_remove(&conn->owed, owed->key, owed->key_len);
  conn->id_bytes -= owed->id_bytes;
  owed->key = NULL;
}

idem__owed *idem__owed_find(idem_conn *conn, const idem__id *id) {
  char small[64];
  if (!comparable(id) || conn->owed.count == 0) return NULL;
  size_t max = idem__id_key_max(id);
  char *key = max <= sizeof small ? small : idem__malloc(&conn->alloc, max);
  /* Without memory to compare, the table's own put will notice an equal id or fail. */
  if (!key) return NULL;
  idem__owed *owed = idem_map_get(&conn->owed, key, idem__id_key(id, key));
  if (key != small) idem__free(&conn->alloc, key);
  return owed;
}
