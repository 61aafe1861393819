/* identity_parts.c - a store of several parts, each of which may lose what it held alone: a Redis of a cluster that came back without its data. A
 * mark lies in each part; who misses one knows that everything beside it is gone, too. See identity.h. */
#include "identity.h"
#include "server.h"
#include "worker.h"

#include <stdio.h>

#define NAME_TRIES 4096u /* for one that lies in a part: there are 64 at most */
#define NAME 16

static size_t write_name(char name[NAME], unsigned number) {
  return (size_t)snprintf(name, NAME, "part-%u", number);
}

void idem__identity_name_marks(idem_server *server) {
  idem__identity *self = &server->identity;
  char name[NAME];
  idem__store *store = server->store;
  bool found[IDEM__STORE_PARTS_MAX] = {false};
  self->parts = 0;
  if (!store->kind->part) return;
  while (self->parts < IDEM__STORE_PARTS_MAX && idem__store_spread_at(store, self->parts))
    self->parts++;
  for (unsigned i = 0; i < NAME_TRIES; i++) {
    unsigned part = idem__store_part(store, IDEM__STORE_KEYS, name, write_name(name, i));
    if (part < self->parts && !found[part]) self->marks[part] = (uint16_t)i;
    if (part < self->parts) found[part] = true;
  }
}

static void run_on_mark(const idem_server *server, unsigned part, idem__store_op op,
                        idem__store_queue *queue) {
  char name[NAME];
  op.space = IDEM__STORE_KEYS;
  op.name = name;
  op.name_len = write_name(name, server->identity.marks[part]);
  op.quiet = true;
  if (queue)
    idem__store_submit(server->store, queue, &op, NULL);
  else
    idem__store_run(server->store, &op);
}

void idem__identity_mark_all(idem_server *server) {
  for (unsigned i = 0; i < server->identity.parts; i++)
    run_on_mark(server, i,
                (idem__store_op){.verb = IDEM__STORE_PUT,
                                 .expect = IDEM__STORE_ABSENT,
                                 .owed = true,
                                 .bytes = "1",
                                 .len = 1},
                NULL);
}

typedef struct one_mark {
  struct looking *of;
  unsigned part;
} one_mark;

typedef struct looking {
  idem__mcp_worker *worker;
  idem__identity_seen seen;
  unsigned left;
  bool missing;  /* one that was there */
  bool unmarked; /* one that never was: of an older version, or its part was away or full */
  one_mark marks[IDEM__STORE_PARTS_MAX];
} looking;

static void end_one(looking *self) {
  if (--self->left) return;
  idem__mcp_worker *worker = self->worker;
  idem__identity_seen seen = self->seen;
  bool missing = self->missing, unmarked = self->unmarked;
  idem__free(&worker->server->alloc, self);
  if (unmarked && !missing) idem__identity_mark_all(worker->server);
  seen(worker, !missing);
}

static void on_mark(const idem__store_answer *answer, void *user) {
  const one_mark *mark = user;
  looking *self = mark->of;
  _Atomic uint64_t *seen = &self->worker->server->identity.seen;
  uint64_t bit = (uint64_t)1 << mark->part;
  if (answer->status == IDEM_OK) atomic_fetch_or(seen, bit);
  if (answer->status == IDEM_E_NOTFOUND) {
    bool was = atomic_fetch_and(seen, ~bit) & bit;
    self->missing |= was;
    self->unmarked |= !was;
  }
  end_one(self);
}

void idem__identity_look_at_marks(idem__mcp_worker *worker, idem__identity_seen seen) {
  const idem_server *server = worker->server;
  unsigned parts = server->identity.parts;
  looking *self = parts ? idem__malloc(&server->alloc, sizeof *self) : NULL;
  if (!self) {
    seen(worker, true);
    return;
  }
  *self = (looking){.worker = worker, .seen = seen, .left = parts + 1};
  for (unsigned i = 0; i < parts; i++) {
    self->marks[i] = (one_mark){self, i};
    run_on_mark(server, i,
                (idem__store_op){.verb = IDEM__STORE_GET, .done = on_mark, .user = &self->marks[i]},
                worker->store_queue);
  }
  end_one(self);
}
