/* keep_answer.c - what a program that stays has answered, as the answer of a tool; what it says to the log. */
#include "keep_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA_BYTES 1024u

static void answer_text(idem_request *request, const tool_config *config, const char *text,
                        size_t len, bool failed) {
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *content = yyjson_mut_arr(doc);
  if (doc && content && idem_content_text(doc, content, text ? text : "", len))
    reply_tool(request, config, &(idem_tool_result){.content = content, .is_error = failed});
  else
    reply_no_memory(request, config);
}

/* ------------------------------------------------------------------------------ answers */

static bool fits(idem_request *request, const tool_config *config, size_t len) {
  if (len <= config->output_bytes) return true;
  failure_tell(request, config, "answered with more than %zu bytes (output_bytes)",
               config->output_bytes);
  reply_failed_because(request, "%s answered with more than %zu bytes (output_bytes)", config->name,
                       config->output_bytes);
  return false;
}

/* A string is the text; anything else is its JSON. */
static void answer_value(idem_request *request, const tool_config *config, yyjson_val *value) {
  bool plain = yyjson_is_str(value) || yyjson_is_null(value);
  size_t len = yyjson_is_str(value) ? yyjson_get_len(value) : 0;
  char *written = plain ? NULL : yyjson_val_write(value, 0, &len);
  if (!plain && !written)
    reply_no_memory(request, config);
  else if (fits(request, config, len))
    answer_text(request, config, plain ? yyjson_get_str(value) : written, len, false);
  free(written);
}

static void answer_json(idem_request *request, const tool_config *config, yyjson_val *value) {
  size_t len = 0;
  char *written = yyjson_val_write(value, 0, &len);
  free(written);
  if (!written || !fits(request, config, len)) {
    if (!written) reply_no_memory(request, config);
    return;
  }
  if (!reply_keeps_promise(request, config, value)) return;
  yyjson_mut_doc *doc = idem_request_doc(request);
  yyjson_mut_val *copy = doc ? yyjson_val_mut_copy(doc, value) : NULL;
  if (copy)
    reply_tool(request, config, &(idem_tool_result){.structured = copy});
  else
    reply_no_memory(request, config);
}

/* Its own words may name files and secrets, as those on stderr may. */
static void answer_error(call *self, const idem_response *response) {
  idem_buf sentence;
  const tool_config *config = self->tool->config;
  failure_tell(self->request, config, "answered with error %lld", (long long)response->code);
  idem_buf_init(&sentence, NULL, (size_t)64 << 10);
  idem_buf_printf(&sentence, "%s: ", config->name);
  program_put_redacted(self->tool, response->message, response->message_len, &sentence);
  char *data = response->data ? yyjson_val_write(response->data, 0, NULL) : NULL;
  if (data) {
    idem_buf_puts(&sentence, "\n");
    program_put_redacted(self->tool, data, strnlen(data, DATA_BYTES), &sentence);
  }
  answer_text(self->request, config, sentence.data, sentence.len, true);
  free(data);
  idem_buf_deinit(&sentence);
}

static void answer_late(call *self) {
  const tool_config *config = self->tool->config;
  failure_tell(self->request, config, "took longer than %llu ms (deadline_ms)",
               (unsigned long long)config->deadline_ms);
  reply_failed_because(self->request, "%s took longer than %llu ms (deadline_ms)", config->name,
                       (unsigned long long)config->deadline_ms);
}

void kept_answer(call *self, const idem_response *response) {
  const tool_config *config = self->tool->config;
  if (!self->request) return;
  if (response->status == IDEM_OK && config->output_json) {
    answer_json(self->request, config, response->result);
  } else if (response->status == IDEM_OK) {
    answer_value(self->request, config, response->result);
  } else if (response->status == IDEM_E_REMOTE) {
    answer_error(self, response);
  } else if (response->status == IDEM_E_TIMEOUT) {
    answer_late(self);
  } else {
    failure_tell(self->request, config, "its answer is none: %s",
                 idem_status_text(response->status));
    reply_failed_because(self->request, "%s: its answer is none", config->name);
  }
  self->request = NULL;
}

void kept_answer_lost(call *self, const kept_program *kept) {
  const tool_config *config = self->tool->config;
  idem_buf sentence;
  if (!self->request) return;
  if (kept->start_failure)
    failure_tell_ours(self->request, config, "%s", kept->reason);
  else
    failure_tell(self->request, config, "%s", kept->reason);
  idem_buf_init(&sentence, NULL, (size_t)64 << 10);
  idem_buf_printf(&sentence, "%s: %s", config->name, kept->reason);
  program_put_tail(self->tool, kept->errors, kept->errors_len, &sentence);
  program_put_hint(self->tool, kept->errors, kept->errors_len, &sentence);
  answer_text(self->request, config, sentence.data, sentence.len, true);
  idem_buf_deinit(&sentence);
  self->request = NULL;
}

/* ---------------------------------------------------------------------------------- log */

void kept_log(const kept_program *self, yyjson_val *params) {
  const char *level = yyjson_get_str(yyjson_obj_get(params, "level"));
  yyjson_val *message = yyjson_obj_get(params, "message");
  idem_log_level at = IDEM_LOG_INFO;
  if (level && strcmp(level, "warning") == 0) level = "warn";
  if (level) idem_log_level_parse(level, strlen(level), &at);
  if (yyjson_is_str(message))
    program_log_lines(self->tool, at, "a program says", yyjson_get_str(message),
                      yyjson_get_len(message));
}
