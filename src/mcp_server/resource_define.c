/* resource_define.c - resources and templates as they are registered.
 * Everything is checked and copied here, once, so that lists and reads need not doubt it. */
#include "define.h"
#include "mcp/uritemplate.h"
#include "scope.h"
#include "server.h"

#include <string.h>

/* --------------------------------------------------------------- checking */

static bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

/* A scheme and a colon: RFC 3986, section 3.1. */
static bool has_scheme(const char *uri) {
  if (!is_letter(*uri)) return false;
  while (is_letter(*uri) || (*uri >= '0' && *uri <= '9') || *uri == '+' || *uri == '-' ||
         *uri == '.') {
    uri++;
  }
  return *uri == ':';
}

static bool is_uri(const char *uri) {
  size_t len = strlen(uri);
  if (!has_scheme(uri) || !idem_utf8_valid(uri, len)) return false;
  while (len) {
    idem__uri_token token;
    size_t took = idem__uri_token_read(uri, len, &token);
    if (token == IDEM__URI_BAD) return false;
    uri += took;
    len -= took;
  }
  return true;
}

static idem_status check(const idem_resource *resource, char *why, size_t why_len) {
  if (!resource->fn)
    return idem__definition_refuse(why, why_len, "a resource needs a function that reads it");
  if (!resource->uri || !*resource->uri)
    return idem__definition_refuse(why, why_len, "a resource needs a URI");
  if (!resource->name || !*resource->name)
    return idem__definition_refuse(why, why_len, "a resource needs a name");
  if (resource->size < 0)
    return idem__definition_refuse(why, why_len, "a resource's size cannot be negative");
  if (!resource->is_template && !is_uri(resource->uri)) {
    return idem__definition_refuse(why, why_len,
                                   "the URI is not an absolute one as RFC 3986 has it");
  }
  return IDEM_OK;
}

/* ---------------------------------------------------------------- entries */

static void free_entry(void *self, const idem_alloc *alloc) {
  idem__resource_entry *entry = self;
  char *owned[] = {entry->uri,       entry->name,        entry->title, entry->description,
                   entry->mime_type, entry->annotations, entry->icons, entry->meta};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) idem__free(alloc, owned[i]);
  idem__uri_template_free(entry->pattern, alloc);
  idem__free(alloc, entry);
}

static idem_status copy_texts(idem_server *server, const idem_resource *resource,
                              idem__resource_entry *entry) {
  idem_status status = IDEM_OK;
  entry->head.name = entry->uri = idem__server_copy(server, resource->uri, &status);
  entry->name = idem__server_copy(server, resource->name, &status);
  entry->title = idem__server_copy(server, resource->title, &status);
  entry->description = idem__server_copy(server, resource->description, &status);
  entry->mime_type = idem__server_copy(server, resource->mime_type, &status);
  return status;
}

static idem_status parse_template(idem_server *server, const idem_resource *resource,
                                  idem__resource_entry *entry, char *why, size_t why_len) {
  if (!resource->is_template) return IDEM_OK;
  idem_status status = idem__uri_template_parse(&server->alloc, resource->uri, &entry->pattern);
  if (status == IDEM_E_LIMIT) {
    return idem__definition_refuse(why, why_len,
                                   "the URI template is too long or has too many variables");
  }
  if (status != IDEM_E_INVAL) return status;
  return idem__definition_refuse(why, why_len, "the URI template is not one as RFC 6570 has it");
}

static idem_status fill_entry(idem_server *server, const idem_resource *resource,
                              idem__resource_entry *entry, char *why, size_t why_len) {
  const idem__definition_text texts[] = {
      {resource->annotations, '{', &entry->annotations,
       "a resource's annotations are not a JSON object"},
      {resource->icons, '[', &entry->icons, "a resource's icons are not a JSON array"},
      {resource->meta, '{', &entry->meta, "a resource's meta is not a JSON object"},
  };
  idem_status status = copy_texts(server, resource, entry);
  if (status == IDEM_OK) status = parse_template(server, resource, entry, why, why_len);
  if (status == IDEM_OK) {
    status = idem__definition_copy(server, texts, sizeof texts / sizeof texts[0], why, why_len);
  }
  entry->size = resource->size;
  entry->ttl_ms = resource->ttl_ms;
  entry->cache_private = resource->cache_private;
  entry->fn = resource->fn;
  entry->head.user = resource->user;
  return status;
}

/* ----------------------------------------------------------------- public */

idem_status idem_server_add_resource(idem_server *server, const idem_resource *resource, char *why,
                                     size_t why_len) {
  idem_status status = check(resource, why, why_len);
  if (status != IDEM_OK) return status;
  idem__resource_entry *entry = idem__entry_new(server, sizeof *entry, free_entry);
  if (!entry) return IDEM_E_NOMEM;
  status = fill_entry(server, resource, entry, why, why_len);
  if (status == IDEM_OK)
    status = idem__entry_set_scopes(server, &entry->head, resource->scopes, why, why_len);
  if (status != IDEM_OK) {
    idem__entry_unref(&entry->head, &server->alloc);
    return status;
  }
  entry->head.release = resource->release;
  return idem__registry_change(server, resource->is_template ? IDEM__TEMPLATES : IDEM__RESOURCES,
                               resource->uri, &entry->head);
}

idem_status idem_server_remove_resource(idem_server *server, const char *uri) {
  idem_status status = idem__registry_change(server, IDEM__RESOURCES, uri, NULL);
  if (status != IDEM_E_NOTFOUND) return status;
  return idem__registry_change(server, IDEM__TEMPLATES, uri, NULL);
}
