/* plain.c - see plain.h. Names are added to the router and stay; a name whose tool is gone is
 * answered as one that never was. */
#include "plain.h"

#include "plain_fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAMS_MAX 64

struct plain_method {
  plain_method *next;
  plain_host *host;
  const edition *seen; /* the edition that `index` is of */
  size_t index;
  char name[];
};

#define ABSENT SIZE_MAX

/* -------------------------------------------------------------------------- calls */

static size_t index_of(plain_method *self) {
  const edition *current = self->host->current;
  if (self->seen == current) return self->index;
  self->seen = current;
  self->index = ABSENT;
  for (size_t i = 0; i < current->config.shown_count; i++)
    if (strcmp(current->config.tools[i].name, self->name) == 0) self->index = i;
  return self->index;
}

static void refuse_unknown(idem_request *request, const plain_method *self) {
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *data = yyjson_mut_obj(doc);
  if (yyjson_mut_obj_add_str(doc, data, "method", self->name))
    idem_reply_error(request, IDEM_RPC_METHOD_NOT_FOUND, "Method not found", data);
  else
    idem_request_drop(request);
}

static yyjson_doc *schema_of(const plain_host *self, const tool_config *tool) {
  const char *text = config_input_schema(&self->current->config, tool);
  return yyjson_read(text, strlen(text), 0);
}

/* Array params by the order of the schema's properties; NULL: more than there are, or no memory. */
static yyjson_doc *by_position(yyjson_val *schema, yyjson_val *params) {
  yyjson_val *properties = yyjson_obj_get(schema, "properties");
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *object = yyjson_mut_obj(doc);
  yyjson_obj_iter names = yyjson_obj_iter_with(properties);
  yyjson_arr_iter items = yyjson_arr_iter_with(params);
  bool fine = object;
  for (yyjson_val *value; fine && (value = yyjson_arr_iter_next(&items));) {
    yyjson_val *name = yyjson_obj_iter_next(&names);
    fine = name && yyjson_mut_obj_add(object, yyjson_val_mut_copy(doc, name),
                                      yyjson_val_mut_copy(doc, value));
  }
  if (fine) yyjson_mut_doc_set_root(doc, object);
  yyjson_doc *made = fine ? yyjson_mut_doc_imut_copy(doc, NULL) : NULL;
  yyjson_mut_doc_free(doc);
  return made;
}

static void tell_refused(idem_request *request, const char *why) {
  char detail[512];
  snprintf(detail, sizeof detail, "%.448s, %zu bytes", why, idem_request_bytes(request));
  idem_request_log(request, NULL, IDEM_LOG_WARN, "arguments of a tool were refused", detail);
}

static void refuse_arguments(idem_request *request, const plain_method *self, size_t index,
                             yyjson_val *arguments, const idem_schema_result *result) {
  yyjson_doc *schema = schema_of(self->host, &self->host->current->config.tools[index]);
  bool listed = yyjson_is_arr(idem_request_params(request));
  const idem_schema_error *error = result->error_count ? &result->errors[0] : NULL;
  tell_refused(request, error ? error->log_sentence : "cannot be checked");
  if (error && idem_request_codes(request) == IDEM_CODES_ERLMCP)
    idem_reply_fault(request, IDEM_FAULT_VALIDATION, error->sentence);
  else if (schema && error)
    plain_fault_reply(request, yyjson_doc_get_root(schema), arguments, error, listed);
  else
    idem_reply_error_text(request, IDEM_RPC_INVALID_PARAMS, "Invalid params",
                          "params cannot be checked");
  yyjson_doc_free(schema);
}

static void run_checked(idem_request *request, plain_method *self, size_t index,
                        yyjson_val *arguments) {
  edition *current = self->host->current;
  idem_schema_result result = {.valid = false};
  idem_tool_fn fn;
  void *user;
  idem_schema_validate(current->config.tools[index].input, self->host->checker, arguments,
                       &(idem_schema_check){.root_name = "params"}, &result);
  if (!result.valid) {
    refuse_arguments(request, self, index, arguments, &result);
    return;
  }
  edition_tool_handler(current, index, &fn, &user);
  fn(request, arguments, user);
}

static void refuse_more(idem_request *request, yyjson_val *params, size_t count) {
  tell_refused(request, "more params than the method has");
  plain_fault_reply_more(request, params, count);
}

/* Handlers copy what they need of the arguments before they return. */
static void run_listed(idem_request *request, plain_method *self, size_t index,
                       yyjson_val *params) {
  yyjson_doc *schema = schema_of(self->host, &self->host->current->config.tools[index]);
  yyjson_val *root = yyjson_doc_get_root(schema);
  size_t count = yyjson_obj_size(yyjson_obj_get(root, "properties"));
  yyjson_doc *made = schema ? by_position(root, params) : NULL;
  if (made)
    run_checked(request, self, index, yyjson_doc_get_root(made));
  else if (schema && yyjson_arr_size(params) > count)
    refuse_more(request, params, count);
  else
    idem_request_drop(request);
  yyjson_doc_free(made);
  yyjson_doc_free(schema);
}

static void run(idem_request *request, yyjson_val *params, void *user) {
  plain_method *self = user;
  size_t index = index_of(self);
  if (index == ABSENT)
    refuse_unknown(request, self);
  else if (yyjson_is_obj(params))
    run_checked(request, self, index, params);
  else
    run_listed(request, self, index, params);
}

/* ------------------------------------------------------------------------ methods */

static plain_method *find(const plain_host *self, const char *name) {
  plain_method *at = self->methods;
  while (at && strcmp(at->name, name) != 0) at = at->next;
  return at;
}

static bool answers_rows(const tool_config *tool) { return !tool->is_program && !tool->http; }

/* Rows are an object; JSON without a schema may be anything. */
static const char *returns(const tool_config *tool) {
  if (tool->output_schema || answers_rows(tool)) return "object";
  return tool->output_json ? "any" : "string";
}

/* NULL: no more is known than its type. */
static const char *result_schema(const tool_config *tool) {
  static const char rows[] = IDEM_JSON({
    "type" : "object",
    "properties" : {
      "rows" : {"type" : "array", "items" : {"type" : "object"}},
      "row_count" : {"type" : "integer", "minimum" : 0},
      "truncated" : {"type" : "boolean"},
      "rows_changed" : {"type" : "integer", "minimum" : 0}
    },
    "required" : [ "rows", "row_count", "truncated" ]
  });
  if (tool->output_schema) return tool->output_schema;
  return answers_rows(tool) ? rows : NULL;
}

/* "name: type" for each property, for describeMethods; the whole schemas, for rpc.discover. */
static void describe(const plain_host *self, const tool_config *tool) {
  yyjson_doc *schema = schema_of(self, tool);
  yyjson_val *properties = yyjson_obj_get(yyjson_doc_get_root(schema), "properties"), *key, *value;
  char lines[PARAMS_MAX][160];
  const char *params[PARAMS_MAX + 1] = {NULL};
  size_t i, max;
  idem_each_member(properties, i, max, key, value) {
    const char *type = yyjson_get_str(yyjson_obj_get(value, "type"));
    if (i == PARAMS_MAX) break;
    snprintf(lines[i], sizeof lines[i], "%s: %s", yyjson_get_str(key), type ? type : "any");
    params[i] = lines[i];
  }
  idem_router_describe(
      self->router, tool->name,
      &(idem_method_info){.description = tool->description,
                          .params = params,
                          .returns = returns(tool),
                          .params_schema = config_input_schema(&self->current->config, tool),
                          .result_schema = result_schema(tool)});
  yyjson_doc_free(schema);
}

static bool add(plain_host *self, const tool_config *tool) {
  size_t len = strlen(tool->name);
  plain_method *made = calloc(1, sizeof *made + len + 1);
  if (!made) return false;
  memcpy(made->name, tool->name, len);
  made->host = self;
  idem_status status = idem_router_method(self->router, made->name, run, made);
  if (status != IDEM_OK) {
    idem_logf(self->log, IDEM_LOG_ERROR, "a tool cannot be a method", "%s: %s", tool->name,
              status == IDEM_E_EXISTS ? "the profile has a method of that name"
                                      : "its name is reserved, or there is no memory");
    free(made);
    return false;
  }
  made->next = self->methods;
  self->methods = made;
  return true;
}

bool plain_serve(plain_host *self, edition *current) {
  bool fine = true;
  self->current = current;
  for (plain_method *at = self->methods; at; at = at->next) at->seen = NULL;
  for (size_t i = 0; self->router && i < current->config.shown_count; i++) {
    const tool_config *tool = &current->config.tools[i];
    if (!find(self, tool->name) && !add(self, tool))
      fine = false;
    else
      describe(self, tool);
  }
  if (self->router && (current->config.resource_count || current->config.prompt_count))
    idem_logf(self->log, IDEM_LOG_WARN, "resources and prompts are not served",
              "only MCP has them; this profile has methods");
  return fine;
}

bool plain_init(plain_host *self, idem_profile profile, const serve_config *config, idem_log *log) {
  *self = (plain_host){.log = log};
  if (profile == IDEM_PROFILE_MCP) return true;
  if (idem_schema_ctx_new(NULL, &self->checker) != IDEM_OK ||
      idem_router_new(&(idem_router_opts){.seed = idem_random_seed()}, &self->router) != IDEM_OK)
    return false;
  if (profile != IDEM_PROFILE_LSP)
    return idem_router_discover(self->router, config->title ? config->title : config->name,
                                config->version) == IDEM_OK;
  idem_lsp_opts opts = {.server_name = config->name, .server_version = config->version, .log = log};
  return idem_router_lsp(self->router, &opts) == IDEM_OK;
}

void plain_deinit(plain_host *self) {
  idem_router_free(self->router);
  idem_schema_ctx_free(self->checker);
  for (plain_method *at = self->methods, *next; at; at = next) {
    next = at->next;
    free(at);
  }
}
