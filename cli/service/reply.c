/* reply.c - the answers of tools. By MCP they are tool results; as plain JSON-RPC methods the
 * structured content is the result, or else the text, and a failure is an error -32000. */
#include "call.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Completing is a help, not a promise: who cannot help says nothing. */
static bool is_completion(const idem_request *request) {
  static const char completion[] = "completion/complete";
  size_t len = 0;
  const char *method = idem_request_method(request, &len);
  return len == sizeof completion - 1 && memcmp(method, completion, len) == 0;
}

/* No tool can be called tools/call: a name has no slash. */
static bool is_plain(const idem_request *request) {
  static const char mcp[] = "tools/call";
  size_t len = 0;
  const char *method = idem_request_method(request, &len);
  return len != sizeof mcp - 1 || memcmp(method, mcp, len) != 0;
}

void reply_failed(idem_request *request, const char *sentence) {
  if (is_completion(request))
    idem_completion_reply(request, NULL, 0, false);
  else if (is_plain(request))
    idem_reply_error_text(request, IDEM_RPC_SERVER_ERROR, "Tool failed", sentence);
  else
    idem_tool_failed(request, sentence);
}

void reply_failed_because(idem_request *request, const char *format, ...) {
  char sentence[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  reply_failed(request, sentence);
}

/* The texts of the content blocks, a newline between them. */
static bool join_texts(yyjson_mut_val *content, idem_buf *out) {
  yyjson_mut_val *block;
  yyjson_mut_arr_iter each;
  yyjson_mut_arr_iter_init(content, &each);
  while ((block = yyjson_mut_arr_iter_next(&each))) {
    yyjson_mut_val *text = yyjson_mut_obj_get(block, "text");
    if (!yyjson_mut_is_str(text)) continue;
    if (out->len && idem_buf_put(out, "\n", 1) != IDEM_OK) return false;
    if (idem_buf_put(out, yyjson_mut_get_str(text), yyjson_mut_get_len(text)) != IDEM_OK)
      return false;
  }
  return true;
}

void reply_busy(idem_request *request, const tool_config *tool) {
  failure_tell(request, tool, "refused, too many calls are waiting");
  idem_not_run(request);
  reply_failed(request, "the server is busy: too many calls are waiting; try again later");
}

void reply_cancelled(idem_request *request, const tool_config *tool, bool begun) {
  outcome_cancelled(request, tool);
  if (!begun) idem_not_run(request);
  idem_request_drop(request);
}

void reply_no_memory(idem_request *request, const tool_config *tool) {
  failure_tell_ours(request, tool, "out of memory");
  idem_request_drop(request);
}

static void reply_plain_text(idem_request *request, const tool_config *tool,
                             const idem_tool_result *result) {
  yyjson_mut_doc *doc = idem_request_doc(request);
  idem_buf text;
  idem_buf_init(&text, NULL, (size_t)64 << 20);
  bool fine = doc && join_texts(result->content, &text);
  const char *bytes = text.len ? text.data : "";
  if (fine && result->is_error) {
    yyjson_mut_val *data = yyjson_mut_obj(doc);
    fine = yyjson_mut_obj_add_strn(doc, data, "details", bytes, text.len);
    if (fine) idem_reply_error(request, IDEM_RPC_SERVER_ERROR, "Tool failed", data);
  } else if (fine) {
    idem_reply_mut(request, yyjson_mut_strn(doc, bytes, text.len));
  }
  if (!fine) reply_no_memory(request, tool);
  idem_buf_deinit(&text);
}

void reply_tool(idem_request *request, const tool_config *tool, const idem_tool_result *result) {
  if (!result->is_error) outcome_answered(request, tool);
  if (!is_plain(request))
    idem_tool_reply(request, result);
  else if (result->structured && !result->is_error)
    idem_reply_mut(request, result->structured);
  else
    reply_plain_text(request, tool, result);
}
