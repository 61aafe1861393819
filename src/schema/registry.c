/* registry.c - the documents that references may reach, by URI.
 * Filled by the caller before compiling and then only read: nothing is ever fetched. */
#include "schema.h"

#define MAX_DOCUMENTS 65536
#define MAX_DOCUMENT_BYTES ((size_t)16 << 20)

struct idem_schema_registry {
  idem_alloc alloc;
  idem_map documents;
};

idem_status idem_schema_registry_new(const idem_alloc *alloc, idem_schema_registry **out) {
  idem_alloc own = idem__alloc_or_default(alloc);
  idem_schema_registry *registry = idem__calloc(&own, sizeof *registry);
  *out = registry;
  if (!registry) return IDEM_E_NOMEM;
  registry->alloc = own;
  idem_map_init(&registry->documents, &registry->alloc, 0);
  return IDEM_OK;
}

static void free_document(idem_schema_registry *registry, registered *document) {
  if (!document) return;
  yyjson_doc_free(document->doc);
  idem__free(&registry->alloc, document->uri);
  idem__free(&registry->alloc, document);
}

void idem_schema_registry_free(idem_schema_registry *registry) {
  if (!registry) return;
  size_t pos = 0;
  for (registered *document; (document = idem_map_next(&registry->documents, &pos));)
    free_document(registry, document);
  idem_map_deinit(&registry->documents);
  idem_alloc own = registry->alloc;
  idem__free(&own, registry);
}

static size_t without_empty_fragment(const char *uri, size_t len) {
  return len && uri[len - 1] == '#' ? len - 1 : len;
}

static idem_status read_document(idem_schema_registry *registry, const char *text, size_t len,
                                 yyjson_doc **doc) {
  yyjson_alc alc = idem__json_alc(&registry->alloc);
  yyjson_read_err error;
  /* Without INSITU yyjson only reads the text. */
  *doc = yyjson_read_opts((char *)(uintptr_t)text, len, YYJSON_READ_NUMBER_AS_RAW, &alc, &error);
  if (*doc) return IDEM_OK;
  return error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION ? IDEM_E_NOMEM : IDEM_E_INVAL;
}

idem_status idem_schema_registry_add(idem_schema_registry *registry, const char *uri,
                                     const char *text, size_t len) {
  size_t uri_len = without_empty_fragment(uri, strlen(uri));
  if (uri_len == 0 || !text) return IDEM_E_INVAL;
  if (len > MAX_DOCUMENT_BYTES || registry->documents.count >= MAX_DOCUMENTS) return IDEM_E_LIMIT;
  if (idem_map_get(&registry->documents, uri, uri_len)) return IDEM_E_EXISTS;
  registered *document = idem__calloc(&registry->alloc, sizeof *document);
  if (!document) return IDEM_E_NOMEM;
  document->uri = idem__strndup(&registry->alloc, uri, uri_len);
  document->uri_len = uri_len;
  document->bytes = len;
  idem_status status =
      document->uri ? read_document(registry, text, len, &document->doc) : IDEM_E_NOMEM;
  if (status == IDEM_OK)
    status = idem_map_put(&registry->documents, document->uri, uri_len, document);
  if (status != IDEM_OK) free_document(registry, document);
  return status;
}

const registered *idem__registry_find(const idem_schema_registry *registry, const char *uri,
                                      size_t len) {
  if (!registry || len == 0) return NULL;
  return idem_map_get(&registry->documents, uri, without_empty_fragment(uri, len));
}
