/* batch.c - the answers of a batch, gathered until none is missing.
 * Answers are appended to one buffer as they come and sent as one array in the order of the
 * elements. The ids stay in flight until the array is sent. */
#include "inside.h"

#include <string.h>

idem_status idem__batch_new(idem_conn *conn, idem__block *block, size_t max_answers,
                            idem__batch **out) {
  idem__batch *batch =
      idem__calloc(&conn->alloc, sizeof *batch + max_answers * sizeof batch->parts[0]);
  if (!batch) return IDEM_E_NOMEM;
  batch->conn = conn;
  batch->block = block;
  block->refs++;
  batch->open = true;
  idem_buf_init(&batch->answers, &conn->alloc, idem__output_bound(conn));
  idem_list_append(&conn->batches, &batch->link);
  *out = batch;
  return IDEM_OK;
}

void idem__batch_free(idem__batch *batch) {
  idem_conn *conn = batch->conn;
  for (size_t i = 0; i < batch->count; i++) idem__owed_remove(conn, &batch->parts[i].owed);
  conn->queued -= batch->answers.len;
  conn->gathered -= batch->answers.len;
  idem_list_remove(&batch->link);
  idem_buf_deinit(&batch->answers);
  idem__block_release(batch->block);
  idem__free(&conn->alloc, batch);
}

size_t idem__batch_expect(idem__batch *batch) {
  batch->waiting++;
  return batch->count++;
}

static idem_status put_array(idem__batch *batch, idem_buf *out) {
  idem_status status = idem_buf_reserve(out, batch->answers.len + batch->count + 2);
  char separator = '[';
  for (size_t i = 0; i < batch->count && status == IDEM_OK; i++) {
    if (!batch->parts[i].len) continue;
    status = idem_buf_put(out, &separator, 1);
    if (status == IDEM_OK) {
      status = idem_buf_put(out, batch->answers.data + batch->parts[i].offset, batch->parts[i].len);
    }
    separator = ',';
  }
  return status == IDEM_OK ? idem_buf_puts(out, "]") : status;
}

static void send_array(idem__batch *batch) {
  idem_conn *conn = batch->conn;
  idem__chunk *chunk;
  size_t start, counted = batch->answers.len;
  idem_status status = idem__output_begin(conn, &chunk, &start);
  if (status == IDEM_OK) {
    status = put_array(batch, &chunk->buf);
    if (status != IDEM_OK) idem__output_undo(conn, chunk, start);
  }
  if (status == IDEM_OK) {
    /* The answers were counted when they came; do not count them twice against the limit. */
    conn->queued -= counted;
    conn->gathered -= counted;
    status = idem__output_end(conn, chunk, start, (idem_outgoing){IDEM_OUTGOING_BATCH, {0}});
    conn->queued += counted;
    conn->gathered += counted;
  }
  if (status != IDEM_OK) idem__conn_fail(conn, status);
}

static void finish_if_complete(idem__batch *batch) {
  if (batch->open || batch->waiting) return;
  if (batch->answers.len && batch->conn->failure == IDEM_OK) send_array(batch);
  idem__batch_free(batch);
}

static idem_status append(idem__batch *batch, size_t index, const idem__id *id,
                          const idem__answer *answer) {
  idem_conn *conn = batch->conn;
  size_t offset = batch->answers.len;
  idem_status status = idem__answer_put(&batch->answers, &conn->policy, id, answer);
  if (status != IDEM_OK) return status;
  size_t len = batch->answers.len - offset;
  if (conn->queued + len > idem__output_hard_limit(conn)) {
    batch->answers.len = offset;
    return IDEM_E_LIMIT;
  }
  conn->queued += len;
  conn->gathered += len;
  batch->parts[index].offset = offset;
  batch->parts[index].len = len;
  return IDEM_OK;
}

idem_status idem__batch_answer(idem__batch *batch, size_t index, const idem__id *id,
                               const idem__answer *answer) {
  idem_conn *conn = batch->conn;
  idem_status status = append(batch, index, id, answer);
  if (status != IDEM_OK) {
    idem__answer instead = idem__answer_code(IDEM_RPC_INTERNAL_ERROR);
    idem_status second = append(batch, index, id, &instead);
    if (second != IDEM_OK) idem__conn_fail(conn, second);
  }
  idem__batch_skip(batch, index);
  return status;
}

void idem__batch_skip(idem__batch *batch, size_t index) {
  batch->parts[index].owed.request = NULL;
  batch->waiting--;
  finish_if_complete(batch);
}

void idem__batch_close(idem__batch *batch) {
  batch->open = false;
  finish_if_complete(batch);
}
