/* header.c - the headers of 2026-07-28 that mirror the message: Mcp-Method, Mcp-Name, and
 * Mcp-Param-* for arguments that a tool's schema marks with x-mcp-header. A header that disagrees
 * with the message is refused: a gateway may have judged by it. */
#include "header.h"
#include "result.h"
#include "server.h"
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_VALUE_MAX 8192u

/* ----------------------------------------------------------------- refusing */

static bool refuse(idem__context *context, const char *header, const char *why) {
  char storage[512];
  idem__buf data;
  idem__buf_fixed(&data, storage, sizeof storage);
  idem__writer writer = idem__writer_on(&data);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "header", header);
  idem__write_member_text(&writer, "details", why);
  idem__write_object_end(&writer);
  idem__refuse(context, 400, -32020, writer.status == IDEM_OK ? data.data : NULL, data.len);
  return false;
}

/* ------------------------------------------------------------------ reading */

static bool get_header(const idem__context *context, const char *name, const char **value,
                       size_t *len) {
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  if (!peer->edge->header(peer->edge_ctx, name, value, len)) return false;
  while (*len && (**value == ' ' || **value == '\t')) ++*value, --*len;
  while (*len && ((*value)[*len - 1] == ' ' || (*value)[*len - 1] == '\t')) --*len;
  return true;
}

/* =?base64?...?= is decoded; anything else is literal. INVAL: wrapped badly. */
static idem_status decode(const char *value, size_t len, idem__buf *out) {
  static const char prefix[] = "=?base64?";
  size_t lead = sizeof prefix - 1;
  if (len < lead + 2 || memcmp(value, prefix, lead) != 0 || memcmp(value + len - 2, "?=", 2) != 0) {
    return idem__buf_put(out, value, len);
  }
  idem_status status =
      idem__base64_decode(out, value + lead, len - lead - 2, IDEM__BASE64_STANDARD);
  return status == IDEM_OK && !idem__utf8_valid(out->data, out->len) ? IDEM_E_INVAL : status;
}

/* ------------------------------------------------------- Mcp-Method, Mcp-Name */

bool idem__headers_check_method(idem__context *context) {
  const char *value;
  size_t len, name_len;
  const char *name = idem__request_name(context->request, &name_len);
  if (!get_header(context, "mcp-method", &value, &len)) {
    return refuse(context, "Mcp-Method", "the header is missing");
  }
  if (len == name_len && memcmp(value, name, len) == 0) return true;
  return refuse(context, "Mcp-Method", "the header differs from the message");
}

static yyjson_val *named_value(idem__name_source source, yyjson_val *params) {
  static const char *const keys[] = {
      [IDEM__NAME_NAME] = "name", [IDEM__NAME_URI] = "uri", [IDEM__NAME_TASK] = "taskId"};
  return params ? yyjson_obj_get(params, keys[source]) : NULL;
}

bool idem__headers_check(idem__context *context, yyjson_val *params) {
  const idem__mcp_method *method = context->method;
  if (!method || method->name_source == IDEM__NAME_NONE) return true;
  yyjson_val *name = named_value(method->name_source, params);
  const char *value;
  size_t len;
  if (!get_header(context, "mcp-name", &value, &len)) {
    return refuse(context, "Mcp-Name", "the header is missing");
  }
  if (len && value[0] != '=' && yyjson_equals_strn(name, value, len)) return true;
  idem__buf decoded;
  idem__buf_init(&decoded, &context->worker->alloc, HEADER_VALUE_MAX);
  idem_status status = decode(value, len, &decoded);
  /* A name that is no string is a fault of the params, told by the method itself. */
  bool same =
      status == IDEM_OK && (!yyjson_is_str(name) ||
                            yyjson_equals_strn(name, decoded.len ? decoded.data : "", decoded.len));
  idem__buf_deinit(&decoded);
  if (same) return true;
  return refuse(context, "Mcp-Name",
                status == IDEM_OK ? "the header differs from the message" : "not valid base64");
}

/* ----------------------------------------------------------------- Mcp-Param-* */

static yyjson_val *at_path(yyjson_val *arguments, char *const *path) {
  yyjson_val *val = arguments;
  for (; *path && val; path++) val = yyjson_is_obj(val) ? yyjson_obj_get(val, *path) : NULL;
  return yyjson_is_null(val) ? NULL : val;
}

/* Integers compare by value: 42.0 is 42. */
static bool same_integer(yyjson_val *val, const idem__buf *text) {
  const int64_t most = 9007199254740991;
  int64_t number;
  char copy[32], *end;
  if (!idem__json_get_int(val, &number) || number > most || number < -most) return false;
  if (text->len == 0 || text->len >= sizeof copy) return false;
  memcpy(copy, text->data, text->len);
  copy[text->len] = '\0';
  if (strspn(copy, "-.0123456789") != text->len) return false; /* strtod forgives more */
  double given = strtod(copy, &end);
  return *end == '\0' && given == (double)number;
}

static bool same_value(const idem__header_rule *rule, yyjson_val *val, const idem__buf *text) {
  const char *data = text->len ? text->data : "";
  if (rule->type == 's') return yyjson_is_str(val) && yyjson_equals_strn(val, data, text->len);
  if (rule->type == 'i') return same_integer(val, text);
  const char *word = yyjson_is_true(val) ? "true" : "false";
  return yyjson_is_bool(val) && text->len == strlen(word) && memcmp(data, word, text->len) == 0;
}

static bool check_rule(idem__context *context, const idem__header_rule *rule,
                       yyjson_val *arguments) {
  yyjson_val *val = at_path(arguments, rule->path);
  const char *value;
  size_t len;
  bool present = get_header(context, rule->header, &value, &len);
  if (!present && !val) return true;
  if (!present) return refuse(context, rule->header, "the header is missing");
  if (!val) return refuse(context, rule->header, "the arguments hold no such value");
  idem__buf decoded;
  idem__buf_init(&decoded, &context->worker->alloc, HEADER_VALUE_MAX);
  idem_status status = decode(value, len, &decoded);
  bool same = status == IDEM_OK && same_value(rule, val, &decoded);
  idem__buf_deinit(&decoded);
  if (same) return true;
  return refuse(context, rule->header,
                status == IDEM_OK ? "the header differs from the arguments" : "not valid base64");
}

bool idem__headers_check_params(idem__context *context, const idem__tool_entry *tool,
                                yyjson_val *arguments) {
  for (size_t i = 0; i < tool->header_count; i++) {
    if (!check_rule(context, &tool->headers[i], arguments)) return false;
  }
  return true;
}

/* ------------------------------------------------------------------- defining */

#define RULES_MAX 64u
#define PATH_MAX_NAMES 32u

/* The walk over a schema: where it is, and what it has found. */
typedef struct finder {
  idem_server *server;
  idem__tool_entry *tool;
  const char *names[PATH_MAX_NAMES];
  size_t depth;
  char *why;
  size_t why_len;
} finder;

static idem_status fault(finder *walk, const char *sentence) {
  if (walk->why && walk->why_len) {
    snprintf(walk->why, walk->why_len, "tool %s: x-mcp-header %s", walk->tool->name, sentence);
  }
  return IDEM_E_INVAL;
}

static bool is_token(const char *text, size_t len) {
  static const char others[] = "!#$%&'*+-.^_`|~";
  for (size_t i = 0; i < len; i++) {
    char c = text[i];
    bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!alnum && (c == '\0' || !strchr(others, c))) return false;
  }
  return len > 0;
}

static char type_of(yyjson_val *schema) {
  yyjson_val *type = yyjson_obj_get(schema, "type");
  if (yyjson_equals_str(type, "string")) return 's';
  if (yyjson_equals_str(type, "integer")) return 'i';
  return yyjson_equals_str(type, "boolean") ? 'b' : '\0';
}

static char *header_name(finder *walk, const char *text, size_t len) {
  static const char prefix[] = "mcp-param-";
  size_t lead = sizeof prefix - 1;
  char *name = idem__malloc(&walk->server->alloc, lead + len + 1);
  if (!name) return NULL;
  memcpy(name, prefix, lead);
  for (size_t i = 0; i < len; i++) name[lead + i] = idem__ascii_lower(text[i]);
  name[lead + len] = '\0';
  return name;
}

static idem_status copy_path(finder *walk, idem__header_rule *rule) {
  rule->path = idem__calloc(&walk->server->alloc, (walk->depth + 1) * sizeof *rule->path);
  if (!rule->path) return IDEM_E_NOMEM;
  idem_status status = IDEM_OK;
  for (size_t i = 0; i < walk->depth && status == IDEM_OK; i++) {
    rule->path[i] = idem__server_copy(walk->server, walk->names[i], &status);
  }
  return status;
}

static bool taken(const idem__tool_entry *tool, const char *header) {
  for (size_t i = 0; i < tool->header_count; i++) {
    if (strcmp(tool->headers[i].header, header) == 0) return true;
  }
  return false;
}

static idem_status grow_rules(finder *walk) {
  idem__tool_entry *tool = walk->tool;
  size_t size = sizeof *tool->headers;
  idem__header_rule *grown =
      idem__realloc(&walk->server->alloc, tool->headers, tool->header_count * size,
                    (tool->header_count + 1) * size);
  if (!grown) return IDEM_E_NOMEM;
  tool->headers = grown;
  return IDEM_OK;
}

static idem_status add_rule(finder *walk, yyjson_val *schema, yyjson_val *mark) {
  idem__tool_entry *tool = walk->tool;
  char type = type_of(schema);
  if (!yyjson_is_str(mark) || !is_token(yyjson_get_str(mark), yyjson_get_len(mark))) {
    return fault(walk, "must be a header name");
  }
  if (!type) return fault(walk, "stands on a property that is no string, integer or boolean");
  if (tool->header_count == RULES_MAX) return fault(walk, "is used too often");
  if (grow_rules(walk) != IDEM_OK) return IDEM_E_NOMEM;
  char *name = header_name(walk, yyjson_get_str(mark), yyjson_get_len(mark));
  if (!name) return IDEM_E_NOMEM;
  if (taken(tool, name)) {
    idem__free(&walk->server->alloc, name);
    return fault(walk, "names the same header twice");
  }
  idem__header_rule *rule = &tool->headers[tool->header_count++];
  *rule = (idem__header_rule){.header = name, .type = type};
  return copy_path(walk, rule);
}

static idem_status find_rules(finder *walk, yyjson_val *schema);

static idem_status find_in_properties(finder *walk, yyjson_val *properties) {
  idem_status status = IDEM_OK;
  yyjson_obj_iter iter;
  if (!yyjson_obj_iter_init(properties, &iter)) return IDEM_OK;
  if (walk->depth == PATH_MAX_NAMES) return IDEM_OK;
  for (yyjson_val *key; status == IDEM_OK && (key = yyjson_obj_iter_next(&iter));) {
    walk->names[walk->depth++] = yyjson_get_str(key);
    status = find_rules(walk, yyjson_obj_iter_get_val(key));
    walk->depth--;
  }
  return status;
}

/* Anywhere but on a chain of `properties` the mark is a mistake. Every value here is within the
 * depth that definitions are read with. */
static bool marked_anywhere(yyjson_val *val) {
  size_t index, max;
  yyjson_val *key, *each;
  if (yyjson_is_arr(val)) {
    yyjson_arr_foreach(val, index, max, each) {
      if (marked_anywhere(each)) return true;
    }
  } else if (yyjson_is_obj(val)) {
    idem__each_member(val, index, max, key, each) {
      if (yyjson_equals_str(key, "x-mcp-header") || marked_anywhere(each)) return true;
    }
  }
  return false;
}

/* Keywords whose values are data, not schemas. */
static bool holds_data(yyjson_val *key) {
  static const char *const names[] = {"default", "const", "enum", "examples"};
  for (size_t i = 0; i < 4; i++) {
    if (yyjson_equals_str(key, names[i])) return true;
  }
  return false;
}

static idem_status find_rules(finder *walk, yyjson_val *schema) {
  idem_status status = IDEM_OK;
  yyjson_obj_iter iter;
  if (!yyjson_obj_iter_init(schema, &iter)) return IDEM_OK;
  for (yyjson_val *key; status == IDEM_OK && (key = yyjson_obj_iter_next(&iter));) {
    yyjson_val *val = yyjson_obj_iter_get_val(key);
    if (yyjson_equals_str(key, "x-mcp-header"))
      status = add_rule(walk, schema, val);
    else if (yyjson_equals_str(key, "properties"))
      status = find_in_properties(walk, val);
    else if (!holds_data(key) && marked_anywhere(val))
      status = fault(walk, "stands where no argument can be told apart");
  }
  return status;
}

idem_status idem__header_rules(idem_server *server, yyjson_val *schema, idem__tool_entry *tool,
                               char *why, size_t why_len) {
  finder walk = {.server = server, .tool = tool, .why = why, .why_len = why_len};
  return find_rules(&walk, schema);
}

void idem__header_rules_free(idem__tool_entry *tool, const idem_alloc *alloc) {
  for (size_t i = 0; i < tool->header_count; i++) {
    idem__header_rule *rule = &tool->headers[i];
    for (size_t k = 0; rule->path && rule->path[k]; k++) idem__free(alloc, rule->path[k]);
    idem__free(alloc, rule->path);
    idem__free(alloc, rule->header);
  }
  idem__free(alloc, tool->headers);
}
