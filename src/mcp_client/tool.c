/* tool.c - what is known of a server's tools: which arguments go into headers, which must not be called at all,
 * and the schema their results promise to fit. See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <stdio.h>
#include <string.h>

#define MISMATCH_MAX 512

/* ------------------------------------------------------------------- the table */

static void free_tool(idem_mcp_client *client, idem__mcp_tool *tool) {
  idem__header_rules_free(&tool->rules, &client->alloc);
  idem_schema_free(tool->schema);
  idem__free(&client->alloc, tool->output_schema);
  idem__free(&client->alloc, tool->fault);
  idem__free(&client->alloc, tool->name);
  idem__free(&client->alloc, tool);
}

void idem__mcp_tools_forget(idem_mcp_client *client) {
  while (client->first_tool) {
    idem__mcp_tool *tool = client->first_tool;
    client->first_tool = tool->next;
    idem_map_remove(&client->tools, tool->name, tool->name_len);
    free_tool(client, tool);
  }
  client->tools_known = false;
}

const idem__mcp_tool *idem__mcp_tool_find(const idem_mcp_client *client, const char *name,
                                          size_t len) {
  return idem_map_get(&client->tools, name, len);
}

const char *idem_mcp_tool_fault(const idem_mcp_client *client, const char *name) {
  const idem__mcp_tool *tool = idem__mcp_tool_find(client, name, strlen(name));
  return tool ? tool->fault : NULL;
}

const char *idem_mcp_tool_refused(const idem_mcp_client *client, size_t index, const char **why) {
  for (const idem__mcp_tool *tool = client->first_tool; tool; tool = tool->next) {
    if (!tool->fault || index--) continue;
    if (why) *why = tool->fault;
    return tool->name;
  }
  return NULL;
}

/* -------------------------------------------------------------------- learning */

static idem_status set_fault(idem_mcp_client *client, idem__mcp_tool *tool, const char *why) {
  char text[256];
  int len =
      snprintf(text, sizeof text, "its x-mcp-header annotation %s", why ? why : "is not valid");
  tool->fault = idem__strndup(&client->alloc, text,
                              (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
  if (!tool->fault) return IDEM_E_NOMEM;
  idem_logf(client->opts.log, IDEM_LOG_WARN, "a tool cannot be called", "%s: %s", tool->name, text);
  return IDEM_OK;
}

/* Only where arguments are mirrored does it matter what is wrong with the marks. */
static idem_status read_rules(idem_mcp_client *client, idem__mcp_tool *tool, yyjson_val *schema) {
  const char *why = NULL;
  if (!idem__mcp_mirrors(client)) return IDEM_OK;
  idem_status status = idem__header_rules_find(&client->alloc, schema, &tool->rules, &why);
  if (status != IDEM_OK) idem__header_rules_free(&tool->rules, &client->alloc);
  return status == IDEM_E_INVAL ? set_fault(client, tool, why) : status;
}

static idem_status read_output(idem_mcp_client *client, idem__mcp_tool *tool, yyjson_val *schema) {
  idem_buf text;
  if (!yyjson_is_obj(schema)) return IDEM_OK;
  idem_buf_init(&text, &client->alloc, client->opts.max_list_bytes);
  idem_status status = idem__json_put(&text, schema);
  if (status != IDEM_OK) {
    idem_buf_deinit(&text);
    return status == IDEM_E_NOMEM ? status : IDEM_OK;
  }
  idem_buf_fit(&text);
  tool->output_schema = text.data;
  tool->output_len = text.len;
  return IDEM_OK;
}

static idem_status learn_tool(idem_mcp_client *client, yyjson_val *value) {
  yyjson_val *name = yyjson_obj_get(value, "name");
  if (!yyjson_is_str(name)) return IDEM_OK;
  const char *text = yyjson_get_str(name);
  size_t len = yyjson_get_len(name);
  if (idem__mcp_tool_find(client, text, len)) {
    idem__mcp_client_problem(client, "a tool is listed twice", NULL);
    return IDEM_OK;
  }
  idem__mcp_tool *tool = idem__calloc(&client->alloc, sizeof *tool);
  if (!tool) return IDEM_E_NOMEM;
  tool->name = idem__strndup(&client->alloc, text, len);
  tool->name_len = len;
  tool->read_only =
      yyjson_is_true(yyjson_obj_get(yyjson_obj_get(value, "annotations"), "readOnlyHint"));
  idem_status status = tool->name ? IDEM_OK : IDEM_E_NOMEM;
  if (status == IDEM_OK) status = read_rules(client, tool, yyjson_obj_get(value, "inputSchema"));
  if (status == IDEM_OK) status = read_output(client, tool, yyjson_obj_get(value, "outputSchema"));
  if (status == IDEM_OK) status = idem_map_put(&client->tools, tool->name, len, tool);
  if (status != IDEM_OK) {
    free_tool(client, tool);
    return status;
  }
  tool->next = client->first_tool;
  client->first_tool = tool;
  return IDEM_OK;
}

idem_status idem__mcp_tools_learn(idem_mcp_client *client, yyjson_val *tools) {
  yyjson_val *each;
  size_t index, max;
  idem__mcp_tools_forget(client);
  yyjson_arr_foreach(tools, index, max, each) {
    idem_status status = index < client->opts.max_items ? learn_tool(client, each) : IDEM_E_LIMIT;
    if (status != IDEM_OK) {
      idem__mcp_tools_forget(client);
      return status;
    }
  }
  client->tools_known = true;
  return IDEM_OK;
}

/* -------------------------------------------------------------------- checking */

/* A schema that cannot be honoured checks nothing; whoever wrote it is told of once. */
static idem_schema *schema_of(idem_mcp_client *client, idem__mcp_tool *tool) {
  idem_schema_fault fault;
  if (tool->schema || !tool->output_schema) return tool->schema;
  idem_schema_opts opts = {.alloc = &client->alloc};
  idem_status status =
      idem_schema_compile(&opts, tool->output_schema, tool->output_len, &tool->schema, &fault);
  if (status == IDEM_OK) return tool->schema;
  idem__mcp_client_problem(client, "a tool's output schema cannot be used", fault.sentence);
  idem__free(&client->alloc, tool->output_schema);
  tool->output_schema = NULL;
  return NULL;
}

/* The subject stands in the call's text as JSON; names that need escapes are looked up decoded. */
const idem__mcp_tool *idem__mcp_tool_named(const idem_mcp_client *client, const char *json,
                                           size_t len) {
  if (len >= 2 && !memchr(json, '\\', len)) return idem__mcp_tool_find(client, json + 1, len - 2);
  yyjson_alc alc = idem__json_alc(&client->alloc);
  yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)json, len, 0, &alc, NULL);
  yyjson_val *name = yyjson_doc_get_root(doc);
  const idem__mcp_tool *tool =
      yyjson_is_str(name) ? idem__mcp_tool_find(client, yyjson_get_str(name), yyjson_get_len(name))
                          : NULL;
  yyjson_doc_free(doc);
  return tool;
}

const char *idem__mcp_tool_check(idem_mcp_client *client, const char *name, size_t len,
                                 yyjson_val *result) {
  idem__mcp_tool *tool = (idem__mcp_tool *)(uintptr_t)idem__mcp_tool_named(client, name, len);
  const idem_schema *schema = tool ? schema_of(client, tool) : NULL;
  yyjson_val *structured = yyjson_obj_get(result, "structuredContent");
  if (!schema) return NULL;
  if (!structured) return "the tool has an output schema, but its result has no structured content";
  if (!client->schema_ctx && idem_schema_ctx_new(&client->alloc, &client->schema_ctx) != IDEM_OK)
    return NULL;
  idem_schema_check check = {.root_name = "structuredContent"};
  idem_schema_result verdict;
  idem_status status =
      idem_schema_validate(schema, client->schema_ctx, structured, &check, &verdict);
  if (status == IDEM_E_LIMIT) return "the structured content is too much to check";
  if (status != IDEM_OK || verdict.valid) return NULL;
  return verdict.error_count ? verdict.errors[0].sentence
                             : "the structured content breaks its schema";
}

/* ------------------------------------------------------------------ looking up */

static void go_on(idem__mcp_call *call) {
  const idem__mcp_tool *tool =
      idem__mcp_tool_named(call->client, call->text + call->subject_at, call->subject_len);
  if (tool && tool->fault) {
    idem__mcp_call_fail(call, IDEM_E_INVAL, tool->fault);
    return;
  }
  idem_status status = idem__mcp_call_send(call);
  if (status != IDEM_OK) idem__mcp_call_fail(call, status, NULL);
}

static void on_tools(idem_mcp_client *client, const idem_mcp_result *result, void *user) {
  (void)user;
  idem_list waiting;
  client->looking_now = false;
  if (result->status != IDEM_OK) client->tools_known = true; /* it has none to show: ask as it is */
  idem_list_init(&waiting);
  while (!idem_list_empty(&client->looking)) {
    idem_list *node = client->looking.next;
    idem_list_remove(node);
    idem_list_append(&waiting, node);
  }
  while (!idem_list_empty(&waiting)) {
    idem__mcp_call *call = IDEM_CONTAINER(waiting.next, idem__mcp_call, waiting);
    idem_list_remove(&call->waiting);
    if (result->status == IDEM_E_CLOSED || result->status == IDEM_E_CANCELLED)
      idem__mcp_call_fail(call, result->status, result->message);
    else
      go_on(call);
  }
}

static bool look(idem__mcp_call *call) {
  idem_mcp_client *client = call->client;
  static const idem_mcp_call_opts fresh = {.fresh = true};
  if (!client->looking_now &&
      idem_mcp_list(client, IDEM_MCP_TOOLS, &fresh, on_tools, NULL, NULL) != IDEM_OK)
    return false;
  client->looking_now = true;
  call->stage = IDEM__MCP_LOOKING;
  idem_list_append(&client->looking, &call->waiting);
  idem__mcp_call_arm(call);
  return true;
}

bool idem__mcp_tool_look_up(idem__mcp_call *call) {
  idem_mcp_client *client = call->client;
  if (!idem__mcp_mirrors(client) || strcmp(call->method, "tools/call") != 0) return false;
  if (!client->tools_known) return look(call);
  const idem__mcp_tool *tool =
      idem__mcp_tool_named(client, call->text + call->subject_at, call->subject_len);
  if (!tool || !tool->fault) return false;
  idem__mcp_call_end_soon(call, IDEM_E_INVAL, tool->fault);
  return true;
}

/* -32020: what the headers say is not what they should, so what we know of the tool is old. */
bool idem__mcp_tool_mend(idem__mcp_call *call, const idem_response *response) {
  idem_mcp_client *client = call->client;
  if (response->code != -32020 || call->kind != IDEM__MCP_TOOL || call->tried_headers ||
      !idem__mcp_mirrors(client))
    return false;
  call->tried_headers = true;
  client->tools_known = false;
  return look(call);
}

/* --------------------------------------------------------------------- headers */

static idem_status put_line(idem_buf *out, const char *name, const char *value, size_t len) {
  idem_status status = idem_buf_put(out, name, strlen(name));
  if (status == IDEM_OK) status = idem_buf_puts(out, ": ");
  if (status == IDEM_OK) status = idem__header_encode(out, value, len);
  return status == IDEM_OK ? idem_buf_put(out, "", 1) : status;
}

static idem_status put_arguments(const idem__mcp_call *call, const idem__mcp_tool *tool,
                                 idem_buf *out) {
  yyjson_alc alc = idem__json_alc(&call->client->alloc);
  yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)call->text + call->args_at, call->args_len,
                                     YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL);
  if (!doc) return IDEM_E_NOMEM;
  idem_status status = IDEM_OK;
  for (size_t i = 0; status == IDEM_OK && i < tool->rules.count; i++) {
    const idem__header_rule *rule = &tool->rules.rules[i];
    yyjson_val *val = idem__header_argument(rule, yyjson_doc_get_root(doc));
    size_t start = out->len;
    if (!val) continue;
    status = idem_buf_put(out, rule->header, strlen(rule->header));
    if (status == IDEM_OK) status = idem_buf_puts(out, ": ");
    if (status == IDEM_OK) status = idem__header_put_argument(out, rule, val);
    if (status == IDEM_OK) status = idem_buf_put(out, "", 1);
    if (status == IDEM_E_INVAL) { /* of another type: the server's schema will say so */
      out->len = start;
      status = IDEM_OK;
    }
  }
  yyjson_doc_free(doc);
  return status;
}

static idem_status put_name(const idem__mcp_call *call, idem_buf *out) {
  const char *json = call->text + call->subject_at;
  yyjson_alc alc = idem__json_alc(&call->client->alloc);
  yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)json, call->subject_len, 0, &alc, NULL);
  yyjson_val *name = yyjson_doc_get_root(doc);
  if (!doc) return IDEM_E_NOMEM;
  idem_status status = put_line(out, "Mcp-Name", yyjson_get_str(name), yyjson_get_len(name));
  yyjson_doc_free(doc);
  return status;
}

idem_status idem__mcp_call_headers(const idem__mcp_call *call, idem_buf *out) {
  const idem_mcp_client *client = call->client;
  idem_status status = put_line(out, "Mcp-Method", call->method, strlen(call->method));
  if (status == IDEM_OK && call->task) return idem__mcp_task_header(call, out);
  bool named = call->row && call->row->name_source != IDEM__NAME_NONE && call->subject_len;
  if (status == IDEM_OK && named) status = put_name(call, out);
  if (status != IDEM_OK || call->kind != IDEM__MCP_TOOL || !call->args_len) return status;
  const idem__mcp_tool *tool =
      idem__mcp_tool_named(client, call->text + call->subject_at, call->subject_len);
  return tool && tool->rules.count ? put_arguments(call, tool, out) : IDEM_OK;
}
