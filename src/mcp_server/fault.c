/* fault.c - faults with a name: what each says in the code sets of the revisions and of erlmcp. */
#include "result.h"

#include <string.h>

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
    [IDEM_FAULT_NOT_INITIALIZED] = {{-32600, -32600, -32005}, NULL, "Server not initialized"},
    [IDEM_FAULT_SUBSCRIPTION] = {{-32000, -32000, -32006}, "uri", "Subscription failed"},
    [IDEM_FAULT_VALIDATION] = {{-32602, -32602, -32007}, "details", "Validation failed"},
    [IDEM_FAULT_TRANSPORT] = {{-32000, -32000, -32008}, NULL, "Transport error"},
    [IDEM_FAULT_DESCRIPTION_TOO_LONG] = {{-32602, -32602, -32011},
                                         "tool",
                                         "Tool description exceeds maximum length"},
};

static idem__answer answer_of_row(const fault_row *row, idem_code_set codes, const char *subject) {
  idem__answer answer = idem__answer_code(row->codes[codes]);
  if (!idem__code_text(answer.code)) answer.message = row->message;
  if (row->key && subject)
    answer.value = (idem__value){IDEM__VALUE_MEMBER, subject, strlen(subject), row->key};
  return answer;
}

idem__answer idem__answer_fault(idem_code_set codes, idem_fault fault, const char *subject) {
  if (fault == IDEM_FAULT_RATE_LIMITED) return idem__answer_rate_limited(codes);
  if (fault == IDEM_FAULT_TIMEOUT) return idem__answer_timed_out(codes);
  idem__answer answer = answer_of_row(&faults[fault], codes, subject);
  if (fault == IDEM_FAULT_NOT_INITIALIZED && answer.code == IDEM_RPC_INVALID_REQUEST)
    return idem__answer_invalid_request(NULL, IDEM__NOT_INITIALIZED);
  return answer;
}

#define SUBJECT_MAX 10000u

/* The codes of 2026-07-28 name a capability as the object a client would declare. The text lives as long as
 * the request, which the answer may end. */
static idem__value required_capability(idem_request *request, const char *name) {
  size_t len = strlen(name), room = len * 6 + 40;
  char *memory =
      len <= SUBJECT_MAX ? idem__arena_malloc(idem__request_memory(request), room) : NULL;
  if (!memory) return (idem__value){.kind = IDEM__VALUE_NONE};
  idem_buf data;
  idem_buf_fixed(&data, memory, room);
  idem__writer writer = idem__writer_on(&data);
  idem__write_lead_text(&writer, "{\"requiredCapabilities\":{");
  idem__write_string(&writer, name, len);
  idem_buf_puts(&data, ":{}}}");
  return (idem__value){IDEM__VALUE_OWN, data.data, data.len, NULL};
}

idem_status idem_reply_fault(idem_request *request, idem_fault fault, const char *subject) {
  if (!idem__request_in_use(request)) return idem__reply_answer(request, &(idem__answer){0});
  idem_code_set codes = idem_request_codes(request);
  idem__answer answer = idem__answer_fault(codes, fault, subject);
  if (fault == IDEM_FAULT_CAPABILITY && codes == IDEM_CODES_MODERN && subject)
    answer.value = required_capability(request, subject);
  idem__context *context = idem__context_of(request);
  if (context && fault == IDEM_FAULT_CAPABILITY) idem__context_lacks(context);
  char text[IDEM__CAUSE];
  const char *cause =
      context && subject ? idem__cause_of_fault(context, fault, subject, text) : NULL;
  if (cause) answer.message = cause;
  return idem__reply_answer(request, &answer);
}
