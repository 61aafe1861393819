/* registry.c - what is served, as immutable snapshots.
 * A change copies the lists (not the entries), swaps one pointer under the server's lock and tells
 * the workers; requests finish on the snapshot they began with. While nobody has seen a snapshot, as
 * when a server is filled, entries are added to it as it is. */
#include "server.h"

#include <string.h>

/* ------------------------------------------------------------------ entries */

void *idem__entry_new(idem_server *server, size_t size,
                      void (*free)(void *entry, const idem_alloc *alloc)) {
  idem__entry *entry = idem__calloc(&server->alloc, size);
  if (!entry) return NULL;
  atomic_init(&entry->refs, 1);
  entry->free = free;
  return entry;
}

void idem__entry_unref(idem__entry *entry, const idem_alloc *alloc) {
  if (atomic_fetch_sub_explicit(&entry->refs, 1, memory_order_acq_rel) != 1) return;
  void (*release)(void *user) = entry->release;
  void *user = entry->user;
  idem__free(alloc, entry->scopes);
  entry->free(entry, alloc);
  if (release) release(user);
}

/* ---------------------------------------------------------------- snapshots */

static void free_registry(idem__registry *registry) {
  for (int kind = 0; kind < IDEM__LIST_KINDS; kind++) {
    idem__registry_list *list = &registry->lists[kind];
    for (size_t i = 0; i < list->count; i++) {
      idem__entry_unref(list->entries[i], &registry->alloc);
    }
    idem__free(&registry->alloc, list->entries);
    idem_map_deinit(&list->by_name);
  }
  idem_alloc alloc = registry->alloc;
  idem__free(&alloc, registry);
}

void idem__registry_unref(idem__registry *registry) {
  if (atomic_fetch_sub_explicit(&registry->refs, 1, memory_order_acq_rel) == 1) {
    free_registry(registry);
  }
}

static idem__registry *new_registry(idem_server *server) {
  idem__registry *registry = idem__calloc(&server->alloc, sizeof *registry);
  if (!registry) return NULL;
  registry->alloc = server->alloc;
  atomic_init(&registry->refs, 1);
  for (int kind = 0; kind < IDEM__LIST_KINDS; kind++) {
    idem_map_init(&registry->lists[kind].by_name, &registry->alloc,
                  idem__router_seed(server->router));
  }
  return registry;
}

idem_status idem__registry_first(idem_server *server) {
  server->registry = new_registry(server);
  return server->registry ? IDEM_OK : IDEM_E_NOMEM;
}

static idem_status make_room(idem__registry *registry, idem__registry_list *list) {
  size_t capacity = list->capacity ? list->capacity * 2 : 8;
  if (list->count < list->capacity) return IDEM_OK;
  idem__entry **entries =
      idem__realloc(&registry->alloc, list->entries, list->capacity * sizeof *entries,
                    capacity * sizeof *entries);
  if (!entries) return IDEM_E_NOMEM;
  list->entries = entries;
  list->capacity = capacity;
  return IDEM_OK;
}

static idem_status append(idem__registry *registry, idem__list_kind kind, idem__entry *entry) {
  idem__registry_list *list = &registry->lists[kind];
  idem_status status = make_room(registry, list);
  if (status == IDEM_OK) {
    status = idem_map_put(&list->by_name, entry->name, strlen(entry->name), entry);
  }
  if (status != IDEM_OK) return status;
  list->entries[list->count++] = entry;
  list->scoped |= entry->scopes != NULL;
  atomic_fetch_add_explicit(&entry->refs, 1, memory_order_relaxed);
  return IDEM_OK;
}

/* Copies a list, leaving out one entry (NULL: none) and with room for one more. */
static idem_status copy_list(idem__registry *to, const idem__registry *from, idem__list_kind kind,
                             const void *without) {
  const idem__registry_list *source = &from->lists[kind];
  idem__registry_list *list = &to->lists[kind];
  list->capacity = source->count + 1;
  list->entries = idem__malloc(&to->alloc, list->capacity * sizeof *list->entries);
  if (!list->entries) return IDEM_E_NOMEM;
  for (size_t i = 0; i < source->count; i++) {
    if (source->entries[i] == without) continue;
    idem_status status = append(to, kind, source->entries[i]);
    if (status != IDEM_OK) return status;
  }
  return IDEM_OK;
}

static idem_status next_snapshot(idem_server *server, idem__list_kind kind, const void *without,
                                 idem__entry *entry, idem__registry **out) {
  idem__registry *next = new_registry(server);
  idem_status status = next ? IDEM_OK : IDEM_E_NOMEM;
  for (int each = 0; each < IDEM__LIST_KINDS && status == IDEM_OK; each++) {
    status = copy_list(next, server->registry, (idem__list_kind)each,
                       each == (int)kind ? without : NULL);
  }
  if (status == IDEM_OK && entry) status = append(next, kind, entry);
  if (status != IDEM_OK && next) idem__registry_unref(next);
  *out = next;
  return status;
}

/* With the lock held, without which nobody new can get hold of the snapshot. */
static bool is_unseen(idem__registry *registry) {
  return atomic_load_explicit(&registry->refs, memory_order_acquire) == 1;
}

/* With the lock held: OK and the old snapshot, to be let go of outside; NULL: it was changed. */
static idem_status swap(idem_server *server, idem__list_kind kind, const char *name,
                        idem__entry *entry, idem__registry **old) {
  void *found = idem_map_get(&server->registry->lists[kind].by_name, name, strlen(name));
  if (entry && found) return IDEM_E_EXISTS;
  if (!entry && !found) return IDEM_E_NOTFOUND;
  idem__registry *next = server->registry;
  bool in_place = entry && is_unseen(next);
  idem_status status =
      in_place ? append(next, kind, entry) : next_snapshot(server, kind, found, entry, &next);
  if (status != IDEM_OK) return status;
  *old = in_place ? NULL : server->registry;
  server->registry = next;
  next->generation = atomic_fetch_add_explicit(&server->generation, 1, memory_order_release) + 1;
  server->ever[kind] = true;
  return IDEM_OK;
}

idem_status idem__registry_change(idem_server *server, idem__list_kind kind, const char *name,
                                  idem__entry *entry) {
  idem__registry *old = NULL;
  idem__server_lock(server);
  idem_status status = swap(server, kind, name, entry, &old);
  idem__server_unlock(server);
  /* The caller's own count: on success the snapshot has one of its own. On failure `user` stays the
   * application's. */
  if (entry && status != IDEM_OK) entry->release = NULL;
  if (entry) idem__entry_unref(entry, &server->alloc);
  if (status != IDEM_OK) return status;
  if (old) idem__registry_unref(old);
  idem__server_changed(server, 1u << kind);
  return IDEM_OK;
}

/* ------------------------------------------------------------------ lookups */

const idem__tool_entry *idem__registry_tool(const idem__registry *registry, const char *name,
                                            size_t len) {
  return idem_map_get(&registry->lists[IDEM__TOOLS].by_name, name, len);
}

const idem__prompt_entry *idem__registry_prompt(const idem__registry *registry, const char *name,
                                                size_t len) {
  return idem_map_get(&registry->lists[IDEM__PROMPTS].by_name, name, len);
}
