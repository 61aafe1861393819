/* header_check.c - headers that mirror the message (src/mcp/header.h) held against it. One that disagrees is
 * refused: a gateway may have judged by it. */
#include "header_check.h"
#include "result.h"
#include "server.h"
#include "session.h"

#include <string.h>

/* ----------------------------------------------------------------- refusing */

static bool refuse(idem__context *context, const char *header, const char *why) {
  char storage[512], text[IDEM__CAUSE];
  idem_buf data;
  idem_buf_fixed(&data, storage, sizeof storage);
  idem__writer writer = idem__writer_on(&data);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "header", header);
  idem__write_member_text(&writer, "details", why);
  idem__write_object_end(&writer);
  const char *cause = idem__cause(context, text, "Header mismatch: %s: %s", header, why);
  idem__refuse_for(context, 400, -32020, cause, writer.status == IDEM_OK ? data.data : NULL,
                   data.len);
  return false;
}

/* Why a value says nothing: other characters than those of a header travel as base64. */
static const char *fault_of(const char *value, size_t len) {
  return idem__header_is_text(value, len) ? "not valid base64"
                                          : "characters that must be base64 in a header";
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

bool idem__headers_check(idem__context *context, yyjson_val *params) {
  const idem__mcp_method *method = context->method;
  if (!method || method->name_source == IDEM__NAME_NONE) return true;
  yyjson_val *name = idem__mcp_method_subject(method, params);
  const char *value;
  size_t len;
  if (!get_header(context, "mcp-name", &value, &len)) {
    return refuse(context, "Mcp-Name", "the header is missing");
  }
  if (len && value[0] != '=' && yyjson_equals_strn(name, value, len) &&
      idem__header_is_text(value, len))
    return true;
  idem_buf decoded;
  idem_buf_init(&decoded, &context->worker->alloc, IDEM__HEADER_VALUE_MAX);
  idem_status status = idem__header_decode(&decoded, value, len);
  /* A name that is no string is a fault of the params, told by the method itself. */
  bool same =
      status == IDEM_OK && (!yyjson_is_str(name) ||
                            yyjson_equals_strn(name, decoded.len ? decoded.data : "", decoded.len));
  idem_buf_deinit(&decoded);
  if (same) return true;
  return refuse(context, "Mcp-Name",
                status == IDEM_OK ? "the header differs from the message" : fault_of(value, len));
}

/* ----------------------------------------------------------------- Mcp-Param-* */

static bool check_rule(idem__context *context, const idem__header_rule *rule,
                       yyjson_val *arguments) {
  yyjson_val *val = idem__header_argument(rule, arguments);
  const char *value;
  size_t len;
  bool present = get_header(context, rule->header, &value, &len);
  if (!present && !val) return true;
  if (!present) return refuse(context, rule->header, "the header is missing");
  if (!val) return refuse(context, rule->header, "the arguments hold no such value");
  idem_buf decoded;
  idem_buf_init(&decoded, &context->worker->alloc, IDEM__HEADER_VALUE_MAX);
  idem_status status = idem__header_decode(&decoded, value, len);
  bool same = status == IDEM_OK && idem__header_agrees(rule, val, decoded.data, decoded.len);
  idem_buf_deinit(&decoded);
  if (same) return true;
  return refuse(context, rule->header,
                status == IDEM_OK ? "the header differs from the arguments" : fault_of(value, len));
}

bool idem__headers_check_params(idem__context *context, const idem__tool_entry *tool,
                                yyjson_val *arguments) {
  for (size_t i = 0; i < tool->headers.count; i++) {
    if (!check_rule(context, &tool->headers.rules[i], arguments)) return false;
  }
  return true;
}
