/* ask_write.c - a question in the words of the revision in hand. What came later is converted where an
 * older form says the same: choices with titles, several blocks in one message. */
#include "ask.h"
#include "context.h"
#include "news.h"
#include "server.h"

#include <stdio.h>
#include <string.h>

const char *idem__ask_method(idem_ask_kind kind) {
  switch (kind) {
  case IDEM_ASK_SAMPLING: return "sampling/createMessage";
  case IDEM_ASK_ROOTS: return "roots/list";
  case IDEM_ASK_FORM:
  case IDEM_ASK_URL: break;
  }
  return "elicitation/create";
}

static yyjson_val *parse(const idem__context *context, const char *text, idem__writer *writer) {
  idem_status status = IDEM_E_INVAL;
  yyjson_doc *doc =
      idem__json_read(text, strlen(text), idem__request_memory(context->request), &status);
  if (!doc && writer->status == IDEM_OK) writer->status = status;
  return doc ? doc->root : NULL;
}

/* -------------------------------------------------------------------- forms */

/* "oneOf" of consts and titles, as "enum" and "enumNames". */
static void write_titled(yyjson_val *titled, const char *member, const char *name,
                         idem__writer *writer) {
  size_t i, max;
  yyjson_val *choice;
  idem__write_key(writer, name);
  idem__write_array(writer);
  yyjson_arr_foreach(titled, i, max, choice) {
    idem__write_value(writer, yyjson_obj_get(choice, member));
  }
  idem__write_array_end(writer);
}

/* A field with the keywords that 2025-06-18 has. */
static void write_old_field(yyjson_val *field, idem__writer *writer) {
  static const char *const known[] = {"type",   "title",   "description", "minLength", "maxLength",
                                      "format", "minimum", "maximum",     "enum",      "enumNames"};
  yyjson_val *titled = yyjson_obj_get(field, "oneOf");
  idem__write_object(writer);
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    idem__write_member_value(writer, known[i], yyjson_obj_get(field, known[i]));
  }
  if (yyjson_equals_str(yyjson_obj_get(field, "type"), "boolean")) {
    idem__write_member_value(writer, "default", yyjson_obj_get(field, "default"));
  }
  if (titled && !yyjson_obj_get(field, "enum")) {
    write_titled(titled, "const", "enum", writer);
    write_titled(titled, "title", "enumNames", writer);
  }
  idem__write_object_end(writer);
}

static void write_old_form(yyjson_val *schema, idem__writer *writer) {
  size_t i, max;
  yyjson_val *name, *field, *fields = yyjson_obj_get(schema, "properties");
  idem__write_object(writer);
  idem__write_member_text(writer, "type", "object");
  idem__write_key(writer, "properties");
  idem__write_object(writer);
  idem_each_member(fields, i, max, name, field) {
    idem__write_name(writer, name);
    write_old_field(field, writer);
  }
  idem__write_object_end(writer);
  idem__write_member_value(writer, "required", yyjson_obj_get(schema, "required"));
  idem__write_object_end(writer);
}

static void write_schema(const idem__context *context, const idem_ask *ask, idem__writer *writer) {
  static const char empty[] = "{\"type\":\"object\",\"properties\":{}}";
  yyjson_val *schema = parse(context, ask->schema ? ask->schema : empty, writer);
  idem__write_key(writer, "requestedSchema");
  if (!schema) return;
  if (idem__revision_has(context->revision, IDEM__F_ELICIT_URL))
    idem__write_value(writer, schema);
  else
    write_old_form(schema, writer);
}

static void write_form(const idem__context *context, const idem_ask *ask, idem__writer *writer) {
  idem__write_object(writer);
  if (idem__revision_has(context->revision, IDEM__F_ELICIT_URL)) {
    idem__write_member_text(writer, "mode", "form");
  }
  idem__write_member_text(writer, "message", ask->message ? ask->message : "");
  write_schema(context, ask, writer);
  idem__write_object_end(writer);
}

/* The id by which the client hears that the visit is over. */
static void write_elicitation_id(const idem__context *context, const idem_ask *ask,
                                 idem__writer *writer) {
  uint8_t bytes[16];
  char made[33];
  const char *id = ask->elicitation_id;
  if (!id) {
    idem__server_random(context->server, bytes, sizeof bytes);
    idem__text_hex(made, bytes, sizeof bytes);
    id = made;
  }
  idem__write_member_text(writer, "elicitationId", id);
  if (ask->elicitation_id) idem__elicitation_expect(context, id);
}

static void write_url(const idem__context *context, const idem_ask *ask, idem__writer *writer) {
  idem__write_object(writer);
  idem__write_member_text(writer, "mode", "url");
  idem__write_member_text(writer, "message", ask->message ? ask->message : "");
  idem__write_member_text(writer, "url", ask->url ? ask->url : "");
  if (idem__revision_has(context->revision, IDEM__F_ELICIT_ID))
    write_elicitation_id(context, ask, writer);
  idem__write_object_end(writer);
}

/* ----------------------------------------------------------------- sampling */

static void write_message(yyjson_val *message, yyjson_val *block, idem__writer *writer) {
  idem__write_object(writer);
  idem__write_member_value(writer, "role", yyjson_obj_get(message, "role"));
  idem__write_member_value(writer, "content", block);
  idem__write_object_end(writer);
}

/* A message of several blocks becomes as many messages of one. */
static void write_old_messages(yyjson_val *messages, idem__writer *writer) {
  size_t i, max, k, count;
  yyjson_val *message, *block;
  idem__write_array(writer);
  yyjson_arr_foreach(messages, i, max, message) {
    yyjson_val *content = yyjson_obj_get(message, "content");
    if (!yyjson_is_arr(content)) write_message(message, content, writer);
    yyjson_arr_foreach(content, k, count, block) write_message(message, block, writer);
  }
  idem__write_array_end(writer);
}

static void write_old_sampling(yyjson_val *params, idem__writer *writer) {
  size_t i, max;
  yyjson_val *name, *value;
  idem__write_object(writer);
  idem_each_member(params, i, max, name, value) {
    idem__write_name(writer, name);
    if (yyjson_equals_str(name, "messages"))
      write_old_messages(value, writer);
    else
      idem__write_value(writer, value);
  }
  idem__write_object_end(writer);
}

static void write_sampling(const idem__context *context, const idem_ask *ask,
                           idem__writer *writer) {
  yyjson_val *params = parse(context, ask->params, writer);
  if (!params) return;
  if (idem__revision_has(context->revision, IDEM__F_SAMPLING_TOOLS))
    idem__write_value(writer, params);
  else
    write_old_sampling(params, writer);
}

static bool offers_tools(yyjson_val *params) {
  yyjson_val *tools = yyjson_obj_get(params, "tools");
  yyjson_val *mode = yyjson_obj_get(yyjson_obj_get(params, "toolChoice"), "mode");
  return yyjson_arr_size(tools) && !yyjson_equals_str(mode, "none");
}

/* ---------------------------------------------------------------------- all */

void idem__ask_write_params(const idem__context *context, const idem_ask *ask,
                            idem__writer *writer) {
  switch (ask->kind) {
  case IDEM_ASK_FORM: write_form(context, ask, writer); break;
  case IDEM_ASK_URL: write_url(context, ask, writer); break;
  case IDEM_ASK_SAMPLING: write_sampling(context, ask, writer); break;
  case IDEM_ASK_ROOTS: idem__write_raw(writer, "{}", 2); break;
  }
}

void idem__ask_write(const idem__context *context, const idem_ask *ask, idem__writer *writer) {
  idem__write_object(writer);
  idem__write_member_text(writer, "method", idem__ask_method(ask->kind));
  idem__write_key(writer, "params");
  idem__ask_write_params(context, ask, writer);
  idem__write_object_end(writer);
}

void idem__ask_write_contract(const idem__context *context, const idem_ask *ask,
                              idem__writer *writer) {
  idem__write_object(writer);
  idem__write_member_text(writer, "method", idem__ask_method(ask->kind));
  if (ask->kind == IDEM_ASK_FORM) {
    idem__write_key(writer, "params");
    idem__write_object(writer);
    write_schema(context, ask, writer);
    idem__write_object_end(writer);
  }
  if (ask->kind == IDEM_ASK_SAMPLING) {
    bool tools = offers_tools(parse(context, ask->params, writer));
    idem__write_member_raw(writer, "params", tools ? "{\"tools\":true}" : "{\"tools\":false}");
  }
  idem__write_object_end(writer);
}
