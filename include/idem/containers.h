/* idem/containers.h - an intrusive list and a map whose keys a stranger may choose: what the library keeps
 * things in, for programs that keep things, too. Usable from C11 and C++17. */
#ifndef IDEM_CONTAINERS_H
#define IDEM_CONTAINERS_H

#include <idem/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------- linked list */

/* Intrusive, circular, doubly linked. A list head and a detached node point to themselves. */
typedef struct idem_list {
  struct idem_list *prev, *next;
} idem_list;
static inline void idem_list_init(idem_list *list) { list->prev = list->next = list; }
static inline bool idem_list_empty(const idem_list *list) { return list->next == list; }
static inline void idem_list_append(idem_list *list, idem_list *node) {
  node->prev = list->prev;
  node->next = list;
  list->prev->next = node;
  list->prev = node;
}
static inline void idem_list_remove(idem_list *node) {
  node->prev->next = node->next;
  node->next->prev = node->prev;
  idem_list_init(node);
}
/* For a node that is mostly in no list: looks before it writes. */
static inline void idem_list_leave(idem_list *node) {
  if (!idem_list_empty(node)) idem_list_remove(node);
}
/* The struct that a member lies in. */
#define IDEM_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* ------------------------------------------------------------- hash map */

/* Keyed by bytes; open addressing, grows by doubling, bounded by `max` entries (IDEM_MAP_MAX
 * unless the owner sets it lower after init). Keys are borrowed: the value's owner keeps them alive
 * until removal. They may be a peer's: nobody can choose keys that collide. */
#define IDEM_MAP_MAX ((size_t)1 << 24)
typedef struct idem_map_entry {
  const char *key;
  size_t key_len;
  uint64_t hash;
  void *value; /* NULL: free slot */
} idem_map_entry;
typedef struct idem_map {
  idem_map_entry *slots;
  size_t cap; /* a power of two, or 0 */
  size_t count;
  size_t max;
  uint64_t seed;
  const idem_alloc *alloc;
} idem_map;

/* `alloc` may be NULL; `seed` any number. */
IDEM_API void idem_map_init(idem_map *map, const idem_alloc *alloc, uint64_t seed);
IDEM_API void idem_map_deinit(idem_map *map);
IDEM_API void *idem_map_get(const idem_map *map, const char *key, size_t key_len);
/* OK, EXISTS, LIMIT, NOMEM; INVAL for a NULL value. */
IDEM_API idem_status idem_map_put(idem_map *map, const char *key, size_t key_len, void *value);
IDEM_API void *idem_map_remove(idem_map *map, const char *key, size_t key_len);
/* Iterate: start with *pos = 0; NULL at the end. Removing the entry just returned is allowed only
 * by ending the walk. */
IDEM_API void *idem_map_next(const idem_map *map, size_t *pos);

#ifdef __cplusplus
}
#endif
#endif
