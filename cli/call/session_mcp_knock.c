/* session_mcp_knock.c - a tool that the list does not show, since it takes more than the caller's token has.
 * Lists show what a caller may use; who calls such a tool all the same is told what it takes (insufficient_scope). That is asked
 * with arguments that no tool can have, and is not sent again: once there is a token that reaches it the list shows it, and
 * the arguments are made by its schema. See docs/internals/cli.md. */
#include "session_mcp.h"

#include "config/memory.h"

#include <stdlib.h>

#define KNOCKS_MAX 3u

static void on_knocked(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  call_session *self = user;
  (void)client;
  self->calling = self->login.knocking = false;
  bool refused = session_is_refused(result->http_status);
  bool lost = !refused && result->status != IDEM_OK && result->status != IDEM_E_REMOTE;
  if (lost || (refused && *login_why(&self->login)))
    session_end_by_result(self, result);
  else if (refused)
    session_list_tools(self);
  else
    session_unknown_tool(self, yyjson_doc_get_root(self->listed));
}

/* For the sentence that says what there is, where there is nothing to be had by knocking. */
static void keep_list(call_session *self, yyjson_val *tools) {
  yyjson_mut_doc *copy = yyjson_mut_doc_new(NULL);
  yyjson_mut_doc_set_root(copy, yyjson_val_mut_copy(copy, tools));
  yyjson_doc_free(self->listed);
  self->listed = copy ? yyjson_mut_doc_imut_copy(copy, NULL) : NULL;
  yyjson_mut_doc_free(copy);
  if (!self->listed) memory_exhausted();
}

static char *params_of(const char *tool, size_t *len) {
  yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
  yyjson_mut_val *params = yyjson_mut_obj(doc);
  yyjson_mut_doc_set_root(doc, params);
  yyjson_mut_obj_add_str(doc, params, "name", tool);
  yyjson_mut_obj_add_arr(doc, params, "arguments");
  char *written = doc ? yyjson_mut_write(doc, 0, len) : NULL;
  yyjson_mut_doc_free(doc);
  if (!written) memory_exhausted();
  return written;
}

bool session_knock(call_session *self, yyjson_val *tools) {
  const idem_mcp_call_opts opts = {.no_key = true};
  const char *tool = self->options->subject;
  bool may_grow = self->login.auth && idem_auth_line(self->login.auth);
  if (!may_grow || self->knocks == KNOCKS_MAX || idem_mcp_tool_fault(self->client, tool))
    return false;
  size_t len;
  char *params = params_of(tool, &len);
  self->knocks++;
  keep_list(self, tools);
  self->login.knocking = true;
  idem_status status = idem_mcp_method(self->client, "tools/call", params, len, &opts, on_knocked,
                                       self, &self->call);
  self->calling = self->login.knocking = status == IDEM_OK;
  free(params);
  return status == IDEM_OK;
}
