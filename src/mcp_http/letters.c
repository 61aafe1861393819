/* letters.c - what one process of a store has for another: a record whose name says whom it is for, so that it may be as
 * long as a message. That one takes it (letter_take.c); one that nobody takes goes after a minute. See
 * docs/internals/mcp_http.md. */
#include "letter.h"

#include <stdio.h>
#include <string.h>

#define LETTERS_MAX 10000u
#define FOR_ALL_MS 20000u /* whose connection is away for longer does not hear of it */

/* 0 is nobody's number: it is for all. */
static void put(idem__mcp_endpoint *endpoint, const idem__letter *letter, idem__store_done done,
                void *user) {
  idem__session_table *table = endpoint->table;
  char name[IDEM__LETTER_NAME + 1], group[IDEM__LETTER_NODE + 1];
  uint64_t unique;
  idem__server_random(table->opts.server, &unique, sizeof unique);
  snprintf(group, sizeof group, "%06x", (unsigned)letter->node & 0xffffffu);
  snprintf(name, sizeof name, "%s%.*s%016llx", group, IDEM__SESSION_ID, letter->session,
           (unsigned long long)unique);
  idem__store_op op = {.verb = IDEM__STORE_PUT,
                       .space = IDEM__STORE_LETTERS,
                       .name = name,
                       .name_len = IDEM__LETTER_NAME,
                       .bytes = letter->text,
                       .len = letter->len,
                       .group = group,
                       .expect = IDEM__STORE_ABSENT,
                       .lead = IDEM__LETTER_LEAD,
                       .ttl_ms = letter->node ? IDEM__LETTER_MS : FOR_ALL_MS,
                       .limit = LETTERS_MAX,
                       .group_limit = letter->node ? 0 : IDEM__LETTERS_FOR_ALL,
                       .now_ms = atomic_load(&table->now_ms),
                       .done = done,
                       .user = user};
  idem__store_submit(table->store, endpoint->queue, &op, NULL);
}

/* One for a node that nobody has told us of, since it may have come a moment ago; or of which nothing was seen for a while. */
typedef struct asking {
  idem_alloc alloc;
  idem__mcp_endpoint *endpoint;
  idem__letter letter; /* its texts follow */
  idem__store_done done;
  void *user;
  bool lives;
  char id[IDEM__NODE_ID + 1]; /* the node's name; "": it is not known */
} asking;

static bool see(const idem__store_item *item, void *user) {
  asking *self = user;
  if (item->name_len == IDEM__NODE_ID)
    self->lives |= idem__node_number_of(item->name) == self->letter.node;
  return !self->lives;
}

/* Where the store does not say whether the node lives, nothing was sent: that much is known. */
static void on_seen(const idem__store_answer *answer, void *user) {
  asking *self = user;
  idem_alloc alloc = self->alloc;
  idem__store_answer none = {.status = IDEM_E_NOTFOUND}, unsent = {.status = IDEM_E_STATE};
  bool nobody = answer->status == IDEM_OK || answer->status == IDEM_E_NOTFOUND;
  if (answer->status == IDEM_OK && self->lives)
    put(self->endpoint, &self->letter, self->done, self->user);
  else
    self->done(nobody ? &none : &unsent, self->user);
  idem__free(&alloc, self);
}

/* Who has found out tells its own server, too. */
static void on_found(const idem__store_answer *answer, void *user) {
  asking *self = user;
  idem_server *server = self->endpoint->worker->server;
  self->lives = answer->status == IDEM_OK;
  if (self->lives) idem__node_meet(server, self->id);
  if (answer->status == IDEM_E_NOTFOUND) idem__node_seen(server, self->id, IDEM__NODE_ID, false);
  on_seen(answer, self);
}

static void look_among_all(asking *self) {
  idem_server *server = self->endpoint->worker->server;
  idem__store_op op = {.verb = IDEM__STORE_LIST,
                       .space = IDEM__STORE_NODES,
                       .now_ms = idem__server_wall_ms(server),
                       .each = see,
                       .done = on_seen,
                       .user = self};
  idem__store_submit(server->store, self->endpoint->queue, &op, NULL);
}

static void ask_first(idem__mcp_endpoint *endpoint, const idem__letter *letter, const char *id,
                      idem__store_done done, void *user) {
  asking *self = idem__malloc(&endpoint->alloc, sizeof *self + IDEM__SESSION_ID + letter->len);
  if (!self) {
    done(&(idem__store_answer){.status = IDEM_E_NOMEM}, user);
    return;
  }
  char *session = (char *)(self + 1), *text = session + IDEM__SESSION_ID;
  *self = (asking){.alloc = endpoint->alloc, .endpoint = endpoint, .done = done, .user = user};
  memcpy(session, letter->session, IDEM__SESSION_ID);
  memcpy(text, letter->text, letter->len);
  self->letter = (idem__letter){letter->node, session, text, letter->len};
  memcpy(self->id, id, sizeof self->id);
  if (id[0])
    idem__node_find(endpoint->worker->server, endpoint->queue, self->id, on_found, self);
  else
    look_among_all(self);
}

void idem__letter_send(idem__mcp_endpoint *endpoint, const idem__letter *letter,
                       idem__store_done done, void *user) {
  char id[IDEM__NODE_ID + 1] = "";
  if (idem__node_look_up(endpoint->worker->server, letter->node, id) == IDEM__NODE_LIVES)
    put(endpoint, letter, done, user);
  else
    ask_first(endpoint, letter, id, done, user);
}

void idem__letter_leave(idem__mcp_endpoint *endpoint, const idem__letter *letter,
                        idem__store_done done, void *user) {
  idem__letter for_all = *letter;
  for_all.node = 0;
  put(endpoint, &for_all, done, user);
}
