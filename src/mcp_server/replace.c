/* replace.c - everything that is served, exchanged at once: the snapshot of a second server takes
 * the place of the first one's. Who is told of changes is told of lists that really differ. */
#include "server.h"

#include <string.h>

static bool write_list(const idem__registry *registry, idem__list_kind kind,
                       const idem__revision *revision, idem_buf *out) {
  const idem__registry_list *list = &registry->lists[kind];
  idem__writer writer = idem__writer_on(out);
  idem__write_array(&writer);
  for (size_t i = 0; i < list->count; i++) {
    idem__entry_write(kind, list->entries[i], revision, &writer);
  }
  idem__write_array_end(&writer);
  return writer.status == IDEM_OK;
}

#define LIST_BYTES ((size_t)256 << 20)

/* As a peer of this revision would see them; without memory, or where there is too much to compare, they
 * count as different. */
static bool same_list(const idem__registry *one, const idem__registry *other, idem__list_kind kind,
                      const idem__revision *revision) {
  idem_buf left, right;
  idem_buf_init(&left, &one->alloc, LIST_BYTES);
  idem_buf_init(&right, &one->alloc, LIST_BYTES);
  bool same = write_list(one, kind, revision, &left) && write_list(other, kind, revision, &right) &&
              left.len == right.len && memcmp(left.data, right.data, left.len) == 0;
  idem_buf_deinit(&left);
  idem_buf_deinit(&right);
  return same;
}

/* Who sees what has not changed either. */
static bool same_scopes(const idem__registry_list *one, const idem__registry_list *other) {
  for (size_t i = 0; i < one->count && i < other->count; i++) {
    const char *left = one->entries[i]->scopes, *right = other->entries[i]->scopes;
    if (strcmp(left ? left : "", right ? right : "") != 0) return false;
  }
  return true;
}

static uint32_t changed_kinds(const idem__registry *one, const idem__registry *other) {
  uint32_t kinds = 0;
  for (int kind = 0; kind < IDEM__LIST_KINDS; kind++) {
    bool same = one->lists[kind].count == other->lists[kind].count &&
                same_scopes(&one->lists[kind], &other->lists[kind]);
    for (size_t i = 0; i < IDEM__REVISIONS && same; i++) {
      same = same_list(one, other, (idem__list_kind)kind, &idem__revisions[i]);
    }
    if (!same) kinds |= 1u << kind;
  }
  return kinds;
}

void idem_server_replace(idem_server *server, idem_server *from) {
  idem__registry *next = from->registry;
  idem__server_lock(server);
  idem__registry *old = server->registry;
  uint32_t kinds = changed_kinds(old, next);
  next->generation = atomic_fetch_add_explicit(&server->generation, 1, memory_order_release) + 1;
  server->registry = next;
  for (int kind = 0; kind < IDEM__LIST_KINDS; kind++) {
    if (next->lists[kind].count) server->ever[kind] = true;
  }
  if (from->ever_tasks) server->ever_tasks = true;
  idem__server_unlock(server);
  from->registry = old; /* freed with it, or with the last request that began on it */
  if (kinds) idem__server_changed(server, kinds);
}
