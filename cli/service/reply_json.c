/* reply_json.c - what a tool came to, as JSON: structured content that keeps its schema's promise. */
#include "call.h"

/* The output schema is a promise to the model; who breaks it is told, not the model alone. */
bool reply_keeps_promise(idem_request *request, const tool_config *tool, yyjson_val *value) {
  idem_schema_ctx *ctx = NULL;
  idem_schema_result result = {.valid = false};
  if (!tool->output) return true;
  if (idem_schema_ctx_new(NULL, &ctx) == IDEM_OK)
    idem_schema_validate(tool->output, ctx, value, &(idem_schema_check){.root_name = "output"},
                         &result);
  if (!result.valid) {
    bool known = result.error_count;
    failure_tell(request, tool, "its JSON breaks its output_schema: %s",
                 known ? result.errors[0].log_sentence : "it cannot be checked");
    reply_failed_because(request, "%s %s JSON that its output_schema does not allow: %s",
                         tool->name, tool->is_program ? "printed" : "got",
                         known ? result.errors[0].sentence : "it cannot be checked");
  }
  idem_schema_ctx_free(ctx);
  return result.valid;
}

void reply_json(idem_request *request, const tool_config *tool, const char *text, size_t len) {
  yyjson_read_err fault;
  yyjson_doc *parsed =
      yyjson_read_opts((char *)(uintptr_t)text, len, YYJSON_READ_BIGNUM_AS_RAW, NULL, &fault);
  if (!parsed) {
    failure_tell(request, tool, "no JSON: %s at byte %zu", len ? fault.msg : "there is nothing",
                 len ? fault.pos : 0);
    reply_failed_because(request, "%s did not %s JSON: %s at byte %zu", tool->name,
                         tool->is_program ? "print" : "get",
                         len                ? fault.msg
                         : tool->is_program ? "nothing was printed"
                                            : "the answer is empty",
                         len ? fault.pos : 0);
    return;
  }
  if (!reply_keeps_promise(request, tool, yyjson_doc_get_root(parsed))) {
    yyjson_doc_free(parsed);
    return;
  }
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *copy = doc ? yyjson_val_mut_copy(doc, yyjson_doc_get_root(parsed)) : NULL;
  if (copy)
    reply_tool(request, tool, &(idem_tool_result){.structured = copy});
  else
    reply_no_memory(request, tool);
  yyjson_doc_free(parsed);
}
