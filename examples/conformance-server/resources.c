/* resources.c - what can be read: a text, a picture, one that changes, and a template. */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>

static void static_text(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  static const char text[] = "This is the content of the static text resource.";
  idem_resource_text(request, NULL, text, sizeof text - 1);
}

static void static_binary(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  idem_resource_blob(request, NULL, sample_png, sample_png_len);
}

static void watched(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  static const char text[] = "Watched resource content";
  idem_resource_text(request, NULL, text, sizeof text - 1);
}

static void by_id(idem_request *request, const char *uri, void *user) {
  (void)uri, (void)user;
  const char *id = idem_uri_variable(request, "id");
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *root = yyjson_mut_obj(doc);
  size_t len = 0;
  bool built = yyjson_mut_obj_add_str(doc, root, "id", id ? id : "") &&
               yyjson_mut_obj_add_bool(doc, root, "templateTest", true);
  char *text = built ? yyjson_mut_val_write(root, 0, &len) : NULL;
  if (text)
    idem_resource_text(request, NULL, text, len);
  else
    idem_request_drop(request);
  free(text);
  yyjson_mut_doc_free(doc);
}

static const idem_resource resources[] = {
    {.uri = "test://static-text",
     .name = "Static Text Resource",
     .description = "A text",
     .mime_type = "text/plain",
     .fn = static_text},
    {.uri = "test://static-binary",
     .name = "Static Binary Resource",
     .description = "A picture",
     .mime_type = "image/png",
     .fn = static_binary},
    {.uri = "test://watched-resource",
     .name = "Watched Resource",
     .description = "Changes when test_trigger_resource_update says so",
     .mime_type = "text/plain",
     .fn = watched},
    {.uri = "test://template/{id}/data",
     .name = "Resource Template",
     .description = "Data by id",
     .mime_type = "application/json",
     .is_template = true,
     .fn = by_id},
};

bool resources_register(idem_server *server) {
  char why[256] = "";
  for (size_t i = 0; i < COUNT(resources); i++) {
    if (idem_server_add_resource(server, &resources[i], why, sizeof why) == IDEM_OK) continue;
    fprintf(stderr, "idem-conformance-server: resource %s: %s\n", resources[i].uri, why);
    return false;
  }
  return true;
}
