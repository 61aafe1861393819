/* ask_check.c - a question before it goes out: is it one, and may this peer be asked it? What is wrong with
 * the question itself is its handler's fault; what the peer lacks is told to the peer. */
#include "ask.h"
#include "context.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ----------------------------------------------------------------- the peer */

static bool has(yyjson_val *object, const char *key) {
  return object && yyjson_is_obj(yyjson_obj_get(object, key));
}

/* An empty elicitation capability means forms. */
static bool can_elicit(const idem__context *context, const char *mode) {
  yyjson_val *elicitation =
      context->capabilities ? yyjson_obj_get(context->capabilities, "elicitation") : NULL;
  if (!yyjson_is_obj(elicitation)) return false;
  if (has(elicitation, mode)) return true;
  return strcmp(mode, "form") == 0 && !has(elicitation, "url");
}

bool idem__ask_possible(const idem__context *context, idem_ask_kind kind) {
  switch (kind) {
  case IDEM_ASK_FORM:
    return idem__revision_has(context->revision, IDEM__F_ELICIT) && can_elicit(context, "form");
  case IDEM_ASK_URL:
    return idem__revision_has(context->revision, IDEM__F_ELICIT_URL) && can_elicit(context, "url");
  case IDEM_ASK_SAMPLING: return has(context->capabilities, "sampling");
  case IDEM_ASK_ROOTS: return has(context->capabilities, "roots");
  }
  return false;
}

static const char *required_for(idem_ask_kind kind) {
  switch (kind) {
  case IDEM_ASK_FORM: return "{\"elicitation\":{\"form\":{}}}";
  case IDEM_ASK_URL: return "{\"elicitation\":{\"url\":{}}}";
  case IDEM_ASK_SAMPLING: return "{\"sampling\":{}}";
  case IDEM_ASK_ROOTS: break;
  }
  return "{\"roots\":{}}";
}

/* ------------------------------------------------------------- the question */

static bool lacks(idem__ask_fault *fault, const char *required) {
  fault->required = required;
  snprintf(fault->sentence, sizeof fault->sentence, "the client did not declare %s", required);
  return false;
}

__attribute__((format(printf, 2, 3))) static bool wrong(idem__ask_fault *fault, const char *format,
                                                        ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(fault->sentence, sizeof fault->sentence, format, args);
  va_end(args);
  return false;
}

static yyjson_val *parse(idem__context *context, const char *text) {
  idem_status status;
  if (!text) return NULL;
  yyjson_doc *doc =
      idem__json_read(text, strlen(text), idem__request_memory(context->request), &status);
  return doc ? doc->root : NULL;
}

/* A choice of several came with 2025-11-25; the other kinds of fields have a form before it, too. */
static bool form_known(const idem__context *context, yyjson_val *schema, idem__ask_fault *fault) {
  size_t i, max;
  yyjson_val *name, *field, *fields = yyjson_obj_get(schema, "properties");
  if (idem__revision_has(context->revision, IDEM__F_ELICIT_URL)) return true;
  idem_each_member(fields, i, max, name, field) {
    if (yyjson_equals_str(yyjson_obj_get(field, "type"), "array")) {
      return lacks(fault, "{\"elicitation\":{\"form\":{}}}");
    }
  }
  return true;
}

static bool check_form(idem__context *context, const idem_ask *ask, idem__ask_fault *fault) {
  if (!ask->schema) return true;
  yyjson_val *schema = parse(context, ask->schema);
  char why[192] = "schema: not JSON";
  if (!schema || !idem__ask_rule_holds(context->worker, IDEM__RULE_FORM, schema, why, sizeof why)) {
    return wrong(fault, "%s", why);
  }
  return form_known(context, schema, fault);
}

static bool check_url(const idem_ask *ask, idem__ask_fault *fault) {
  const char *url = ask->url ? ask->url : "";
  size_t scheme = strspn(url, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
  bool blank = false;
  for (const char *at = url; *at; at++) blank |= (unsigned char)*at <= ' ' || *at == 0x7f;
  if (scheme && url[scheme] == ':' && url[scheme + 1] && !blank) return true;
  return wrong(fault, "url: expected an absolute URL");
}

/* ----------------------------------------------------------------- sampling */

static bool is_kind(yyjson_val *block, const char *kind) {
  return yyjson_equals_str(yyjson_obj_get(block, "type"), kind);
}

/* How many blocks of a kind a message holds; *total counts all. */
static size_t count_kind(yyjson_val *message, const char *kind, size_t *total) {
  yyjson_val *content = yyjson_obj_get(message, "content"), *block;
  size_t i, max, found = 0;
  *total = yyjson_is_arr(content) ? yyjson_arr_size(content) : 1;
  if (!yyjson_is_arr(content)) return is_kind(content, kind);
  yyjson_arr_foreach(content, i, max, block) found += is_kind(block, kind);
  return found;
}

/* Results stand alone, and answer what was used in the message before. */
static bool check_tool_turns(yyjson_val *messages, bool *used, idem__ask_fault *fault) {
  size_t i, max, total, open = 0;
  yyjson_val *message;
  yyjson_arr_foreach(messages, i, max, message) {
    size_t results = count_kind(message, "tool_result", &total);
    if (results && results != total) {
      return wrong(fault, "messages[%zu]: tool results stand alone", i);
    }
    if (results != open) return wrong(fault, "messages[%zu]: every tool use has its result", i);
    open = count_kind(message, "tool_use", &total);
    *used |= results || open;
  }
  return open ? wrong(fault, "messages: the last tool use has no result") : true;
}

static bool has_audio(yyjson_val *messages) {
  size_t i, max, total;
  yyjson_val *message;
  yyjson_arr_foreach(messages, i, max, message) {
    if (count_kind(message, "audio", &total)) return true;
  }
  return false;
}

static bool wants_context(yyjson_val *params) {
  yyjson_val *include = yyjson_obj_get(params, "includeContext");
  return include && !yyjson_equals_str(include, "none");
}

/* Before 2025-11-25 sampling has no parts to declare: no tools, and context by asking for it. */
static bool check_parts(const idem__context *context, yyjson_val *params, bool tools,
                        idem__ask_fault *fault) {
  yyjson_val *declared = yyjson_obj_get(context->capabilities, "sampling");
  bool parts = idem__revision_has(context->revision, IDEM__F_SAMPLING_TOOLS);
  if (tools && !(parts && has(declared, "tools"))) {
    return lacks(fault, "{\"sampling\":{\"tools\":{}}}");
  }
  if (wants_context(params) && parts && !has(declared, "context")) {
    return lacks(fault, "{\"sampling\":{\"context\":{}}}");
  }
  return true;
}

static bool check_sampling(idem__context *context, const idem_ask *ask, idem__ask_fault *fault) {
  yyjson_val *params = parse(context, ask->params);
  yyjson_val *messages = yyjson_obj_get(params, "messages");
  char why[192] = "params: not JSON";
  bool tools = yyjson_obj_get(params, "tools") || yyjson_obj_get(params, "toolChoice");
  if (!params ||
      !idem__ask_rule_holds(context->worker, IDEM__RULE_SAMPLING, params, why, sizeof why)) {
    return wrong(fault, "%s", why);
  }
  if (!check_tool_turns(messages, &tools, fault)) return false;
  if (has_audio(messages) && !idem__revision_has(context->revision, IDEM__F_AUDIO)) {
    return lacks(fault, "{\"sampling\":{}}");
  }
  return check_parts(context, params, tools, fault);
}

/* ---------------------------------------------------------------------- all */

static bool key_fine(const char *key) {
  if (!key || !*key) return false;
  for (const char *at = key; *at; at++) {
    if ((unsigned char)*at < ' ' || *at == '"' || *at == '\\') return false;
  }
  return true;
}

bool idem__ask_check(idem__context *context, const idem_ask *ask, idem__ask_fault *fault) {
  *fault = (idem__ask_fault){0};
  if (!key_fine(ask->key)) return wrong(fault, "key: expected a text without quotes");
  if (!idem__ask_possible(context, ask->kind)) return lacks(fault, required_for(ask->kind));
  switch (ask->kind) {
  case IDEM_ASK_FORM: return check_form(context, ask, fault);
  case IDEM_ASK_URL: return check_url(ask, fault);
  case IDEM_ASK_SAMPLING: return check_sampling(context, ask, fault);
  case IDEM_ASK_ROOTS: break;
  }
  return true;
}
