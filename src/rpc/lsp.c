/* lsp.c - the built-in methods of the lsp profile, added to a router by one call.
 * initialize is optional and never required first; shutdown works as a notification, too, and leaves
 * the conn open for exit. */
#include "inside.h"

#include <string.h>

typedef struct lsp_state {
  const idem_router *router;
  char *name;
  char *version;
  idem_log *log;
} lsp_state;

/* Handlers build into the request's document; without memory for it the answer is an error. */
static void answer(idem_request *request, yyjson_mut_val *result) {
  if (result)
    idem_reply_mut(request, result);
  else
    idem_request_drop(request);
}

static void on_initialize(idem_request *request, yyjson_val *params, void *user) {
  const lsp_state *state = user;
  if (yyjson_is_obj(yyjson_obj_get(params, "capabilities"))) request->conn->lsp_client = true;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *result = yyjson_mut_obj(doc);
  yyjson_mut_val *info = yyjson_mut_obj_add_obj(doc, result, "serverInfo");
  bool built = yyjson_mut_obj_add_str(doc, info, "name", state->name) &&
               yyjson_mut_obj_add_str(doc, info, "version", state->version) &&
               yyjson_mut_obj_add_str(doc, result, "protocolVersion", "2.0");
  answer(request, built ? result : NULL);
}

static bool add_listed(yyjson_mut_doc *doc, yyjson_mut_val *list, const idem__method *method) {
  const char *description = method->description ? method->description : "";
  yyjson_mut_val *entry = yyjson_mut_arr_add_obj(doc, list);
  return yyjson_mut_obj_add_str(doc, entry, "name", method->name) &&
         yyjson_mut_obj_add_str(doc, entry, "description", description);
}

static bool add_described(yyjson_mut_doc *doc, yyjson_mut_val *list, const idem__method *method) {
  yyjson_mut_val *entry = yyjson_mut_arr_add_obj(doc, list);
  bool built = yyjson_mut_obj_add_str(doc, entry, "name", method->name);
  yyjson_mut_val *params = yyjson_mut_obj_add_arr(doc, entry, "params");
  for (size_t i = 0; built && method->params && method->params[i]; i++) {
    built = yyjson_mut_arr_add_str(doc, params, method->params[i]);
  }
  const char *returns = method->returns ? method->returns : "any";
  return built && yyjson_mut_obj_add_str(doc, entry, "returns", returns);
}

static void answer_methods(idem_request *request, const idem_router *router,
                           bool (*add)(yyjson_mut_doc *, yyjson_mut_val *, const idem__method *)) {
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *list = yyjson_mut_arr(doc);
  bool built = list != NULL;
  for (size_t i = 0; built && i < router->methods.count; i++) {
    if (router->order[i]->fn) built = add(doc, list, router->order[i]);
  }
  answer(request, built ? list : NULL);
}

static void on_list_methods(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  answer_methods(request, ((const lsp_state *)user)->router, add_listed);
}

static void on_describe_methods(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  answer_methods(request, ((const lsp_state *)user)->router, add_described);
}

static void on_version(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  const lsp_state *state = user;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *result = yyjson_mut_obj(doc);
  bool built = yyjson_mut_obj_add_str(doc, result, "version", state->version);
  answer(request, built ? result : NULL);
}

static void on_set_log_level(idem_request *request, yyjson_val *params, void *user) {
  static const char *const accepted[] = {"debug", "info", "warn", "error", NULL};
  const lsp_state *state = user;
  idem_param_fault fault;
  const char *text;
  size_t len;
  idem_log_level level;
  if (idem_param_string(params, "level", 0, &text, &len, &fault) != IDEM_OK) {
    fault.accepted = accepted;
    idem_reply_invalid_params(request, &fault);
    return;
  }
  if (!idem_log_level_parse(text, len, &level)) {
    fault = (idem_param_fault){.param = yyjson_is_arr(params) ? "[0]" : "level",
                               .expected = "a log level",
                               .received = yyjson_is_arr(params) ? yyjson_arr_get(params, 0)
                                                                 : yyjson_obj_get(params, "level"),
                               .accepted = accepted};
    idem_reply_invalid_params(request, &fault);
    return;
  }
  if (state->log) idem_log_set_level(state->log, level);
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *result = yyjson_mut_obj(doc);
  bool built = yyjson_mut_obj_add_str(doc, result, "level", idem_log_level_text(level)) &&
               yyjson_mut_obj_add_bool(doc, result, "success", true);
  answer(request, built ? result : NULL);
}

static bool wants_null(const idem_conn *conn) {
  idem_shutdown_answer answer = conn->policy.shutdown_answer;
  return answer == IDEM_SHUTDOWN_NULL || (answer == IDEM_SHUTDOWN_BY_CLIENT && conn->lsp_client);
}

static void on_shutdown(idem_request *request, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  static const char text[] = "{\"message\":\"Shutting down gracefully\"}";
  idem_conn *conn = request->conn;
  idem_request_log(request, NULL, IDEM_LOG_INFO, "shutdown was asked for", NULL);
  if (wants_null(conn))
    idem_reply(request, NULL);
  else
    idem__reply_own(request, text, sizeof text - 1);
  idem__conn_shutdown_asked(conn);
}

static void on_exit_told(idem_conn *conn, yyjson_val *params, void *user) {
  (void)params;
  (void)user;
  idem__conn_exit(conn);
}

typedef struct builtin {
  const char *name;
  idem_method_fn fn;
  idem_method_info info;
} builtin;

static idem_status add_builtins(idem_router *router, lsp_state *state) {
  static const char *const level_params[] = {"level: string", NULL};
  const builtin builtins[] = {
      {"initialize", on_initialize, {.description = "Names the server", .returns = "object"}},
      {"listMethods", on_list_methods, {.description = "Lists the methods", .returns = "array"}},
      {"describeMethods",
       on_describe_methods,
       {.description = "Describes the methods", .returns = "array"}},
      {"version", on_version, {.description = "Tells the server's version", .returns = "object"}},
      {"setLogLevel",
       on_set_log_level,
       {.description = "Sets the log level", .params = level_params, .returns = "object"}},
      {"shutdown", on_shutdown, {.description = "Shuts down gracefully", .returns = "object"}},
  };
  for (size_t i = 0; i < sizeof builtins / sizeof builtins[0]; i++) {
    idem_status status = idem_router_method(router, builtins[i].name, builtins[i].fn, state);
    if (status == IDEM_OK) {
      status = idem_router_describe(router, builtins[i].name, &builtins[i].info);
    }
    if (status != IDEM_OK) return status;
  }
  return idem_router_notification(router, "exit", on_exit_told, NULL);
}

idem_status idem_router_lsp(idem_router *router, const idem_lsp_opts *opts) {
  if (router->lsp) return IDEM_E_EXISTS;
  lsp_state *state = idem__calloc(&router->alloc, sizeof *state);
  if (!state) return IDEM_E_NOMEM;
  router->lsp = state; /* freed with the router, whatever happens below */
  state->router = router;
  state->log = opts->log;
  state->name = idem__strndup(&router->alloc, opts->server_name, strlen(opts->server_name));
  state->version =
      idem__strndup(&router->alloc, opts->server_version, strlen(opts->server_version));
  if (!state->name || !state->version) return IDEM_E_NOMEM;
  return add_builtins(router, state);
}

void idem__lsp_free(idem_router *router) {
  lsp_state *state = router->lsp;
  if (!state) return;
  idem__free(&router->alloc, state->name);
  idem__free(&router->alloc, state->version);
  idem__free(&router->alloc, state);
}
