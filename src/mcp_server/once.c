/* once.c - how a call with a key finds out what it is: the first, which runs; one that joins another; one whose
 * answer is there. The store is asked by whoever comes first on this server, for all who come meanwhile. */
#include "once.h"
#include "context.h"
#include "server.h"

#include <string.h>

#define TRIES_MAX 64u
#define RUNNING_MS 86400000u /* at least: the time of a key counts from when it has its answer */

/* ---------------------------------------------------------------- the store */

idem__store_op idem__once_op(const idem__once *once, idem__store_verb verb) {
  return (idem__store_op){.verb = verb,
                          .space = IDEM__STORE_ONCE,
                          .name = (const char *)once->name,
                          .name_len = sizeof once->name,
                          .ttl_ms = once->server->opts.key_ms,
                          .limit = once->server->opts.max_keys,
                          .group = once->group,
                          .group_limit = once->server->opts.max_keys_each,
                          .now_ms = idem__server_wall_ms(once->server),
                          .user = (void *)(uintptr_t)once};
}

#define HEAD_ROOM 256u

static bool is_final(idem__once_state state) {
  return state != IDEM__ONCE_RUNNING && state != IDEM__ONCE_ASKED;
}

void idem__once_put(idem__once *once, const idem__once_record *record, uint64_t expect,
                    idem__store_done done) {
  idem_server *server = once->server;
  idem__store_op op = idem__once_op(once, IDEM__STORE_PUT);
  idem_buf bytes;
  idem_buf_init(&bytes, &server->alloc, record->len + HEAD_ROOM);
  idem_status status = idem__once_record_write(record, &bytes);
  op.bytes = bytes.data;
  op.len = bytes.len;
  op.expect = expect;
  op.done = done;
  if (is_final(record->state)) op.ttl_ms = once->ttl_ms;
  if (record->state == IDEM__ONCE_RUNNING && op.ttl_ms < RUNNING_MS) op.ttl_ms = RUNNING_MS;
  op.owed = is_final(
      record
          ->state); /* it has run: the store had room for its key, and is to have it for the answer */
  op.quiet = record->state == IDEM__ONCE_RUNNING; /* who waits for the key waits for more */
  if (status == IDEM_OK)
    idem__store_submit(server->store, once->worker->store_queue, &op, NULL);
  else
    done(&(idem__store_answer){.status = status}, once);
  idem_buf_deinit(&bytes);
}

static void on_taken(const idem__store_answer *answer, void *user);

/* The first of those who wait says what the record says: it is the one that runs, if it is still there. */
void idem__once_take(idem__once *once, uint64_t expect) {
  idem__once_record record = {.state = IDEM__ONCE_RUNNING};
  memcpy(record.node, once->server->node.id, sizeof record.node);
  memcpy(record.digest, once->digest, sizeof record.digest);
  idem__once_put(once, &record, expect, on_taken);
}

static void mark_unknown(idem__once *once);

/* It was there: given back, or lost with its store. */
static void take_gone(idem__once *once) {
  once->asked_before = true;
  idem__once_take(once, IDEM__STORE_ABSENT);
}

static void on_not_known(const idem__store_answer *answer, void *user) {
  idem__once_gave_back(user, answer, IDEM__ONCE_REFUSED);
}

/* The key is ours, in the store that has it now. Where that is another than the one it was first asked with it may have run, or run still. */
static void on_judged(const idem__store_answer *answer, void *user) {
  idem__once *once = user;
  idem_status status = idem__identity_judge(once->store_name, answer);
  if (status == IDEM_OK) {
    idem__once_start(once);
  } else if (status == IDEM_E_STATE) {
    once->forgotten = true;
    idem__identity_doubt(once->server);
    mark_unknown(once);
  } else {
    idem__once_give_back(once, on_not_known);
  }
}

static void judge_store(idem__once *once) {
  idem__store_op op = idem__identity_op(IDEM__STORE_GET);
  op.done = on_judged;
  op.user = once;
  idem__store_submit(once->server->store, once->worker->store_queue, &op, NULL);
}

static idem__once_refusal why_full(const idem__store_answer *answer) {
  switch (answer->number) {
  case IDEM__STORE_FULL_GROUP: return IDEM__ONCE_SHARE;
  case IDEM__STORE_FULL_ELSE:
  case IDEM__STORE_FULL_OUTSIDE: return IDEM__ONCE_UNAVAILABLE;
  default: return IDEM__ONCE_FULL;
  }
}

static idem__once_refusal why_silent(const idem__store_answer *answer) {
  return answer->status == IDEM_E_NOMEM ? IDEM__ONCE_MEMORY : IDEM__ONCE_UNAVAILABLE;
}

static void on_taken(const idem__store_answer *answer, void *user) {
  idem__once *once = user;
  switch (answer->status) {
  case IDEM_OK:
    once->version = answer->version;
    if (once->asked_before && !once->may_repeat && once->server->identity.shared)
      judge_store(once);
    else
      idem__once_start(once);
    return;
  case IDEM_E_EXISTS:
  case IDEM_E_STATE: idem__once_look(once); return;
  case IDEM_E_NOTFOUND: take_gone(once); return;
  case IDEM_E_LIMIT: idem__once_settle(once, IDEM__ONCE_REFUSED, why_full(answer)); return;
  case IDEM_E_NOMEM: idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_MEMORY); return;
  default: break;
  }
  if (idem__store_did_not(answer))
    idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_UNAVAILABLE);
  else
    idem__once_doubt(once);
}

/* ------------------------------------------------------------------ judging */

static void replay(idem__once *once, const idem__once_record *record) {
  once->outcome =
      idem__once_text_new(&once->server->alloc, record->is_error, record->text, record->len);
  if (once->outcome)
    idem__once_settle(once, IDEM__ONCE_REPLAY, 0);
  else
    idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_MEMORY);
}

static void on_marked(const idem__store_answer *answer, void *user) {
  idem__once *once = user;
  if (answer->status == IDEM_OK)
    idem__once_settle(once, IDEM__ONCE_REFUSED,
                      once->forgotten ? IDEM__ONCE_FORGOTTEN : IDEM__ONCE_LOST);
  else
    idem__once_look(once);
}

/* From now on whoever ran it can write nothing: the version is another. */
static void mark_unknown(idem__once *once) {
  idem__once_record record = {.state = IDEM__ONCE_UNKNOWN};
  memcpy(record.digest, once->digest, sizeof record.digest);
  idem__once_put(once, &record, once->version, on_marked);
}

/* False: nobody waits for it. Else it may be gone: where a store tells at once, so does the node that is asked. */
static bool wait_elsewhere(idem__once *once) {
  idem__mcp_worker *worker = once->worker;
  idem__once_lock(once->server);
  bool wanted = !idem_list_empty(&once->callers);
  if (wanted) idem__once_set_stage(once, IDEM__ONCE_ELSEWHERE);
  idem__once_unlock(once->server);
  if (wanted) idem__once_announce(once);
  if (wanted) idem__worker_wake(worker);
  return wanted;
}

/* It began, and whoever had it in hand will not end it. */
static void judge_orphan(idem__once *once) {
  if (once->may_repeat)
    idem__once_take(once, once->version);
  else
    mark_unknown(once);
}

static void on_node(const idem__store_answer *answer, void *user) {
  idem__once *once = user;
  if (answer->status == IDEM_OK) {
    if (!wait_elsewhere(once)) idem__once_settle(once, IDEM__ONCE_AGAIN, 0);
  } else if (answer->status != IDEM_E_NOTFOUND) {
    idem__once_settle(once, IDEM__ONCE_REFUSED, why_silent(answer));
  } else {
    judge_orphan(once);
  }
}

static bool is_disowned(const idem__once *once) {
  idem__once_lock(once->server);
  bool disowned = once->disowned == once->version;
  idem__once_unlock(once->server);
  return disowned;
}

/* What the record says of those who wait with its arguments. */
static void judge_same(idem__once *once, const idem__once_record *record) {
  idem_server *server = once->server;
  switch (record->state) {
  case IDEM__ONCE_DONE: replay(once, record); return;
  case IDEM__ONCE_UNKEPT: idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_TOO_LARGE); return;
  case IDEM__ONCE_UNKNOWN: idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_LOST); return;
  case IDEM__ONCE_ASKED: idem__once_take(once, once->version); return;
  case IDEM__ONCE_RUNNING: break;
  }
  /* Ours, and nobody here has it: what was written behind it was lost with its store. */
  memcpy(once->owner, record->node, sizeof once->owner);
  if (idem__node_is_own(server, record->node) || is_disowned(once))
    judge_orphan(once);
  else
    idem__node_find(server, once->worker->store_queue, record->node, on_node, once);
}

static void judge(idem__once *once, const idem__once_record *record) {
  idem__once_lock(once->server);
  memcpy(once->digest, record->digest, sizeof once->digest);
  once->judged = true;
  idem__once_unlock(once->server);
  idem__once_refuse_others(once);
  judge_same(once, record);
}

static void on_looked(const idem__store_answer *answer, void *user) {
  idem__once *once = user;
  idem__once_record record;
  once->version = answer->version;
  if (answer->status == IDEM_E_NOTFOUND)
    take_gone(once);
  else if (answer->status == IDEM_OK && idem__once_record_read(answer->bytes, answer->len, &record))
    judge(once, &record);
  else
    idem__once_settle(once, IDEM__ONCE_REFUSED, why_silent(answer));
}

void idem__once_look(idem__once *once) {
  idem__store_op op = idem__once_op(once, IDEM__STORE_GET);
  op.done = on_looked;
  if (once->tries++ < TRIES_MAX)
    idem__store_submit(once->server->store, once->worker->store_queue, &op, NULL);
  else
    idem__once_settle(once, IDEM__ONCE_REFUSED, IDEM__ONCE_BUSY);
}
