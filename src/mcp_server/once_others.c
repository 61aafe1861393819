/* once_others.c - who waits for a key at other nodes than the one that runs it. The counter of its record holds how many nodes came to wait
 * in its lower half, and how many left again in its upper one; who would be told to end asks it first. A node that died never leaves: so where
 * some are counted all are called to count themselves once more, and where nobody has within a lease, nobody waits. That a client has given a
 * call up, or left, is told to all, in the space and place of the record: whoever hears of it finds the counter as it is then. See once.h. */
#include "once.h"
#include "server.h"

#include <string.h>

#define LEFT ((uint64_t)1 << 32) /* in the counter */
#define GIVEN_UP 'g'
#define WENT 'w'
#define CALLED 'c' /* who waits says so again */
#define NAME (IDEM_SHA256_BYTES + 1)

static void count(const idem__once *once, uint64_t what) {
  idem__store_op op = idem__once_op(once, IDEM__STORE_COUNT);
  op.after = what;
  op.user = NULL;
  idem__store_run(once->server->store, &op);
}

static void tell_all(idem_server *server, char kind, const uint8_t name[IDEM_SHA256_BYTES]) {
  char text[NAME];
  memcpy(text, name, IDEM_SHA256_BYTES);
  text[IDEM_SHA256_BYTES] = kind;
  idem__store_op op = {.verb = IDEM__STORE_TELL,
                       .space = IDEM__STORE_ONCE,
                       .name = text,
                       .name_len = sizeof text,
                       .lead = IDEM_SHA256_BYTES};
  idem__store_run(server->store, &op);
}

/* ------------------------------------------------------------------ waiting elsewhere */

#define LOOKS_MAX 32u

/* All nodes hear the question, and few have reason to ask: at the first look, the second, the fourth, then at each 32nd. */
static bool is_to_ask(uint32_t looks) {
  return (looks & (looks - 1)) == 0 || looks % LOOKS_MAX == 0;
}

/* A record that was made anew has a counter of its own. One that is the same when it is looked at again is its node's, if that still has it. */
void idem__once_announce(idem__once *once) {
  idem__once_lock(once->server);
  bool known = once->announced == once->version;
  once->announced = once->version;
  if (!known) once->counted = 1;
  once->looks = known ? once->looks + 1 : 0;
  bool asks = known && is_to_ask(once->looks);
  idem__once_unlock(once->server);
  if (asks)
    idem__once_ask_owner(once);
  else if (!known)
    count(once, 1);
}

void idem__once_doubt_owners(idem_server *server) {
  size_t at = 0;
  if (!server->onces) return;
  idem__once_lock(server);
  for (idem__once *once; (once = idem_map_next(&server->onces->by_name, &at));) once->looks = 0;
  idem__once_unlock(server);
}

bool idem__once_withdraw(idem__once *once, idem__once_gone *gone) {
  bool was = once->announced != 0;
  memcpy(gone->name, once->name, sizeof gone->name);
  gone->counted = once->counted;
  once->announced = 0;
  return was;
}

static void count_by_name(idem_server *server, const uint8_t name[IDEM_SHA256_BYTES],
                          uint64_t what) {
  idem__store_op op = {.verb = IDEM__STORE_COUNT,
                       .space = IDEM__STORE_ONCE,
                       .name = (const char *)name,
                       .name_len = IDEM_SHA256_BYTES,
                       .after = what,
                       .now_ms = idem__server_wall_ms(server)};
  idem__store_run(server->store, &op);
}

void idem__once_went(const idem__once_gone *gone) {
  count_by_name(gone->server, gone->name, LEFT * gone->counted);
  if (gone->for_good) tell_all(gone->server, WENT, gone->name);
}

/* ------------------------------------------------------------------- before the end */

/* By its name: the run may end while the store is asked. */
typedef struct asking {
  idem__mcp_worker *worker;
  uint8_t name[IDEM_SHA256_BYTES];
} asking;

/* With the lock held: nobody here wants it, of those who wait and the one whose request runs it. */
static bool is_unwanted(const idem__once *once) {
  return once->stage == IDEM__ONCE_AT_WORK && idem_list_empty(&once->callers) && !once->ending &&
         (once->left || (once->away && once->unwanted));
}

static idem__once *find(idem_server *server, const uint8_t name[IDEM_SHA256_BYTES]) {
  return idem_map_get(&server->onces->by_name, (const char *)name, IDEM_SHA256_BYTES);
}

void idem__once_end_call(idem__once *once) {
  if (once->called_ms) atomic_fetch_sub(&once->server->onces->called, 1);
  once->called_ms = 0;
}

/* With the lock held: some are counted. True: they are called, as none were or some have answered since. */
static bool call_all(idem__once *once, uint32_t came) {
  uint64_t now_ms = idem__server_wall_ms(once->server), lease_ms = once->server->opts.lease_ms;
  if (once->called_ms && now_ms < once->called_ms) return false;
  if (!once->called_ms) atomic_fetch_add(&once->server->onces->called, 1);
  once->called_ms = now_ms + lease_ms + lease_ms / 4;
  once->came = came;
  return true;
}

/* With the lock held: those who are counted have not answered within a lease. */
static bool all_are_dead(const idem__once *once, uint32_t came) {
  return once->called_ms && idem__server_wall_ms(once->server) >= once->called_ms &&
         came == once->came;
}

/* Where nobody knows whether somebody waits it goes on. */
static void on_asked(const idem__store_answer *answer, void *user) {
  asking self = *(asking *)user;
  idem_server *server = self.worker->server;
  uint32_t came = (uint32_t)answer->number;
  bool known = answer->status == IDEM_OK || answer->status == IDEM_E_NOTFOUND, calls = false;
  bool waits = answer->status == IDEM_OK && came > (uint32_t)(answer->number >> 32);
  idem__free(&server->alloc, user);
  idem__once_lock(server);
  idem__once *once = find(server, self.name);
  bool ours = once && once->worker == self.worker;
  bool ends = ours && known && is_unwanted(once) && (!waits || all_are_dead(once, came));
  if (ours && !ends && waits && is_unwanted(once)) calls = call_all(once, came);
  if (ours && (ends || !is_unwanted(once))) idem__once_end_call(once);
  idem__once_unlock(server);
  if (calls) tell_all(server, CALLED, self.name);
  if (ends) idem__once_cancel_runner(once);
}

void idem__once_flag_called(idem__mcp_worker *worker) {
  idem_server *server = worker->server;
  uint64_t now_ms = idem__server_wall_ms(server);
  size_t at = 0;
  idem__once_lock(server);
  for (idem__once *once; (once = idem_map_next(&server->onces->by_name, &at));) {
    if (once->worker != worker || !once->called_ms || now_ms < once->called_ms) continue;
    once->cancel = true;
    idem__once_flag(once);
  }
  idem__once_unlock(server);
}

/* Of this record somebody waits here for another node; 0: nobody does. `more`: it is counted so often more. */
static uint64_t waits_for(idem_server *server, const uint8_t name[IDEM_SHA256_BYTES],
                          uint64_t version, uint32_t more) {
  idem__once_lock(server);
  idem__once *once = find(server, name);
  bool waits = once && once->announced && !idem_list_empty(&once->callers);
  uint64_t announced = waits ? once->announced : 0;
  if (waits && announced == version) once->counted += more;
  idem__once_unlock(server);
  return announced;
}

/* It is taken back only after it was counted: never are more gone than came. */
static void answer_call(idem_server *server, const uint8_t name[IDEM_SHA256_BYTES]) {
  uint64_t announced = waits_for(server, name, 0, 0);
  if (!announced) return;
  count_by_name(server, name, 1);
  if (waits_for(server, name, announced, 1) != announced) count_by_name(server, name, LEFT);
}

void idem__once_ask_others(idem__once *once) {
  idem_server *server = once->server;
  asking *self = server->node.shares ? idem__malloc(&server->alloc, sizeof *self) : NULL;
  if (!self) {
    if (!server->node.shares) idem__once_cancel_runner(once);
    return;
  }
  self->worker = once->worker;
  memcpy(self->name, once->name, sizeof self->name);
  idem__store_op op = idem__once_op(once, IDEM__STORE_COUNT);
  op.done = on_asked;
  op.user = self;
  idem__store_submit(server->store, once->worker->store_queue, &op, NULL);
}

void idem__once_cancel_soon(idem__once *once) {
  once->cancel = true;
  idem__once_flag(once);
  if (once->worker->wake) once->worker->wake(once->worker, once->worker->wake_user);
}

/* ------------------------------------------------------------------------ giving up */

/* True: it runs here, and nobody else need be told. */
static bool give_up_here(idem_server *server, const uint8_t name[IDEM_SHA256_BYTES], bool by_key) {
  idem__once_lock(server);
  idem__once *once = find(server, name);
  bool runs = once && once->stage != IDEM__ONCE_ASKING && once->stage != IDEM__ONCE_ELSEWHERE;
  /* Who waits alone for another node may be the one that gives it up, and its connection goes next. */
  bool alone = once && !runs && once->callers.next->next == &once->callers;
  bool nobody = once && idem_list_empty(&once->callers);
  if ((nobody || alone) && by_key && !once->ending) once->unwanted = true;
  if (runs && is_unwanted(once)) idem__once_cancel_soon(once);
  idem__once_unlock(server);
  return runs;
}

void idem__once_give_up(idem_server *server, const uint8_t name[IDEM_SHA256_BYTES]) {
  if (!give_up_here(server, name, true) && server->node.shares) tell_all(server, GIVEN_UP, name);
}

void idem__once_on_news(idem_server *server, const char *text, size_t len) {
  uint8_t name[IDEM_SHA256_BYTES];
  if (!server->onces || idem__once_on_owner_news(server, text, len) || len != NAME) return;
  memcpy(name, text, sizeof name);
  if (text[IDEM_SHA256_BYTES] == CALLED)
    answer_call(server, name);
  else
    (void)give_up_here(server, name, text[IDEM_SHA256_BYTES] == GIVEN_UP);
}
