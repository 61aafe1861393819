/* session_mcp_names.c - names that the server does not have: of prompts and their arguments, of resources, of a tool that is a prompt.
 * What is there is asked for and said, with the nearest. */
#include "session_mcp.h"

#include "config/memory.h"

#include <idem/schema.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_SHOWN 100u

static yyjson_val *find_named(yyjson_val *items, const char *member, const char *name, size_t len) {
  yyjson_arr_iter at;
  yyjson_val *one;
  if (!yyjson_arr_iter_init(items, &at)) return NULL;
  while ((one = yyjson_arr_iter_next(&at)))
    if (yyjson_equals_strn(yyjson_obj_get(one, member), name, len)) return one;
  return NULL;
}

/* The names as a list for people, and the one that may have been meant (to be freed), or NULL. */
static char *look_through(yyjson_val *items, const char *member, const char *wanted, size_t len,
                          text *all) {
  size_t used = 0;
  const char **names = calloc(yyjson_arr_size(items) + 1, sizeof *names);
  yyjson_arr_iter at;
  yyjson_val *one;
  if (!names) memory_exhausted();
  bool some = yyjson_arr_iter_init(items, &at);
  while (some && (one = yyjson_arr_iter_next(&at))) {
    yyjson_val *name = yyjson_obj_get(one, member);
    if (!yyjson_is_str(name)) continue;
    names[used++] = yyjson_get_str(name);
    if (used > NAMES_SHOWN) continue;
    text_puts(all, " ");
    text_escape_cut(all, yyjson_get_str(name), yyjson_get_len(name), 128);
  }
  if (used > NAMES_SHOWN) text_printf(all, " and %zu more", used - NAMES_SHOWN);
  const char *near = idem_schema_suggest(wanted, len, names, used);
  char *copy = near ? strdup(near) : NULL;
  free((void *)names);
  return copy;
}

static void say_absent(const char *kind, const char *wanted, size_t len, yyjson_val *items,
                       const char *member) {
  text all = {.data = NULL}, shown = {.data = NULL};
  char *near = look_through(items, member, wanted, len, &all);
  if (near) text_escape_cut(&shown, near, strlen(near), 128);
  call_say("there is no %s %.*s%s%s%s", kind, (int)len, wanted, near ? "; did you mean " : "",
           near ? shown.data : "", near ? "?" : "");
  fprintf(stderr, "there are:%s\n", all.data ? all.data : " none");
  free(near);
  text_free(&shown);
  text_free(&all);
}

/* --------------------------------------------------------------------------- prompts */

static bool knows_arguments(const call_session *self, yyjson_val *prompt) {
  yyjson_val *known = yyjson_obj_get(prompt, "arguments");
  for (size_t i = 0; i < self->arguments.count; i++) {
    const given_argument *one = &self->arguments.items[i];
    if (find_named(known, "name", one->name, one->name_len)) continue;
    say_absent("argument", one->name, one->name_len, known, "name");
    return false;
  }
  return true;
}

/* A server that gives no list is asked as it is. */
static void on_prompts(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  call_session *self = user;
  const char *wanted = self->options->subject;
  (void)client;
  self->calling = false;
  if (session_list_is_stale(self, result)) {
    session_begin_anew(self);
    return;
  }
  bool listed = result->status == IDEM_OK;
  yyjson_val *prompt = find_named(result->items, "name", wanted, strlen(wanted));
  /* A list shows what the token reaches: who asks for more all the same is told what it takes. */
  if (listed && !prompt && self->login.auth && idem_auth_line(self->login.auth)) {
    session_begin_other(self);
    return;
  }
  if (listed && !prompt) say_absent("prompt", wanted, strlen(wanted), result->items, "name");
  if (listed && (!prompt || !knows_arguments(self, prompt)))
    session_end(self, CALL_ASKED_WRONGLY);
  else if (result->status == IDEM_OK || result->status == IDEM_E_REMOTE)
    session_begin_other(self);
  else
    session_end_by_result(self, result);
}

void session_begin_prompt(call_session *self) {
  idem_status status =
      idem_mcp_list(self->client, IDEM_MCP_PROMPTS, NULL, on_prompts, self, &self->call);
  self->calling = status == IDEM_OK;
  if (status != IDEM_OK) session_begin_other(self);
}

/* ------------------------------------------------------------------------- resources */

static void on_resources(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  call_session *self = user;
  const char *wanted = self->options->subject;
  text all = {.data = NULL};
  (void)client;
  char *near = look_through(result->items, "uri", wanted, strlen(wanted), &all);
  bool there = find_named(result->items, "uri", wanted, strlen(wanted)) != NULL;
  session_end_by_result(self, &self->answer.result);
  if (result->status == IDEM_OK && !there) {
    if (near) fprintf(stderr, "did you mean ");
    if (near) text_show_line(stderr, near, strlen(near), 300);
    fprintf(stderr, "%sthere are:%s\n", near ? "?\n" : "", all.len ? all.data : " none");
  }
  free(near);
  text_free(&all);
}

bool session_look_for_resource(call_session *self, const idem_mcp_result *result) {
  bool unknown = result->status == IDEM_E_REMOTE &&
                 (result->code == IDEM_RPC_INVALID_PARAMS || result->code == -32002);
  if (!unknown || self->options->kind != CALL_READ) return false;
  session_keep_answer(self, result);
  self->calling = idem_mcp_list(self->client, IDEM_MCP_RESOURCES, NULL, on_resources, self,
                                &self->call) == IDEM_OK;
  return self->calling;
}

/* ------------------------------------------------------------------ no tools at all */

static void on_prompts_instead(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  call_session *self = user;
  const char *wanted = self->options->subject;
  (void)client;
  if (find_named(result->items, "name", wanted, strlen(wanted)))
    call_say("there are no tools; %s is a prompt: --prompt %s", wanted, wanted);
  else
    call_say("there are no tools, and so no %s; without a name what is there is shown", wanted);
  session_end(self, CALL_ASKED_WRONGLY);
}

bool session_has_no_tools(call_session *self, const idem_mcp_result *result) {
  if (result->status != IDEM_E_REMOTE || result->code != IDEM_RPC_METHOD_NOT_FOUND) return false;
  self->calling = idem_mcp_list(self->client, IDEM_MCP_PROMPTS, NULL, on_prompts_instead, self,
                                &self->call) == IDEM_OK;
  return self->calling;
}
