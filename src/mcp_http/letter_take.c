/* letter_take.c - letters for this process: who hears of one reads it, opens it and removes it. Its name is given once and nobody
 * else takes it, so it is in hand from the reading until it certainly is removed, or, unread, its life is over: one in hand is not taken again, and
 * is opened once whatever the store says of its removal, or does not say. What it did not say is asked again when the nodes were
 * looked at, at once where the store was away. See docs/internals/mcp_http.md. */
#include "letter.h"
#include "mcp_server/server.h"

#include <stdio.h>
#include <string.h>

#define TEXT_BYTES ((size_t)1 << 30) /* a store has less room */
#define IN_HAND_MAX 4096u            /* more are left there until the next look */
#define PAGE 256u

typedef struct taking {
  idem_list link; /* in the table, while it waits for the next look */
  idem_alloc alloc;
  idem__session_table *table;
  idem__mcp_endpoint *endpoint; /* that asks */
  uint64_t ends_ms;             /* of the wall clock: then it is not in the store any more */
  uint64_t version;
  bool opened; /* and to be removed */
  char name[IDEM__LETTER_NAME];
} taking;

/* ------------------------------------------------------------------- in hand */

/* NULL: it is in hand, or there is no room. */
static taking *new_taking(idem__session_table *table, const char *name) {
  taking *self = idem__calloc(&table->alloc, sizeof *self);
  if (!self) return NULL;
  self->alloc = table->alloc;
  self->table = table;
  self->ends_ms = idem__server_wall_ms(table->opts.server) + 2 * (uint64_t)IDEM__LETTER_MS;
  idem_list_init(&self->link);
  memcpy(self->name, name, IDEM__LETTER_NAME);
  idem__session_table_lock(table);
  idem_map *taken = &table->letters_taken;
  bool ours = taken->count < IN_HAND_MAX && !idem_map_get(taken, self->name, IDEM__LETTER_NAME) &&
              idem_map_put(taken, self->name, IDEM__LETTER_NAME, self) == IDEM_OK;
  idem__session_table_unlock(table);
  if (ours) return self;
  idem__free(&table->alloc, self);
  return NULL;
}

static void end(taking *self) {
  idem__session_table_lock(self->table);
  idem_map_remove(&self->table->letters_taken, self->name, IDEM__LETTER_NAME);
  idem__session_table_unlock(self->table);
  idem_alloc alloc = self->alloc;
  idem__free(&alloc, self);
}

/* With the lock held. As long as there are some the nodes are looked at with every renewal. */
static void put_back(taking *self) {
  idem__session_table *table = self->table;
  if (idem_list_empty(&table->letters_back)) atomic_fetch_add(&table->opts.server->node.awaited, 1);
  idem_list_append(&table->letters_back, &self->link);
}

/* The store did not say. */
static void wait(taking *self) {
  if (!self->opened && idem__server_wall_ms(self->table->opts.server) >= self->ends_ms) {
    end(self);
    return;
  }
  idem__session_table_lock(self->table);
  put_back(self);
  idem__session_table_unlock(self->table);
}

/* With the lock held: all that wait. */
static void take_back(idem__session_table *table, idem_list *all) {
  idem_list_init(all);
  if (idem_list_empty(&table->letters_back)) return;
  atomic_fetch_sub(&table->opts.server->node.awaited, 1);
  idem_list_append(&table->letters_back, all);
  idem_list_remove(&table->letters_back);
}

void idem__letters_forget(idem__session_table *table) {
  idem_list all;
  take_back(table, &all);
  while (!idem_list_empty(&all)) {
    taking *self = IDEM_CONTAINER(all.next, taking, link);
    idem_list_remove(&self->link);
    end(self);
  }
}

/* With the lock held: an earlier one of its session waits to be read. */
static bool is_behind(const taking *self) {
  const idem_list *all = &self->table->letters_back;
  for (const idem_list *at = all->next; at != all; at = at->next) {
    const taking *earlier = IDEM_CONTAINER(at, taking, link);
    if (!earlier->opened && memcmp(earlier->name, self->name, IDEM__LETTER_LEAD) == 0) return true;
  }
  return false;
}

/* It stays behind an earlier one of its session that could not be read, or had no room. */
static bool stands_back(taking *self) {
  idem__session_table_lock(self->table);
  bool behind = is_behind(self);
  if (behind) put_back(self);
  idem__session_table_unlock(self->table);
  return behind;
}

/* ----------------------------------------------------------- reading, removing */

static idem__store_op op_for(taking *self, idem__store_verb verb, idem__store_done done) {
  return (idem__store_op){.verb = verb,
                          .space = IDEM__STORE_LETTERS,
                          .name = self->name,
                          .name_len = IDEM__LETTER_NAME,
                          .lead = IDEM__LETTER_LEAD,
                          .now_ms = atomic_load(&self->table->now_ms),
                          .done = done,
                          .user = self};
}

/* Gone, or another record: in neither case is there anything left of it. */
static void on_removed(const idem__store_answer *answer, void *user) {
  bool gone = answer->status == IDEM_OK || answer->status == IDEM_E_NOTFOUND ||
              answer->status == IDEM_E_STATE;
  if (gone)
    end(user);
  else
    wait(user);
}

static void remove_it(taking *self) {
  idem__store_op op = op_for(self, IDEM__STORE_REMOVE, on_removed);
  op.expect = self->version;
  idem__store_submit(self->table->store, self->endpoint->queue, &op, NULL);
}

/* Its own process may have several tables, of which each hears of it. */
static bool has_sisters(const idem__session_table *table) {
  uint64_t places = atomic_load(&table->opts.server->session_tables);
  return table->place == IDEM__TABLE_PLACES || (places & (places - 1)) != 0;
}

/* The text is a copy, since what it says may change the store. */
static void open_it(taking *self, const idem_buf *text) {
  idem__carry_open_end came =
      idem__carry_open(self->endpoint, self->name + IDEM__LETTER_NODE, text->data, text->len);
  self->opened = came != IDEM__CARRY_AGAIN;
  if (came == IDEM__CARRY_AGAIN)
    wait(self);
  else if (came == IDEM__CARRY_STRANGE && has_sisters(self->table))
    end(self);
  else
    remove_it(self);
}

static void on_read(const idem__store_answer *answer, void *user) {
  taking *self = user;
  idem_buf text;
  if (answer->status == IDEM_E_NOTFOUND) {
    end(self);
    return;
  }
  if (stands_back(self)) return;
  idem_buf_init(&text, &self->table->alloc, TEXT_BYTES); /* which outlives it */
  bool read =
      answer->status == IDEM_OK && idem_buf_put(&text, answer->bytes, answer->len) == IDEM_OK;
  self->version = answer->version;
  if (read)
    open_it(self, &text);
  else
    wait(self);
  idem_buf_deinit(&text);
}

static void go_on(taking *self, idem__mcp_endpoint *endpoint) {
  self->endpoint = endpoint;
  if (self->opened) {
    remove_it(self);
    return;
  }
  if (stands_back(self)) return;
  idem__store_op op = op_for(self, IDEM__STORE_GET, on_read);
  idem__store_submit(self->table->store, endpoint->queue, &op, NULL);
}

/* ------------------------------------------------------------------- hearing */

static void take(idem__mcp_endpoint *endpoint, void *arg) {
  taking *self = arg;
  if (endpoint)
    go_on(self, endpoint);
  else
    wait(self); /* for another thread's */
}

/* Its node's digits, as they begin the name of a letter for it. */
static bool own_group(const idem__session_table *table, char group[IDEM__LETTER_NODE + 1]) {
  uint32_t own = idem__node_number(table->opts.server);
  snprintf(group, IDEM__LETTER_NODE + 1, "%06x", (unsigned)own & 0xffffffu);
  return own != 0;
}

void idem__letters_on_change(const idem__store_change *change, void *user) {
  idem__session_table *table = user;
  char own[IDEM__LETTER_NODE + 1];
  if (change->event != IDEM__STORE_WAS_PUT || change->name_len != IDEM__LETTER_NAME) return;
  if (!own_group(table, own) || memcmp(change->name, own, IDEM__LETTER_NODE) != 0) return;
  taking *self = new_taking(table, change->name);
  if (self && idem__session_table_post(table, take, self) != IDEM_OK) wait(self);
}

/* ------------------------------------------------------------------- looking */

/* Page by page, since many may have come while the store was away. */
typedef struct looking {
  idem_alloc alloc;
  idem__mcp_endpoint *endpoint;
  uint64_t after;
  size_t shown;
} looking;

static bool take_one(const idem__store_item *item, void *user) {
  looking *self = user;
  idem__session_table *table = self->endpoint->table;
  taking *one = item->name_len == IDEM__LETTER_NAME ? new_taking(table, item->name) : NULL;
  self->shown++;
  self->after = item->number;
  if (one) go_on(one, self->endpoint);
  return true;
}

static void look_at_page(looking *self);

/* LIMIT: a page of long ones was longer than may wait here. */
static void on_page(const idem__store_answer *answer, void *user) {
  looking *self = user;
  bool cut = answer->status == IDEM_E_LIMIT && self->shown;
  if (cut || (answer->status == IDEM_OK && self->shown == PAGE)) {
    look_at_page(self);
    return;
  }
  idem_alloc alloc = self->alloc;
  idem__free(&alloc, self);
}

static void look_at_page(looking *self) {
  idem__session_table *table = self->endpoint->table;
  char own[IDEM__LETTER_NODE + 1];
  own_group(table, own);
  self->shown = 0;
  idem__store_op op = {.verb = IDEM__STORE_LIST,
                       .space = IDEM__STORE_LETTERS,
                       .group = own,
                       .after = self->after,
                       .limit = PAGE,
                       .now_ms = atomic_load(&table->now_ms),
                       .each = take_one,
                       .done = on_page,
                       .user = self};
  idem__store_submit(table->store, self->endpoint->queue, &op, NULL);
}

/* They were told all the same: here they lie for who could not hear. Nobody removes them. */
static bool hear_one(const idem__store_item *item, void *user) {
  idem__mcp_endpoint *endpoint = user;
  if (item->name_len == IDEM__LETTER_NAME)
    idem__carry_hear(endpoint->table, item->name + IDEM__LETTER_NODE, item->bytes, item->len);
  return true;
}

/* Not heard: with the next look, which is soon. */
static void on_heard(const idem__store_answer *answer, void *user) {
  idem__mcp_endpoint *endpoint = user;
  if (answer->status == IDEM_OK || answer->status == IDEM_E_CLOSED) return;
  endpoint->heard--;
  atomic_store(&endpoint->table->opts.server->node.look, true);
}

static void hear_what_was_told(idem__mcp_endpoint *endpoint) {
  idem__session_table *table = endpoint->table;
  unsigned aways = atomic_load(&table->opts.server->node.aways);
  if (endpoint->heard == aways) return;
  endpoint->heard = aways;
  idem__store_op op = {.verb = IDEM__STORE_LIST,
                       .space = IDEM__STORE_LETTERS,
                       .group = IDEM__LETTER_FOR_ALL,
                       .limit = IDEM__LETTERS_FOR_ALL,
                       .now_ms = atomic_load(&table->now_ms),
                       .each = hear_one,
                       .done = on_heard,
                       .user = endpoint};
  idem__store_submit(table->store, endpoint->queue, &op, NULL);
}

static void look_for_more(idem__mcp_endpoint *endpoint) {
  if (!idem__node_number(endpoint->table->opts.server)) return;
  looking *self = idem__calloc(&endpoint->alloc, sizeof *self);
  if (!self) return;
  self->alloc = endpoint->alloc;
  self->endpoint = endpoint;
  look_at_page(self);
}

void idem__letters_look(idem__mcp_endpoint *endpoint) {
  idem_list all;
  idem__session_table_lock(endpoint->table);
  take_back(endpoint->table, &all);
  idem__session_table_unlock(endpoint->table);
  while (!idem_list_empty(&all)) {
    taking *self = IDEM_CONTAINER(all.next, taking, link);
    idem_list_remove(&self->link);
    go_on(self, endpoint);
  }
  look_for_more(endpoint);
  hear_what_was_told(endpoint);
}
