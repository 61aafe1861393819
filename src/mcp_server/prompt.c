/* prompt.c - prompts/list, prompts/get, and what a prompt's function answers.
 * Arguments are strings; they are checked here, so that the function finds what it was promised. */
#include "input.h"
#include "page.h"
#include "result.h"
#include "scope.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ lists */

void idem__run_prompts_list(idem__context *context, yyjson_val *params) {
  idem__page_reply(context, IDEM__PROMPTS, params);
}

static void write_argument(const struct idem__prompt_arg *argument, const idem__revision *revision,
                           idem__writer *writer) {
  idem__write_object(writer);
  idem__write_member_text(writer, "name", argument->name);
  if (idem__revision_has(revision, IDEM__F_TITLE)) {
    idem__write_member_text(writer, "title", argument->title);
  }
  idem__write_member_text(writer, "description", argument->description);
  if (argument->required) idem__write_member_bool(writer, "required", true);
  idem__write_object_end(writer);
}

static void write_arguments(const idem__prompt_entry *prompt, const idem__revision *revision,
                            idem__writer *writer) {
  if (!prompt->argument_count) return;
  idem__write_key(writer, "arguments");
  idem__write_array(writer);
  for (size_t i = 0; i < prompt->argument_count; i++) {
    write_argument(&prompt->arguments[i], revision, writer);
  }
  idem__write_array_end(writer);
}

void idem__prompt_write(const idem__prompt_entry *prompt, const idem__revision *revision,
                        idem__writer *writer) {
  idem__write_object(writer);
  idem__write_member_text(writer, "name", prompt->name);
  if (idem__revision_has(revision, IDEM__F_TITLE)) {
    idem__write_member_text(writer, "title", prompt->title);
  }
  idem__write_member_text(writer, "description", prompt->description);
  write_arguments(prompt, revision, writer);
  if (idem__revision_has(revision, IDEM__F_ICONS)) {
    idem__write_member_raw(writer, "icons", prompt->icons);
  }
  if (idem__revision_has(revision, IDEM__F_META)) {
    idem__write_member_raw(writer, "_meta", prompt->meta);
  }
  idem__write_object_end(writer);
}

/* ---------------------------------------------------------------- getting */

static void reply_unknown(idem__context *context, yyjson_val *name) {
  idem__answer fault =
      idem__answer_fault(idem_request_codes(context->request), IDEM_FAULT_PROMPT_NOT_FOUND, NULL);
  char text[IDEM__CAUSE];
  const char *asked = yyjson_get_str(name);
  const char *cause = idem__cause(context, text, "Unknown prompt: %s", asked ? asked : "");
  idem__reply_missing(context, fault.code, cause ? cause : fault.message, "prompt",
                      yyjson_get_str(name), yyjson_get_len(name));
}

/* Says which argument is wrong; a long name is cut. */
static bool refuse_argument(idem__context *context, const char *name, size_t len,
                            yyjson_val *received) {
  char path[128];
  int shown = (int)idem_utf8_cut(name, len, 100);
  snprintf(path, sizeof path, "arguments.%.*s", shown, name);
  idem__reply_bad_param(context, path, "string", received);
  return false;
}

/* Checks what was given; false: refused. */
static bool check_values(idem__context *context, yyjson_val *arguments) {
  yyjson_obj_iter each;
  yyjson_val *key;
  yyjson_obj_iter_init(arguments, &each);
  while ((key = yyjson_obj_iter_next(&each))) {
    yyjson_val *value = yyjson_obj_iter_get_val(key);
    if (!yyjson_is_str(value)) {
      return refuse_argument(context, yyjson_get_str(key), yyjson_get_len(key), value);
    }
  }
  return true;
}

/* Checks what had to be given; false: refused. */
static bool check_required(idem__context *context, yyjson_val *arguments) {
  const idem__prompt_entry *prompt = context->prompt;
  for (size_t i = 0; i < prompt->argument_count; i++) {
    const char *name = prompt->arguments[i].name;
    if (prompt->arguments[i].required && !yyjson_obj_get(arguments, name)) {
      return refuse_argument(context, name, strlen(name), NULL);
    }
  }
  return true;
}

/* Sets context->arguments; an absent object counts as an empty one. False: refused. */
static bool read_arguments(idem__context *context, yyjson_val *arguments) {
  static yyjson_val none = {.tag = YYJSON_TYPE_OBJ, .uni = {.ofs = sizeof none}};
  if (!arguments) arguments = &none;
  if (!yyjson_is_obj(arguments)) {
    idem__reply_bad_param(context, "arguments", "object", arguments);
    return false;
  }
  context->arguments = arguments;
  return check_values(context, arguments) && check_required(context, arguments);
}

void idem__run_prompts_get(idem__context *context, yyjson_val *params) {
  yyjson_val *name = yyjson_obj_get(params, "name");
  if (!yyjson_is_str(name)) {
    idem__reply_bad_param(context, "name", "string", name);
    return;
  }
  context->prompt =
      idem__registry_prompt(context->lists->registry, yyjson_get_str(name), yyjson_get_len(name));
  if (!context->prompt)
    reply_unknown(context, name);
  else if (idem__scope_admit(context, &context->prompt->head) &&
           read_arguments(context, yyjson_obj_get(params, "arguments")) &&
           idem__input_read(context, params))
    idem__context_run(context);
}

/* -------------------------------------------------------------- answering */

/* The context of a request that gets a prompt and can be answered; NULL: it is not one. */
static idem__context *getter(const idem_request *request) {
  idem__context *context = idem__context_open(request);
  return context && context->prompt ? context : NULL;
}

static void begin_messages(idem__result *result, const char *description) {
  idem__context *context = result->context;
  idem__write_member_text(&result->writer, "description",
                          description ? description : context->prompt->description);
  idem__write_key(&result->writer, "messages");
  idem__write_array(&result->writer);
}

static idem_status end_messages(idem__result *result) {
  idem__write_array_end(&result->writer);
  return idem__result_end(result, NULL);
}

idem_status idem_prompt_text(idem_request *request, const char *text, size_t len) {
  idem__result result;
  idem__context *context = getter(request);
  if (!context) return idem__reply_misplaced(request);
  idem__result_begin(&result, context, "complete");
  begin_messages(&result, NULL);
  idem__write_object(&result.writer);
  idem__write_member_text(&result.writer, "role", "user");
  idem__write_key(&result.writer, "content");
  idem__write_object(&result.writer);
  idem__write_member_text(&result.writer, "type", "text");
  idem__write_key(&result.writer, "text");
  idem__write_string(&result.writer, text, len);
  idem__write_object_end(&result.writer);
  idem__write_object_end(&result.writer);
  return end_messages(&result);
}

static bool is_role(yyjson_val *role) {
  return yyjson_equals_str(role, "user") || yyjson_equals_str(role, "assistant");
}

static void write_message(idem__writer *writer, yyjson_val *message,
                          const idem__revision *revision) {
  yyjson_val *role = yyjson_obj_get(message, "role");
  yyjson_val *content = yyjson_obj_get(message, "content");
  if (!is_role(role) || !yyjson_is_obj(content)) {
    if (writer->status == IDEM_OK) writer->status = IDEM_E_INVAL;
    return;
  }
  idem__write_object(writer);
  idem__write_member_value(writer, "role", role);
  idem__write_key(writer, "content");
  idem__content_write_block(content, revision, writer);
  idem__write_object_end(writer);
}

static void write_messages(idem__writer *writer, yyjson_val *messages,
                           const idem__revision *revision) {
  yyjson_val *message;
  yyjson_arr_iter each;
  yyjson_arr_iter_init(messages, &each);
  while ((message = yyjson_arr_iter_next(&each))) write_message(writer, message, revision);
}

idem_status idem_prompt_reply(idem_request *request, const char *description,
                              yyjson_mut_val *messages) {
  idem__result result;
  idem__context *context = getter(request);
  if (!context) return idem__reply_misplaced(request);
  yyjson_alc alc = idem__arena_alc(idem__request_memory(request));
  yyjson_doc *copy = yyjson_mut_is_arr(messages) ? yyjson_mut_val_imut_copy(messages, &alc) : NULL;
  idem__result_begin(&result, context, "complete");
  if (!copy) result.writer.status = yyjson_mut_is_arr(messages) ? IDEM_E_NOMEM : IDEM_E_INVAL;
  begin_messages(&result, description);
  if (copy) write_messages(&result.writer, yyjson_doc_get_root(copy), context->revision);
  return end_messages(&result);
}
