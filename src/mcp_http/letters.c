/* letters.c - what one process of a store has for another: a record whose name says whom it is for, so that it may be as
 * long as a message. Who hears of one reads it and removes it, and only whoever has removed it opens it: it is opened once.
 * One that nobody takes goes after a minute. See docs/internals/mcp_http.md. */
#include "mcp_http.h"

#include <stdio.h>
#include <string.h>

#define NODE_DIGITS 6
#define UNIQUE_DIGITS 16
#define NAME_LEN (NODE_DIGITS + IDEM__SESSION_ID + UNIQUE_DIGITS)
#define TOGETHER (NODE_DIGITS + IDEM__SESSION_ID) /* a session's are taken in the order they came */
#define KEPT_MS 60000u
#define LETTERS_MAX 10000u
#define LETTER_BYTES ((size_t)1 << 30) /* a store has less room */

/* ------------------------------------------------------------------- sending */

static void put(idem__mcp_endpoint *endpoint, const idem__letter *letter, idem__store_done done,
                void *user) {
  idem__session_table *table = endpoint->table;
  char name[NAME_LEN + 1], group[NODE_DIGITS + 1];
  uint64_t unique;
  idem__server_random(table->opts.server, &unique, sizeof unique);
  snprintf(group, sizeof group, "%06x", (unsigned)letter->node & 0xffffffu);
  snprintf(name, sizeof name, "%s%.*s%016llx", group, IDEM__SESSION_ID, letter->session,
           (unsigned long long)unique);
  idem__store_op op = {.verb = IDEM__STORE_PUT,
                       .space = IDEM__STORE_LETTERS,
                       .name = name,
                       .name_len = NAME_LEN,
                       .bytes = letter->text,
                       .len = letter->len,
                       .group = group,
                       .expect = IDEM__STORE_ABSENT,
                       .lead = TOGETHER,
                       .ttl_ms = KEPT_MS,
                       .limit = LETTERS_MAX,
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

/* -------------------------------------------------------------------- taking */

typedef struct taking {
  idem_alloc alloc;
  idem__mcp_endpoint *endpoint;
  idem_buf text;
  char name[NAME_LEN];
} taking;

static taking *new_taking(idem__session_table *table, const char *name) {
  taking *self = idem__calloc(&table->alloc, sizeof *self);
  if (!self) return NULL;
  self->alloc = table->alloc;
  idem_buf_init(&self->text, &self->alloc, LETTER_BYTES);
  memcpy(self->name, name, NAME_LEN);
  return self;
}

static void free_taking(taking *self) {
  idem_alloc alloc = self->alloc;
  idem_buf_deinit(&self->text);
  idem__free(&alloc, self);
}

static idem__store_op op_for(taking *self, idem__store_verb verb, idem__store_done done) {
  return (idem__store_op){.verb = verb,
                          .space = IDEM__STORE_LETTERS,
                          .name = self->name,
                          .name_len = NAME_LEN,
                          .lead = TOGETHER,
                          .now_ms = atomic_load(&self->endpoint->table->now_ms),
                          .done = done,
                          .user = self};
}

/* Where nobody knows whether it was removed it is not opened: a request in it would perhaps run twice. */
static void on_removed(const idem__store_answer *answer, void *user) {
  taking *self = user;
  if (answer->status == IDEM_OK)
    idem__carry_open(self->endpoint, self->name + NODE_DIGITS, self->text.data, self->text.len);
  free_taking(self);
}

static void on_read(const idem__store_answer *answer, void *user) {
  taking *self = user;
  bool read =
      answer->status == IDEM_OK && idem_buf_put(&self->text, answer->bytes, answer->len) == IDEM_OK;
  if (!read) {
    free_taking(self);
    return;
  }
  idem__store_op op = op_for(self, IDEM__STORE_REMOVE, on_removed);
  op.expect = answer->version;
  idem__store_submit(self->endpoint->table->store, self->endpoint->queue, &op, NULL);
}

static void take(idem__mcp_endpoint *endpoint, void *arg) {
  taking *self = arg;
  if (!endpoint) { /* all that we have is going */
    free_taking(self);
    return;
  }
  self->endpoint = endpoint;
  idem__store_op op = op_for(self, IDEM__STORE_GET, on_read);
  idem__store_submit(endpoint->table->store, endpoint->queue, &op, NULL);
}

/* Its node's digits, as they begin the name of a letter for it. */
static bool own_group(const idem__session_table *table, char group[NODE_DIGITS + 1]) {
  uint32_t own = idem__node_number(table->opts.server);
  snprintf(group, NODE_DIGITS + 1, "%06x", (unsigned)own & 0xffffffu);
  return own != 0;
}

void idem__letters_on_change(const idem__store_change *change, void *user) {
  idem__session_table *table = user;
  char own[NODE_DIGITS + 1];
  if (change->event != IDEM__STORE_WAS_PUT || change->name_len != NAME_LEN) return;
  if (!own_group(table, own) || memcmp(change->name, own, NODE_DIGITS) != 0) return;
  taking *self = new_taking(table, change->name);
  if (self && idem__session_table_post(table, take, self) != IDEM_OK) free_taking(self);
}

/* ------------------------------------------------------------------- looking */

static bool take_one(const idem__store_item *item, void *user) {
  idem__mcp_endpoint *endpoint = user;
  taking *self = item->name_len == NAME_LEN ? new_taking(endpoint->table, item->name) : NULL;
  if (self) take(endpoint, self);
  return true;
}

void idem__letters_look(idem__mcp_endpoint *endpoint) {
  idem__session_table *table = endpoint->table;
  char own[NODE_DIGITS + 1];
  if (!own_group(table, own)) return;
  idem__store_op op = {.verb = IDEM__STORE_LIST,
                       .space = IDEM__STORE_LETTERS,
                       .group = own,
                       .limit = 256,
                       .now_ms = atomic_load(&table->now_ms),
                       .each = take_one,
                       .user = endpoint};
  idem__store_submit(table->store, endpoint->queue, &op, NULL);
}
