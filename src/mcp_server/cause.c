/* cause.c - the message of an error names its cause where the policy wants that: it is all that clients show
 * and models read. One line, bounded, escaped, of what the peer sent or is told by a list. */
#include "result.h"
#include "server.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool wanted(const idem__context *context) {
  const idem_conn *conn = idem_request_conn(context->request);
  const idem_policy *policy = conn ? idem_conn_policy(conn) : &context->server->policy;
  if (idem_request_codes(context->request) == IDEM_CODES_ERLMCP) return false;
  return policy->error_message == IDEM_MESSAGE_CAUSE;
}

idem_policy idem__context_policy(const idem__context *context) {
  idem_policy policy = context->server->policy;
  policy.error_detail = (idem_error_detail)context->error_detail;
  return policy;
}

const char *idem__cause(const idem__context *context, char out[IDEM__CAUSE], const char *format,
                        ...) {
  char plain[2 * IDEM__CAUSE], escaped[4 * sizeof plain];
  idem_buf line;
  va_list args;
  if (!wanted(context)) return NULL;
  va_start(args, format);
  vsnprintf(plain, sizeof plain, format, args);
  va_end(args);
  idem_buf_fixed(&line, escaped, sizeof escaped);
  if (idem_text_escape(&line, plain, strlen(plain), SIZE_MAX) != IDEM_OK) return NULL;
  size_t len = idem_utf8_cut(line.data, line.len, IDEM__CAUSE - 1);
  memcpy(out, line.data, len);
  out[len] = '\0';
  return out;
}

const char *idem__cause_of_fault(const idem__context *context, idem_fault fault,
                                 const char *subject, char out[IDEM__CAUSE]) {
  switch (fault) {
  case IDEM_FAULT_RESOURCE_NOT_FOUND:
    return idem__cause(context, out, "Resource not found: %s", subject);
  case IDEM_FAULT_TOOL_NOT_FOUND: return idem__cause(context, out, "Unknown tool: %s", subject);
  case IDEM_FAULT_PROMPT_NOT_FOUND: return idem__cause(context, out, "Unknown prompt: %s", subject);
  case IDEM_FAULT_VALIDATION: return idem__cause(context, out, "Invalid params: %s", subject);
  case IDEM_FAULT_CAPABILITY:
    return idem__cause(context, out, "Missing required client capability: %s", subject);
  default: return NULL;
  }
}
