/* once_doubt.c - a key of which nobody knows whether the store has it as ours. Nothing ran; but the others would wait for us as long as
 * we live, so its record is looked for when the store answers again, and given back. See once.h. */
#include "once.h"
#include "server.h"

#define DOUBTS_MAX 4096u

static void wait_in_doubt(idem__once *once) {
  idem__once_tell(once, IDEM__ONCE_REFUSED, IDEM__ONCE_UNAVAILABLE);
  idem__once_lock(once->server);
  idem__once_set_stage(once, IDEM__ONCE_UNSAVED);
  idem__once_unlock(once->server);
  idem__worker_wake(once->worker);
}

void idem__once_doubt(idem__once *once) {
  idem__once_table *table = once->server->onces;
  if (atomic_load(&table->doubts) >= DOUBTS_MAX) {
    idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_UNAVAILABLE);
    return;
  }
  once->doubtful = true;
  atomic_fetch_add(&table->doubts, 1);
  wait_in_doubt(once);
}

/* It is not in the store, or not as ours. */
static bool is_gone(const idem__store_answer *answer) {
  idem_status status = answer->status;
  return status == IDEM_OK || status == IDEM_E_NOTFOUND || status == IDEM_E_STATE;
}

void idem__once_gave_back(idem__once *once, const idem__store_answer *answer,
                          idem__once_verdict verdict) {
  if (is_gone(answer))
    idem__once_settle(once, verdict, IDEM__ONCE_UNAVAILABLE);
  else
    idem__once_doubt(once);
}

static void on_doubt_removed(const idem__store_answer *answer, void *user) {
  if (is_gone(answer))
    idem__once_settle(user, IDEM__ONCE_AGAIN, 0);
  else
    wait_in_doubt(user);
}

static void on_doubt_looked(const idem__store_answer *answer, void *user) {
  idem__once *once = user;
  idem__once_record record;
  once->version = answer->version;
  if (answer->status != IDEM_OK && answer->status != IDEM_E_NOTFOUND)
    wait_in_doubt(once);
  else if (answer->status == IDEM_OK &&
           idem__once_record_read(answer->bytes, answer->len, &record) &&
           record.state == IDEM__ONCE_RUNNING && idem__node_is_own(once->server, record.node))
    idem__once_give_back(once, on_doubt_removed);
  else
    idem__once_settle(once, IDEM__ONCE_AGAIN, 0);
}

void idem__once_look_in_doubt(idem__once *once) {
  idem__store_op op = idem__once_op(once, IDEM__STORE_GET);
  op.done = on_doubt_looked;
  idem__store_submit(once->server->store, once->worker->store_queue, &op, NULL);
}
