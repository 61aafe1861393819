/* result.h - answers in the form of the revision in hand: results, prepared text, errors, refusals,
 * content blocks. What a handler says goes to the peer, or into the task its request has become. */
#ifndef IDEM_MCP_RESULT_H
#define IDEM_MCP_RESULT_H

#include "context.h"

#define IDEM__META_SERVER_INFO "io.modelcontextprotocol/serverInfo"

/* Starts a result in a buffer: {"resultType":"complete", ... as the revision wants; the caller adds
 * members and calls end. */
typedef struct idem__result {
  idem__context *context;
  idem_buf buf;
  idem__writer writer;
  bool failed_tool; /* the result says isError: a core task then counts as failed */
} idem__result;
void idem__result_begin(idem__result *result, idem__context *context, const char *result_type);
/* Adds ttlMs and cacheScope where the revision has them. 0: as the server's options say. */
void idem__result_cacheable(idem__result *result, uint64_t ttl_ms, bool cache_private);
/* Adds serverInfo to _meta where the revision has it, together with `meta` (object, or NULL), closes
 * the object and sends it (to the peer, or into the task). Ends the request. */
idem_status idem__result_end(idem__result *result, const yyjson_mut_val *meta);
/* The two halves of end, for text that is kept instead of sent: close it, use buf, abandon. */
idem_status idem__result_close(idem__result *result, const yyjson_mut_val *meta);
void idem__result_abandon(idem__result *result);
/* A finished result object as text: prepared answers. */
idem_status idem__reply_text(idem__context *context, const char *json, size_t len);
/* An error that a handler or feature made: HTTP status stays 200. */
idem_status idem__reply_failure(idem__context *context, int64_t code, const char *message,
                                const char *data_json, size_t len);
/* A request that LIMIT or NOMEM keeps from going on. */
void idem__refuse_for_room(idem__context *context, idem_status status);
/* ... whose data names what is missing: {key: text}. */
idem_status idem__reply_missing(idem__context *context, int64_t code, const char *message,
                                const char *key, const char *text, size_t len);
/* The code, message and data of a named fault in a code set. */
IDEM__COLD idem__answer idem__answer_fault(idem_code_set codes, idem_fault fault,
                                           const char *subject);
/* An answer that comes too late, or to a request of another kind: ends the request. STATE. */
idem_status idem__reply_misplaced(idem_request *request);
/* -32602 with {"param","expected","received"}. */
idem_status idem__reply_bad_param(idem__context *context, const char *param, const char *expected,
                                  yyjson_val *received);
/* The message of an error that names its cause: at most 256 bytes, one line. NULL: the policy wants the
 * canonical text. `out` holds it until the answer is given. */
#define IDEM__CAUSE 257
__attribute__((format(printf, 3, 4))) const char *
idem__cause(const idem__context *context, char out[IDEM__CAUSE], const char *format, ...);
const char *idem__cause_of_fault(const idem__context *context, idem_fault fault,
                                 const char *subject, char out[IDEM__CAUSE]);
/* An error found before any handler: takes an HTTP status with it (0: leave 200). */
idem_status idem__refuse(idem__context *context, int status, int64_t code, const char *data_json,
                         size_t len);
/* -32601 with its name: there is no such method for who asks. False. */
bool idem__refuse_unknown_method(idem__context *context);
/* What it needs does not answer: nobody knows whether anything happened. */
/* For requests that wait for the store, or were not begun (idem__request_on_cut_off): the same, where the server goes first. */
const idem__answer *idem__cut_off_unavailable(const idem_request *request);
#define IDEM__ONCE_LOST_CAUSE "Outcome unknown: this call was broken off before it answered"
/* ... `outcome-unknown`, of a call that is broken off. */
const idem__answer *idem__cut_off_lost(const idem_request *request);
/* ... `unknown-session`, of a request that was not begun when its session ended, or may be asked again. */
const idem__answer *idem__cut_off_session(const idem_request *request);
#define IDEM__UNAVAILABLE_CAUSE "the store does not answer, or has no room: try again in a moment"
idem_status idem__refuse_unavailable(idem__context *context);
/* ... with a message that names its cause; NULL: the canonical one. */
idem_status idem__refuse_for(idem__context *context, int status, int64_t code, const char *cause,
                             const char *data_json, size_t len);
/* -32021 or what the revision has for it; `required` is JSON object text. */
idem_status idem__refuse_capability(idem__context *context, const char *required);

#endif
