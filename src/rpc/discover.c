/* discover.c - rpc.discover: what can be asked, as an OpenRPC document. The one name with the reserved prefix that there
 * is; it is made of what idem_router_describe was told. See docs/internals/rpc.md. */
#include "inside.h"

#include <idem/json.h>

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

/* ------------------------------------------------------------------- params by a schema */

#define SCHEMA_DEPTH 64 /* deeper down nobody looks */

/* A reference leads to another part of the schema it was taken from, so what holds one is only known by its type. */
static bool holds_reference(yyjson_val *value, int depth) {
  yyjson_val *key, *item;
  size_t i, max;
  bool found = depth == SCHEMA_DEPTH;
  idem_each_member(value, i, max, key, item) {
    found = found || yyjson_equals_str(key, "$ref") || yyjson_equals_str(key, "$dynamicRef") ||
            holds_reference(item, depth + 1);
  }
  yyjson_arr_foreach(value, i, max, item) found = found || holds_reference(item, depth + 1);
  return found;
}

static bool copy_schema(yyjson_mut_doc *doc, yyjson_mut_val *to, yyjson_val *schema) {
  const char *type = yyjson_get_str(yyjson_obj_get(schema, "type"));
  if (holds_reference(schema, 0))
    return add_schema(doc, to, type ? type : "", type ? strlen(type) : 0);
  return yyjson_mut_obj_add_val(doc, to, "schema", yyjson_val_mut_copy(doc, schema));
}

static bool is_required(yyjson_val *schema, yyjson_val *name) {
  yyjson_val *item;
  size_t i, max;
  yyjson_arr_foreach(yyjson_obj_get(schema, "required"), i, max, item) {
    if (yyjson_equals(item, name)) return true;
  }
  return false;
}

static bool add_property(yyjson_mut_doc *doc, yyjson_mut_val *params, yyjson_val *name,
                         yyjson_val *schema, bool required) {
  yyjson_mut_val *entry = yyjson_mut_arr_add_obj(doc, params);
  yyjson_val *description = yyjson_obj_get(schema, "description");
  bool built = entry && yyjson_mut_obj_add_val(doc, entry, "name", yyjson_val_mut_copy(doc, name));
  if (built && yyjson_is_str(description))
    built =
        yyjson_mut_obj_add_val(doc, entry, "description", yyjson_val_mut_copy(doc, description));
  if (built && required) built = yyjson_mut_obj_add_bool(doc, entry, "required", true);
  return built && copy_schema(doc, entry, schema);
}

static bool add_properties(yyjson_mut_doc *doc, yyjson_mut_val *params, yyjson_val *schema) {
  yyjson_val *properties = yyjson_obj_get(schema, "properties"), *name, *property;
  size_t i, max;
  bool built = true;
  idem_each_member(properties, i, max, name, property) {
    built = built && add_property(doc, params, name, property, is_required(schema, name));
  }
  return built;
}

/* ------------------------------------------------------------------------------ methods */

static bool add_params(yyjson_mut_doc *doc, yyjson_mut_val *entry, const idem__method *method) {
  yyjson_mut_val *params = yyjson_mut_obj_add_arr(doc, entry, "params");
  bool built = params;
  if (built && method->params_schema)
    return add_properties(doc, params, yyjson_doc_get_root(method->params_schema));
  for (size_t i = 0; built && method->params && method->params[i]; i++)
    built = add_param(doc, params, method->params[i]);
  return built;
}

static bool add_result(yyjson_mut_doc *doc, yyjson_mut_val *entry, const idem__method *method) {
  const char *returns = method->returns ? method->returns : "any";
  yyjson_mut_val *result = yyjson_mut_obj_add_obj(doc, entry, "result");
  if (!result || !yyjson_mut_obj_add_str(doc, result, "name", "result")) return false;
  if (method->result_schema)
    return copy_schema(doc, result, yyjson_doc_get_root(method->result_schema));
  return add_schema(doc, result, returns, strlen(returns));
}

static bool add_method(yyjson_mut_doc *doc, yyjson_mut_val *list, const idem__method *method) {
  yyjson_mut_val *entry = yyjson_mut_arr_add_obj(doc, list);
  bool built = entry && yyjson_mut_obj_add_str(doc, entry, "name", method->name);
  if (built && method->description)
    built = yyjson_mut_obj_add_str(doc, entry, "description", method->description);
  return built && add_params(doc, entry, method) && add_result(doc, entry, method);
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
