/* turn.c - turns: a loop works for a while on what its peers ask, then on what else it has. What has come by then waits in
 * the line of the pool, a conn with the bytes that it has not looked at, and goes on in another turn, one message each.
 * Without turns (pool->turn_ns 0) everything is worked on as it comes. See docs/internals/rpc.md. */
#include "inside.h"

#include <string.h>

/* ------------------------------------------------------------------- the line */

void idem__pool_set_turns(idem_pool *pool, uint64_t ns, uint64_t (*now_ns)(void *ctx),
                          void (*on_late)(void *user), void *user) {
  pool->turn_ns = ns;
  pool->turn_now_ns = pool->tick_ns = now_ns;
  pool->on_late = on_late;
  pool->on_late_user = user;
}

void idem__pool_set_tick(idem_pool *pool, uint64_t (*coarse_ns)(void *ctx)) {
  pool->tick_ns = coarse_ns;
}

void idem__pool_new_turn(idem_pool *pool) { pool->turn_ends_ns = 0; }

bool idem__pool_turn_over(idem_pool *pool, uint64_t now_ns) {
  if (!pool->turn_ns) return false;
  if (!pool->turn_ends_ns) pool->turn_ends_ns = now_ns + pool->turn_ns;
  return now_ns >= pool->turn_ends_ns;
}

bool idem__pool_turn_over_now(idem_pool *pool) {
  return pool->turn_ns && idem__pool_turn_over(pool, pool->turn_now_ns(NULL));
}

void idem__pool_put_off(idem_pool *pool, idem__late *late) {
  if (!idem_list_empty(&late->link)) return;
  idem_list_append(&pool->late, &late->link);
  pool->on_late(pool->on_late_user);
}

bool idem__pool_run_late(idem_pool *pool) {
  idem__pool_new_turn(pool);
  while (!idem_list_empty(&pool->late)) {
    if (idem__pool_turn_over_now(pool)) return true;
    idem__late *late = IDEM_CONTAINER(pool->late.next, idem__late, link);
    idem_list_remove(&late->link);
    late->run(late);
  }
  return false;
}

/* ------------------------------------------------------------------- of a conn */

void idem__turn_deinit(idem_conn *conn) {
  if (conn->rest) idem__turn_rest_taken(conn);
}

idem_buf *idem__turn_room(idem_conn *conn, size_t len) {
  idem__rest *rest = conn->rest;
  if (!rest) {
    rest = idem__calloc(&conn->alloc, sizeof *rest);
    if (!rest) return NULL;
    rest->late.run = idem__conn_go_on;
    rest->conn = conn;
    idem_list_init(&rest->late.link);
    idem_buf_init(&rest->bytes, &conn->alloc, conn->policy.limits.message_bytes + IDEM__REST_ROOM);
  }
  bool fits = idem_buf_reserve(&rest->bytes, len) == IDEM_OK;
  if (!fits && !conn->rest) idem__free(&conn->alloc, rest);
  if (!fits) return NULL;
  conn->rest = rest;
  return &rest->bytes;
}

uint64_t idem__conn_clock(idem_conn *conn) { return idem__conn_now_ns(conn); }

bool idem__conn_waits(const idem_conn *conn) { return idem__turn_waits(conn); }

/* What a conn has done something of goes on only while nobody waits. Its own clock is read when the coarse one has moved on:
 * read for each message, it takes a tenth of the time of a short one. */
bool idem__turn_is_over(idem_conn *conn, bool progress) {
  idem_pool *pool = conn->pool;
  if (conn->refuses) return false; /* to refuse takes no time */
  if (progress && pool->tick_ns(NULL) > conn->now_ns) idem__conn_now_ns(conn);
  if (progress && conn->going_on && !idem_list_empty(&pool->late)) return true;
  return idem__pool_turn_over(pool, conn->now_ns);
}

bool idem__turn_keep(idem_conn *conn, const char *data, size_t len) {
  idem_buf *room = idem__turn_room(conn, len);
  if (!room || idem_buf_put(room, data, len) != IDEM_OK) return false;
  idem__pool_put_off(conn->pool, &conn->rest->late);
  return true;
}

/* Without memory to keep it, it is worked on now; behind a batch that waits it cannot be. */
bool idem__turn_put_off(idem_conn *conn, bool progress) {
  idem__framer *framer = &conn->framer;
  bool behind = idem__turn_waits_in_batch(conn);
  if (!framer->input_len) return behind;
  if (!behind && !idem__turn_is_over(conn, progress)) return false;
  if (conn->going_on) {
    conn->rest->at = conn->rest->bytes.len - framer->input_len;
    idem__pool_put_off(conn->pool, &conn->rest->late);
  } else if (!idem__turn_keep(conn, framer->input, framer->input_len)) {
    if (!behind) return false;
    idem__conn_fail(conn, IDEM_E_NOMEM);
  }
  framer->input_len = 0;
  return true;
}

/* ------------------------------------------------------------------ of a batch */

void idem__conn_keep_batches_whole(idem_conn *conn) { conn->whole = true; }

/* Behind it nothing is looked at until it is done, so that answers and effects keep their order. */
bool idem__turn_leave_batch(idem_conn *conn, const struct idem__batch_rest *at) {
  if (conn->closed || conn->whole || idem__turn_waits_in_batch(conn)) return false;
  if (!idem__turn_is_over(conn, true)) return false;
  idem__block *block = at->batch->block;
  if (!idem__block_keep_text(block) || !idem__block_charge(block) || !idem__turn_room(conn, 0))
    return false;
  conn->rest->batch = *at;
  conn->in_flight++;
  idem__pool_put_off(conn->pool, &conn->rest->late);
  return true;
}

/* ------------------------------------------------------------ of what was held */

bool idem__turn_leave_held(idem_conn *conn, bool progress) {
  if (conn->closed || !idem__turn_is_over(conn, progress)) return false;
  if (!idem__turn_room(conn, 0)) return false;
  idem__pool_put_off(conn->pool, &conn->rest->late);
  return true;
}

void idem__turn_rest_taken(idem_conn *conn) {
  idem__rest *rest = conn->rest;
  conn->rest = NULL;
  idem_list_remove(&rest->late.link);
  idem_buf_deinit(&rest->bytes);
  idem__free(&conn->alloc, rest);
}
