/* session_mcp.c - a call to an MCP server: what is asked in which order. What its end means is session_mcp_end.c, what
 * is heard meanwhile session_mcp_hear.c.
 * With a fresh cache a tool is called at once; its schema has then accepted the arguments before anything is sent. */
#include "session_mcp.h"
#include "usage.h"

#include "config/memory.h"

#include <idem/schema.h>
#include <stdlib.h>
#include <string.h>

static void begin_call(call_session *self);
static bool look_again(call_session *self, const idem_mcp_result *result);

/* --------------------------------------------------------------------- the answers */

static void end_by_tool(call_session *self, const idem_mcp_result *result) {
  if (result->status != IDEM_OK) {
    session_end_by_result(self, result);
    return;
  }
  progress_clear(&self->progress);
  if (self->options->verbose && result->key)
    call_say("the key was %s%s", result->key, result->replayed ? ": this answer was kept" : "");
  print_tool(&self->printer, result->result, result->content, result->structured, result->is_error);
  session_end(self, result->is_error ? CALL_TOOL_FAILED : CALL_WELL);
}

static void on_tool(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  call_session *self = user;
  (void)client;
  if (session_is_stale(self, result))
    session_begin_anew(self);
  else if (!session_doubts_list(self, result) || !look_again(self, result))
    end_by_tool(self, result);
}

static void on_other(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  call_session *self = user;
  (void)client;
  if (session_is_stale(self, result)) {
    session_begin_anew(self);
    return;
  }
  if (session_look_for_resource(self, result)) return;
  if (result->status != IDEM_OK) {
    session_end_by_result(self, result);
    return;
  }
  progress_clear(&self->progress);
  switch (self->options->kind) {
  case CALL_READ: print_resource(&self->printer, result->result); break;
  case CALL_PROMPT: print_prompt(&self->printer, result->result); break;
  case CALL_COMPLETE: print_completion(&self->printer, result->result); break;
  default: print_json(&self->printer, result->result);
  }
  session_end(self, CALL_WELL);
}

static void on_progress(idem_mcp_client *client, const idem_mcp_progress *news, void *user) {
  call_session *self = idem_mcp_client_user(client);
  (void)user;
  progress_show(&self->progress, news, uv_now(&self->loop));
}

/* ------------------------------------------------------------------------ the tools */

static yyjson_val *find_tool(yyjson_val *tools, const char *name) {
  yyjson_arr_iter at;
  yyjson_val *one;
  if (!yyjson_arr_iter_init(tools, &at)) return NULL;
  while ((one = yyjson_arr_iter_next(&at)))
    if (yyjson_equals_str(yyjson_obj_get(one, "name"), name)) return one;
  return NULL;
}

void session_unknown_tool(call_session *self, yyjson_val *tools) {
  size_t count = yyjson_arr_size(tools), used = 0;
  const char **names = calloc(count + 1, sizeof *names);
  const char *wanted = self->options->subject, *fault;
  text all = {.data = NULL};
  yyjson_arr_iter at;
  yyjson_val *one;
  if (!names) memory_exhausted();
  yyjson_arr_iter_init(tools, &at);
  while (count && (one = yyjson_arr_iter_next(&at))) {
    yyjson_val *name = yyjson_obj_get(one, "name");
    if (!yyjson_is_str(name)) continue;
    names[used++] = yyjson_get_str(name);
    text_puts(&all, " ");
    text_escape_cut(&all, yyjson_get_str(name), yyjson_get_len(name), 128);
  }
  const char *near = idem_schema_suggest(wanted, strlen(wanted), names, used);
  if ((fault = idem_mcp_tool_fault(self->client, wanted)))
    call_say("%s must not be called: %s", wanted, fault);
  else
    call_say("there is no tool %s%s%s%s", wanted, near ? "; did you mean " : "", near ? near : "",
             near ? "?" : "");
  if (!fault) fprintf(stderr, "there are:%s\n", all.data ? all.data : " none");
  if (!fault && self->login.auth)
    call_say("the token that is kept may not be shown it: --login --scope SCOPE asks for more");
  text_free(&all);
  free((void *)names);
  session_end(self, CALL_ASKED_WRONGLY);
}

static bool mirrors_arguments(yyjson_val *schema) {
  char *written = schema ? yyjson_val_write(schema, 0, NULL) : NULL;
  bool found = written && strstr(written, "\"x-mcp-header\"");
  free(written);
  return found;
}

/* 2025-11-25: such a tool refuses a plain call. */
static bool needs_task(yyjson_val *tool) {
  yyjson_val *execution = yyjson_obj_get(tool, "execution");
  return yyjson_equals_str(yyjson_obj_get(execution, "taskSupport"), "required");
}

/* The arguments by a schema. False: they do not fit; `why` says so. */
static bool make_arguments(call_session *self, yyjson_val *tool, text *why) {
  text note = {.data = NULL};
  self->made.len = 0;
  self->needs_task = needs_task(tool);
  self->mirrors = self->only_prepare && mirrors_arguments(yyjson_obj_get(tool, "inputSchema"));
  bool fine = arguments_make(&self->arguments, yyjson_obj_get(tool, "inputSchema"), &self->made,
                             why, &note);
  if (note.len) call_say("%s: %s", self->options->subject, note.data);
  text_free(&note);
  return fine;
}

static void refuse_arguments(call_session *self, yyjson_val *tool, text *why) {
  char *rest, *line = strtok_r(why->data, "\n", &rest);
  for (; line; line = strtok_r(NULL, "\n", &rest)) call_say("%s", line);
  usage_show(stderr, tool);
  session_end(self, CALL_ASKED_WRONGLY);
}

static void cannot_begin(call_session *self, idem_status status) {
  call_trouble why = {
      .status = status, .phase = "the call", .what = idem_status_text(status), .exit_status = -1};
  if (status == IDEM_E_STATE) why.what = "the server's revision does not have this";
  session_end(self, trouble_tell(&self->target, &why));
}

/* --bench goes on from here by itself. */
static bool stops_here(call_session *self) {
  if (!self->only_prepare) return false;
  self->revision = idem_mcp_client_revision(self->client);
  login_lend(&self->login);
  session_end(self, CALL_WELL);
  return true;
}

/* Who gives a key relies on it, and a server that knows none runs the tool as often as it is asked. */
static void warn_of_key(call_session *self) {
  if (!self->options->key || self->told_unkept || idem_mcp_client_keys(self->client)) return;
  self->told_unkept = true;
  call_say("the server does not say that it knows keys: --key %s does not keep it from running the "
           "tool again",
           self->options->key);
}

static void call_tool(call_session *self) {
  if (stops_here(self)) return;
  if (self->options->repeat && !idem_mcp_client_keys(self->client)) {
    call_say(
        "the server does not say that it knows keys: the tool would run again, so it was not sent");
    session_end(self, CALL_OUTCOME_UNKNOWN);
    return;
  }
  warn_of_key(self);
  idem_mcp_call_opts opts = {.on_progress = on_progress,
                             .task = self->needs_task,
                             .key = self->options->key,
                             .key_store = self->options->repeat,
                             .no_key = self->options->no_key};
  idem_status status =
      idem_mcp_call_tool_json(self->client, self->options->subject, self->made.data, self->made.len,
                              &opts, on_tool, self, &self->call);
  self->calling = status == IDEM_OK;
  if (status != IDEM_OK) cannot_begin(self, status);
}

static void on_tools(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  call_session *self = user;
  text why = {.data = NULL};
  (void)client;
  self->calling = false;
  if (session_list_is_stale(self, result)) {
    session_begin_anew(self);
    return;
  }
  if (result->status != IDEM_OK && session_learn_anyway(self, result)) {
    call_tool(self);
    return;
  }
  if (session_has_no_tools(self, result)) return;
  if (result->status != IDEM_OK) {
    session_end_by_result(self, result);
    return;
  }
  session_remember(self, result);
  yyjson_val *tool = find_tool(result->items, self->options->subject);
  if (!tool && !session_knock(self, result->items))
    session_unknown_tool(self, result->items);
  else if (tool && !make_arguments(self, tool, &why))
    refuse_arguments(self, tool, &why);
  else if (tool)
    call_tool(self);
  text_free(&why);
}

void session_list_tools(call_session *self) {
  idem_status status =
      idem_mcp_list(self->client, IDEM_MCP_TOOLS, NULL, on_tools, self, &self->call);
  self->calling = status == IDEM_OK;
  if (status != IDEM_OK) cannot_begin(self, status);
}

/* The list of today: the tool is gone, or its schema makes other arguments of the same words, or the answer stands. */
static void on_tools_again(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  call_session *self = user;
  text why = {.data = NULL};
  (void)client;
  self->calling = false;
  if (result->status == IDEM_OK) session_remember(self, result);
  yyjson_val *tool = find_tool(result->items, self->options->subject);
  if (result->status == IDEM_OK && !tool)
    session_unknown_tool(self, result->items);
  else if (tool && !make_arguments(self, tool, &why))
    refuse_arguments(self, tool, &why);
  else if (tool && session_may_call_again(self, yyjson_obj_get(tool, "inputSchema")))
    call_tool(self);
  else
    end_by_tool(self, &self->answer.result);
  text_free(&why);
}

/* False: it cannot be asked for. */
static bool look_again(call_session *self, const idem_mcp_result *result) {
  static const idem_mcp_call_opts fresh = {.fresh = true};
  if (idem_mcp_list(self->client, IDEM_MCP_TOOLS, &fresh, on_tools_again, self, &self->call) !=
      IDEM_OK)
    return false;
  session_keep_answer(self, result);
  self->sent.len = 0;
  text_put(&self->sent, self->made.data, self->made.len);
  self->cached = false;
  self->calling = true;
  return true;
}

/* --------------------------------------------------------------------------- looking */

static void look_on(call_session *self);

/* A list that the server does not have is no fault of anybody's. */
static void on_list(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  call_session *self = user;
  (void)client;
  self->calling = false;
  bool absent = result->status == IDEM_E_REMOTE && result->code == IDEM_RPC_METHOD_NOT_FOUND;
  if (result->status != IDEM_OK && !absent) {
    session_end_by_result(self, result);
    return;
  }
  if (self->looked == IDEM_MCP_TOOLS && !absent) session_remember(self, result);
  look_take(&self->look, (idem_mcp_list_kind)self->looked, result->items);
  self->looked++;
  look_on(self);
}

static bool has_list(const call_session *self, idem_mcp_list_kind kind) {
  static const char *const names[] = {"tools", "resources", "resources", "prompts"};
  return idem_mcp_client_declares(self->client, (const char *const[]){names[kind], NULL});
}

static void look_on(call_session *self) {
  while (self->looked < LOOK_LISTS && !has_list(self, (idem_mcp_list_kind)self->looked))
    self->looked++;
  if (self->looked == LOOK_LISTS) {
    session_remember_names(self);
    look_print(&self->look, &self->printer, self->client, session_transport(self));
    session_end(self, CALL_WELL);
    return;
  }
  idem_status status = idem_mcp_list(self->client, (idem_mcp_list_kind)self->looked, NULL, on_list,
                                     self, &self->call);
  self->calling = status == IDEM_OK;
  if (status != IDEM_OK) cannot_begin(self, status);
}

/* ---------------------------------------------------------------------- other calls */

static void get_prompt(call_session *self, const idem_mcp_call_opts *opts, idem_status *status) {
  text why = {.data = NULL}, note = {.data = NULL};
  arguments_make(&self->arguments, NULL, &self->made, &why, &note);
  yyjson_doc *doc = yyjson_read(self->made.data, self->made.len, YYJSON_READ_NUMBER_AS_RAW);
  yyjson_mut_doc *copy = doc ? yyjson_doc_mut_copy(doc, NULL) : NULL;
  if (!copy) memory_exhausted();
  *status = idem_mcp_get_prompt(self->client, self->options->subject, yyjson_mut_doc_get_root(copy),
                                opts, on_other, self, &self->call);
  yyjson_mut_doc_free(copy);
  yyjson_doc_free(doc);
  text_free(&why);
  text_free(&note);
}

static bool is_template(const char *subject) {
  return strchr(subject, '{') || strstr(subject, "://");
}

/* The first word is completed, the others are its context. */
static void complete(call_session *self, const idem_mcp_call_opts *opts, idem_status *status) {
  const given_argument *first = arguments_first(&self->arguments);
  const char *subject = self->options->subject;
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *context = yyjson_mut_obj(doc);
  char *name = strndup(first->name, first->name_len);
  if (!doc || !name) memory_exhausted();
  for (size_t i = 1; i < self->arguments.count; i++) {
    const given_argument *one = &self->arguments.items[i];
    yyjson_mut_obj_put(context, yyjson_mut_strn(doc, one->name, one->name_len),
                       yyjson_mut_strn(doc, one->value.data, one->value.len));
  }
  bool template = is_template(subject);
  idem_mcp_completion what = {.prompt = template ? NULL : subject,
                              .uri_template = template ? subject : NULL,
                              .argument = name,
                              .value = first->value.data,
                              .context = self->arguments.count > 1 ? context : NULL};
  *status = idem_mcp_complete(self->client, &what, opts, on_other, self, &self->call);
  free(name);
  yyjson_mut_doc_free(doc);
}

static void notify(call_session *self) {
  idem_status status =
      idem_mcp_notify(self->client, self->options->subject, self->arguments.base_text.data,
                      self->arguments.base_text.len);
  if (status == IDEM_OK)
    session_end(self, CALL_WELL);
  else
    cannot_begin(self, status);
}

void session_begin_other(call_session *self) {
  const call_options *options = self->options;
  const idem_mcp_call_opts opts = {.on_progress = on_progress, .no_key = options->no_key};
  const text *params = &self->arguments.base_text;
  idem_status status = IDEM_OK;
  if (stops_here(self)) return;
  switch (options->kind) {
  case CALL_READ:
    status = idem_mcp_read(self->client, options->subject, &opts, on_other, self, &self->call);
    break;
  case CALL_PROMPT: get_prompt(self, &opts, &status); break;
  case CALL_COMPLETE: complete(self, &opts, &status); break;
  default:
    status = idem_mcp_method(self->client, options->subject, params->data, params->len, &opts,
                             on_other, self, &self->call);
  }
  self->calling = status == IDEM_OK;
  if (status != IDEM_OK) cannot_begin(self, status);
}

/* ----------------------------------------------------------------------- connecting */

static void begin_call(call_session *self) {
  switch (self->options->kind) {
  case CALL_LOOK: look_on(self); break;
  case CALL_TOOL:
    if (session_learn(self))
      call_tool(self);
    else
      session_list_tools(self);
    break;
  case CALL_NOTIFY: notify(self); break;
  case CALL_PROMPT: session_begin_prompt(self); break;
  default: session_begin_other(self);
  }
}

static void name_server(call_session *self) {
  yyjson_val *info = idem_mcp_client_server_info(self->client);
  yyjson_val *name = yyjson_obj_get(info, "title");
  if (!yyjson_is_str(name)) name = yyjson_obj_get(info, "name");
  text shown = {.data = NULL};
  if (yyjson_is_str(name)) text_escape_cut(&shown, yyjson_get_str(name), yyjson_get_len(name), 100);
  snprintf(self->server, sizeof self->server, "%.120s", shown.len ? shown.data : "the server");
  self->questions.server = self->server;
  text_free(&shown);
}

static void on_ready(idem_mcp_client *client, idem_status status, void *user) {
  call_session *self = user;
  self->client = client;
  if (status == IDEM_OK && !self->over && !self->interrupts && !self->late) {
    name_server(self);
    begin_call(self);
    return;
  }
  idem_mcp_trouble trouble = idem_mcp_client_trouble(client);
  self->client = NULL; /* it is gone when we return */
  if (self->interrupts || self->late)
    session_end(self, CALL_GIVEN_UP);
  else if (self->cached && !session_is_refused(trouble.http_status))
    session_begin_anew(self);
  else
    session_end_by_trouble(self, &trouble);
}

/* -------------------------------------------------------------------------- beginning */

static idem_revision revision_named(const char *date) {
  static const idem_revision all[] = {IDEM_MCP_2024_11_05, IDEM_MCP_2025_03_26, IDEM_MCP_2025_06_18,
                                      IDEM_MCP_2025_11_25, IDEM_MCP_2026_07_28};
  for (size_t i = 0; date && i < sizeof all / sizeof *all; i++)
    if (strcmp(idem_mcp_revision_date(all[i]), date) == 0) return all[i];
  return (idem_revision)0;
}

/* Only what would be asked again anyway may be spared: arguments that the schema of last time refuses are judged by
 * the one of today. */
static void use_cache(call_session *self, idem_mcp_client_opts *opts) {
  text why = {.data = NULL};
  idem_revision known = self->cached ? revision_named(cache_revision(&self->cache)) : 0;
  bool allowed = known && (!self->options->revisions || (self->options->revisions & known));
  yyjson_val *tool = find_tool(cache_tools(&self->cache), self->options->subject);
  if (self->options->kind == CALL_TOOL)
    self->cached = self->cached && allowed && tool && make_arguments(self, tool, &why);
  else
    self->cached = self->cached && allowed && self->options->kind != CALL_LOOK;
  text_free(&why);
  if (!self->cached) return;
  opts->known = known;
  opts->at_once = self->at_once = known == IDEM_MCP_2026_07_28;
  opts->known_keys = cache_keys(&self->cache);
}

bool session_begin_mcp(call_session *self) {
  idem_client_opts wire = session_wire(self);
  uint64_t timeout = self->options->timeout_ms;
  idem_mcp_client_opts opts = {.name = "idem call",
                               .version = idem_version(),
                               .revisions = self->options->revisions,
                               .idle_ms = timeout,
                               .handshake_ms = timeout,
                               .tasks = true,
                               .wire = &wire,
                               .user = self,
                               .log = self->log};
  session_observe(self, &opts);
  questions_declare(&self->questions, &opts);
  login_declare(&self->login, &opts, &wire);
  use_cache(self, &opts);
  idem_status status = idem_mcp_connect(&self->loop, self->target.argv ? "exec:" : self->target.url,
                                        &opts, on_ready, self, &self->client);
  if (status == IDEM_OK) return true;
  const char *logged = trouble_logged();
  call_trouble why = {.status = status,
                      .phase = self->target.argv ? "starting it" : "connecting",
                      .what = *logged ? logged : idem_status_text(status),
                      .exit_status = -1};
  if (status == IDEM_E_INVAL && !self->target.argv) {
    call_say("%s: this is no URL to connect to", self->target.url);
    self->code = CALL_ASKED_WRONGLY;
  } else {
    self->code = trouble_tell(&self->target, &why);
  }
  self->over = true;
  return false;
}

void session_cancel_mcp(call_session *self) {
  if (self->calling) idem_mcp_cancel(self->client, self->call);
  session_end(self, CALL_GIVEN_UP);
}
