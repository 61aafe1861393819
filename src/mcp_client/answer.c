/* answer.c - what an answer means to its call: it ends it, is a round of questions before it goes on, says that it
 * is a task by now, or that another revision is spoken. See docs/internals/mcp_client.md. */
#include "mcp_client.h"

#include <string.h>

/* Whether the server says that it speaks another version, and one that we speak, too. */
static bool mend_version(idem__mcp_call *call, const idem_response *response) {
  idem_mcp_client *client = call->client;
  if (response->code != -32022 || call->tried_version || !idem__mcp_modern(client)) return false;
  yyjson_val *supported = yyjson_obj_get(response->data, "supported"), *each;
  size_t index, max;
  const idem__revision *found = NULL;
  yyjson_arr_foreach(supported, index, max, each) {
    const idem__revision *row =
        yyjson_is_str(each) ? idem__revision_find(yyjson_get_str(each), yyjson_get_len(each))
                            : NULL;
    if (row && (row->bit & client->opts.revisions) && idem__revision_has(row, IDEM__R_MODERN) &&
        (!found || row < found))
      found = row;
  }
  if (!found) return false;
  call->tried_version = true;
  client->revision = found;
  return idem__mcp_call_send(call) == IDEM_OK;
}

void idem__mcp_call_end_remote(idem__mcp_call *call, const idem_response *response) {
  idem_mcp_result result = {.status = response->status,
                            .fate = idem__mcp_once_fate(call, response),
                            .code = response->code,
                            .message = response->message,
                            .message_len = response->message_len,
                            .data = response->data};
  idem__mcp_call_end(call, &result);
}

static void end_badly(idem__mcp_call *call, const idem_response *response) {
  idem_mcp_client *client = call->client;
  idem_status status = response->status;
  const char *text = response->message;
  if (call->early != IDEM_OK) {
    status = call->early;
    text = call->early_text;
  } else if (status == IDEM_E_CLOSED && client->closing) {
    status = IDEM_E_CANCELLED;
  }
  if (!response->not_sent) call->was_sent = true;
  if (status == IDEM_E_PROTO && !text) text = "the answer is malformed";
  idem__mcp_call_fail(call, status, text);
}

static void end_plain(idem__mcp_call *call, yyjson_val *result) {
  idem_mcp_result end = {.status = IDEM_OK, .result = result};
  if (call->kind == IDEM__MCP_TASK_GET) end.task = idem__mcp_task_of(result);
  idem__mcp_read_keep(call, result);
  idem__mcp_call_end(call, &end);
}

void idem__mcp_call_end_tool(idem__mcp_call *call, yyjson_val *result) {
  idem_mcp_client *client = call->client;
  yyjson_val *content = yyjson_obj_get(result, "content");
  idem_mcp_result end = {.status = IDEM_OK,
                         .result = result,
                         .is_error = yyjson_is_true(yyjson_obj_get(result, "isError")),
                         .content = yyjson_is_arr(content) ? content : NULL,
                         .structured = yyjson_obj_get(result, "structuredContent")};
  const char *why = NULL;
  if (call->subject_len && client->tools.count && !end.is_error)
    why = idem__mcp_tool_check(client, call->text + call->subject_at, call->subject_len, result);
  if (why) {
    end.status = IDEM_E_PROTO;
    end.message = why;
    end.message_len = strlen(why);
  }
  idem__mcp_call_end(call, &end);
}

static void ask_again(idem__mcp_call *call) {
  idem_status status = idem__mcp_call_send(call);
  if (status != IDEM_OK) idem__mcp_call_fail(call, status, "the call could not be repeated");
}

/* "complete" where nothing is said, as the specification has it for servers of the eras before. */
static bool type_is(yyjson_val *result, const char *name) {
  yyjson_val *type = yyjson_obj_get(result, "resultType");
  if (!type) return strcmp(name, "complete") == 0;
  return yyjson_equals_str(type, name);
}

/* A server that only keeps its own state is not asked again in a tight circle. */
static void begin_round(idem__mcp_call *call, yyjson_val *result) {
  yyjson_val *requests = yyjson_obj_get(result, "inputRequests");
  yyjson_val *state = yyjson_obj_get(result, "requestState");
  bool may = call->kind == IDEM__MCP_TOOL || call->kind == IDEM__MCP_ROUNDS ||
             call->kind == IDEM__MCP_SKILL;
  if (!may || (requests && !yyjson_is_obj(requests)) || (state && !yyjson_is_str(state)) ||
      (!yyjson_obj_size(requests) && !state)) {
    idem__mcp_call_fail(call, IDEM_E_PROTO, "the server asks for input in a form that is none");
  } else if (call->rounds++ >= call->client->opts.max_rounds) {
    idem__mcp_call_fail(call, IDEM_E_LIMIT, "the server asks for input again and again");
  } else {
    call->answered = false;
    if (idem__mcp_round_begin(call, requests, state, ask_again) && !yyjson_obj_size(requests))
      idem__mcp_call_pause(call, (uint64_t)100 * call->rounds, ask_again);
  }
}

/* A server that was older a moment ago and answers as a newer one. */
static bool has_changed_era(const idem__mcp_call *call, yyjson_val *result) {
  bool may = call->kind == IDEM__MCP_TOOL || call->kind == IDEM__MCP_ROUNDS;
  return may && !idem__mcp_modern(call->client) &&
         (type_is(result, "input_required") || type_is(result, "task"));
}

static void take_result(idem__mcp_call *call, const idem_response *response) {
  yyjson_val *result = response->result;
  bool modern = idem__mcp_modern(call->client);
  call->answered = call->was_sent = true;
  if (!yyjson_is_obj(result)) {
    idem__mcp_call_fail(call, IDEM_E_PROTO, "the result is no object");
  } else if (has_changed_era(call, result)) {
    idem__mcp_call_fail(call, IDEM_E_PROTO,
                        "the server answers by another revision than was agreed on");
  } else if (modern && type_is(result, "input_required")) {
    begin_round(call, result);
  } else if (call->kind == IDEM__MCP_TOOL &&
             (modern ? type_is(result, "task") : idem__mcp_task_of(result) != NULL)) {
    idem__mcp_task_begin(call, result);
  } else if (modern && !type_is(result, "complete")) {
    idem__mcp_call_fail(call, IDEM_E_PROTO, "the result is of a type that is not known");
  } else if (call->kind == IDEM__MCP_LIST) {
    idem__mcp_page_taken(call, response);
  } else if (call->kind == IDEM__MCP_TOOL) {
    idem__mcp_call_end_tool(call, result);
  } else if (call->kind == IDEM__MCP_SKILL) {
    idem__mcp_read_keep(call, result);
    idem__mcp_skill_end(call, result);
  } else {
    end_plain(call, result);
  }
}

void idem__mcp_call_answered(idem__mcp_call *call, const idem_response *response) {
  bool mine = call->early == IDEM_OK;
  if (mine && call->kind == IDEM__MCP_LISTEN && idem__mcp_listen_answered(call, response)) return;
  if (mine && call->once && idem__mcp_once_again(call, response)) return;
  if (mine && call->task && idem__mcp_task_answered(call, response)) return;
  if (response->status == IDEM_E_REMOTE && mine) {
    if (mend_version(call, response) || idem__mcp_tool_mend(call, response) ||
        idem__mcp_once_mend(call, response) || idem__mcp_addresses_begin(call, response))
      return;
    idem__mcp_call_end_remote(call, response);
  } else if (response->status != IDEM_OK || !mine) {
    end_badly(call, response);
  } else {
    take_result(call, response);
  }
}
