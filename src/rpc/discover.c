/* discover.c - rpc.discover: what can be asked, as an OpenRPC document. The one name with the reserved prefix that there
 * is; it is made of what idem_router_describe was told. See docs/internals/rpc.md. */
#include "inside.h"

#include <string.h>

typedef struct discovery {
  const idem_router *router;
  char *title;
  char *version;
} discovery;

/* A type of JSON Schema, or nothing that is known. */
static bool is_type(const char *text, size_t len) {
  static const char *const types[] = {"string", "integer", "number", "boolean",
                                      "array",  "object",  "null"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strlen(types[i]) == len && memcmp(types[i], text, len) == 0) return true;
  return false;
}

static bool add_schema(yyjson_mut_doc *doc, yyjson_mut_val *to, const char *type, size_t len) {
  yyjson_mut_val *schema = yyjson_mut_obj_add_obj(doc, to, "schema");
  return schema && (!is_type(type, len) || yyjson_mut_obj_add_strn(doc, schema, "type", type, len));
}

/* "name: type" */
static bool add_param(yyjson_mut_doc *doc, yyjson_mut_val *params, const char *text) {
  size_t name = strcspn(text, ":"), skip = name + strspn(text + name, ": ");
  yyjson_mut_val *entry = yyjson_mut_arr_add_obj(doc, params);
  return entry && yyjson_mut_obj_add_strn(doc, entry, "name", text, name) &&
         add_schema(doc, entry, text + skip, strlen(text + skip));
}

static bool add_method(yyjson_mut_doc *doc, yyjson_mut_val *list, const idem__method *method) {
  yyjson_mut_val *entry = yyjson_mut_arr_add_obj(doc, list);
  const char *returns = method->returns ? method->returns : "any";
  bool built = entry && yyjson_mut_obj_add_str(doc, entry, "name", method->name);
  if (built && method->description)
    built = yyjson_mut_obj_add_str(doc, entry, "description", method->description);
  yyjson_mut_val *params = built ? yyjson_mut_obj_add_arr(doc, entry, "params") : NULL;
  built = params;
  for (size_t i = 0; built && method->params && method->params[i]; i++)
    built = add_param(doc, params, method->params[i]);
  yyjson_mut_val *result = built ? yyjson_mut_obj_add_obj(doc, entry, "result") : NULL;
  return result && yyjson_mut_obj_add_str(doc, result, "name", "result") &&
         add_schema(doc, result, returns, strlen(returns));
}

static void on_discover(idem_request *request, yyjson_val *params, void *user) {
  const discovery *self = user;
  const idem_router *router = self->router;
  (void)params;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *root = yyjson_mut_obj(doc);
  bool built = yyjson_mut_obj_add_str(doc, root, "openrpc", "1.3.2");
  yyjson_mut_val *info = yyjson_mut_obj_add_obj(doc, root, "info");
  built = built && yyjson_mut_obj_add_str(doc, info, "title", self->title) &&
          yyjson_mut_obj_add_str(doc, info, "version", self->version);
  yyjson_mut_val *methods = yyjson_mut_obj_add_arr(doc, root, "methods");
  for (size_t i = 0; built && i < router->methods.count; i++)
    if (router->order[i]->fn) built = add_method(doc, methods, router->order[i]);
  if (built && methods)
    idem_reply_mut(request, root);
  else
    idem_request_drop(request);
}

idem_status idem_router_discover(idem_router *router, const char *title, const char *version) {
  static const idem_method_info info = {.description = "Describes the methods, as OpenRPC",
                                        .returns = "object"};
  if (router->discovery) return IDEM_E_EXISTS;
  discovery *self = idem__calloc(&router->alloc, sizeof *self);
  if (!self) return IDEM_E_NOMEM;
  router->discovery = self; /* freed with the router, whatever happens below */
  self->router = router;
  self->title = idem__strndup(&router->alloc, title, strlen(title));
  self->version = idem__strndup(&router->alloc, version, strlen(version));
  if (!self->title || !self->version) return IDEM_E_NOMEM;
  idem_status status = idem__router_own(router, "rpc.discover", on_discover, self);
  return status == IDEM_OK ? idem_router_describe(router, "rpc.discover", &info) : status;
}

void idem__discovery_free(idem_router *router) {
  discovery *self = router->discovery;
  if (!self) return;
  idem__free(&router->alloc, self->title);
  idem__free(&router->alloc, self->version);
  idem__free(&router->alloc, self);
}
