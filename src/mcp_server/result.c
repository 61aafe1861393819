/* result.c - answers, in the form the revision in hand wants.
 * Everything a handler or feature says goes through here: to the peer, or into the task that the
 * request has become. */
#include "result.h"
#include "server.h"
#include "session.h"
#include "task.h"

#include <string.h>

void idem__result_begin(idem__result *result, idem__context *context, const char *result_type) {
  idem_buf *scratch = &context->worker->scratch;
  result->context = context;
  /* The worker's buffer is lent: it is one result at a time, written and sent in one go. */
  result->buf = *scratch;
  idem_buf_init(scratch, &context->worker->alloc, idem__answer_bytes(context->server));
  result->buf.len = 0;
  result->buf.max = scratch->max; /* conns may have come that take more */
  result->writer = idem__writer_on(&result->buf);
  result->failed_tool = false;
  if (result_type && idem__revision_has(context->revision, IDEM__R_MODERN)) {
    idem__write_lead_text(&result->writer, "{\"resultType\":");
    idem__write_text(&result->writer, result_type);
  } else {
    idem__write_object(&result->writer);
  }
}

/* Returns the lent buffer; what was lent out meanwhile goes. */
static void give_back(idem__mcp_worker *worker, idem_buf *buf) {
  idem_buf_deinit(&worker->scratch);
  worker->scratch = *buf;
  worker->scratch.len = 0;
  idem_buf_trim(&worker->scratch, 65536);
}

#define TTL_MAX ((uint64_t)1 << 53) /* what every reader of JSON can hold */

void idem__result_cacheable(idem__result *result, uint64_t ttl_ms, bool cache_private) {
  const idem__context *context = result->context;
  if (!idem__revision_has(context->revision, IDEM__R_MODERN)) return;
  uint64_t ttl = ttl_ms ? ttl_ms : context->server->opts.ttl_ms;
  if (ttl == IDEM_TTL_NONE) ttl = 0;
  idem__write_member_int(&result->writer, "ttlMs", (int64_t)(ttl < TTL_MAX ? ttl : TTL_MAX - 1));
  bool own = cache_private || context->server->opts.cache_private;
  idem__write_member_text(&result->writer, "cacheScope", own ? "private" : "public");
}

/* The members of an object, without its braces. */
static void write_members(idem__writer *writer, const yyjson_mut_val *object) {
  size_t start = writer->out->len;
  idem__write_mutable(writer, object);
  if (writer->status != IDEM_OK) return;
  /* Cut the braces off what was just written: ,{...} becomes ,... */
  char *text = writer->out->data + start;
  size_t len = writer->out->len - start, lead = text[0] == ',' ? 1 : 0;
  if (len == lead + 2) {
    writer->out->len = start;
    return;
  }
  memmove(text + lead, text + lead + 1, len - lead - 2);
  writer->out->len -= 2;
}

static void write_meta(idem__result *result, const yyjson_mut_val *meta) {
  idem__context *context = result->context;
  bool modern = idem__revision_has(context->revision, IDEM__R_MODERN);
  if (!modern && !meta) return;
  idem__write_lead_text(&result->writer, "\"_meta\":{");
  if (modern) {
    idem__write_lead_text(&result->writer, "\"" IDEM__META_SERVER_INFO "\":");
    idem__server_write_info(context->server, context->revision, &result->writer);
  }
  if (meta) write_members(&result->writer, meta);
  idem__write_object_end(&result->writer);
}

/* The log says why; the peer learns only that it was our fault. */
static void drop_unwritable(idem__context *context, idem_status status) {
  idem_logf(context->server->opts.log, IDEM_LOG_ERROR, "a result could not be written", "%s: %s",
            context->method ? context->method->name : "", idem_status_text(status));
  idem__reply_failure(context, IDEM_RPC_INTERNAL_ERROR, NULL, NULL, 0);
}

idem_status idem__result_close(idem__result *result, const yyjson_mut_val *meta) {
  write_meta(result, meta);
  idem__write_object_end(&result->writer);
  return result->writer.status;
}

void idem__result_abandon(idem__result *result) {
  give_back(result->context->worker, &result->buf);
}

idem_status idem__result_end(idem__result *result, const yyjson_mut_val *meta) {
  idem__context *context = result->context;
  idem_status status = idem__result_close(result, meta);
  idem__mcp_worker *worker = context->worker; /* the context may go with the request */
  if (status != IDEM_OK) {
    drop_unwritable(context, status);
  } else if (context->task) {
    status =
        idem__task_finish(context, false, result->failed_tool, result->buf.data, result->buf.len);
  } else {
    status = idem__reply_own(context->request, result->buf.data, result->buf.len);
  }
  give_back(worker, &result->buf);
  return status;
}

idem_status idem__reply_text(idem__context *context, const char *json, size_t len) {
  return idem__reply_own(context->request, json, len);
}

/* ------------------------------------------------------------------- errors */

static idem_status finish_task_with_error(idem__context *context, int64_t code, const char *message,
                                          const char *data_json, size_t len) {
  idem_buf error;
  idem_buf_init(&error, &context->worker->alloc, (size_t)1 << 20);
  idem__writer writer = idem__writer_on(&error);
  const char *text = message ? message : idem__code_text(code);
  idem__write_object(&writer);
  idem__write_member_int(&writer, "code", code);
  idem__write_member_text(&writer, "message", text ? text : "Server error");
  if (data_json) {
    idem__write_key(&writer, "data");
    idem__write_raw(&writer, data_json, len);
  }
  idem__write_object_end(&writer);
  idem_status status = writer.status;
  if (status == IDEM_OK)
    status = idem__task_finish(context, true, false, error.data, error.len);
  else
    idem_request_drop(context->request);
  idem_buf_deinit(&error);
  return status;
}

idem_status idem__reply_failure(idem__context *context, int64_t code, const char *message,
                                const char *data_json, size_t len) {
  if (context->task) return finish_task_with_error(context, code, message, data_json, len);
  return idem__reply_error_own(context->request, code, message, data_json, len);
}

/* Past a bound it is told what any work past a bound is told. */
void idem__refuse_for_room(idem__context *context, idem_status status) {
  static const char data[] = "{\"reason\":\"too-many-in-flight\"}";
  char text[IDEM__CAUSE];
  if (status == IDEM_E_LIMIT)
    idem__refuse_for(context, 0, IDEM_RPC_INVALID_REQUEST,
                     idem__cause(context, text, "%s", idem__reason_cause(IDEM__TOO_MANY_IN_FLIGHT)),
                     data, sizeof data - 1);
  else
    idem__reply_failure(context, IDEM_RPC_INTERNAL_ERROR, NULL, NULL, 0);
}

idem_status idem__reply_missing(idem__context *context, int64_t code, const char *message,
                                const char *key, const char *text, size_t len) {
  idem_buf data;
  idem_buf_init(&data, &context->worker->alloc, idem__answer_bytes(context->server));
  idem__writer writer = idem__writer_on(&data);
  idem__write_object(&writer);
  idem__write_key(&writer, key);
  idem__write_string(&writer, text, len);
  idem__write_object_end(&writer);
  idem_status status = idem__reply_failure(context, code, message,
                                           writer.status == IDEM_OK ? data.data : NULL, data.len);
  idem_buf_deinit(&data);
  return status;
}

idem_status idem__reply_misplaced(idem_request *request) {
  idem_request_drop(request);
  return IDEM_E_STATE;
}

idem_status idem__reply_bad_param(idem__context *context, const char *param, const char *expected,
                                  yyjson_val *received) {
  char storage[512], cause[IDEM__CAUSE];
  const char *message = idem__cause(context, cause, "Invalid params: %s: expected %s, received %s",
                                    param, expected, idem__json_type_name(received));
  idem_buf data;
  idem_buf_fixed(&data, storage, sizeof storage);
  idem__writer writer = idem__writer_on(&data);
  idem__write_object(&writer);
  idem__write_member_text(&writer, "param", param);
  idem__write_member_text(&writer, "expected", expected);
  idem__write_member_text(&writer, "received", idem__json_type_name(received));
  idem__write_object_end(&writer);
  bool fits = writer.status == IDEM_OK;
  return idem__reply_failure(context, IDEM_RPC_INVALID_PARAMS, message, fits ? data.data : NULL,
                             data.len);
}

static const char *modern_text(int64_t code) {
  switch (code) {
  case -32020: return "Header mismatch";
  case -32021: return "Missing required client capability";
  case -32022: return "Unsupported protocol version";
  default: return NULL;
  }
}

idem_status idem__refuse(idem__context *context, int status, int64_t code, const char *data_json,
                         size_t len) {
  return idem__refuse_for(context, status, code, NULL, data_json, len);
}

idem_status idem__refuse_for(idem__context *context, int status, int64_t code, const char *cause,
                             const char *data_json, size_t len) {
  idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  /* An element of a batch has its error; the status is that of all of them. */
  bool says_status = status && !idem__request_batched(context->request);
  if (says_status && peer && peer->edge) peer->edge->set_status(peer->edge_ctx, status);
  return idem__reply_error_own(context->request, code, cause ? cause : modern_text(code), data_json,
                               len);
}

static void say_status(const idem_request *request, int status) {
  const idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(request));
  if (peer && peer->edge && !idem__request_batched(request))
    peer->edge->set_status(peer->edge_ctx, status);
}

const idem__answer *idem__cut_off_unavailable(const idem_request *request) {
  static const char reason[] = "unavailable";
  static const idem__answer answer = {
      .is_error = true,
      .code = IDEM_RPC_INTERNAL_ERROR,
      .value = {IDEM__VALUE_MEMBER, reason, sizeof reason - 1, "reason"}};
  say_status(request, 503);
  return &answer;
}

#define REASON(text)                                                                               \
  { IDEM__VALUE_MEMBER, (text), sizeof(text) - 1, "reason" }
#define CUT_OFF(number, says, why)                                                                 \
  { .is_error = true, .code = (number), .message = (says), .value = REASON(why) }

/* The second of the two where the policy wants messages that name their cause. */
static const idem__answer *said(const idem_request *request, const idem__answer both[2]) {
  char text[IDEM__CAUSE];
  return &both[idem__cause(idem__context_of(request), text, "%s", "") ? 1 : 0];
}

const idem__answer *idem__cut_off_lost(const idem_request *request) {
  static const char why[] = "outcome-unknown";
  static const idem__answer server[] = {
      CUT_OFF(IDEM_RPC_INTERNAL_ERROR, NULL, why),
      CUT_OFF(IDEM_RPC_INTERNAL_ERROR, "Outcome unknown: the server ended while this call ran",
              why)};
  static const idem__answer session[] = {
      CUT_OFF(IDEM_RPC_INTERNAL_ERROR, NULL, why),
      CUT_OFF(IDEM_RPC_INTERNAL_ERROR, "Outcome unknown: the session ended while this call ran",
              why)};
  say_status(request, 409);
  return said(request, idem__conn_orphaned(idem_request_conn(request)) ? session : server);
}

const idem__answer *idem__cut_off_session(const idem_request *request) {
  static const char why[] = "unknown-session";
  static const idem__answer both[] = {
      CUT_OFF(IDEM_RPC_INVALID_REQUEST, NULL, why),
      CUT_OFF(IDEM_RPC_INVALID_REQUEST,
              "Invalid Request: the session ended before this was done; initialize again", why)};
  say_status(request, 404);
  return said(request, both);
}

idem_status idem__refuse_unavailable(idem__context *context) {
  static const char data[] = "{\"reason\":\"unavailable\"}";
  char text[IDEM__CAUSE];
  const char *cause = idem__cause(context, text, "Internal error: %s", IDEM__UNAVAILABLE_CAUSE);
  return idem__refuse_for(context, 503, IDEM_RPC_INTERNAL_ERROR, cause, data, sizeof data - 1);
}

idem_status idem__refuse_capability(idem__context *context, const char *required) {
  const int64_t code = -32021;
  char text[IDEM__CAUSE];
  if (!context->task && !idem__revision_has(context->revision, IDEM__R_MODERN)) {
    return idem__reply_failure(context, IDEM_RPC_METHOD_NOT_FOUND, NULL, NULL, 0);
  }
  idem_buf data;
  idem_buf_init(&data, &context->worker->alloc, 65536);
  idem__writer writer = idem__writer_on(&data);
  idem__write_object(&writer);
  idem__write_member_raw(&writer, "requiredCapabilities", required);
  idem__write_object_end(&writer);
  const char *json = writer.status == IDEM_OK ? data.data : NULL;
  const char *cause =
      idem__cause(context, text, "Missing required client capability: %s", required);
  const char *message = cause ? cause : modern_text(code);
  idem_status status = context->task ? idem__reply_failure(context, code, message, json, data.len)
                                     : idem__refuse_for(context, 400, code, cause, json, data.len);
  idem_buf_deinit(&data);
  return status;
}

/* --------------------------------------------------------- who is asking */

const char *idem_principal(const idem_request *request) {
  const idem__context *context = idem__context_of(request);
  return context ? context->principal : "";
}

idem_revision idem_request_revision(const idem_request *request) {
  const idem__context *context = idem__context_of(request);
  return context ? context->revision->bit : (idem_revision)0;
}

yyjson_val *idem_request_meta(const idem_request *request) {
  const idem__context *context = idem__context_of(request);
  return context ? context->meta : NULL;
}

yyjson_val *idem_peer_info(const idem_request *request) {
  const idem__context *context = idem__context_of(request);
  return context ? context->client_info : NULL;
}

yyjson_val *idem_peer_capabilities(const idem_request *request) {
  const idem__context *context = idem__context_of(request);
  return context ? context->capabilities : NULL;
}
