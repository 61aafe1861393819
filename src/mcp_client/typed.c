/* typed.c - a function for each question of the protocol: its params are written as members, so that _meta, answers
 * and state can be added each time the message is sent. See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <stdio.h>
#include <string.h>

#define PARAMS_MAX ((size_t)128 << 20)

/* A call being put together. */
typedef struct maker {
  idem_mcp_client *client;
  idem_buf params, meta;
  char key[IDEM__ONCE_KEY_MAX + 1]; /* found in _meta */
  idem__writer out;
  idem__mcp_ask ask;
  uint64_t *handle;
} maker;

static idem_status may_ask(const idem_mcp_client *client, const idem__mcp_method *row) {
  if (!idem__mcp_usable(client)) return client->told_ready ? IDEM_E_CLOSED : IDEM_E_STATE;
  return row && !(row->revisions & client->revision->bit) ? IDEM_E_STATE : IDEM_OK;
}

/* A key is the engine's business, wherever it is said. True: it is none, or bad enough for the server to say so. */
static bool is_plain_member(maker *self, yyjson_val *name, yyjson_val *value) {
  size_t len = yyjson_get_len(value);
  if (self->ask.row != &idem__mcp_methods[IDEM__METHOD_TOOLS_CALL] ||
      !yyjson_equals_str(name, IDEM__ONCE_META) || !yyjson_is_str(value) ||
      len > IDEM__ONCE_KEY_MAX)
    return true;
  memcpy(self->key, yyjson_get_str(value), len);
  self->ask.key = self->key;
  self->ask.key_len = len;
  return false;
}

/* Members of an object given as JSON text. */
static idem_status put_object(maker *self, idem__writer *out, const char *json, size_t len) {
  yyjson_alc alc = idem__json_alc(&self->client->alloc);
  idem_status status = IDEM_OK;
  yyjson_doc *doc = idem__json_read_text(json, len, 512, &alc, &status);
  if (!doc) return status == IDEM_OK ? IDEM_E_INVAL : status;
  yyjson_val *root = yyjson_doc_get_root(doc), *key, *val;
  size_t index, max;
  status = yyjson_is_obj(root) ? IDEM_OK : IDEM_E_INVAL;
  idem_each_member(root, index, max, key, val) {
    if (!is_plain_member(self, key, val)) continue;
    idem__write_name(out, key);
    idem__write_value(out, val);
  }
  yyjson_doc_free(doc);
  return status;
}

static idem_status begin(maker *self, idem_mcp_client *client, idem__method_row row,
                         const idem_mcp_call_opts *opts) {
  *self = (maker){.client = client, .ask = {.row = &idem__mcp_methods[row], .opts = opts}};
  idem_buf_init(&self->params, &client->alloc, PARAMS_MAX);
  idem_buf_init(&self->meta, &client->alloc, (size_t)1 << 20);
  self->out = idem__writer_on(&self->params);
  return may_ask(client, self->ask.row);
}

static idem_status put_meta(maker *self) {
  const idem_mcp_call_opts *opts = self->ask.opts;
  if (!opts || !opts->meta) return IDEM_OK;
  idem__writer meta = idem__writer_on(&self->meta);
  if (self->meta.len) meta.comma = true;
  idem_status status = put_object(self, &meta, opts->meta, strlen(opts->meta));
  return status == IDEM_OK ? meta.status : status;
}

static void put_key(maker *self) {
  const idem_mcp_call_opts *opts = self->ask.opts;
  if (!opts || self->ask.row != &idem__mcp_methods[IDEM__METHOD_TOOLS_CALL]) return;
  self->ask.key_store = opts->key_store;
  if (!opts->key) return;
  self->ask.key = opts->key;
  self->ask.key_len = strlen(opts->key);
}

static void end(maker *self) {
  idem_buf_deinit(&self->params);
  idem_buf_deinit(&self->meta);
}

static idem_status make(maker *self, idem_mcp_result_fn fn, void *user, idem__mcp_call **call) {
  idem_status status = self->out.status;
  if (status == IDEM_OK) status = put_meta(self);
  put_key(self);
  self->ask.params = self->params.data;
  self->ask.params_len = self->params.len;
  self->ask.meta = self->meta.data;
  self->ask.meta_len = self->meta.len;
  self->ask.fn = fn;
  self->ask.user = user;
  if (status == IDEM_OK) status = idem__mcp_call_make(self->client, &self->ask, call);
  end(self);
  return status;
}

/* Sends what was put together; `status` is what has come of that so far. */
static idem_status finish(maker *self, idem_status status, idem_mcp_result_fn fn, void *user,
                          uint64_t *handle) {
  idem__mcp_call *call;
  if (status != IDEM_OK) {
    end(self);
    return status;
  }
  status = make(self, fn, user, &call);
  if (status != IDEM_OK) return status;
  if (handle) *handle = call->handle;
  if (call->kind == IDEM__MCP_TOOL && idem__mcp_tool_look_up(call)) return IDEM_OK;
  if (call->kind == IDEM__MCP_ROUNDS && idem__mcp_read_is_kept(call)) return IDEM_OK;
  status = idem__mcp_call_send(call);
  if (status != IDEM_OK) idem__mcp_call_drop(call);
  return status;
}

/* "key": "text", remembered as what the message is about. */
static void put_subject(maker *self, const char *key, const char *text) {
  idem__write_key(&self->out, key);
  self->ask.subject_at = self->params.len;
  idem__write_text(&self->out, text);
  self->ask.subject_len = self->params.len - self->ask.subject_at;
}

static void put_task(maker *self) {
  const idem_mcp_call_opts *opts = self->ask.opts;
  if (!opts || !opts->task || !idem__revision_has(self->client->revision, IDEM__R_TASKS)) return;
  idem__write_key(&self->out, "task");
  idem__write_object(&self->out);
  if (opts->task_ttl_ms) idem__write_member_int(&self->out, "ttl", (int64_t)opts->task_ttl_ms);
  idem__write_object_end(&self->out);
}

/* What tools and prompts are asked with. */
static idem_status put_named(maker *self, const char *name, const yyjson_mut_val *arguments) {
  if (arguments && !yyjson_mut_is_obj(idem__mcp_mutable(arguments))) return IDEM_E_INVAL;
  put_subject(self, "name", name);
  if (!arguments) return IDEM_OK;
  idem__write_key(&self->out, "arguments");
  self->ask.args_at = self->params.len;
  idem__write_mutable(&self->out, arguments);
  self->ask.args_len = self->params.len - self->ask.args_at;
  return IDEM_OK;
}

/* ---------------------------------------------------------------------- tools */

idem_status idem_mcp_call_tool(idem_mcp_client *client, const char *name,
                               const yyjson_mut_val *arguments, const idem_mcp_call_opts *opts,
                               idem_mcp_result_fn fn, void *user, uint64_t *call) {
  maker self;
  idem_status status = begin(&self, client, IDEM__METHOD_TOOLS_CALL, opts);
  self.ask.kind = IDEM__MCP_TOOL;
  if (status == IDEM_OK) status = put_named(&self, name, arguments);
  if (status == IDEM_OK) put_task(&self);
  return finish(&self, status, fn, user, call);
}

idem_status idem_mcp_call_tool_json(idem_mcp_client *client, const char *name,
                                    const char *arguments, size_t len,
                                    const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                    void *user, uint64_t *call) {
  maker self;
  idem_status status = begin(&self, client, IDEM__METHOD_TOOLS_CALL, opts);
  self.ask.kind = IDEM__MCP_TOOL;
  if (status == IDEM_OK) put_subject(&self, "name", name);
  if (status == IDEM_OK && arguments) {
    idem__write_key(&self.out, "arguments");
    self.ask.args_at = self.params.len;
    status = self.out.status;
    if (status == IDEM_OK) status = idem__json_put_text(&self.params, arguments, len, 512);
    self.out.comma = true;
    self.ask.args_len = self.params.len - self.ask.args_at;
    if (status == IDEM_OK && self.params.data[self.ask.args_at] != '{') status = IDEM_E_INVAL;
  }
  if (status == IDEM_OK) put_task(&self);
  return finish(&self, status, fn, user, call);
}

/* -------------------------------------------------------------- other questions */

static idem_status ask_about(idem_mcp_client *client, idem__method_row row,
                             idem__mcp_call_kind kind, const char *key, const char *text,
                             const idem_mcp_call_opts *opts, idem_mcp_result_fn fn, void *user,
                             uint64_t *call) {
  maker self;
  idem_status status = begin(&self, client, row, opts);
  self.ask.kind = kind;
  if (status == IDEM_OK && key) put_subject(&self, key, text);
  return finish(&self, status, fn, user, call);
}

idem_status idem_mcp_read(idem_mcp_client *client, const char *uri, const idem_mcp_call_opts *opts,
                          idem_mcp_result_fn fn, void *user, uint64_t *call) {
  return ask_about(client, IDEM__METHOD_RESOURCES_READ, IDEM__MCP_ROUNDS, "uri", uri, opts, fn,
                   user, call);
}

idem_status idem_mcp_get_prompt(idem_mcp_client *client, const char *name,
                                const yyjson_mut_val *arguments, const idem_mcp_call_opts *opts,
                                idem_mcp_result_fn fn, void *user, uint64_t *call) {
  maker self;
  idem_status status = begin(&self, client, IDEM__METHOD_PROMPTS_GET, opts);
  self.ask.kind = IDEM__MCP_ROUNDS;
  if (status == IDEM_OK) status = put_named(&self, name, arguments);
  return finish(&self, status, fn, user, call);
}

static void put_completion(maker *self, const idem_mcp_completion *what) {
  idem__writer *out = &self->out;
  idem__write_key(out, "ref");
  idem__write_object(out);
  idem__write_member_text(out, "type", what->prompt ? "ref/prompt" : "ref/resource");
  idem__write_member_text(out, what->prompt ? "name" : "uri",
                          what->prompt ? what->prompt : what->uri_template);
  idem__write_object_end(out);
  idem__write_key(out, "argument");
  idem__write_object(out);
  idem__write_member_text(out, "name", what->argument);
  idem__write_member_text(out, "value", what->value ? what->value : "");
  idem__write_object_end(out);
  if (!what->context || !idem__revision_has(self->client->revision, IDEM__F_COMPLETE_CONTEXT))
    return;
  idem__write_key(out, "context");
  idem__write_object(out);
  idem__write_key(out, "arguments");
  idem__write_mutable(out, what->context);
  idem__write_object_end(out);
}

idem_status idem_mcp_complete(idem_mcp_client *client, const idem_mcp_completion *what,
                              const idem_mcp_call_opts *opts, idem_mcp_result_fn fn, void *user,
                              uint64_t *call) {
  maker self;
  idem_status status = begin(&self, client, IDEM__METHOD_COMPLETE, opts);
  if (status == IDEM_OK &&
      (!what->prompt == !what->uri_template || !what->argument ||
       (what->context && !yyjson_mut_is_obj(idem__mcp_mutable(what->context)))))
    status = IDEM_E_INVAL;
  if (status == IDEM_OK) put_completion(&self, what);
  return finish(&self, status, fn, user, call);
}

idem_status idem_mcp_subscribe(idem_mcp_client *client, const char *uri,
                               const idem_mcp_call_opts *opts, idem_mcp_result_fn fn, void *user,
                               uint64_t *call) {
  return ask_about(client, IDEM__METHOD_SUBSCRIBE, IDEM__MCP_PLAIN, "uri", uri, opts, fn, user,
                   call);
}

idem_status idem_mcp_unsubscribe(idem_mcp_client *client, const char *uri,
                                 const idem_mcp_call_opts *opts, idem_mcp_result_fn fn, void *user,
                                 uint64_t *call) {
  return ask_about(client, IDEM__METHOD_UNSUBSCRIBE, IDEM__MCP_PLAIN, "uri", uri, opts, fn, user,
                   call);
}

idem_status idem_mcp_client_ping(idem_mcp_client *client, const idem_mcp_call_opts *opts,
                                 idem_mcp_result_fn fn, void *user, uint64_t *call) {
  idem__method_row row = idem__mcp_modern(client) ? IDEM__METHOD_DISCOVER : IDEM__METHOD_PING;
  return ask_about(client, row, IDEM__MCP_PLAIN, NULL, NULL, opts, fn, user, call);
}

/* ---------------------------------------------------------------------- levels */

static idem_status remember_level(idem_mcp_client *client, idem_mcp_level level,
                                  const idem_mcp_call_opts *opts, idem_mcp_result_fn fn, void *user,
                                  uint64_t *handle) {
  idem__mcp_call *call;
  idem__mcp_ask ask = {
      .row = &idem__mcp_methods[IDEM__METHOD_SET_LEVEL], .opts = opts, .fn = fn, .user = user};
  idem_status status = idem__mcp_call_make(client, &ask, &call);
  if (status != IDEM_OK) return status;
  client->level = (int)level;
  if (handle) *handle = call->handle;
  idem__mcp_call_end_soon(call, IDEM_OK, NULL);
  return IDEM_OK;
}

idem_status idem_mcp_set_level(idem_mcp_client *client, idem_mcp_level level,
                               const idem_mcp_call_opts *opts, idem_mcp_result_fn fn, void *user,
                               uint64_t *call) {
  static const char *const names[] = {"debug", "info",     "notice", "warning",
                                      "error", "critical", "alert",  "emergency"};
  idem_status status = may_ask(client, NULL);
  if ((unsigned)level >= sizeof names / sizeof *names) return IDEM_E_INVAL;
  if (status != IDEM_OK) return status;
  if (idem__mcp_modern(client)) return remember_level(client, level, opts, fn, user, call);
  return ask_about(client, IDEM__METHOD_SET_LEVEL, IDEM__MCP_PLAIN, "level", names[level], opts, fn,
                   user, call);
}

/* ----------------------------------------------------------------------- tasks */

idem_status idem_mcp_task_get(idem_mcp_client *client, const char *task,
                              const idem_mcp_call_opts *opts, idem_mcp_result_fn fn, void *user,
                              uint64_t *call) {
  return ask_about(client, IDEM__METHOD_TASKS_GET, IDEM__MCP_TASK_GET, "taskId", task, opts, fn,
                   user, call);
}

idem_status idem_mcp_task_cancel(idem_mcp_client *client, const char *task,
                                 const idem_mcp_call_opts *opts, idem_mcp_result_fn fn, void *user,
                                 uint64_t *call) {
  return ask_about(client, IDEM__METHOD_TASKS_CANCEL, IDEM__MCP_TASK_GET, "taskId", task, opts, fn,
                   user, call);
}

idem_status idem_mcp_task_result(idem_mcp_client *client, const char *task,
                                 const idem_mcp_call_opts *opts, idem_mcp_result_fn fn, void *user,
                                 uint64_t *call) {
  return ask_about(client, IDEM__METHOD_TASKS_RESULT, IDEM__MCP_TOOL, "taskId", task, opts, fn,
                   user, call);
}

idem_status idem_mcp_task_update(idem_mcp_client *client, const char *task, const char *answers,
                                 size_t len, const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                                 void *user, uint64_t *call) {
  maker self;
  idem_status status = begin(&self, client, IDEM__METHOD_TASKS_UPDATE, opts);
  if (status == IDEM_OK) {
    put_subject(&self, "taskId", task);
    idem__write_key(&self.out, "inputResponses");
    size_t at = self.params.len;
    status = self.out.status;
    if (status == IDEM_OK) status = idem__json_put_text(&self.params, answers, len, 512);
    if (status == IDEM_OK && self.params.data[at] != '{') status = IDEM_E_INVAL;
  }
  return finish(&self, status, fn, user, call);
}

idem_status idem_mcp_task_wait(idem_mcp_client *client, const char *task,
                               const idem_mcp_call_opts *opts, idem_mcp_result_fn fn, void *user,
                               uint64_t *handle) {
  maker self;
  idem__mcp_call *call;
  idem_status status = begin(&self, client, IDEM__METHOD_TASKS_GET, opts);
  self.ask.kind = IDEM__MCP_TASK_WAIT;
  if (status != IDEM_OK) {
    end(&self);
    return status;
  }
  put_subject(&self, "taskId", task);
  status = make(&self, fn, user, &call);
  if (status != IDEM_OK) return status;
  status = idem__mcp_task_wait_for(call, task);
  if (status != IDEM_OK)
    idem__mcp_call_drop(call);
  else if (handle)
    *handle = call->handle;
  return status;
}

/* ------------------------------------------------------------------ any method */

static idem__mcp_call_kind kind_of(const idem__mcp_method *row) {
  if (row == &idem__mcp_methods[IDEM__METHOD_TOOLS_CALL]) return IDEM__MCP_TOOL;
  if (row == &idem__mcp_methods[IDEM__METHOD_PROMPTS_GET] ||
      row == &idem__mcp_methods[IDEM__METHOD_RESOURCES_READ])
    return IDEM__MCP_ROUNDS;
  return IDEM__MCP_PLAIN;
}

static void find_subject(maker *self, yyjson_val *params) {
  const idem__mcp_method *row = self->ask.row;
  yyjson_val *subject = row ? idem__mcp_method_subject(row, params) : NULL;
  static const char *const keys[] = {
      [IDEM__NAME_NAME] = "name", [IDEM__NAME_URI] = "uri", [IDEM__NAME_TASK] = "taskId"};
  if (!yyjson_is_str(subject)) return;
  put_subject(self, keys[row->name_source], yyjson_get_str(subject));
}

static bool is_subject(const maker *self, yyjson_val *key, yyjson_val *params) {
  const idem__mcp_method *row = self->ask.row;
  yyjson_val *subject = row ? idem__mcp_method_subject(row, params) : NULL;
  return subject && self->ask.subject_len && yyjson_obj_get(params, yyjson_get_str(key)) == subject;
}

static void put_params(maker *self, yyjson_val *params, idem__writer *meta) {
  yyjson_val *key, *val;
  size_t index, max;
  find_subject(self, params);
  idem_each_member(params, index, max, key, val) {
    if (is_subject(self, key, params)) continue;
    if (yyjson_equals_str(key, "_meta") && yyjson_is_obj(val)) {
      yyjson_val *name, *value;
      size_t i, count;
      idem_each_member(val, i, count, name, value) {
        if (yyjson_equals_str(name, "progressToken") || !is_plain_member(self, name, value))
          continue;
        idem__write_name(meta, name);
        idem__write_value(meta, value);
      }
      continue;
    }
    bool arguments = self->ask.kind == IDEM__MCP_TOOL && yyjson_equals_str(key, "arguments");
    idem__write_name(&self->out, key);
    size_t at = self->params.len;
    idem__write_value(&self->out, val);
    if (!arguments) continue;
    self->ask.args_at = at;
    self->ask.args_len = self->params.len - at;
  }
}

idem_status idem_mcp_method(idem_mcp_client *client, const char *method, const char *params,
                            size_t len, const idem_mcp_call_opts *opts, idem_mcp_result_fn fn,
                            void *user, uint64_t *call) {
  maker self;
  (void)begin(&self, client, IDEM__METHOD_PING, opts);
  self.ask.row = idem__mcp_method_find(method, strlen(method));
  self.ask.method = method;
  self.ask.kind = kind_of(self.ask.row);
  idem_status status = may_ask(client, NULL);
  if (status == IDEM_OK && params) {
    yyjson_alc alc = idem__json_alc(&client->alloc);
    yyjson_doc *doc = idem__json_read_text(params, len, 512, &alc, &status);
    yyjson_val *root = yyjson_doc_get_root(doc);
    if (doc && !yyjson_is_obj(root)) status = IDEM_E_INVAL;
    idem__writer meta = idem__writer_on(&self.meta);
    if (doc && status == IDEM_OK) put_params(&self, root, &meta);
    if (status == IDEM_OK) status = meta.status;
    yyjson_doc_free(doc);
  }
  return finish(&self, status, fn, user, call);
}

idem_status idem_mcp_notify(idem_mcp_client *client, const char *method, const char *params,
                            size_t len) {
  idem_status status = may_ask(client, NULL);
  if (status != IDEM_OK) return status;
  return params ? idem_notify_json(client->conn, method, params, len)
                : idem_notify(client->conn, method, NULL);
}

idem_status idem_mcp_client_set_roots(idem_mcp_client *client, const char *roots, size_t len) {
  idem_buf text;
  idem_buf_init(&text, &client->alloc, client->roots.max);
  idem_status status = idem__json_put_text(&text, roots, len, 16);
  if (status == IDEM_OK && text.data[0] != '[') status = IDEM_E_INVAL;
  if (status != IDEM_OK) {
    idem_buf_deinit(&text);
    return status;
  }
  idem_buf_deinit(&client->roots);
  client->roots = text;
  if (client->opts.roots && idem__mcp_usable(client) && !idem__mcp_modern(client))
    return idem_notify(client->conn, "notifications/roots/list_changed", NULL);
  return IDEM_OK;
}
