/* park.c - requests that outlive the message that brought them: those whose handler answers later, and those that wait for
 * their turn. They take their id along, count to the bounds of what is in flight, and have a deadline. */
#include "inside.h"

#include <string.h>

/* A request that outlives its message's text takes its id's token along; most are answered before
 * and never need to. */
static idem_status keep_id(idem_request *request) {
  idem__id *id = &request->id;
  char *copy = request->inline_id;
  if (!id->raw || request->id_kept) return IDEM_OK;
  if (id->raw_len > sizeof request->inline_id) {
    copy = idem__arena_malloc(&request->block->arena, id->raw_len);
    if (!copy) return IDEM_E_NOMEM;
  }
  memcpy(copy, id->raw, id->raw_len);
  id->raw = copy;
  request->id_kept = true;
  return IDEM_OK;
}

static void lose_id(idem_request *request) {
  request->id.raw = NULL;
  request->id.raw_len = 0;
}

void idem__park_failed(idem_request *request, idem_status status) {
  idem__answer answer =
      status == IDEM_E_LIMIT
          ? idem__answer_invalid_request(&request->conn->policy, IDEM__TOO_MANY_IN_FLIGHT)
          : idem__answer_code(IDEM_RPC_INTERNAL_ERROR);
  idem__request_settle(request, &answer);
  if (!request->id_kept) lose_id(request);
  idem__request_cancel(request, IDEM_CANCEL_CLOSED);
}

static idem_status start_timer(idem_request *request) {
  idem_conn *conn = request->conn;
  uint64_t allowed = conn->policy.limits.request_ms;
  if (!allowed || request->timer.index) return IDEM_OK;
  return idem__heap_put(&conn->request_timers, &request->timer,
                        request->started_ns / 1000000u + allowed);
}

/* Writes the request into the books: it outlives the message that brought it. */
static idem_status park(idem_request *request) {
  idem_conn *conn = request->conn;
  request->parked = true;
  if (!request->held) idem_list_append(&conn->requests, &request->link);
  if (conn->aborted) return IDEM_E_CLOSED;
  if (!idem__block_charge(request->block)) return IDEM_E_LIMIT;
  idem_status shared = idem__work_begin(request);
  if (shared != IDEM_OK) return shared;
  if (!request->batch && !request->owed.key && request->id.kind != IDEM__ID_ABSENT) {
    request->owed.request = request;
    idem_status status = idem__owed_add(conn, &request->owed, &request->id, request->block);
    if (status != IDEM_OK) return status;
  }
  return start_timer(request);
}

void idem__park_kept(idem_request *request) {
  if (request->attachment_keep) request->attachment_keep(request->attachment);
  idem_status status = keep_id(request);
  if (request->settled) {
    if (status != IDEM_OK) lose_id(request);
    return;
  }
  if (status == IDEM_OK) status = park(request);
  if (status != IDEM_OK) idem__park_failed(request, status);
}

/* ----------------------------------------------------- waiting for a turn */

bool idem__park_has_room(const idem_conn *conn, const idem__block *block) {
  return block->held ||
         conn->held_bytes + block->arena.cap <= conn->policy.limits.queued_input_bytes;
}

/* Whoever looks at requests before they run may want to echo more than the id as it was spelled. */
static void keep_text(const idem_conn *conn, idem__block *block) {
  if (conn->opts.router && conn->opts.router->gate) idem__block_keep_text(block);
}

static void hold(idem_request *request) {
  idem_conn *conn = request->conn;
  if (!request->block->held) keep_text(conn, request->block);
  idem_list_append(&conn->held, &request->link);
  request->held = true;
  if (request->block->held++ == 0) conn->held_bytes += request->block->arena.cap;
}

void idem__park_until_turn(idem_request *request) {
  idem_conn *conn = request->conn;
  hold(request);
  idem_status status =
      conn->held_bytes > conn->policy.limits.queued_input_bytes ? IDEM_E_LIMIT : keep_id(request);
  if (status == IDEM_OK) status = park(request);
  if (status == IDEM_OK) return;
  idem__park_failed(request, status);
  idem__request_end(request);
}

idem_status idem__park_silent(idem_request *request) {
  hold(request);
  return park(request);
}
