/* map.c - a hash map keyed by bytes, for ids, sessions and method names.
 * Linear probing with backward-shift deletion: no tombstones, so a table that lives for weeks stays
 * as fast as a new one. Keys may be a peer's: the hash is keyed (hash.h). See docs/internals/base.md. */
#include "base.h"

#include <string.h>

enum { SMALLEST = 4 };

/* ----------------------------------------------------------------- map */

void idem_map_init(idem_map *map, const idem_alloc *alloc, uint64_t seed) {
  *map = (idem_map){.seed = seed, .alloc = alloc, .max = IDEM_MAP_MAX};
}

void idem_map_deinit(idem_map *map) {
  idem__free(map->alloc, map->slots);
  map->slots = NULL;
  map->cap = map->count = 0;
}

static inline bool matches(const idem_map_entry *slot, const char *key, size_t key_len,
                           uint64_t hash) {
  return slot->hash == hash && slot->key_len == key_len &&
         (key_len == 0 || memcmp(slot->key, key, key_len) == 0);
}

/* The slot that holds the key, or the free slot that ends its run. There is always a free one. */
static IDEM__EARLY idem_map_entry *find(const idem_map *map, const char *key, size_t key_len,
                                        uint64_t hash) {
  size_t mask = map->cap - 1, i = (size_t)hash & mask;
  while (map->slots[i].value && !matches(&map->slots[i], key, key_len, hash)) i = (i + 1) & mask;
  return &map->slots[i];
}

void *idem_map_get(const idem_map *map, const char *key, size_t key_len) {
  if (map->count == 0) return NULL;
  return find(map, key, key_len, idem__hash(key, key_len, map->seed))->value;
}

static void place(idem_map_entry *slots, size_t mask, const idem_map_entry *entry) {
  size_t i = (size_t)entry->hash & mask;
  while (slots[i].value) i = (i + 1) & mask;
  slots[i] = *entry;
}

static idem_status double_slots(idem_map *map) {
  size_t cap = map->cap ? map->cap * 2 : SMALLEST;
  if (cap > SIZE_MAX / sizeof(idem_map_entry)) return IDEM_E_NOMEM;
  idem_map_entry *slots = idem__calloc(map->alloc, cap * sizeof *slots);
  if (!slots) return IDEM_E_NOMEM;
  for (size_t i = 0; i < map->cap; i++)
    if (map->slots[i].value) place(slots, cap - 1, &map->slots[i]);
  idem__free(map->alloc, map->slots);
  map->slots = slots;
  map->cap = cap;
  return IDEM_OK;
}

IDEM__EARLY idem_status idem_map_put(idem_map *map, const char *key, size_t key_len, void *value) {
  if (!value) return IDEM_E_INVAL;
  uint64_t hash = idem__hash(key, key_len, map->seed);
  if (map->count && find(map, key, key_len, hash)->value) return IDEM_E_EXISTS;
  if (map->count >= map->max) return IDEM_E_LIMIT;
  if (map->count >= map->cap - map->cap / 4) {
    idem_status status = double_slots(map);
    if (status != IDEM_OK) return status;
  }
  place(map->slots, map->cap - 1,
        &(idem_map_entry){.key = key, .key_len = key_len, .hash = hash, .value = value});
  map->count++;
  return IDEM_OK;
}

/* Closes the gap at `hole`: each later entry of the run whose home does not lie beyond the hole
 * moves into it. */
static void shift_back(idem_map *map, size_t hole) {
  size_t mask = map->cap - 1;
  for (size_t i = (hole + 1) & mask; map->slots[i].value; i = (i + 1) & mask) {
    size_t home = (size_t)map->slots[i].hash & mask;
    if (((i - home) & mask) < ((i - hole) & mask)) continue;
    map->slots[hole] = map->slots[i];
    hole = i;
  }
  map->slots[hole] = (idem_map_entry){0};
}

void *idem_map_remove(idem_map *map, const char *key, size_t key_len) {
  if (map->count == 0) return NULL;
  idem_map_entry *slot = find(map, key, key_len, idem__hash(key, key_len, map->seed));
  void *value = slot->value;
  if (!value) return NULL;
  shift_back(map, (size_t)(slot - map->slots));
  map->count--;
  return value;
}

void *idem_map_next(const idem_map *map, size_t *pos) {
  while (*pos < map->cap) {
    void *value = map->slots[(*pos)++].value;
    if (value) return value;
  }
  return NULL;
}
