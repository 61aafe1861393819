/* list_digest.c - what a list says, as a number: nodes of one store that list the same have the same, whichever way each
 * came to its list. For cursors, which may come back to another node, and for telling who lists something else. */
#include "registry.h"

#include <string.h>

#define ENTRY_BYTES ((size_t)64 << 20) /* icons may be data: URIs */

/* As the newest revision shows it, which shows all there is; and who may see it. */
static bool add_entry(idem_sha256 *sha, idem__list_kind kind, const idem__entry *entry,
                      idem_buf *text) {
  const char *scopes = entry->scopes ? entry->scopes : "";
  text->len = 0;
  idem__writer writer = idem__writer_on(text);
  idem__entry_write(kind, entry, &idem__revisions[0], &writer);
  if (writer.status != IDEM_OK) return false;
  idem_sha256_add(sha, text->data, text->len);
  idem_sha256_add(sha, scopes, strlen(scopes) + 1);
  return true;
}

static uint64_t digest_of(const idem__registry *registry, idem__list_kind kind) {
  const idem__registry_list *list = &registry->lists[kind];
  uint8_t bytes[IDEM_SHA256_BYTES];
  uint64_t digest = 0;
  bool whole = true;
  idem_sha256 sha;
  idem_buf text;
  idem_sha256_init(&sha);
  idem_buf_init(&text, &registry->alloc, ENTRY_BYTES);
  for (size_t i = 0; i < list->count && whole; i++)
    whole = add_entry(&sha, kind, list->entries[i], &text);
  idem_buf_deinit(&text);
  idem_sha256_end(&sha, bytes);
  for (size_t i = 0; i < sizeof digest; i++) digest = digest << 8 | bytes[i];
  return whole ? digest | 1 : 0;
}

/* Without memory the snapshot's own number, which no other has for long. */
uint64_t idem__registry_digest(idem__registry *registry, idem__list_kind kind) {
  _Atomic uint64_t *known = &registry->digests[kind];
  uint64_t digest = atomic_load_explicit(known, memory_order_relaxed);
  if (digest) return digest;
  digest = digest_of(registry, kind);
  atomic_store_explicit(known, digest, memory_order_relaxed);
  return digest ? digest : registry->generation << 1;
}
