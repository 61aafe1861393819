/* error.c - codes, reasons and named faults: the tables of what an error answer says.
 * Messages are the canonical texts; detail goes into data. */
#include "inside.h"

#include <string.h>

const char *idem__reason_text(idem__reason reason) {
  static const char *const texts[] = {
      [IDEM__REASON_NONE] = "none",
      [IDEM__NOT_AN_OBJECT] = "not-an-object",
      [IDEM__DUPLICATE_MEMBER] = "duplicate-member",
      [IDEM__BAD_VERSION] = "bad-version",
      [IDEM__INVALID_ID_TYPE] = "invalid-id-type",
      [IDEM__MISSING_METHOD] = "missing-method",
      [IDEM__INVALID_METHOD_TYPE] = "invalid-method-type",
      [IDEM__INVALID_PARAMS_TYPE] = "invalid-params-type",
      [IDEM__DUPLICATE_ID] = "duplicate-id",
      [IDEM__TOO_MANY_IN_FLIGHT] = "too-many-in-flight",
      [IDEM__OVERSIZE] = "oversize",
      [IDEM__BATCH_NOT_SUPPORTED] = "batch-not-supported",
      [IDEM__BATCH_TOO_LARGE] = "batch-too-large",
      [IDEM__EMPTY_BATCH] = "empty-batch",
      [IDEM__UNSUPPORTED_CONTENT_TYPE] = "unsupported-content-type",
      [IDEM__BAD_CHARSET] = "bad-charset",
      [IDEM__HEADER_TOO_LARGE] = "header-too-large",
      [IDEM__MISSING_CONTENT_LENGTH] = "missing-content-length",
      [IDEM__BAD_CONTENT_LENGTH] = "bad-content-length",
      [IDEM__NOT_INITIALIZED] = "not-initialized",
      [IDEM__ALREADY_INITIALIZED] = "already-initialized",
      [IDEM__UNAUTHORIZED] = "unauthorized",
      [IDEM__FORBIDDEN_ORIGIN] = "forbidden-origin",
      [IDEM__FORBIDDEN_HOST] = "forbidden-host",
      [IDEM__METHOD_NOT_ALLOWED] = "method-not-allowed",
      [IDEM__RATE_LIMITED] = "rate-limited",
      [IDEM__UNAVAILABLE] = "unavailable",
  };
  return texts[reason];
}

const char *idem__code_text(int64_t code) {
  switch (code) {
  case IDEM_RPC_PARSE_ERROR: return "Parse error";
  case IDEM_RPC_INVALID_REQUEST: return "Invalid Request";
  case IDEM_RPC_METHOD_NOT_FOUND: return "Method not found";
  case IDEM_RPC_INVALID_PARAMS: return "Invalid params";
  case IDEM_RPC_INTERNAL_ERROR: return "Internal error";
  case IDEM_RPC_REQUEST_CANCELLED: return "Request cancelled";
  default: return NULL;
  }
}

/* The codes MCP 2026-07-28 defines in the range it reserves for itself. */
static bool modern_code(int64_t code) { return code <= -32020 && code >= -32022; }

bool idem__code_allowed(idem_code_set codes, int64_t code) {
  if (code < -32768 || code > -32000) return true;
  if (code == IDEM_RPC_PARSE_ERROR || (code <= -32600 && code >= -32603)) return true;
  if (code < -32099) return false;
  if (codes != IDEM_CODES_MODERN) return true;
  return code != -32002 && (code > -32020 || modern_code(code));
}

idem__answer idem__answer_code(int64_t code) {
  return (idem__answer){.is_error = true, .code = code};
}

idem__answer idem__answer_invalid_request(idem__reason reason) {
  const char *text = idem__reason_text(reason);
  return (idem__answer){.is_error = true,
                        .code = IDEM_RPC_INVALID_REQUEST,
                        .value = {IDEM__VALUE_MEMBER, text, strlen(text), "reason"}};
}

/* One row a fault: its code in each code set, the member its subject goes into, its message where
 * the code has no canonical one. */
typedef struct fault_row {
  int codes[3];
  const char *key;
  const char *message;
} fault_row;

static const fault_row faults[] = {
    [IDEM_FAULT_RESOURCE_NOT_FOUND] = {{-32002, -32602, -32001}, "uri", "Resource not found"},
    [IDEM_FAULT_TOOL_NOT_FOUND] = {{-32602, -32602, -32002}, "tool", "Tool not found"},
    [IDEM_FAULT_PROMPT_NOT_FOUND] = {{-32602, -32602, -32003}, "prompt", "Prompt not found"},
    [IDEM_FAULT_CAPABILITY] = {{-32601, -32021, -32004}, "capability", "Capability not supported"},
    [IDEM_FAULT_NOT_INITIALIZED] = {{-32600, -32600, -32005}, NULL, "Not initialized"},
    [IDEM_FAULT_SUBSCRIPTION] = {{-32000, -32000, -32006}, "uri", "Subscription failed"},
    [IDEM_FAULT_VALIDATION] = {{-32602, -32602, -32007}, "details", "Validation failed"},
    [IDEM_FAULT_TRANSPORT] = {{-32000, -32000, -32008}, NULL, "Transport error"},
    [IDEM_FAULT_TIMEOUT] = {{-32603, -32603, -32009}, NULL, "Request timed out"},
    [IDEM_FAULT_RATE_LIMITED] = {{-32000, -32000, -32010}, NULL, "Rate limited"},
    [IDEM_FAULT_DESCRIPTION_TOO_LONG] = {{-32602, -32602, -32011}, "tool", "Description too long"},
};

/* The faults whose data is a reason instead of a subject. */
static const char *fault_reason(idem_fault fault, int64_t code) {
  if (fault == IDEM_FAULT_RATE_LIMITED) return idem__reason_text(IDEM__RATE_LIMITED);
  if (fault == IDEM_FAULT_NOT_INITIALIZED && code == IDEM_RPC_INVALID_REQUEST) {
    return idem__reason_text(IDEM__NOT_INITIALIZED);
  }
  return NULL;
}

idem__answer idem__answer_fault(idem_code_set codes, idem_fault fault, const char *subject) {
  const fault_row *row = &faults[fault];
  int64_t code = row->codes[codes];
  const char *reason = fault_reason(fault, code);
  const char *text = reason ? reason : row->key ? subject : NULL;
  idem__answer answer = idem__answer_code(code);
  if (!idem__code_text(code)) answer.message = row->message;
  if (text) {
    const char *key = reason ? "reason" : row->key;
    answer.value = (idem__value){IDEM__VALUE_MEMBER, text, strlen(text), key};
  }
  return answer;
}
