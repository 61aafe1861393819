/* claims.c - what a session has in flight, on all threads: the ids its client waits for, each claimed by
 * the POST that brought it, and the POSTs whose handlers may ask the client. Both are found by hash,
 * under a lock of the session's own, so that however many there are nobody else waits. */
#include "mcp_http.h"

#include <string.h>

/* What a map may keep when nothing is in flight: sessions are many, and mostly at rest. */
#define SLOTS_KEPT 64

void idem__in_flight_init(idem__http_session *session) {
  idem__in_flight *self = &session->in_flight;
  idem__lock_init(&self->lock);
  idem_map_init(&self->claims, &session->table->alloc, session->table->by_id.seed);
  idem_map_init(&self->posts, &session->table->alloc, session->table->by_id.seed);
  self->next_call = idem__carry_first_call(session->table);
}

void idem__in_flight_deinit(idem__http_session *session) {
  idem_map_deinit(&session->in_flight.claims);
  idem_map_deinit(&session->in_flight.posts);
}

void idem__in_flight_lock(idem__http_session *session) {
  idem__lock_take(&session->in_flight.lock);
}
void idem__in_flight_unlock(idem__http_session *session) {
  idem__lock_give(&session->in_flight.lock);
}

static void give_slots_back(idem_map *map) {
  if (!map->count && map->cap > SLOTS_KEPT) idem_map_deinit(map);
}

void idem__in_flight_rest(idem__http_session *session) { idem__in_flight_deinit(session); }

/* ------------------------------------------------------------------ who may ask */

idem_status idem__post_join(idem__http_session *session, idem__session_post *post) {
  idem__in_flight *self = &session->in_flight;
  idem__in_flight_lock(session);
  post->first_call = self->next_call;
  self->next_call += IDEM__CALLS_RESERVED;
  const char *key = (const char *)&post->first_call;
  idem_status status = idem_map_put(&self->posts, key, sizeof post->first_call, post);
  idem__in_flight_unlock(session);
  return status;
}

void idem__post_leave(idem__http_session *session, idem__session_post *post) {
  idem__in_flight *self = &session->in_flight;
  const idem_alloc *alloc = &session->table->alloc;
  idem__in_flight_lock(session);
  idem_map_remove(&self->posts, (const char *)&post->first_call, sizeof post->first_call);
  for (idem__claim *at = post->claims, *next; at; at = next) {
    next = at->next;
    idem_map_remove(&self->claims, at->key, at->len);
    if (at != &post->first_claim) idem__free(alloc, at);
  }
  post->claims = NULL;
  give_slots_back(&self->claims);
  give_slots_back(&self->posts);
  idem__in_flight_unlock(session);
}

idem__session_post *idem__post_of_call(const idem__http_session *session, uint64_t id) {
  uint64_t first = (id - 1) / IDEM__CALLS_RESERVED * IDEM__CALLS_RESERVED + 1;
  if (!id) return NULL;
  return idem_map_get(&session->in_flight.posts, (const char *)&first, sizeof first);
}

/* ----------------------------------------------------------------------- claims */

idem__session_post *idem__claim_holder(const idem__http_session *session, const char *key,
                                       size_t len) {
  const idem__claim *claim = idem_map_get(&session->in_flight.claims, key, len);
  return claim ? claim->post : NULL;
}

/* One POST has one id, nearly always: that one costs no memory of its own. Where there is none to be
 * had the id can be told apart on its own conn only. */
void idem__claim_add(idem__http_session *session, idem__session_post *post, const char *key,
                     size_t len) {
  const idem_alloc *alloc = &session->table->alloc;
  bool fits = !post->claims && len <= sizeof post->first_key;
  idem__claim *claim = fits ? &post->first_claim : idem__malloc(alloc, sizeof *claim + len);
  if (!claim) return;
  char *copy = fits ? post->first_key : (char *)(claim + 1);
  memcpy(copy, key, len);
  *claim = (idem__claim){.next = post->claims, .post = post, .len = len, .key = copy};
  if (idem_map_put(&session->in_flight.claims, copy, len, claim) == IDEM_OK)
    post->claims = claim;
  else if (!fits)
    idem__free(alloc, claim); /* its own already, or no memory */
}

/* --------------------------------------------------------------------- streams */

void idem__post_set_stream(idem__http_session *session, idem__session_post *post, uint64_t stream) {
  idem__in_flight_lock(session);
  post->stream = stream;
  idem__in_flight_unlock(session);
}

bool idem__post_streams(idem__http_session *session, uint64_t stream) {
  const idem__session_post *post;
  bool found = false;
  size_t at = 0;
  idem__in_flight_lock(session);
  while (!found && (post = idem_map_next(&session->in_flight.posts, &at)))
    found = post->stream == stream;
  idem__in_flight_unlock(session);
  return found;
}

idem_status idem__post_write_ids(idem__http_session *session, const idem__session_post *post,
                                 idem_buf *out) {
  idem__writer writer = idem__writer_on(out);
  idem__write_array(&writer);
  idem__in_flight_lock(session);
  for (const idem__claim *at = post->claims; at; at = at->next) {
    const idem__id *id = idem__conn_owed_id(post->conn, at->key, at->len);
    if (id)
      idem__write_raw(&writer, id->raw, id->raw_len);
    else
      idem__id_key_write(&writer, at->key, at->len);
  }
  idem__in_flight_unlock(session);
  idem__write_array_end(&writer);
  return writer.status;
}
