/* router.c - what can be asked: names and the functions that answer.
 * Filled before serving, read-only while serving, so any number of threads may share it. */
#include "inside.h"

#include <string.h>

#define DEFAULT_PARSE_BYTES_TOTAL ((size_t)512 << 20)

IDEM__EARLY idem_status idem_router_new(const idem_router_opts *opts, idem_router **out) {
  static const idem_router_opts none;
  if (!opts) opts = &none;
  idem_alloc alloc = idem__alloc_or_default(opts->alloc);
  idem_router *router = idem__calloc(&alloc, sizeof *router);
  if (!router) return IDEM_E_NOMEM;
  router->alloc = alloc;
  router->parse_bytes_total =
      opts->parse_bytes_total ? opts->parse_bytes_total : DEFAULT_PARSE_BYTES_TOTAL;
  idem_map_init(&router->methods, &router->alloc, opts->seed);
  idem__workload_init(&router->workload, &router->alloc, opts->seed, router->parse_bytes_total);
  *out = router;
  return IDEM_OK;
}

static void clear_info(idem_router *router, idem__method *method) {
  idem__free(&router->alloc, method->description);
  idem__free(&router->alloc, method->returns);
  for (size_t i = 0; method->params && method->params[i]; i++) {
    idem__free(&router->alloc, method->params[i]);
  }
  idem__free(&router->alloc, method->params);
  yyjson_doc_free(method->params_schema);
  yyjson_doc_free(method->result_schema);
  method->description = method->returns = NULL;
  method->params = NULL;
  method->params_schema = method->result_schema = NULL;
}

static void free_method(idem_router *router, idem__method *method) {
  clear_info(router, method);
  idem__free(&router->alloc, method->name);
  idem__free(&router->alloc, method);
}

void idem_router_free(idem_router *router) {
  if (!router) return;
  for (size_t i = 0; i < router->methods.count; i++) free_method(router, router->order[i]);
  idem__free(&router->alloc, router->order);
  idem__free(&router->alloc, router->patterns);
  idem_map_deinit(&router->methods);
  idem__workload_deinit(&router->workload);
  idem__lsp_free(router);
  idem__discovery_free(router);
  idem_alloc alloc = router->alloc;
  idem__free(&alloc, router);
}

static idem_status reserve_order(idem_router *router) {
  if (router->methods.count < router->order_cap) return IDEM_OK;
  size_t cap = router->order_cap ? router->order_cap * 2 : 16;
  idem__method **grown = idem__realloc(&router->alloc, router->order,
                                       router->order_cap * sizeof *grown, cap * sizeof *grown);
  if (!grown) return IDEM_E_NOMEM;
  router->order = grown;
  router->order_cap = cap;
  return IDEM_OK;
}

static idem__method *new_method(idem_router *router, const char *name, size_t len) {
  idem__method *method = idem__calloc(&router->alloc, sizeof *method);
  if (!method) return NULL;
  method->name = idem__strndup(&router->alloc, name, len);
  method->name_len = len;
  if (method->name) return method;
  idem__free(&router->alloc, method);
  return NULL;
}

/* The entry of a name, made where there is none. */
static IDEM__EARLY idem_status entry_of(idem_router *router, const char *name, idem__method **out) {
  size_t len = strlen(name);
  *out = idem_map_get(&router->methods, name, len);
  if (*out) return IDEM_OK;
  if (reserve_order(router) != IDEM_OK) return IDEM_E_NOMEM;
  idem__method *method = new_method(router, name, len);
  if (!method) return IDEM_E_NOMEM;
  size_t position = router->methods.count;
  idem_status status = idem_map_put(&router->methods, method->name, len, method);
  if (status != IDEM_OK) {
    free_method(router, method);
    return status;
  }
  /* Label 0 is `other`; names take their numbers in the order of registration. */
  method->label = (idem__method_label)(position + 1);
  router->order[position] = method;
  *out = method;
  return IDEM_OK;
}

/* JSON-RPC 2.0 section 4 keeps it for the protocol and its extensions. */
static bool is_reserved(const char *name) { return strncmp(name, "rpc.", 4) == 0; }

idem_status idem__router_own(idem_router *router, const char *name, idem_method_fn fn, void *user) {
  idem__method *method;
  idem_status status = entry_of(router, name, &method);
  if (status != IDEM_OK) return status;
  if (method->fn) return IDEM_E_EXISTS;
  method->fn = fn;
  method->user = user;
  return IDEM_OK;
}

IDEM__EARLY idem_status idem_router_method(idem_router *router, const char *name, idem_method_fn fn,
                                           void *user) {
  return fn && !is_reserved(name) ? idem__router_own(router, name, fn, user) : IDEM_E_INVAL;
}

IDEM__EARLY idem_status idem_router_notification(idem_router *router, const char *name,
                                                 idem_notification_fn fn, void *user) {
  idem__method *method;
  if (!fn || is_reserved(name)) return IDEM_E_INVAL;
  idem_status status = entry_of(router, name, &method);
  if (status != IDEM_OK) return status;
  if (method->notification_fn) return IDEM_E_EXISTS;
  method->notification_fn = fn;
  method->notification_user = user;
  return IDEM_OK;
}

static idem_status copy_text(idem_router *router, const char *text, char **out) {
  *out = text ? idem__strndup(&router->alloc, text, strlen(text)) : NULL;
  return text && !*out ? IDEM_E_NOMEM : IDEM_OK;
}

static idem_status copy_params(idem_router *router, const char *const *params, char ***out) {
  size_t count = 0;
  while (params && params[count]) count++;
  *out = idem__calloc(&router->alloc, (count + 1) * sizeof **out);
  if (!*out) return IDEM_E_NOMEM;
  for (size_t i = 0; i < count; i++) {
    if (copy_text(router, params[i], &(*out)[i]) != IDEM_OK) return IDEM_E_NOMEM;
  }
  return IDEM_OK;
}

static IDEM__EARLY idem_status read_schema(idem_router *router, const char *text,
                                           yyjson_doc **out) {
  yyjson_alc alc = idem__json_alc(&router->alloc);
  yyjson_read_err error;
  if (!text) return IDEM_OK;
  *out = yyjson_read_opts((char *)(uintptr_t)text, strlen(text), YYJSON_READ_NOFLAG, &alc, &error);
  if (!*out) return error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION ? IDEM_E_NOMEM : IDEM_E_INVAL;
  return yyjson_is_obj(yyjson_doc_get_root(*out)) ? IDEM_OK : IDEM_E_INVAL;
}

static idem_status copy_info(idem_router *router, const idem_method_info *info,
                             idem__method *method) {
  idem_status status = copy_text(router, info->description, &method->description);
  if (status == IDEM_OK) status = copy_text(router, info->returns, &method->returns);
  if (status == IDEM_OK) status = copy_params(router, info->params, &method->params);
  if (status == IDEM_OK) status = read_schema(router, info->params_schema, &method->params_schema);
  if (status == IDEM_OK) status = read_schema(router, info->result_schema, &method->result_schema);
  return status;
}

IDEM__EARLY idem_status idem_router_describe(idem_router *router, const char *name,
                                             const idem_method_info *info) {
  idem__method *method = idem_map_get(&router->methods, name, strlen(name));
  if (!method) return IDEM_E_NOTFOUND;
  clear_info(router, method);
  idem_status status = copy_info(router, info, method);
  if (status != IDEM_OK) clear_info(router, method);
  return status;
}

const idem__method *idem__router_find(const idem_router *router, const char *name, size_t len) {
  if (!router) return NULL;
  const idem__method *method = idem_map_get(&router->methods, name, len);
  if (method != NULL || !router->pattern_count) return method;
  return idem__pattern_find(router, name, len);
}

idem_status idem_router_label(const idem_router *router, idem_metrics *metrics) {
  for (size_t i = 0; i < router->methods.count; i++) {
    const idem__method *method = router->order[i];
    idem__method_label label;
    idem_status status = idem__metrics_label(metrics, method->name, method->name_len, &label);
    if (status != IDEM_OK) return status;
    /* A metrics object that knew other names before would count ours under theirs. */
    if (label != method->label) return IDEM_E_STATE;
  }
  return IDEM_OK;
}

void idem__router_set_gate(idem_router *router, idem__gate_fn gate, void *user) {
  router->gate = gate;
  router->gate_user = user;
}

void idem__router_set_batch_gate(idem_router *router, idem__batch_gate_fn gate) {
  router->batch_gate = gate;
}
