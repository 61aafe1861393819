/* once_reply.c - answers to calls with a key that are not run: what the first came to, with a mark, or why there is nothing to be
 * given. See once.h. */
#include "context.h"
#include "once.h"
#include "result.h"
#include "server.h"
#include "session.h"
#include "task.h"

#include <string.h>

/* -------------------------------------------------------------------- texts */

idem__once_text *idem__once_text_new(const idem_alloc *alloc, bool is_error, const char *bytes,
                                     size_t len) {
  if (len >= SIZE_MAX - sizeof(idem__once_text)) return NULL;
  idem__once_text *text = idem__malloc(alloc, sizeof *text + len + 1);
  if (!text) return NULL;
  atomic_init(&text->refs, 1);
  text->alloc = *alloc;
  text->is_error = is_error;
  text->len = len;
  if (len) memcpy(text->bytes, bytes, len);
  text->bytes[len] = '\0';
  return text;
}

idem__once_text *idem__once_text_ref(idem__once_text *text) {
  if (text) atomic_fetch_add_explicit(&text->refs, 1, memory_order_relaxed);
  return text;
}

void idem__once_text_unref(idem__once_text *text) {
  if (!text || atomic_fetch_sub_explicit(&text->refs, 1, memory_order_acq_rel) != 1) return;
  idem_alloc alloc = text->alloc;
  idem__free(&alloc, text);
}

/* ---------------------------------------------------------------- replaying */

static void tell_replayed(const idem__context *context) {
  const idem__mcp_peer *peer = idem__mcp_peer_of(idem_request_conn(context->request));
  if (peer && peer->edge && peer->edge->replayed) peer->edge->replayed(peer->edge_ctx);
}

/* Every digit as it was said. */
static yyjson_doc *read_text(const idem__context *context, const idem__once_text *text) {
  yyjson_alc alc = idem__json_alc(&context->worker->alloc);
  return yyjson_read_opts((char *)(uintptr_t)text->bytes, text->len, YYJSON_READ_NUMBER_AS_RAW,
                          &alc, NULL);
}

/* As the caller's revision has it: that of who asked first may have had another. */
static int64_t translate(const idem__context *context, int64_t code, yyjson_val *data) {
  bool modern = idem__revision_has(context->revision, IDEM__R_MODERN);
  if (code == -32021 && !modern && yyjson_obj_get(data, "requiredCapabilities"))
    return IDEM_RPC_METHOD_NOT_FOUND;
  if (code == -32002 && modern && yyjson_obj_get(data, "uri")) return IDEM_RPC_INVALID_PARAMS;
  return code;
}

static idem_status reply_error(idem__context *context, const idem__once_text *text) {
  yyjson_doc *doc = read_text(context, text);
  yyjson_val *error = yyjson_doc_get_root(doc), *data = yyjson_obj_get(error, "data");
  idem__answer answer = {.is_error = true,
                         .code = IDEM_RPC_INTERNAL_ERROR,
                         .message = yyjson_get_str(yyjson_obj_get(error, "message"))};
  idem__json_get_int(yyjson_obj_get(error, "code"), &answer.code);
  answer.code = translate(context, answer.code, data);
  if (data) answer.value = (idem__value){IDEM__VALUE_PARSED, data, 0, NULL};
  idem_status status = idem__reply_answer(context->request, &answer);
  yyjson_doc_free(doc);
  return status;
}

static void write_name(idem__writer *writer, yyjson_val *key, yyjson_val *val) {
  idem__write_name(writer, key);
  idem__write_value(writer, val);
}

static void write_meta(idem__writer *writer, yyjson_val *meta) {
  size_t i, max;
  yyjson_val *key, *val;
  idem__write_key(writer, "_meta");
  idem__write_object(writer);
  idem_each_member(meta, i, max, key, val) write_name(writer, key, val);
  idem__write_member_bool(writer, IDEM__ONCE_REPLAYED, true);
  idem__write_object_end(writer);
}

/* The task that the call became, in either form; NULL: it has a result. */
static yyjson_val *task_of(yyjson_val *result) {
  yyjson_val *nested = yyjson_obj_get(result, "task");
  if (yyjson_equals_str(yyjson_obj_get(result, "resultType"), "task")) return result;
  return yyjson_obj_get(nested, "taskId") && !yyjson_obj_get(result, "content") ? nested : NULL;
}

static void write_task(idem__writer *writer, yyjson_val *task, bool modern) {
  static const char *const names[][2] = {{"taskId", "taskId"},
                                         {"status", "status"},
                                         {"statusMessage", "statusMessage"},
                                         {"createdAt", "createdAt"},
                                         {"lastUpdatedAt", "lastUpdatedAt"},
                                         {"ttl", "ttlMs"},
                                         {"pollInterval", "pollIntervalMs"}};
  if (!modern) idem__write_key(writer, "task");
  if (!modern) idem__write_object(writer);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    yyjson_val *value = yyjson_obj_get(task, names[i][0]);
    if (!value) value = yyjson_obj_get(task, names[i][1]);
    if (value) idem__write_member_value(writer, names[i][modern], value);
  }
  if (!modern) idem__write_object_end(writer);
}

static void write_result(idem__writer *writer, yyjson_val *result) {
  size_t i, max;
  yyjson_val *key, *val;
  idem_each_member(result, i, max, key, val) {
    if (!yyjson_equals_str(key, "_meta") && !yyjson_equals_str(key, "resultType"))
      write_name(writer, key, val);
  }
}

/* Another revision may have asked first: each has what it must. */
static idem_status write_marked(const idem__context *context, yyjson_val *result, idem_buf *out) {
  bool modern = idem__revision_has(context->revision, IDEM__R_MODERN);
  yyjson_val *task = task_of(result);
  idem__writer writer = idem__writer_on(out);
  idem__write_object(&writer);
  if (modern) idem__write_member_text(&writer, "resultType", task ? "task" : "complete");
  if (task)
    write_task(&writer, task, modern);
  else
    write_result(&writer, result);
  write_meta(&writer, yyjson_obj_get(result, "_meta"));
  idem__write_object_end(&writer);
  return writer.status;
}

/* It is never told of a task that does not know how to follow one. */
static void refuse_task(idem__context *context) {
  if (idem__revision_has(context->revision, IDEM__R_MODERN))
    idem__refuse_capability(context, IDEM__TASKS_REQUIRED);
  else
    idem__once_refuse(context, IDEM__ONCE_TASK);
}

void idem__once_forget_marked(idem__mcp_worker *worker) {
  struct idem__once_marked *marked = &worker->marked;
  if (!marked->of) return;
  idem_buf_deinit(&marked->text);
  idem__once_text_unref(marked->of);
  marked->of = NULL;
}

static bool reply_as_before(idem__context *context, const idem__once_text *text) {
  const struct idem__once_marked *marked = &context->worker->marked;
  bool modern = idem__revision_has(context->revision, IDEM__R_MODERN);
  if (marked->of != text || marked->modern != modern) return false;
  tell_replayed(context);
  idem__reply_text(context, marked->text.data, marked->text.len);
  return true;
}

/* Takes the text over. That of a task is not for everybody, and short. */
static void keep_marked(idem__mcp_worker *worker, idem__once_text *text, bool modern,
                        idem_buf *out) {
  idem__once_forget_marked(worker);
  worker->marked.of = idem__once_text_ref(text);
  worker->marked.modern = modern;
  worker->marked.text = *out;
  idem_buf_init(out, &worker->alloc, 0);
}

/* `kept`: the same text, where others will be given it next; else NULL. */
static void reply_marked(idem__context *context, const idem__once_text *text,
                         idem__once_text *kept) {
  idem__mcp_worker *worker = context->worker;
  bool modern = idem__revision_has(context->revision, IDEM__R_MODERN);
  yyjson_doc *doc = read_text(context, text);
  yyjson_val *result = yyjson_doc_get_root(doc);
  idem_buf out;
  idem_buf_init(&out, &context->worker->alloc, idem__answer_bytes(context->server) + 128);
  if (task_of(result) && !idem__task_possible(context)) {
    refuse_task(context);
  } else if (yyjson_is_obj(result) && write_marked(context, result, &out) == IDEM_OK) {
    tell_replayed(context);
    idem__reply_text(context, out.data, out.len);
    if (kept && !task_of(result)) keep_marked(worker, kept, modern, &out);
  } else {
    idem_request_drop(context->request);
  }
  idem_buf_deinit(&out);
  yyjson_doc_free(doc);
}

void idem__once_reply(idem__context *context, const idem__once_text *text, bool replayed) {
  bool marked = replayed && context->method && !text->is_error;
  if (replayed && !marked) tell_replayed(context);
  if (text->is_error)
    reply_error(context, text);
  else if (marked)
    reply_marked(context, text, NULL);
  else
    idem__reply_text(context, text->bytes, text->len); /* plain methods have no _meta */
}

void idem__once_reply_next(idem__context *context, idem__once_text *text) {
  if (text->is_error || !context->method)
    idem__once_reply(context, text, true);
  else if (!reply_as_before(context, text))
    reply_marked(context, text, text);
}

/* ----------------------------------------------------------------- refusing */

void idem__once_refuse(idem__context *context, idem__once_refusal why) {
  static const struct {
    int status;
    int64_t code;
    const char *data, *cause;
  } rows[] = {
      [IDEM__ONCE_OTHER] = {422, IDEM_RPC_INVALID_PARAMS, "{\"reason\":\"key-reused\"}",
                            "Invalid params: this idempotency key was used with other arguments"},
      [IDEM__ONCE_TASK] =
          {422, IDEM_RPC_INVALID_PARAMS, "{\"reason\":\"key-of-task\"}",
           "Invalid params: this idempotency key's call runs as a task, which was not asked for"},
      [IDEM__ONCE_LOST] = {409, IDEM_RPC_INTERNAL_ERROR, "{\"reason\":\"outcome-unknown\"}",
                           IDEM__ONCE_LOST_CAUSE},
      [IDEM__ONCE_FORGOTTEN] = {409, IDEM_RPC_INTERNAL_ERROR, "{\"reason\":\"outcome-unknown\"}",
                                "Outcome unknown: the keys that this call was begun with are gone"},
      [IDEM__ONCE_TOO_LARGE] = {409, IDEM_RPC_INTERNAL_ERROR, "{\"reason\":\"answer-not-kept\"}",
                                "This call ran, and there was no room to keep its answer"},
      [IDEM__ONCE_FULL] = {503, IDEM_RPC_INTERNAL_ERROR, "{\"reason\":\"too-many-keys\"}",
                           "Too many idempotency keys are kept: try again later"},
      [IDEM__ONCE_SHARE] = {429, IDEM_RPC_INTERNAL_ERROR,
                            "{\"reason\":\"too-many-keys-of-caller\"}",
                            "Too many idempotency keys of this caller are kept: try again later"},
      [IDEM__ONCE_UNAVAILABLE] = {503, IDEM_RPC_INTERNAL_ERROR, "{\"reason\":\"unavailable\"}",
                                  "Internal error: " IDEM__UNAVAILABLE_CAUSE},
      [IDEM__ONCE_GOING] = {503, IDEM_RPC_INTERNAL_ERROR, "{\"reason\":\"unavailable\"}",
                            "Internal error: the server is going: try again in a moment"},
      [IDEM__ONCE_MEMORY] = {503, IDEM_RPC_INTERNAL_ERROR, "{\"reason\":\"unavailable\"}",
                             "Internal error: there is no memory for it: try again in a moment"},
      [IDEM__ONCE_BUSY] = {503, IDEM_RPC_INTERNAL_ERROR, "{\"reason\":\"unavailable\"}",
                           "Internal error: others take this idempotency key and let go of it: try "
                           "again in a moment"},
      [IDEM__ONCE_BROKEN] = {503, IDEM_RPC_INTERNAL_ERROR, "{\"reason\":\"unavailable\"}",
                             "Internal error: this call was broken off, and may be made again"},
      [IDEM__ONCE_TAKEN] = {503, IDEM_RPC_INTERNAL_ERROR, "{\"reason\":\"unavailable\"}",
                            "Internal error: this process was taken for dead while the call ran, "
                            "and its answer is not kept: ask again with the key"},
  };
  char text[IDEM__CAUSE];
  if (why == IDEM__ONCE_SHARE) /* what a caller did, and no fault of ours */
    idem_request_log(context->request, NULL, IDEM_LOG_WARN, "a request was refused",
                     "too-many-keys-of-caller");
  const char *cause = rows[why].cause ? idem__cause(context, text, "%s", rows[why].cause) : NULL;
  idem__refuse_for(context, rows[why].status, rows[why].code, cause, rows[why].data,
                   strlen(rows[why].data));
}
