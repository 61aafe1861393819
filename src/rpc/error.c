/* error.c - codes and reasons: the tables of what an error answer says.
 * Messages are the canonical texts, or name the cause where the policy wants that; detail goes into data. */
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

/* What clients show, and models read. Constants: an answer may have to wait. */
#define CAUSE(text) "Invalid Request: " text

const char *idem__reason_cause(idem__reason reason) {
  static const char *const texts[] = {
      [IDEM__REASON_NONE] = NULL,
      [IDEM__NOT_AN_OBJECT] = CAUSE("the message is not an object"),
      [IDEM__DUPLICATE_MEMBER] = CAUSE("jsonrpc, id, method or params is there twice"),
      [IDEM__BAD_VERSION] = CAUSE("jsonrpc is not \"2.0\""),
      [IDEM__INVALID_ID_TYPE] = CAUSE("the id is neither a string nor an integer"),
      [IDEM__MISSING_METHOD] = CAUSE("there is no method"),
      [IDEM__INVALID_METHOD_TYPE] = CAUSE("method is not a name"),
      [IDEM__INVALID_PARAMS_TYPE] = CAUSE("params is not an object"),
      [IDEM__DUPLICATE_ID] = CAUSE("the id is in use"),
      [IDEM__TOO_MANY_IN_FLIGHT] = CAUSE("too many requests are in flight"),
      [IDEM__OVERSIZE] = CAUSE("the message is too large"),
      [IDEM__BATCH_NOT_SUPPORTED] =
          CAUSE("no batch may be sent here; send its messages one by one"),
      [IDEM__BATCH_TOO_LARGE] = CAUSE("the batch has too many messages"),
      [IDEM__EMPTY_BATCH] = CAUSE("the batch is empty"),
      [IDEM__UNSUPPORTED_CONTENT_TYPE] = CAUSE("the content type is not supported"),
      [IDEM__BAD_CHARSET] = CAUSE("the charset is not UTF-8"),
      [IDEM__HEADER_TOO_LARGE] = CAUSE("the header is too large"),
      [IDEM__MISSING_CONTENT_LENGTH] = CAUSE("Content-Length is missing"),
      [IDEM__BAD_CONTENT_LENGTH] = CAUSE("Content-Length is not a length"),
      [IDEM__NOT_INITIALIZED] = CAUSE("not initialized"),
      [IDEM__ALREADY_INITIALIZED] = CAUSE("initialized already"),
      [IDEM__UNAUTHORIZED] = CAUSE("the credentials are good no more"),
      [IDEM__FORBIDDEN_ORIGIN] = CAUSE("the Origin is not allowed"),
      [IDEM__FORBIDDEN_HOST] = CAUSE("the Host is not allowed"),
      [IDEM__METHOD_NOT_ALLOWED] = CAUSE("the method is not allowed"),
      [IDEM__RATE_LIMITED] = CAUSE("too many requests came"),
      [IDEM__UNAVAILABLE] = CAUSE("this cannot be served now"),
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

/* What the set MODERN allows of the range it keeps for itself. */
static bool modern_code(int64_t code) { return code <= -32020 && code >= -32022; }

bool idem__code_allowed(idem_code_set codes, int64_t code) {
  if (code < -32768 || code > -32000) return true;
  if (code == IDEM_RPC_PARSE_ERROR || (code <= -32600 && code >= -32603)) return true;
  if (code < -32099) return false;
  if (codes != IDEM_CODES_MODERN) return true;
  return code != -32002 && (code > -32020 || modern_code(code));
}

bool idem_code_allowed(idem_code_set codes, int64_t code) {
  return idem__code_allowed(codes, code);
}

/* -32002 is a resource's that is not there, until the set MODERN gave it up for -32602. */
static const char *name_by_protocol(idem_code_set codes, int64_t code) {
  bool modern = codes == IDEM_CODES_MODERN;
  switch (code) {
  case -32002: return modern ? NULL : "Resource not found";
  case -32020: return modern ? "Header mismatch" : NULL;
  case -32021: return modern ? "Missing required client capability" : NULL;
  case -32022: return modern ? "Unsupported protocol version" : NULL;
  default: return NULL;
  }
}

const char *idem_code_name(idem_code_set codes, int64_t code) {
  static const char *const own[] = {"Resource not found",
                                    "Tool not found",
                                    "Prompt not found",
                                    "Capability not supported",
                                    "Server not initialized",
                                    "Subscription failed",
                                    "Validation failed",
                                    "Transport error",
                                    "Request timed out",
                                    "Rate limited",
                                    "Tool description exceeds maximum length",
                                    "Message too large"};
  const char *text = idem__code_text(code);
  if (codes != IDEM_CODES_ERLMCP && !text) return name_by_protocol(codes, code);
  if (text || codes != IDEM_CODES_ERLMCP || code > -32001 || code < -32012) return text;
  return own[-32001 - code];
}

idem_code_class idem_code_class_of(idem_code_set codes, int64_t code) {
  if (code < -32768 || code > -32000) {
    return code == IDEM_RPC_REQUEST_CANCELLED ? IDEM_CODE_PROTOCOL : IDEM_CODE_APPLICATION;
  }
  if (idem_code_name(codes, code)) return IDEM_CODE_PROTOCOL;
  if (codes == IDEM_CODES_MODERN && modern_code(code)) return IDEM_CODE_PROTOCOL;
  return code >= -32099 ? IDEM_CODE_SERVER : IDEM_CODE_RESERVED;
}

idem__answer idem__answer_code(int64_t code) {
  return (idem__answer){.is_error = true, .code = code};
}

bool idem__policy_names_causes(const idem_policy *policy) {
  return policy->error_message == IDEM_MESSAGE_CAUSE && policy->codes != IDEM_CODES_ERLMCP;
}

idem__answer idem__answer_invalid_request(const idem_policy *policy, idem__reason reason) {
  const char *text = idem__reason_text(reason);
  bool named = policy && idem__policy_names_causes(policy);
  return (idem__answer){.is_error = true,
                        .code = IDEM_RPC_INVALID_REQUEST,
                        .message = named ? idem__reason_cause(reason) : NULL,
                        .value = {IDEM__VALUE_MEMBER, text, strlen(text), "reason"}};
}

/* What a set has a number of its own for; `own` is that of IDEM_CODES_ERLMCP. */
static idem__answer answer_by_set(idem_code_set codes, int64_t common, int64_t own,
                                  const char *message) {
  idem__answer answer = idem__answer_code(codes == IDEM_CODES_ERLMCP ? own : common);
  if (!idem__code_text(answer.code)) answer.message = message;
  return answer;
}

idem__answer idem__answer_rate_limited(idem_code_set codes) {
  const char *reason = idem__reason_text(IDEM__RATE_LIMITED);
  idem__answer answer = answer_by_set(codes, -32000, -32010, "Rate limited");
  answer.value = (idem__value){IDEM__VALUE_MEMBER, reason, strlen(reason), "reason"};
  return answer;
}

idem__answer idem__answer_timed_out(idem_code_set codes) {
  static const char reason[] = "timed-out";
  idem__answer answer = answer_by_set(codes, IDEM_RPC_INTERNAL_ERROR, -32009, "Request timed out");
  answer.timed_out = true;
  if (answer.code == IDEM_RPC_INTERNAL_ERROR) /* which says nothing by itself */
    answer.value = (idem__value){IDEM__VALUE_MEMBER, reason, sizeof reason - 1, "reason"};
  return answer;
}
