/* identity.c - see identity.h. Nobody is told when a store loses what it held: it is noticed by who finds its own record gone, comes
 * back after a break, or hears that another has noticed; of a store of several parts by who misses the mark in one. */
#include "identity.h"
#include "once.h"
#include "server.h"
#include "task.h"
#include "worker.h"

#include <string.h>

static const char record_name[] = "requestState";

idem__store_op idem__identity_op(idem__store_verb verb) {
  return (idem__store_op){.verb = verb,
                          .space = IDEM__STORE_KEYS,
                          .name = record_name,
                          .name_len = sizeof record_name - 1,
                          .expect = IDEM__STORE_ABSENT};
}

/* ------------------------------------------------------------------- naming */

static void name_of(const void *secret, size_t len, char name[IDEM__ONCE_STORE_ID + 1]) {
  static const char what[] = IDEM__ONCE_CAPABILITY;
  uint8_t digest[IDEM_SHA256_BYTES];
  idem_sha256 sha;
  idem_sha256_init(&sha);
  idem_sha256_add(&sha, what, sizeof what);
  idem_sha256_add(&sha, secret, len);
  idem_sha256_end(&sha, digest);
  idem__text_hex(name, digest, IDEM__ONCE_STORE_ID / 2);
}

/* A key that the program chose stays. True: it was another. */
static bool take(idem_server *server, const uint8_t secret[IDEM__STATE_KEY_BYTES]) {
  idem__identity *self = &server->identity;
  char name[IDEM__ONCE_STORE_ID + 1];
  name_of(secret, IDEM__STATE_KEY_BYTES, name);
  idem__lock_take(&self->lock);
  bool other = strcmp(self->keys_name, name) != 0;
  memcpy(self->keys_name, name, sizeof name);
  if (!server->opts.state_key) memcpy(self->state_key, secret, sizeof self->state_key);
  idem__lock_give(&self->lock);
  return other;
}

void idem__identity_share(idem_server *server, const uint8_t secret[IDEM__STATE_KEY_BYTES]) {
  take(server, secret);
  server->identity.shared = true;
}

/* In memory keys go with the process; a key of requestState that was given may be that of the one before. */
void idem__identity_own(idem_server *server) {
  idem__identity *self = &server->identity;
  uint64_t seed = server->router ? idem__router_seed(server->router) : 0;
  uint8_t both[sizeof seed + sizeof self->state_key];
  memcpy(both, &seed, sizeof seed);
  memcpy(both + sizeof seed, self->state_key, sizeof self->state_key);
  name_of(both, sizeof both, self->keys_name);
}

void idem__server_keys_name(const idem_server *server, char name[IDEM__ONCE_STORE_ID + 1]) {
  idem__identity *self = (idem__identity *)(uintptr_t)&server->identity;
  idem__lock_take(&self->lock);
  memcpy(name, self->keys_name, sizeof self->keys_name);
  idem__lock_give(&self->lock);
}

void idem__server_state_key(const idem_server *server, uint8_t key[IDEM__STATE_KEY_BYTES]) {
  idem__identity *self = (idem__identity *)(uintptr_t)&server->identity;
  idem__lock_take(&self->lock);
  memcpy(key, self->state_key, sizeof self->state_key);
  idem__lock_give(&self->lock);
}

idem_status idem__identity_judge(const char *name, const idem__store_answer *answer) {
  char there[IDEM__ONCE_STORE_ID + 1];
  if (answer->status == IDEM_E_NOTFOUND) return IDEM_E_STATE;
  if (answer->status != IDEM_OK) return answer->status;
  name_of(answer->bytes, answer->len, there);
  return strcmp(there, name) == 0 ? IDEM_OK : IDEM_E_STATE;
}

/* ------------------------------------------------------------------ looking */

/* What is remembered of the old one is nobody's: sessions are looked for one by one (src/mcp_http), tasks of this process that are gone are written again. */
static void tell_loss(idem__mcp_worker *worker) {
  idem_server *server = worker->server;
  atomic_fetch_add(&server->identity.losses, 1);
  idem__metrics_add(idem__worker_metrics(worker), IDEM__M_STORE_EMPTIED, 1);
  idem_logf(server->opts.log, IDEM_LOG_WARN, "the store has lost what it held", "%s",
            "sessions, keys and their answers are gone; who names them is told so");
  idem__identity_mark_all(server);
  idem__tasks_doubt(server);
  atomic_store(&server->node.look, true);
  idem__server_wake(server);
}

/* One that is being written, and who writes it. */
typedef struct writing {
  idem__mcp_worker *worker;
  uint8_t secret[IDEM__STATE_KEY_BYTES];
} writing;

/* Where it has none, since nobody knows: with the next renewal. */
static void end_looking(idem__mcp_worker *worker, const uint8_t *secret) {
  idem__identity *self = &worker->server->identity;
  bool lost = secret && take(worker->server, secret);
  if (!secret) atomic_store(&self->unknown, true);
  atomic_store(&self->looking, false);
  if (lost) tell_loss(worker);
}

static void look(idem__mcp_worker *worker);

static void on_written(const idem__store_answer *answer, void *user) {
  writing *self = user, copy = *self;
  idem__free(&copy.worker->server->alloc, self);
  bool overtaken = answer->status == IDEM_E_EXISTS || answer->status == IDEM_E_STATE;
  if (overtaken || answer->status == IDEM_E_NOTFOUND)
    look(copy.worker); /* another was faster: its is the one */
  else
    end_looking(copy.worker, answer->status == IDEM_OK ? copy.secret : NULL);
}

/* A new one: whoever asks for what the old one held must hear that it is gone. `expect`: the version of the old one's record, if that is there. */
static void write_new(idem__mcp_worker *worker, uint64_t expect) {
  idem_server *server = worker->server;
  writing *self = idem__malloc(&server->alloc, sizeof *self);
  if (!self) {
    end_looking(worker, NULL);
    return;
  }
  self->worker = worker;
  idem__server_random(server, self->secret, sizeof self->secret);
  idem__store_op op = idem__identity_op(IDEM__STORE_PUT);
  op.bytes = self->secret;
  op.len = sizeof self->secret;
  op.expect = expect;
  op.done = on_written;
  op.user = self;
  idem__store_submit(server->store, worker->store_queue, &op, NULL);
}

/* What a part held is gone, and nobody knows what that was: keys of calls that ran, too. So it is another store. */
static void on_marks_seen(idem__mcp_worker *worker, bool all) {
  idem__identity *self = &worker->server->identity;
  if (all)
    atomic_store(&self->looking, false);
  else
    write_new(worker, self->version);
}

static bool is_ours(const idem_server *server, const idem__store_answer *answer) {
  char ours[IDEM__ONCE_STORE_ID + 1];
  idem__server_keys_name(server, ours);
  return idem__identity_judge(ours, answer) == IDEM_OK;
}

static void on_looked(const idem__store_answer *answer, void *user) {
  idem__mcp_worker *worker = user;
  bool fits = answer->status == IDEM_OK && answer->len == IDEM__STATE_KEY_BYTES;
  worker->server->identity.version = answer->version;
  if (answer->status == IDEM_E_NOTFOUND)
    write_new(worker, IDEM__STORE_ABSENT);
  else if (fits && is_ours(worker->server, answer))
    idem__identity_look_at_marks(worker, on_marks_seen);
  else
    end_looking(worker, fits ? (const uint8_t *)answer->bytes : NULL);
}

static void look(idem__mcp_worker *worker) {
  idem__store_op op = idem__identity_op(IDEM__STORE_GET);
  op.done = on_looked;
  op.user = worker;
  idem__store_submit(worker->server->store, worker->store_queue, &op, NULL);
}

void idem__identity_doubt(idem_server *server) {
  if (!server->identity.shared) return;
  atomic_store(&server->identity.doubted, true);
  idem__server_wake(server);
}

/* Where there is one part our own record says enough. */
void idem__identity_tick(idem_server *server) {
  bool unknown = atomic_exchange(&server->identity.unknown, false);
  if (unknown || (server->identity.shared && server->identity.parts))
    atomic_store(&server->identity.doubted, true);
}

void idem__identity_deliver(idem__mcp_worker *worker) {
  idem__identity *self = &worker->server->identity;
  if (!atomic_load(&self->doubted) || atomic_exchange(&self->looking, true)) return;
  atomic_store(&self->doubted, false);
  look(worker);
}

void idem__identity_on_change(const idem__store_change *change, void *user) {
  idem_server *server = user;
  if (change->event == IDEM__STORE_WAS_AWAY) {
    atomic_fetch_add(&server->node.aways, 1); /* nobody was told of what happened meanwhile */
    atomic_store(&server->node.look, true);
    idem__node_renew_soon(server);
    idem__once_doubt_owners(server);
    idem__tasks_doubt(server); /* it may have come back without its last writes */
  }
  idem__identity_doubt(server);
}
