/* tool.c - tools/list and tools/call: arguments checked before the handler, structured content
 * after it, the result written as the peer's revision knows it. */
#include "header_check.h"
#include "input.h"
#include "once.h"
#include "page.h"
#include "result.h"
#include "scope.h"
#include "server.h"
#include "session.h"
#include "task.h"

#include <stdio.h>
#include <string.h>

void idem__run_tools_list(idem__context *context, yyjson_val *params) {
  idem__page_reply(context, IDEM__TOOLS, params);
}

/* ------------------------------------------------------------------- listing */

const char *idem__task_support_word(idem_task_support support) {
  static const char *const words[] = {
      [IDEM_TASK_NEVER] = "forbidden",
      [IDEM_TASK_OPTIONAL] = "optional",
      [IDEM_TASK_REQUIRED] = "required",
      [IDEM_TASK_BY_HAND] = "optional",
  };
  return words[support];
}

void idem__tool_write(const idem__tool_entry *tool, const idem__revision *revision,
                      idem__writer *writer) {
  bool any = idem__revision_has(revision, IDEM__F_STRUCTURED_ANY);
  bool structured =
      any || (idem__revision_has(revision, IDEM__F_STRUCTURED) && tool->output_is_object);
  idem__write_object(writer);
  idem__write_member_text(writer, "name", tool->name);
  if (idem__revision_has(revision, IDEM__F_TITLE)) {
    idem__write_member_text(writer, "title", tool->title);
  }
  idem__write_member_text(writer, "description", tool->description);
  idem__write_member_raw(writer, "inputSchema", tool->input_schema);
  if (structured) idem__write_member_raw(writer, "outputSchema", tool->output_schema);
  if (idem__revision_has(revision, IDEM__F_TOOL_ANNOTATIONS)) {
    idem__write_member_raw(writer, "annotations", tool->annotations);
  }
  if (idem__revision_has(revision, IDEM__F_ICONS)) {
    idem__write_member_raw(writer, "icons", tool->icons);
  }
  if (idem__revision_has(revision, IDEM__F_EXECUTION) && tool->task != IDEM_TASK_NEVER) {
    idem__write_key(writer, "execution");
    idem__write_object(writer);
    idem__write_member_text(writer, "taskSupport", idem__task_support_word(tool->task));
    idem__write_object_end(writer);
  }
  if (idem__revision_has(revision, IDEM__F_META)) {
    idem__write_member_raw(writer, "_meta", tool->meta);
  }
  idem__write_object_end(writer);
}

/* ------------------------------------------------------------------- calling */

void idem__context_run(idem__context *context) {
  idem_request *request = context->request;
  context->begun = true;
  if (context->tool) {
    context->tool->fn(request, context->arguments, context->tool->head.user);
  } else if (context->resource) {
    context->resource->fn(request, context->uri, context->resource->head.user);
  } else {
    context->prompt->fn(request, context->arguments, context->prompt->head.user);
  }
}

static void run_again(void *ctx) { idem__context_run(ctx); }

void idem__context_rerun(idem__context *context) {
  idem_request_on_cancel(context->request, NULL, NULL); /* it was for the time of waiting */
  idem__request_rerun(context->request, run_again, context);
}

/* "arguments.b: expected ..." without the word that the sentence around it has. */
static const char *without_root(const char *sentence) {
  static const char root[] = "arguments";
  size_t len = sizeof root - 1;
  if (strncmp(sentence, root, len) != 0) return sentence;
  if (sentence[len] == '.') return sentence + len + 1;
  return strncmp(sentence + len, ": ", 2) == 0 ? sentence + len + 2 : sentence;
}

#define SENTENCE 4096u /* to a model, which reads all of it */

static void reply_invalid_arguments(idem__context *context, const char *sentence) {
  char text[IDEM__CAUSE];
  const char *cause = idem__cause(context, text, "Invalid arguments for tool %s: %s",
                                  context->tool->name, without_root(sentence));
  idem__answer answer =
      idem__answer_fault(idem_request_codes(context->request), IDEM_FAULT_VALIDATION, sentence);
  if (cause) answer.message = cause;
  idem__reply_answer(context->request, &answer);
}

/* From 2025-11-25 on bad arguments are the tool's failure, so that the model sees what was wrong. */
static void refuse_arguments(idem__context *context, const char *sentence, const char *logged) {
  char detail[512];
  snprintf(detail, sizeof detail, "%.128s: %.320s, %zu bytes", context->tool->name, logged,
           idem_request_bytes(context->request));
  idem_request_log(context->request, NULL, IDEM_LOG_WARN, "arguments of a tool were refused",
                   detail);
  if (idem__revision_has(context->revision, IDEM__R_INPUT_FAILS_TOOL)) {
    char text[SENTENCE];
    snprintf(text, sizeof text, "Invalid arguments for tool %s: %s", context->tool->name,
             without_root(sentence));
    text[idem_utf8_cut(text, strlen(text), sizeof text - 1)] = '\0';
    idem_tool_failed(context->request, text);
  } else {
    reply_invalid_arguments(context, sentence);
  }
}

static bool arguments_fine(idem__context *context) {
  static const idem_schema_check check = {.root_name = "arguments"};
  const idem_schema *schema = idem__tool_input(context->tool, &context->server->alloc);
  idem_schema_result result;
  idem_status status = schema ? idem_schema_validate(schema, context->worker->schema,
                                                     context->arguments, &check, &result)
                              : IDEM_E_NOMEM;
  if (status == IDEM_OK && result.valid) return true;
  if (status == IDEM_OK && result.error_count) {
    refuse_arguments(context, result.errors[0].sentence, result.errors[0].log_sentence);
  } else if (status == IDEM_E_LIMIT) {
    refuse_arguments(context, "arguments: too much to check", "too much to check");
  } else {
    idem_request_drop(context->request);
  }
  return false;
}

/* Absent arguments count as none. */
static yyjson_val *no_arguments(void) {
  static yyjson_val empty = {.tag = YYJSON_TYPE_OBJ, .uni = {.ofs = sizeof(yyjson_val)}};
  return &empty;
}

static bool find_tool(idem__context *context, yyjson_val *params) {
  yyjson_val *name = params ? yyjson_obj_get(params, "name") : NULL;
  if (!yyjson_is_str(name)) {
    idem__reply_bad_param(context, "name", "string", name);
    return false;
  }
  context->tool =
      idem__registry_tool(context->lists->registry, yyjson_get_str(name), yyjson_get_len(name));
  if (context->tool) {
    idem__tool_count_begin(context);
    return idem__scope_admit(context, &context->tool->head);
  }
  idem_reply_fault(context->request, IDEM_FAULT_TOOL_NOT_FOUND, yyjson_get_str(name));
  return false;
}

static bool find_arguments(idem__context *context, yyjson_val *params) {
  yyjson_val *arguments = yyjson_obj_get(params, "arguments");
  if (arguments && !yyjson_is_obj(arguments)) {
    idem__reply_bad_param(context, "arguments", "object", arguments);
    return false;
  }
  context->arguments = arguments ? arguments : no_arguments();
  return true;
}

static void call(idem__context *context) {
  if (idem__task_admit(context, context->params)) idem__context_run(context);
}

/* True: it may run now. Else it is refused, has its answer, or waits for another call with its key. */
static bool pass_key(idem__context *context) {
  const char *tool = context->tool->name;
  uint8_t name[IDEM_SHA256_BYTES];
  idem__once_key key;
  if (!idem__once_read_key(context, false, &key)) return false;
  if (!key.text && context->tool->once == IDEM_ONCE_ALWAYS) {
    idem__reply_bad_param(context, "_meta." IDEM__ONCE_META,
                          "a key: this tool wants one, here or by HTTP's Idempotency-Key", NULL);
    return false;
  }
  bool kept = context->tool->once != IDEM_ONCE_NEVER;
  if (!idem__once_pass_repeat(context, &key, kept)) return false;
  if (!key.text || !kept) return true;
  idem__once_name(context, tool, strlen(tool), &key, name);
  return idem__once_admit(context, name, context->arguments, call);
}

void idem__run_tools_call(idem__context *context, yyjson_val *params) {
  if (!find_tool(context, params) || !find_arguments(context, params)) return;
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  if (peer->edge && idem__revision_has(context->revision, IDEM__R_MODERN) &&
      !idem__headers_check_params(context, context->tool, context->arguments)) {
    return;
  }
  if (!arguments_fine(context)) return;
  if (!idem__input_read(context, params)) return;
  if (pass_key(context)) call(context);
}

/* ----------------------------------------------------------------- answering */

static void write_text_block(idem__writer *writer, const char *text, size_t len) {
  idem__write_lead_text(writer, "{\"type\":\"text\",\"text\":");
  idem__write_string(writer, text, len);
  idem__write_object_end(writer);
}

/* Clients hold what a tool promised against it: a success without structured content is our own fault. */
static bool breaks_promise(idem__context *context, bool structured, bool is_error) {
  const idem__tool_entry *tool = context->tool;
  if (structured || is_error || !tool || !tool->output_schema) return false;
  idem_request_log(context->request, NULL, IDEM_LOG_ERROR,
                   "a tool with an output schema gave no structured content", tool->name);
  idem__reply_failure(context, IDEM_RPC_INTERNAL_ERROR, NULL, NULL, 0);
  return true;
}

static idem_status reply_with_text(idem_request *request, const char *text, size_t len,
                                   bool is_error) {
  idem__context *context = idem__context_open(request);
  if (!context) return idem_reply_json(request, "{}", 2);
  if (breaks_promise(context, false, is_error)) return IDEM_E_INVAL;
  idem__result result;
  idem__result_begin(&result, context, "complete");
  idem__write_lead_text(&result.writer, "\"content\":[");
  write_text_block(&result.writer, text, len);
  idem__write_array_end(&result.writer);
  if (is_error) idem__write_member_bool(&result.writer, "isError", true);
  result.failed_tool = is_error;
  context->outcome = is_error ? IDEM__OUTCOME_FAILED : IDEM__OUTCOME_OK;
  return idem__result_end(&result, NULL);
}

idem_status idem_tool_text(idem_request *request, const char *text, size_t len) {
  return reply_with_text(request, text, len, false);
}

idem_status idem_tool_failed(idem_request *request, const char *text) {
  return reply_with_text(request, text, strlen(text), true);
}

/* Content in the words of an older revision: through a parsed copy. */
static void write_content_translated(idem__context *context, const yyjson_mut_val *content,
                                     idem__writer *writer) {
  idem_buf text;
  idem_buf_init(&text, &context->worker->alloc, idem__answer_bytes(context->server));
  idem_status status = idem__json_put_mut(&text, content);
  yyjson_alc alc = idem__json_alc(&context->worker->alloc);
  yyjson_doc *doc = NULL;
  if (status == IDEM_OK) {
    doc = yyjson_read_opts(text.data, text.len, YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL);
    if (!doc) status = IDEM_E_NOMEM;
  }
  if (doc)
    idem__content_write(doc->root, context->revision, writer);
  else if (writer->status == IDEM_OK)
    writer->status = status;
  yyjson_doc_free(doc);
  idem_buf_deinit(&text);
}

static void write_content(idem__context *context, const yyjson_mut_val *content,
                          idem__writer *writer) {
  const uint32_t all = IDEM__F_AUDIO | IDEM__F_RESOURCE_LINK | IDEM__F_META | IDEM__F_ICONS |
                       IDEM__F_TITLE | IDEM__F_LAST_MODIFIED;
  idem__write_key(writer, "content");
  if ((context->revision->flags & all) == all)
    idem__write_mutable(writer, content);
  else
    write_content_translated(context, content, writer);
}

/* The structured content as text, checked against the tool's schema; false: not what it promised. */
static bool structured_fine(idem__context *context, const idem_tool_result *answer,
                            idem_buf *text) {
  idem_schema_result verdict = {.valid = false};
  if (idem__json_put_mut(text, answer->structured) != IDEM_OK) return false;
  if (!context->tool || !context->tool->output_schema) return true;
  const idem_schema *schema = idem__tool_output(context->tool, &context->server->alloc);
  idem_status status =
      schema ? idem_schema_validate_text(schema, context->worker->schema, text->data, text->len,
                                         &(idem_schema_check){.root_name = "structuredContent"},
                                         &verdict)
             : IDEM_E_NOMEM;
  if (status == IDEM_OK && verdict.valid) return true;
  if (answer->is_error) return false; /* a failure may look otherwise */
  idem_logf(context->server->opts.log, IDEM_LOG_ERROR,
            "a tool's structured content breaks its output schema", "%s: %s", context->tool->name,
            verdict.error_count ? verdict.errors[0].log_sentence : idem_status_text(status));
  return false;
}

/* Older peers take objects only, and before 2025-06-18 none at all. */
static bool carries_structured(const idem__context *context, const idem_buf *text) {
  if (idem__revision_has(context->revision, IDEM__F_STRUCTURED_ANY)) return true;
  return idem__revision_has(context->revision, IDEM__F_STRUCTURED) && text->data[0] == '{';
}

static void write_answer(idem__result *result, const idem_tool_result *answer,
                         const idem_buf *structured, bool fine) {
  idem__writer *writer = &result->writer;
  if (answer->content) {
    write_content(result->context, answer->content, writer);
  } else {
    idem__write_key(writer, "content");
    idem__write_array(writer);
    if (structured->len) write_text_block(writer, structured->data, structured->len);
    idem__write_array_end(writer);
  }
  if (answer->structured && fine && carries_structured(result->context, structured)) {
    idem__write_key(writer, "structuredContent");
    idem__write_raw(writer, structured->data, structured->len);
  }
  if (answer->is_error) idem__write_member_bool(writer, "isError", true);
}

idem_status idem_tool_reply(idem_request *request, const idem_tool_result *answer) {
  idem__context *context = idem__context_open(request);
  if (!context) return idem_reply_json(request, "{}", 2);
  if (breaks_promise(context, answer->structured != NULL, answer->is_error)) return IDEM_E_INVAL;
  idem_buf structured;
  idem__result result;
  idem_buf_init(&structured, &context->worker->alloc, idem__answer_bytes(context->server));
  /* Clients hold structured content against the schema, of failures as well: what breaks it is left
   * out of a failure and is our own fault in a success. */
  bool fine = !answer->structured || structured_fine(context, answer, &structured);
  if (!fine && !(answer->is_error && structured.len)) {
    idem_buf_deinit(&structured);
    idem__reply_failure(context, IDEM_RPC_INTERNAL_ERROR, NULL, NULL, 0);
    return IDEM_E_INVAL;
  }
  idem__result_begin(&result, context, "complete");
  write_answer(&result, answer, &structured, fine);
  result.failed_tool = answer->is_error;
  context->outcome = answer->is_error ? IDEM__OUTCOME_FAILED : IDEM__OUTCOME_OK;
  idem_status status = idem__result_end(&result, answer->meta);
  idem_buf_deinit(&structured);
  return status;
}
