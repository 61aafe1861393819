/* answer_check.c - what a client answers, held against the question: its shape, and for forms the schema that
 * was sent. Errors and what does not fit reach the handler as such. */
#include "ask.h"
#include "worker.h"

#include <stdio.h>
#include <string.h>

static bool refuse(char *why, size_t why_len, const char *sentence) {
  snprintf(why, why_len, "%s", sentence);
  return false;
}

/* ------------------------------------------------------------------ fitting */

static bool content_fits(idem__mcp_worker *worker, yyjson_val *schema, yyjson_val *content,
                         char *why, size_t why_len) {
  idem_schema_opts opts = {.alloc = &worker->alloc, .assert_formats = true};
  idem_schema_result result = {.valid = false};
  idem_schema *form = NULL;
  idem_status status = idem_schema_compile_value(&opts, schema, &form, NULL);
  if (status == IDEM_OK) {
    status = idem_schema_validate(form, worker->schema, content,
                                  &(idem_schema_check){.root_name = "content"}, &result);
  }
  bool fits = status == IDEM_OK && result.valid;
  if (!fits) {
    refuse(why, why_len,
           result.error_count ? result.errors[0].log_sentence : idem_status_text(status));
  }
  idem_schema_free(form);
  return fits;
}

/* Nothing filled in is an empty form. */
static yyjson_val *content_of(yyjson_val *answer) {
  static yyjson_val empty = {.tag = YYJSON_TYPE_OBJ, .uni = {.ofs = sizeof(yyjson_val)}};
  yyjson_val *content = yyjson_obj_get(answer, "content");
  return content ? content : &empty;
}

static bool elicited_fits(idem__mcp_worker *worker, yyjson_val *contract, yyjson_val *answer,
                          char *why, size_t why_len) {
  yyjson_val *schema = yyjson_obj_get(yyjson_obj_get(contract, "params"), "requestedSchema");
  if (!idem__ask_rule_holds(worker, IDEM__RULE_FORM_ANSWER, answer, why, why_len)) return false;
  bool accepted = yyjson_equals_str(yyjson_obj_get(answer, "action"), "accept");
  if (!accepted || !schema) return true;
  return content_fits(worker, schema, content_of(answer), why, why_len);
}

static bool is_of_tools(yyjson_val *block) {
  const char *type = yyjson_get_str(yyjson_obj_get(block, "type"));
  return type && strncmp(type, "tool_", 5) == 0;
}

static bool has_tools(yyjson_val *content) {
  size_t i, max;
  yyjson_val *block;
  yyjson_arr_foreach(content, i, max, block) {
    if (is_of_tools(block)) return true;
  }
  return is_of_tools(content);
}

/* A contract that does not say is of a version before, which may have offered some. */
static bool forbids_tools(yyjson_val *contract) {
  return yyjson_is_false(yyjson_obj_get(yyjson_obj_get(contract, "params"), "tools"));
}

/* Several blocks and tools came with 2025-11-25; a model uses the tools that it was offered. */
static bool sampled_fits(idem__mcp_worker *worker, const idem__revision *revision,
                         yyjson_val *contract, yyjson_val *answer, char *why, size_t why_len) {
  yyjson_val *content = yyjson_obj_get(answer, "content");
  bool several = yyjson_is_arr(content), tools = has_tools(content);
  if (!idem__ask_rule_holds(worker, IDEM__RULE_SAMPLED_ANSWER, answer, why, why_len)) return false;
  if (!idem__revision_has(revision, IDEM__F_SAMPLING_TOOLS) && (several || tools))
    return refuse(why, why_len, "result.content: expected one block without tools");
  if (tools && forbids_tools(contract))
    return refuse(why, why_len, "result.content: expected no use of tools, since none were sent");
  return true;
}

bool idem__answer_fits(idem__mcp_worker *worker, const idem__revision *revision,
                       yyjson_val *contract, yyjson_val *answer, char *why, size_t why_len) {
  yyjson_val *method = yyjson_obj_get(contract, "method");
  if (yyjson_equals_str(method, "elicitation/create")) {
    return elicited_fits(worker, contract, answer, why, why_len);
  }
  if (yyjson_equals_str(method, "sampling/createMessage")) {
    return sampled_fits(worker, revision, contract, answer, why, why_len);
  }
  if (yyjson_equals_str(method, "roots/list")) {
    return idem__ask_rule_holds(worker, IDEM__RULE_ROOTS_ANSWER, answer, why, why_len);
  }
  return refuse(why, why_len, "nobody asked");
}

/* ------------------------------------------------------------------ failing */

#define MESSAGE_MAX 512u

/* As much of a text as fits, without half a character at its end. */
static size_t cut(const char *text, size_t len) {
  if (len <= MESSAGE_MAX) return len;
  len = MESSAGE_MAX;
  while (len && ((unsigned char)text[len] & 0xc0) == 0x80) len--;
  return len;
}

static void write_failure(yyjson_val *contract, int64_t code, const char *message, size_t len,
                          idem__writer *writer) {
  idem__write_object(writer);
  if (yyjson_equals_str(yyjson_obj_get(contract, "method"), "elicitation/create")) {
    idem__write_member_text(writer, "action", "cancel");
  }
  idem__write_key(writer, "error");
  idem__write_object(writer);
  idem__write_member_int(writer, "code", code);
  idem__write_key(writer, "message");
  idem__write_string(writer, message, cut(message, len));
  idem__write_object_end(writer);
  idem__write_object_end(writer);
}

static void write_broken(yyjson_val *contract, const idem_response *response,
                         idem__writer *writer) {
  const char *message = response->message ? response->message : idem_status_text(response->status);
  size_t len = response->message ? response->message_len : strlen(message);
  int64_t code =
      response->status == IDEM_E_REMOTE ? response->code : (int64_t)IDEM_RPC_INTERNAL_ERROR;
  write_failure(contract, code, message, len, writer);
}

bool idem__answer_write(idem__mcp_worker *worker, const idem__revision *revision,
                        const char *contract, size_t len, const idem_response *response,
                        idem__writer *writer) {
  char why[256] = "not an object";
  yyjson_alc alc = idem__json_alc(&worker->alloc);
  yyjson_doc *doc =
      yyjson_read_opts((char *)(uintptr_t)contract, len, YYJSON_READ_BIGNUM_AS_RAW, &alc, NULL);
  yyjson_val *asked = yyjson_doc_get_root(doc);
  bool fits = false;
  if (!doc) {
    writer->status = IDEM_E_NOMEM;
  } else if (response->status != IDEM_OK) {
    write_broken(asked, response, writer);
  } else if (!idem__answer_fits(worker, revision, asked, response->result, why, sizeof why)) {
    write_failure(asked, IDEM_RPC_INVALID_PARAMS, why, strlen(why), writer);
  } else {
    idem__write_value(writer, response->result);
    fits = true;
  }
  yyjson_doc_free(doc);
  return fits;
}
