/* replay.c - proofs that were shown, until none of them would be taken any more. Numbers of 128 bits in slices of time, each of which goes
 * as a whole; within one in small tables, so that none takes long to grow. The bound is one of bytes, and of those a caller has
 * at most as many as are free: so however many are flooding, the next one finds room. */
#include "proof.h"

#include <string.h>

#define SLICES 16u
#define SHARDS 32u
#define FIRST_ROOM 8u
#define NUMBER_COST 48u /* 16 bytes, in tables that are at least three eighths full */
#define OWNER_COST 256u /* with its place in the map, and what an allocator takes */

typedef struct number {
  uint64_t words[2]; /* both 0: none is here */
} number;

typedef struct number_table {
  number *items;
  size_t room, count; /* room: a power of two, or 0 */
} number_table;

typedef struct slice {
  uint64_t time; /* what it holds goes when time + 1 begins; 0: it holds nothing */
  number_table tables[SHARDS];
} slice;

/* Whose proofs they are. */
typedef struct owner {
  idem_list link;
  number name;
  size_t count;
  uint32_t counts[SLICES];
} owner;

struct idem__replays {
  idem_alloc alloc;
  uint64_t seed;
  uint64_t span_s; /* of a slice */
  size_t most, count;
  idem_map by_name;
  size_t owner_count;
  idem_list owners;
  slice slices[SLICES];
};

/* ------------------------------------------------------------------ tables */

static bool is_none(number n) { return !n.words[0] && !n.words[1]; }
static bool same(number a, number b) {
  return a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

/* Where it is, or would be. */
static number *place_of(const number_table *table, number n) {
  size_t at = (size_t)n.words[1] & (table->room - 1);
  while (!is_none(table->items[at]) && !same(table->items[at], n))
    at = (at + 1) & (table->room - 1);
  return &table->items[at];
}

static bool holds(const number_table *table, number n) {
  return table->count && !is_none(*place_of(table, n));
}

static bool grow(number_table *table, const idem_alloc *alloc) {
  number_table next = {.room = table->room ? table->room * 2 : FIRST_ROOM, .count = table->count};
  next.items = idem__calloc(alloc, next.room * sizeof *next.items);
  if (!next.items) return false;
  for (size_t i = 0; i < table->room; i++)
    if (!is_none(table->items[i])) *place_of(&next, table->items[i]) = table->items[i];
  idem__free(alloc, table->items);
  *table = next;
  return true;
}

/* At most three quarters full. */
static bool put(number_table *table, const idem_alloc *alloc, number n) {
  if (table->count * 4 >= table->room * 3 && !grow(table, alloc)) return false;
  *place_of(table, n) = n;
  table->count++;
  return true;
}

/* ------------------------------------------------------------------ owners */

static void forget_owner(idem__replays *self, owner *who) {
  idem_map_remove(&self->by_name, (const char *)&who->name, sizeof who->name);
  idem_list_remove(&who->link);
  self->owner_count--;
  idem__free(&self->alloc, who);
}

static owner *new_owner(idem__replays *self, number name) {
  owner *who = idem__calloc(&self->alloc, sizeof *who);
  if (!who) return NULL;
  who->name = name;
  if (idem_map_put(&self->by_name, (const char *)&who->name, sizeof who->name, who) != IDEM_OK) {
    idem__free(&self->alloc, who);
    return NULL;
  }
  idem_list_append(&self->owners, &who->link);
  self->owner_count++;
  return who;
}

/* ------------------------------------------------------------------ slices */

static void drop(idem__replays *self, size_t index) {
  slice *gone = &self->slices[index];
  gone->time = 0;
  for (size_t i = 0; i < SHARDS; i++) {
    self->count -= gone->tables[i].count;
    idem__free(&self->alloc, gone->tables[i].items);
    gone->tables[i] = (number_table){.items = NULL};
  }
  for (idem_list *at = self->owners.next, *next; at != &self->owners; at = next) {
    owner *who = IDEM_CONTAINER(at, owner, link);
    next = at->next;
    who->count -= who->counts[index];
    who->counts[index] = 0;
    if (!who->count) forget_owner(self, who);
  }
}

static void drop_past(idem__replays *self, uint64_t now_s) {
  for (size_t i = 0; i < SLICES; i++)
    if (self->slices[i].time && (self->slices[i].time + 1) * self->span_s <= now_s) drop(self, i);
}

static bool was_shown(const idem__replays *self, number n, size_t shard) {
  for (size_t i = 0; i < SLICES; i++)
    if (self->slices[i].time && holds(&self->slices[i].tables[shard], n)) return true;
  return false;
}

/* ------------------------------------------------------------------- story */

size_t idem__replays_count(const idem__replays *self) { return self->count; }

size_t idem__replays_bytes(const idem__replays *self) {
  return self->count * NUMBER_COST + self->owner_count * OWNER_COST;
}

static idem__replay judge_room(const idem__replays *self, const owner *who) {
  size_t free_bytes = self->most - idem__replays_bytes(self);
  size_t needs = NUMBER_COST + (who ? 0 : OWNER_COST);
  size_t has = who ? who->count * NUMBER_COST + OWNER_COST : 0;
  if (needs > free_bytes) return IDEM__REPLAY_FULL;
  return has + needs > free_bytes ? IDEM__REPLAY_SHARE : IDEM__REPLAY_NEW;
}

static number number_of(const uint8_t bytes[IDEM_SHA256_BYTES]) {
  number n = {{idem__load8(bytes), idem__load8(bytes + 8)}};
  if (is_none(n)) n.words[0] = 1;
  return n;
}

/* A name is hashed with the seed twice: 128 bits under the secret of the process. */
static number name_of(const idem__replays *self, const char *name) {
  size_t len = strlen(name);
  return (number){{idem__hash(name, len, self->seed), idem__hash(name, len, ~self->seed)}};
}

static idem__replay remember(idem__replays *self, owner *who, number n, size_t shard,
                             uint64_t time) {
  size_t index = (size_t)(time % SLICES);
  slice *into = &self->slices[index];
  if (!put(&into->tables[shard], &self->alloc, n)) return IDEM__REPLAY_FULL;
  if (into->time < time) into->time = time;
  self->count++;
  who->count++;
  who->counts[index]++;
  return IDEM__REPLAY_NEW;
}

idem__replay idem__replays_add(idem__replays *self, const uint8_t which[IDEM_SHA256_BYTES],
                               const char *whose, uint64_t now_s, uint64_t ends_s) {
  number n = number_of(which), called = name_of(self, whose);
  size_t shard = (size_t)(n.words[0] % SHARDS);
  drop_past(self, now_s);
  if (was_shown(self, n, shard)) return IDEM__REPLAY_SEEN;
  owner *who = idem_map_get(&self->by_name, (const char *)&called, sizeof called);
  idem__replay verdict = judge_room(self, who);
  if (verdict != IDEM__REPLAY_NEW) return verdict;
  if (!who) who = new_owner(self, called);
  if (!who) return IDEM__REPLAY_FULL;
  verdict = remember(self, who, n, shard, ends_s / self->span_s);
  if (!who->count) forget_owner(self, who);
  return verdict;
}

idem__replays *idem__replays_new(const idem_alloc *alloc, uint64_t longest_s, size_t most,
                                 uint64_t seed) {
  idem__replays *self = idem__calloc(alloc, sizeof *self);
  if (!self) return NULL;
  self->alloc = *alloc;
  self->seed = seed;
  self->most = most;
  self->span_s = longest_s / (SLICES - 2) + 1;
  idem_map_init(&self->by_name, &self->alloc, seed);
  idem_list_init(&self->owners);
  return self;
}

void idem__replays_free(idem__replays *self) {
  if (!self) return;
  for (size_t i = 0; i < SLICES; i++) drop(self, i);
  idem_map_deinit(&self->by_name);
  idem_alloc alloc = self->alloc;
  idem__free(&alloc, self);
}
